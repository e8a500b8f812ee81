/* Claims about text when memory runs out or a file cannot be read: whatever allocation or read fails, there is an error or the right text,
 * outputs are untouched, nothing leaks, and the next call is well. */
/* ctest: device-free thread-free */
#include "heap_test.h"

#include <zlib.h>
#include <zstd.h>

#include "base/file.h"
#include "template/chat.h"
#include "texts_test.h"
#include "tokenizer/text_ids.h"
#include "train/temp.h"

/* ---- tokenizers ---- */

static const char text_of_all[] = "  Caf\xc3\xa9 e\xcc\x81\xcc\xa3 word 1234 <|im_start|>\n\n  x's averylongword ``a'' \xf0\x9f\x99\x82";

typedef struct { char path[512]; rp_ids want; char *back; int64_t n_back; } encoding;

/* Each call has its own, as one keeps room and what it held of a text. */
static rp_tokenizer *load(rp_ctx *ctx, const char *path)
{
    rp_tokenizer *t;
    heap_faults faults = heap_pause(ctx);

    assert_ok(ctx, rp__tokenizer_load(ctx, path, &t));
    heap_resume(ctx, faults);
    return t;
}

static rp_status encode_pieces(rp_tokenizer *t, rp_ids *got, int32_t *room)
{
    int64_t all = sizeof text_of_all - 1, step = 9;

    for (int64_t at = 0; at < all; at += step) {
        int32_t *ids  = room;
        int64_t n     = -1, most = all - at < step ? all - at : step;
        int part      = (at ? 0 : RP_TEXT_BEGINS) | (at + step >= all ? RP_TEXT_ENDS : 0);
        rp_status status = rp__tokenizer_feed(t, text_of_all + at, most, (rp_text_part)part, &ids, &n);
        if (status != RP_OK) {
            assert_true(ids == room && n == -1);
            return status;
        }
        if (n) memcpy(room + got->n, ids, (size_t)n * sizeof *ids);
        got->n += n;
        rp__release(ids);
    }
    return RP_OK;
}

static rp_status encodes_alike(rp_ctx *ctx, void *user)
{
    const encoding *e = user;
    int32_t room[sizeof text_of_all * 4];
    rp_ids got       = { .at = room };
    rp_tokenizer *t  = load(ctx, e->path);
    rp_status status = encode_pieces(t, &got, room);

    rp__tokenizer_free(t);
    RP_TRY(status);
    assert_int_equal(got.n, e->want.n);
    assert_memory_equal(room, e->want.at, (size_t)got.n * sizeof *room);
    return RP_OK;
}

enum { PROMPT = 3, ROOM = 1024 };

static rp_status decode_stream(rp_tokenizer *t, const rp_ids *ids, char *to, int64_t *n)
{
    rp_decode_stream s = { .n = -1 };
    rp_status status   = rp__decode_stream_begin(t, ids->at, PROMPT, &s);

    if (status != RP_OK) assert_int_equal(s.n, -1);
    for (int64_t i = PROMPT; status == RP_OK && i < ids->n; i++) {
        char *piece   = to;
        int64_t bytes = 0;
        status        = rp__decode_stream_next(&s, ids->at[i], &piece, &bytes);
        if (status != RP_OK) assert_true(piece == to);
        if (status != RP_OK) continue;
        memcpy(to + *n, piece, (size_t)bytes);
        *n += bytes;
        rp__release(piece);
    }
    return status;
}

static rp_status decodes_alike(rp_ctx *ctx, void *user)
{
    const encoding *e = user;
    char got[ROOM];
    int64_t n        = 0;
    rp_tokenizer *t  = load(ctx, e->path);
    rp_status status = decode_stream(t, &e->want, got, &n);

    rp__tokenizer_free(t);
    RP_TRY(status);
    assert_int_equal(n, e->n_back);
    assert_memory_equal(got, e->back, (size_t)n);
    return RP_OK;
}

static void pieces_of_a_text_and_of_ids_are_an_error_or_those_of_the_whole(void **state)
{
    static const char *const names[] = { "llama3",         "spm",           "families/bert", "families/t5",     "odd",           "gpt2", "families/llama2.gguf",
                                         "families/mixed", "families/rest", "families/clip", "families/openai", "families/gemma" };
    const heap_sweep sweep = { .survives = true, .each = test_few_or(8, 0), .least = 3 }; /* PCRE2 without room for its stack matches in what it has */
    rp_ctx *ctx                      = test_ctx(NULL);
    char back[ROOM];

    (void)state;
    for (int i = 0; i < test_few_or(6, RP_COUNT(names)); i++) {
        encoding e = { .back = back };
        snprintf(e.path, sizeof e.path, GOLDEN "%s", names[i]);
        rp_tokenizer *t = load(ctx, e.path);
        assert_ok(ctx, rp__tokenizer_encode(t, text_of_all, sizeof text_of_all - 1, &e.want.at, &e.want.n));
        assert_ok(ctx, decode_stream(t, &e.want, back, &e.n_back));
        assert_true(e.n_back > 5);
        rp__tokenizer_free(t);
        every_allocation_fails_once(ctx, &sweep, encodes_alike, &e);
        every_allocation_fails_once(ctx, &sweep, decodes_alike, &e);
        rp__release(e.want.at);
    }
    test_ctx_free(ctx);
}

/* ---- chat templates ---- */

typedef struct { const char *text; int64_t bytes; const json_t *vars; const char *want; bool refused; int64_t n_spans; } rendering;

static rp_status renders_alike(rp_ctx *ctx, void *user)
{
    const rendering *r   = user;
    rp_template_text out = { .bytes = -1 };
    rp_template *t       = NULL;
    rp_status status     = rp__template_new(ctx, "m", r->text, r->bytes, &t);

    if (status == RP_OK) status = rp__template_render(t, r->vars, RP_CHAT_DATE, &out);
    rp__template_free(t);
    if (status != RP_OK) assert_true(out.bytes == -1 && !out.text && !out.span);
    if (r->refused) assert_int_not_equal(status, RP_OK);
    if (r->refused) return status == RP_ERR_FORMAT || status == RP_ERR_UNSUPPORTED ? RP_OK : status;
    if (status != RP_OK) return status;
    assert_string_equal(out.text, r->want);
    assert_int_equal(out.n_spans, r->n_spans);
    rp__template_text_free(&out);
    return RP_OK;
}

static void sweep_case(rp_ctx *ctx, const char *text, int64_t bytes, const json_t *wanted, int64_t each)
{
    json_t *none     = json_object();
    const json_t *vars = json_object_get(wanted, "vars");
    rendering r      = { text, bytes, vars ? vars : none, json_string_value(json_object_get(wanted, "text")), json_object_get(wanted, "refused"),
                         (int64_t)json_array_size(json_object_get(wanted, "spans")) };

    every_allocation_fails_once(ctx, &(heap_sweep){ .each = each, .least = 1 }, renders_alike, &r);
    json_decref(none);
}

static void every_statement_filter_and_method_is_an_error_or_its_text(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    json_t *all = chat_golden("language.json"), *one;
    size_t i;

    (void)state;
    json_array_foreach(all, i, one) {
        const json_t *text = json_object_get(one, "template");
        sweep_case(ctx, json_string_value(text), (int64_t)json_string_length(text), one, test_few_or(8, 0));
    }
    json_decref(all);
    test_ctx_free(ctx);
}

/* A template is made of pieces of blocks. Of many alike, one of each kind is where a block ends. */
static void each_kind_of_expression_may_be_what_does_not_fit(void **state)
{
    static const char *const each[] = {
        "{{ not a }}",
        "{{ -1 }}",
        "{{ a + 1 if a }}",
        "{{ a == 1 }}",
        "{{ a not in [1] }}",
        "{{ a is defined }}",
        "{{ a and 1 or 2 }}",
        "{{ 'x' ~ 1 }}",
        "{{ [1, 2] }}",
        "{{ (1, 2) }}",
        "{{ {'a': 1} }}",
        "{{ 'ab'[0] }}",
        "{{ 'ab'[1:] }}",
        "{{ 'a' | upper }}",
        "{{ 'a'.upper() }}",
        "{{ 'a' | replace('a', 'b') }}",
        "{{ 2 ** 3 // 1 }}",
        "{% if a %}1{% elif 2 %}2{% else %}3{% endif %}",
        "{% for i in [1] if i %}{{ i }}{% else %}{% endfor %}",
        "{% set b = 1 %}",
        "{% set b %}x{% endset %}",
        "{% macro m(x, y=1) %}{% endmacro %}",
        "x{# c #}",
    };
    enum { BYTES = 12000 };
    rp_ctx *ctx  = test_ctx(NULL);
    char *text   = malloc(BYTES + 1), *want;
    json_t *none = json_object();

    (void)state;
    for (int i = 0; i < RP_COUNT(each); i++) {
        rp_template_text out = { 0 };
        rp_template *t       = NULL;
        int64_t n            = 0;
        while (n + (int64_t)strlen(each[i]) <= BYTES) n += snprintf(text + n, (size_t)(BYTES + 1 - n), "%s", each[i]);
        assert_ok(ctx, rp__template_new(ctx, "m", text, n, &t));
        assert_ok(ctx, rp__template_render(t, none, RP_CHAT_DATE, &out));
        rp__template_free(t);
        want        = out.text;
        rendering r = { text, n, none, want, false, 0 };
        every_allocation_fails_once(ctx, &(heap_sweep){ .each = test_few_or(12, 40), .least = 5 }, renders_alike, &r);
        rp__template_text_free(&out);
    }
    free(text);
    json_decref(none);
    test_ctx_free(ctx);
}

/* ---- conversations ---- */

typedef struct { const char *text; int64_t bytes; json_t *messages, *tools; char want[ROOM], asked[ROOM]; } conversation;

static rp_status append_text(void *user, const rp_template_text *text)
{
    char *to    = user;
    size_t used = strlen(to);

    assert_true(used + (size_t)text->bytes + 32 < ROOM);
    snprintf(to + used, ROOM - used, "%s|%d", text->text, (int)text->n_spans);
    return RP_OK;
}

static rp_status talk(rp_chat *chat, const conversation *c, char *rendered, rp_template_text *asked)
{
    RP_TRY(rp__chat_ask(chat, c->messages, asked));
    rp_status status = rp__chat_render(chat, c->messages, c->tools, true, append_text, rendered);
    if (status != RP_OK) rp__template_text_free(asked);
    return status;
}

static rp_status talks_alike(rp_ctx *ctx, void *user)
{
    conversation *c        = user;
    rp_chat *chat          = NULL;
    rp_template_text asked = { 0 };
    char rendered[ROOM]        = "";

    RP_TRY(rp__chat_new(ctx, "m", c->text, c->bytes, NULL, &chat));
    rp_status status = talk(chat, c, rendered, &asked);
    rp__chat_free(chat);
    RP_TRY(status);
    if (!c->want[0]) {
        snprintf(c->want, sizeof c->want, "%s", rendered);
        snprintf(c->asked, sizeof c->asked, "%s", asked.text);
    }
    assert_string_equal(rendered, c->want);
    assert_string_equal(asked.text, c->asked);
    rp__template_text_free(&asked);
    return RP_OK;
}

/* A variable that could not be set must not keep the value of the call before. */
static void a_conversation_is_an_error_or_its_texts(void **state)
{
    static const char text[] =
        "{{ tools | length if tools }}{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
    rp_ctx *ctx    = test_ctx(NULL);
    conversation c = { text, sizeof text - 1, json_pack("[{s:s,s:s},{s:s,s:s},{s:s,s:s},{s:s,s:s}]", "role", "user", "content", "a", "role", "assistant",
                                                        "content", "b", "role", "user", "content", "c", "role", "assistant", "content", "d"),
                       json_pack("[{s:s}]", "type", "function"), "", "" };

    (void)state;
    assert_non_null(c.messages);
    every_allocation_fails_once(ctx, &(heap_sweep){ .least = 5 }, talks_alike, &c);
    assert_string_equal(c.want, "1<user>a</s><assistant>b</s><user>c</s><assistant>d</s>|2");
    json_decref(c.messages);
    json_decref(c.tools);
    test_ctx_free(ctx);
}

/* What the goldens do not call. */
static void what_templates_seldom_say_is_an_error_or_its_text(void **state)
{
    static const char text[] = "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{% set n = namespace(x=1) %}{% set n.x = n.x + 1 %}{{ m(n.x) }}"
                               "{% set t %}a{{ 1.5 | tojson }}{% endset %}{{ t }}{{ 'ab'.endswith('b') }}{{ 4 is even }}{{ x is undefined }}{{ m is callable }}"
                               "{% for a, b in {'k': 1, 'l': [2.25, none]}.items() if b %}{{ loop.index }}{{ a ~ b }}{% else %}no{% endfor %}"
                               "{% generation %}{{ 'a b c'.split()[1:] | join('-') | upper }}{% endgeneration %}{{ {'a': {'b': [1]}} | tojson(indent=1) }}";
    static const char want[] = "22a1.5TrueTrueTrueTrue1k12l[2.25, None]B-C{\n \"a\": {\n  \"b\": [\n   1\n  ]\n }\n}";
    rp_ctx *ctx              = test_ctx(NULL);
    json_t *none             = json_object();
    rendering r              = { text, sizeof text - 1, none, want, false, 1 };

    (void)state;
    every_allocation_fails_once(ctx, &(heap_sweep){ .least = 20 }, renders_alike, &r);
    json_decref(none);
    test_ctx_free(ctx);
}

static void templates_of_all_families_are_an_error_or_their_text(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    json_t *all = chat_golden("rendered.json"), *one;
    char path[512], *text;
    const char *last = "";
    int64_t bytes;
    size_t i;

    (void)state;
    json_array_foreach(all, i, one) {
        const char *name = json_string_value(json_object_get(one, "template"));
        if (!strcmp(name, last)) continue;
        last = name;
        snprintf(path, sizeof path, RP_SOURCE_DIR "/tests/golden/chat/%s.jinja", name);
        assert_ok(ctx, rp__file_read(ctx, path, 1 << 20, &text, &bytes));
        sweep_case(ctx, text, bytes, one, test_few_or(12, 0));
        rp__release(text);
    }
    json_decref(all);
    test_ctx_free(ctx);
}

/* ---- files of text ---- */

enum { TEXT_BYTES = 300000 };

typedef struct { const char *path; char *text; int64_t bytes; rp_ids want; } file_of_text;

/* A line beyond every window, and short ones. */
static void fill_text(char *text)
{
    uint32_t x = 7;

    for (int i = 0; i < TEXT_BYTES; i++) {
        x       = x * 1664525u + 1013904223u;
        text[i] = i > 200000 && (x >> 8) % 61 == 0 ? '\n' : (x >> 8) % 7 ? (char)('a' + (x >> 16) % 5) : ' ';
    }
}

static const char *gzipped(const temp_dir *dir, const char *text)
{
    const char *path = temp_path(dir, "a.gz");
    gzFile f         = gzopen(path, "wb");

    assert_int_equal(gzwrite(f, text, TEXT_BYTES), TEXT_BYTES);
    assert_int_equal(gzclose(f), Z_OK);
    return path;
}

static const char *zstandard(const temp_dir *dir, const char *text)
{
    size_t room = ZSTD_compressBound(TEXT_BYTES);
    char *to    = malloc(room);
    size_t n    = ZSTD_compress(to, room, text, TEXT_BYTES, 3);

    assert_false(ZSTD_isError(n));
    const char *path = temp_write(dir, "a.zst", to, n);
    free(to);
    return path;
}

static rp_status read_lines(const file_of_text *f, rp_text_file *in)
{
    for (int64_t at = 0;;) {
        const char *line = f->path;
        int64_t n        = -1;
        rp_status status = rp__text_file_line(in, &line, &n);
        if (status != RP_OK) assert_true(line == f->path && n == -1);
        RP_TRY(status);
        if (!line) assert_int_equal(at, f->bytes);
        if (!line) return RP_OK;
        assert_memory_equal(line, f->text + at, (size_t)n);
        at += n;
    }
}

static rp_status lines_are_alike(rp_ctx *ctx, void *user)
{
    const file_of_text *f = user;
    rp_text_file *in      = NULL;
    rp_status status      = rp__text_file_open(ctx, f->path, &in);

    if (status != RP_OK) assert_null(in);
    if (status == RP_OK) status = read_lines(f, in);
    rp__text_file_close(in);
    return status;
}

typedef struct { const rp_ids *want; int64_t n; } taken;

static rp_status take_ids(void *user, const int32_t *ids, int64_t n)
{
    taken *t = user;

    assert_true(t->n + n <= t->want->n);
    assert_memory_equal(ids, t->want->at + t->n, (size_t)n * sizeof *ids);
    t->n += n;
    return RP_OK;
}

static rp_status ids_are_alike(rp_ctx *ctx, void *user)
{
    const file_of_text *f = user;
    rp_text_file *in      = NULL;
    taken t               = { &f->want, 0 };
    rp_tokenizer *words   = load(ctx, GOLDEN "spm");
    rp_status status      = rp__text_file_open(ctx, f->path, &in);

    if (status == RP_OK) status = rp__text_ids(ctx, in, rp__text_ids_feed, words, take_ids, &t);
    rp__tokenizer_free(words);
    if (status == RP_OK) assert_int_equal(t.n, f->want.n);
    rp__text_file_close(in);
    return status;
}

enum { PACKINGS = 3 };

/* The same text as it is, by gzip and by zstd. */
static void write_packings(const temp_dir *dir, char *text, const char *paths[PACKINGS])
{
    fill_text(text);
    paths[0] = temp_write(dir, "a", text, TEXT_BYTES);
    paths[1] = gzipped(dir, text);
    paths[2] = zstandard(dir, text);
}

static void a_file_however_packed_is_an_error_or_its_lines_and_ids(void **state)
{
    rp_ctx *ctx    = test_ctx(NULL);
    temp_dir dir   = temp_make();
    file_of_text f = { .text = malloc(TEXT_BYTES), .bytes = TEXT_BYTES };
    const char *paths[PACKINGS];

    (void)state;
    write_packings(&dir, f.text, paths);
    rp_tokenizer *t = load(ctx, GOLDEN "spm");
    assert_ok(ctx, rp__tokenizer_encode(t, f.text, f.bytes, &f.want.at, &f.want.n));
    rp__tokenizer_free(t);
    for (int i = 0; i < RP_COUNT(paths); i++) {
        f.path = paths[i];
        every_allocation_fails_once(ctx, &(heap_sweep){ .least = 4 }, lines_are_alike, &f);
        every_allocation_fails_once(ctx, &(heap_sweep){ .each = test_few_or(4, 16), .survives = true, .least = 3 }, ids_are_alike, &f);
    }
    rp__release(f.want.at);
    free(f.text);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* ---- reads that fail ---- */

typedef struct { FILE *file; int64_t left; bool failed; } bad_disk;

static ssize_t read_or_fail(void *cookie, char *to, size_t n)
{
    bad_disk *d = cookie;

    if (d->left-- == 0) {
        d->failed = true;
        errno     = EIO;
        return -1;
    }
    return (ssize_t)fread(to, 1, n, d->file);
}

static rp_status read_from(rp_ctx *ctx, const file_of_text *f, bad_disk *disk)
{
    FILE *real       = stdin;
    rp_text_file *in = NULL;

    disk->file       = fopen(f->path, "rb");
    stdin            = fopencookie(disk, "rb", (cookie_io_functions_t){ .read = read_or_fail });
    rp_status status = rp__text_file_stdin(ctx, &in);
    if (status == RP_OK) status = read_lines(f, in);
    rp__text_file_close(in);
    fclose(stdin);
    fclose(disk->file);
    stdin = real;
    return status;
}

static void a_read_that_fails_is_an_error_wherever_it_is(void **state)
{
    rp_ctx *ctx    = test_ctx(NULL);
    temp_dir dir   = temp_make();
    file_of_text f = { .text = malloc(TEXT_BYTES), .bytes = TEXT_BYTES };
    const char *paths[PACKINGS];

    (void)state;
    write_packings(&dir, f.text, paths);
    for (int i = 0; i < RP_COUNT(paths); i++) {
        int64_t k = 0;
        f.path    = paths[i];
        for (bool over = false; !over; k++) {
            bad_disk disk    = { .left = k };
            rp_status status = read_from(ctx, &f, &disk);
            over             = !disk.failed;
            assert_int_equal(status, over ? RP_OK : RP_ERR_IO);
            if (!over) assert_string_equal(rp_error(ctx), "cannot read '/dev/stdin': Input/output error");
        }
        assert_true(k > 3);
    }
    free(f.text);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_a_text_and_of_ids_are_an_error_or_those_of_the_whole),
        cmocka_unit_test(every_statement_filter_and_method_is_an_error_or_its_text),
        cmocka_unit_test(each_kind_of_expression_may_be_what_does_not_fit),
        cmocka_unit_test(a_conversation_is_an_error_or_its_texts),
        cmocka_unit_test(what_templates_seldom_say_is_an_error_or_its_text),
        cmocka_unit_test(templates_of_all_families_are_an_error_or_their_text),
        cmocka_unit_test(a_file_however_packed_is_an_error_or_its_lines_and_ids),
        cmocka_unit_test(a_read_that_fails_is_an_error_wherever_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
