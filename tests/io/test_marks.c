/* Claims about marks of weight files: whether two ranks read the same ones. */
/* ctest: device-free thread-free */
#include "io_test.h"
#include "one_ctx_test.h"

#include "gguf/internal.h"
#include "safetensors/safetensors.h"

static uint8_t *golden(const char *folder, const char *name, int64_t *bytes)
{
    char path[512];

    snprintf(path, sizeof path, RP_SOURCE_DIR "/tests/golden/%s/%s", folder, name);
    return (uint8_t *)whole(ctx, path, bytes);
}

static uint64_t mark_of(bool gguf, const uint8_t *data, int64_t bytes)
{
    rp_safetensors *set = NULL;
    rp_gguf *file       = NULL;
    uint64_t mark       = 0;

    if (gguf) {
        assert_ok(ctx, rp__gguf_open_bytes(ctx, "g", data, bytes, &file));
        assert_int_equal(rp__gguf_n_files(file), 1);
        assert_ok(ctx, rp__gguf_mark(file, 0, &mark));
    } else {
        assert_ok(ctx, rp__safetensors_open_bytes(ctx, "s", data, bytes, &set));
        assert_int_equal(rp__safetensors_n_files(set), 1);
        assert_ok(ctx, rp__safetensors_mark(set, 0, &mark));
    }
    rp__gguf_close(file);
    rp__safetensors_close(set);
    return mark;
}

static void expect_other(bool gguf, uint8_t *data, int64_t bytes, int64_t at, bool other)
{
    uint64_t before = mark_of(gguf, data, bytes);

    data[at] ^= 1;
    uint64_t after = mark_of(gguf, data, bytes);
    data[at] ^= 1;
    if ((before != after) != other) fail_msg("byte %" PRId64 ": %s", at, other ? "not seen" : "seen");
}

static void the_first_and_last_byte_of_every_tensor_count(void **state)
{
    (void)state;
    int64_t bytes;
    rp_safetensors *set;
    rp_gguf *file;

    uint8_t *data = golden("gguf", "tied.safetensors", &bytes);
    assert_ok(ctx, rp__safetensors_open_bytes(ctx, "s", data, bytes, &set));
    assert_true(rp__safetensors_n_tensors(set) > 5);
    for (int64_t i = 0; i < rp__safetensors_n_tensors(set); i++) {
        const rp_safetensor *t = rp__safetensors_at(set, i);
        expect_other(false, data, bytes, t->offset, true);
        expect_other(false, data, bytes, t->offset + t->bytes - 1, true);
    }
    rp__safetensors_close(set);
    rp__release(data);

    data = golden("gguf", "tied.gguf", &bytes);
    assert_ok(ctx, rp__gguf_open_bytes(ctx, "g", data, bytes, &file));
    assert_true(rp__gguf_n_tensors(file) > 5);
    for (int64_t i = 0; i < rp__gguf_n_tensors(file); i++) {
        const gguf_tensor_entry *e = (const gguf_tensor_entry *)rp__gguf_tensor_at(file, i);
        expect_other(true, data, bytes, e->offset, true);
        expect_other(true, data, bytes, e->offset + e->t.bytes - 1, true);
    }
    rp__gguf_close(file);
    rp__release(data);
}

/* One tensor of many slices. */
static void of_a_large_tensor_three_slices_count(void **state)
{
    (void)state;
    enum { SLICE = 4096, DATA = 100 * SLICE };
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[409600],\"data_offsets\":[0,409600]}}";
    static uint8_t data[8 + sizeof header - 1 + DATA];
    const int64_t begin = 8 + (int64_t)sizeof header - 1, middle = begin + (DATA - SLICE) / 2;
    uint64_t n          = sizeof header - 1;

    memcpy(data, &n, 8);
    memcpy(data + 8, header, sizeof header - 1);
    const struct { int64_t at; bool counts; } bytes[] = {
        { begin, true }, { begin + SLICE - 1, true }, { begin + SLICE, false }, { middle - 1, false }, { middle, true }, { middle + SLICE - 1, true },
        { middle + SLICE, false }, { begin + DATA - SLICE - 1, false }, { begin + DATA - SLICE, true }, { begin + DATA - 1, true },
    };
    for (int i = 0; i < RP_COUNT(bytes); i++) expect_other(false, data, sizeof data, bytes[i].at, bytes[i].counts);
}

static void the_header_counts(void **state)
{
    (void)state;
    static uint8_t one[] = "\x35\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}abcd";

    assert_int_equal(one[0], strlen((const char *)one + 8) - 4);
    expect_other(false, one, sizeof one - 1, 10, true);         /* the tensor's name */
}

/* Headers are read in pieces of 256 KiB: one that ends a byte before, at and behind the end of a piece. */
static void the_last_byte_of_a_long_header_counts(void **state)
{
    (void)state;
    enum { PIECE = 64 * 4096 };
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    static uint8_t data[2 * PIECE + 64];

    for (int64_t end = PIECE - 1; end <= 2 * PIECE + 1; end += end == PIECE + 1 ? PIECE - 2 : 1) {
        uint64_t n = (uint64_t)end - 8;
        memset(data, ' ', sizeof data);
        memcpy(data, &n, 8);
        memcpy(data + 8, header, sizeof header - 1);
        uint64_t space = mark_of(false, data, end + 4);
        data[end - 1]  = '\n';
        if (mark_of(false, data, end + 4) == space) fail_msg("byte %" PRId64 " does not count", end - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_and_last_byte_of_every_tensor_count, one_ctx_begin, one_ctx_end),
        cmocka_unit_test_setup_teardown(of_a_large_tensor_three_slices_count, one_ctx_begin, one_ctx_end),
        cmocka_unit_test_setup_teardown(the_header_counts, one_ctx_begin, one_ctx_end),
        cmocka_unit_test_setup_teardown(the_last_byte_of_a_long_header_counts, one_ctx_begin, one_ctx_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
