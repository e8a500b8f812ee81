/* Claims about packed files: they read as what was packed, in any portions, and what is damaged is reported with its place. */
/* ctest: device-free thread-free */
#include "rp_test.h"

#include <zlib.h>
#include <zstd.h>

#include "text/file.h"
#include "text/utf8.h"
#include "train/temp.h"

typedef struct { char *at; size_t n; } blob;

/* Lines of all lengths, some beyond every buffer. */
static blob sample(size_t bytes)
{
    blob b     = { malloc(bytes + 1), bytes };
    uint32_t x = 7;

    assert_non_null(b.at);
    for (size_t i = 0; i < bytes; i++) {
        x       = x * 1664525u + 1013904223u;
        b.at[i] = (x >> 8) % 61 == 0 && i % 300000 > 150000 ? '\n' : (char)('a' + (x >> 16) % 5);
    }
    b.at[bytes] = 0;
    return b;
}

static blob gzipped(blob from)
{
    z_stream z = { 0 };
    blob b     = { malloc(from.n + 1000), 0 };

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in   = (Bytef *)from.at;
    z.avail_in  = (uInt)from.n;
    z.next_out  = (Bytef *)b.at;
    z.avail_out = (uInt)(from.n + 1000);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    b.n = from.n + 1000 - z.avail_out;
    deflateEnd(&z);
    return b;
}

static blob zstandard(blob from)
{
    blob b = { malloc(ZSTD_compressBound(from.n)), 0 };

    b.n = ZSTD_compress(b.at, ZSTD_compressBound(from.n), from.at, from.n, 3);
    assert_false(ZSTD_isError(b.n));
    return b;
}

static blob as_it_is(blob from)
{
    blob b = { malloc(from.n + 1), from.n };

    memcpy(b.at, from.at, from.n);
    return b;
}

static blob (*const packers[])(blob from) = { as_it_is, gzipped, zstandard };

static blob joined(blob a, blob b)
{
    blob both = { malloc(a.n + b.n + 1), a.n + b.n };

    memcpy(both.at, a.at, a.n);
    memcpy(both.at + a.n, b.at, b.n);
    return both;
}

/* Everything that reads of a file, `portion` bytes a time at most. */
static rp_status read_all(rp_ctx *ctx, const char *path, int64_t portion, blob *out)
{
    rp_text_file *f;
    rp_status status = rp__text_file_open(ctx, path, &f);
    int64_t n        = 1;

    *out = (blob){ malloc(4 << 20), 0 };
    if (status != RP_OK) return status;
    while (status == RP_OK && n) {
        status = rp__text_file_read(f, out->at + out->n, portion, &n);
        if (status == RP_OK) out->n += (size_t)n;
    }
    rp__text_file_close(f);
    return status;
}

static void assert_reads(rp_ctx *ctx, const temp_dir *dir, blob packed, int64_t portion, blob wanted)
{
    blob got;

    assert_ok(ctx, read_all(ctx, temp_write(dir, "f", packed.at, packed.n), portion, &got));
    assert_int_equal(got.n, wanted.n);
    if (wanted.n) assert_memory_equal(got.at, wanted.at, wanted.n);
    free(got.at);
}

static void what_was_packed_comes_back_in_any_portions(void **state)
{
    static const size_t sizes[]     = { 0, 1, 65535, 65536, 65537, 1 << 20 };
    static const int64_t portions[] = { 1 << 16, 1000, 65537 };
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();

    (void)state;
    for (int s = 0; s < RP_COUNT(sizes); s++)
        for (int k = 0; k < RP_COUNT(packers); k++) {
            blob whole = sample(sizes[s]), packed = packers[k](whole);
            for (int p = 0; p < RP_COUNT(portions); p++) assert_reads(ctx, &dir, packed, portions[p], whole);
            free(packed.at);
            free(whole.at);
        }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void members_that_follow_each_other_are_one_text(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    blob a = sample(70000), b = sample(3), both = joined(a, b);
    static char zeros[700];

    (void)state;
    for (int k = 1; k < RP_COUNT(packers); k++) {
        blob first = packers[k](a), second = packers[k](b), packed = joined(first, second);
        assert_reads(ctx, &dir, packed, 1 << 16, both);
        if (k == 1) {                                       /* tar and tapes pad with zeros */
            blob padded = joined(packed, (blob){ zeros, sizeof zeros });
            assert_reads(ctx, &dir, padded, 1 << 16, both);
            free(padded.at);
        }
        free(first.at);
        free(second.at);
        free(packed.at);
    }
    free(a.at);
    free(b.at);
    free(both.at);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void lines_of_any_length_are_given_whole(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    blob whole   = sample(1 << 20);

    (void)state;
    for (int k = 0; k < RP_COUNT(packers); k++) {
        blob packed = packers[k](whole);
        rp_text_file *f;
        const char *line;
        int64_t bytes, at = 0, longest = 0;
        assert_ok(ctx, rp__text_file_open(ctx, temp_write(&dir, "f", packed.at, packed.n), &f));
        for (;;) {
            assert_ok(ctx, rp__text_file_line(f, &line, &bytes));
            if (!line) break;
            assert_memory_equal(line, whole.at + at, bytes);
            at += bytes;
            assert_true(at == 1 << 20 || line[bytes - 1] == '\n');
            assert_null(memchr(line, '\n', (size_t)bytes - 1));
            if (bytes > longest) longest = bytes;
        }
        assert_int_equal(at, 1 << 20);
        assert_true(longest > 150000);
        rp__text_file_close(f);
        free(packed.at);
    }
    free(whole.at);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* Cut anywhere, a packed file is refused; what came before is not taken for the whole. */
static void a_packed_file_cut_short_is_refused_wherever_it_was_cut(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    blob whole   = sample(3000);

    (void)state;
    for (int k = 1; k < RP_COUNT(packers); k++) {
        blob packed = packers[k](whole), got;
        char wanted[256];
        for (size_t n = k == 1 ? 2 : 4; n < packed.n; n++) {
            const char *path = temp_write(&dir, "f", packed.at, n);
            assert_int_equal(read_all(ctx, path, 1 << 16, &got), RP_ERR_FORMAT);
            free(got.at);
            snprintf(wanted, sizeof wanted, "'%s' is cut short: its %s data does not end at byte %zu", path, k == 1 ? "gzip" : "zstd", n);
            assert_string_equal(rp_error(ctx), wanted);
        }
        free(packed.at);
    }
    free(whole.at);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* A changed byte is found, or was in a part of the head that says nothing about the text. */
static void a_damaged_byte_never_changes_the_text(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    blob whole   = sample(3000);
    int found    = 0, tried = 0;

    (void)state;
    blob packed = gzipped(whole), got;
    for (size_t i = 2; i < packed.n; i++, tried++) {
        packed.at[i] ^= 0x10;
        rp_status status = read_all(ctx, temp_write(&dir, "f", packed.at, packed.n), 1 << 16, &got);
        if (status == RP_OK) {
            assert_int_equal(got.n, whole.n);
            assert_memory_equal(got.at, whole.at, whole.n);
        } else {
            assert_int_equal(status, RP_ERR_FORMAT);
            found++;
        }
        free(got.at);
        packed.at[i] ^= 0x10;
    }
    assert_true(found > tried - 10);
    free(packed.at);
    free(whole.at);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void what_follows_packed_data_must_be_packed(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    blob whole = sample(100), got;

    (void)state;
    for (int k = 1; k < RP_COUNT(packers); k++) {
        blob packed = packers[k](whole), longer = joined(packed, (blob){ (char *)"plain text", 10 });
        assert_int_equal(read_all(ctx, temp_write(&dir, "f", longer.at, longer.n), 1 << 16, &got), RP_ERR_FORMAT);
        assert_non_null(strstr(rp_error(ctx), "is damaged at byte"));
        free(got.at);
        free(packed.at);
        free(longer.at);
    }
    free(whole.at);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* ---- UTF-8 ---- */

/* The first byte of `text` that is not UTF-8 is reported with its offset, in any portions and packing; without one all is read. */
static void assert_reported(rp_ctx *ctx, const temp_dir *dir, blob text)
{
    static const int64_t portions[] = { 1, 2, 3, 7, 1 << 16 };
    size_t bad = (size_t)rp__utf8_valid(text.at, (int64_t)text.n);
    char wanted[320];

    for (int k = 0; k < RP_COUNT(packers); k++) {
        blob packed = packers[k](text), got;
        const char *path = temp_write(dir, "f", packed.at, packed.n);
        snprintf(wanted, sizeof wanted, "'%s' is not UTF-8: byte %zu%s is 0x%02x, which belongs to no character; convert the file, for example with iconv -f "
                 "LATIN1 -t UTF-8", path, bad, k ? " of its unpacked text" : "", bad < text.n ? (uint8_t)text.at[bad] : 0);
        for (int p = 0; p < RP_COUNT(portions); p++) {
            rp_status status = read_all(ctx, path, portions[p], &got);
            assert_int_equal(status, bad < text.n ? RP_ERR_FORMAT : RP_OK);
            if (status != RP_OK) assert_string_equal(rp_error(ctx), wanted);
            else assert_memory_equal(got.at, text.at, text.n);
            free(got.at);
        }
        free(packed.at);
    }
}

static void text_that_is_not_utf8_is_refused_with_its_first_bad_byte(void **state)
{
    static const char *const texts[] = { "caf\xe9",
                                         "\xe9t\xe9",
                                         "a\x80",
                                         "a\xc3",
                                         "\xc3\xa9\xe2\x82",
                                         "\xe2\x82"
                                         "a",
                                         "\xed\xa0\x80",
                                         "\xc0\xaf",
                                         "\xf0\x9f\x98",
                                         "\xf0\x9f\x98"
                                         "a",
                                         "\xf4\x90\x80\x80",
                                         "\xff" };
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();

    (void)state;
    for (int i = 0; i < RP_COUNT(texts); i++) assert_reported(ctx, &dir, (blob){ (char *)texts[i], strlen(texts[i]) });
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* ASCII is passed over in steps: no place in a step hides a bad byte, and none is reported of a good one. */
static void a_bad_byte_is_found_at_each_place_behind_ascii(void **state)
{
    static const char *const ends[] = { "", "\xff", "\xc3", "\xc3\xa9", "\xc3\xa9\x80", ("\xf0\x9f\x98\x80" "aaaaaaaa\xed\xa0\x80") };
    static const int64_t good[]     = { 0, 0, 0, 2, 2, 12 };
    char text[64];

    (void)state;
    memset(text, 'a', sizeof text);
    for (int64_t at = 0; at < 40; at++)
        for (int k = 0; k < RP_COUNT(ends); k++) {
            int64_t n   = at + (int64_t)strlen(ends[k]);
            char *exact = malloc((size_t)n + !n);       /* what reads past it is seen */
            memcpy(exact, text, (size_t)at);
            memcpy(exact + at, ends[k], strlen(ends[k]));
            assert_int_equal(rp__utf8_valid(exact, n), at + good[k]);
            free(exact);
        }
}

/* Characters of all lengths across every buffer, whole and with one byte of them changed. */
static void characters_that_reads_cut_are_whole(void **state)
{
    static const char *const letters[] = { "a", "\xc3\xa9", "\xe4\xb8\xad", "\xf0\x9f\x98\x80" };
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    blob text    = { malloc(70000), 0 };
    uint32_t x   = 3;

    (void)state;
    while (text.n < 66000) {
        x                = x * 1664525u + 1013904223u;
        const char *each = letters[x >> 30];
        memcpy(text.at + text.n, each, strlen(each));
        text.n += strlen(each);
    }
    assert_reported(ctx, &dir, text);
    for (size_t at = 65533; at < 65540; at++) {
        char was    = text.at[at];
        text.at[at] = '\xff';
        assert_reported(ctx, &dir, text);
        text.at[at] = was;
    }
    free(text.at);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void a_byte_order_mark_is_no_text(void **state)
{
    static const struct { const char *bytes, *text;
    } cases[] = {
        { "\xef\xbb\xbf", "" },
        { "\xef\xbb\xbf"
          "a",
          "a" },
        { "\xef\xbb\xbf\xef\xbb\xbf", "\xef\xbb\xbf" },
        { "a\xef\xbb\xbf", "a\xef\xbb\xbf" },
        { "ab", "ab" },
    };
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++)
        for (int k = 0; k < RP_COUNT(packers); k++) {
            blob packed = packers[k]((blob){ (char *)cases[i].bytes, strlen(cases[i].bytes) });
            for (int64_t portion = 1; portion < 5; portion++)
                assert_reads(ctx, &dir, packed, portion, (blob){ (char *)cases[i].text, strlen(cases[i].text) });
            free(packed.at);
        }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void what_is_no_text_is_named(void **state)
{
    static const struct { blob bytes; const char *says; } cases[] = {
        { { (char *)"a\0b", 3 }, "is not text: byte 1 is zero" },
        { { (char *)"\xff\xfe" "a\0", 4 }, "is not text but UTF-16: convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8" },
        { { (char *)"%PDF-1.7\n", 9 }, "is not text but a PDF: extract its text first, for example with pdftotext" },
        { { (char *)"", 0 }, NULL },
        { { (char *)"%PDF", 4 }, NULL },
        { { (char *)"\xef\xbb\xbf" "a", 4 }, NULL },
    };
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_text_file *file;

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        assert_int_equal(rp__text_file_open(ctx, temp_write(&dir, "f", cases[i].bytes.at, cases[i].bytes.n), &file), RP_OK);
        assert_int_equal(rp__text_file_check(file), cases[i].says ? RP_ERR_FORMAT : RP_OK);
        if (cases[i].says) assert_non_null(strstr(rp_error(ctx), cases[i].says));
        rp__text_file_close(file);
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_packed_comes_back_in_any_portions),
        cmocka_unit_test(members_that_follow_each_other_are_one_text),
        cmocka_unit_test(lines_of_any_length_are_given_whole),
        cmocka_unit_test(a_packed_file_cut_short_is_refused_wherever_it_was_cut),
        cmocka_unit_test(a_damaged_byte_never_changes_the_text),
        cmocka_unit_test(what_follows_packed_data_must_be_packed),
        cmocka_unit_test(text_that_is_not_utf8_is_refused_with_its_first_bad_byte),
        cmocka_unit_test(a_bad_byte_is_found_at_each_place_behind_ascii),
        cmocka_unit_test(characters_that_reads_cut_are_whole),
        cmocka_unit_test(a_byte_order_mark_is_no_text),
        cmocka_unit_test(what_is_no_text_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
