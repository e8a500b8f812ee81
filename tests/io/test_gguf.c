/* Claims about GGUF: gguf-py's files give gguf-py's values to the bit, and what is malformed is refused. */
/* ctest: device-free thread-free */
#include "io_test.h"

#include <math.h>

#include "gguf/gguf.h"
#include "base/quant.h"
#include "gguf/types.h"

static rp_ctx *ctx;

/* ---- against the Python library ---- */

static void every_type_that_is_read_has_the_values_of_gguf_py(void **state)
{
    (void)state;
    int64_t bytes, at = 0;
    float *expected = (float *)whole(ctx, io_golden("types.f32"), &bytes);
    rp_gguf *g;

    assert_ok(ctx, rp__gguf_open(ctx, io_golden("types.gguf"), &g));
    assert_int_equal(rp__gguf_n_tensors(g), 31);
    for (int64_t i = 0; i < 30; i++) {
        const rp_gguf_tensor *t = rp__gguf_tensor_at(g, i);
        float *got              = calloc((size_t)t->elems, sizeof *got);
        assert_ok(ctx, rp__gguf_read(g, t, 0, t->elems, got));
        for (int64_t k = 0; k < t->elems; k++, at++)
            if (memcmp(&got[k], &expected[at], sizeof *got))
                fail_msg("%s[%d] is %a, expected %a", t->name, (int)k, (double)got[k], (double)expected[at]);
        free(got);
    }
    assert_int_equal(at * 4, bytes);
    rp__gguf_close(g);
    rp__release(expected);
}

static void every_half_converts_exactly_whatever_the_floating_point_mode(void **state)
{
    (void)state;
    unsigned saved = rp__fp_enter();    /* denormals flush here, as they do in the team */

    for (int h = 0; h < 65536; h++) {
        int sign = h >> 15, exponent = h >> 10 & 31, fraction = h & 1023;
        float got = rp__f32_from_f16((uint16_t)h), magnitude;
        magnitude = exponent ? ldexpf((float)(1024 + fraction), exponent - 25) : ldexpf((float)fraction, -24);
        if (exponent == 31) magnitude = INFINITY;
        if (exponent == 31 && fraction) assert_true(isnan(got));
        else assert_true(got == (sign ? -magnitude : magnitude) && !signbit(got) == !sign);
    }
    rp__fp_leave(saved);
}

static void the_table_of_types_is_the_one_of_ggml(void **state)
{
    (void)state;
    FILE *f = fopen(io_golden("types.txt"), "r");
    unsigned id, n = 0;
    char name[32];
    long elems, bytes;

    assert_non_null(f);
    for (; fscanf(f, "%u %31s %ld %ld", &id, name, &elems, &bytes) == 4; n++) {
        const rp_gguf_type *type = rp__gguf_type(id);
        assert_non_null(type);
        assert_string_equal(type->name, name);
        assert_int_equal(type->block_elems, elems);
        assert_int_equal(type->block_bytes, bytes);
    }
    fclose(f);
    for (id = 0; id < 1000; id++) n -= rp__gguf_type(id) != NULL;
    assert_int_equal(n, 0);
}

static void metadata_of_every_kind_has_its_value(void **state)
{
    (void)state;
    static const struct { const char *key; rp_gguf_kind kind; int64_t i; double f; } numbers[] = {
        { "a.uint8", RP_GGUF_UINT, 255, 255 },
        { "a.int8", RP_GGUF_INT, -128, -128 },
        { "a.uint16", RP_GGUF_UINT, 65535, 65535 },
        { "a.int16", RP_GGUF_INT, -32768, -32768 },
        { "a.uint32", RP_GGUF_UINT, UINT32_MAX, UINT32_MAX },
        { "a.int32", RP_GGUF_INT, INT32_MIN, INT32_MIN },
        { "a.uint64", RP_GGUF_UINT, INT64_MAX, 18446744073709551615.0 },
        { "a.int64", RP_GGUF_INT, INT64_MIN, -9223372036854775808.0 },
        { "a.float32", RP_GGUF_FLOAT, 0, 1.5 },
        { "a.float64", RP_GGUF_FLOAT, 0, 0.1 },
        { "a.bool", RP_GGUF_BOOL, 1, 1 },
    };
    rp_gguf *g;

    assert_ok(ctx, rp__gguf_open(ctx, io_golden("types.gguf"), &g));
    for (int i = 0; i < RP_COUNT(numbers); i++) {
        const rp_gguf_value *v = rp__gguf_get(g, numbers[i].key);
        assert_non_null(v);
        assert_string_equal(v->key, numbers[i].key);
        assert_int_equal(v->kind, numbers[i].kind);
        assert_int_equal(v->i, numbers[i].i);
        assert_true(v->f == numbers[i].f);
    }
    const rp_gguf_value *text = rp__gguf_get(g, "a.string"), *words = rp__gguf_get(g, "a.strings");
    assert_int_equal(text->s.bytes, 5);
    assert_memory_equal(text->s.text, "grün", 5);
    assert_int_equal(words->kind, RP_GGUF_ARRAY);
    assert_int_equal(words->element, RP_GGUF_STRING);
    assert_int_equal(words->count, 4);
    assert_int_equal(rp__gguf_array_string(g, words, 0).bytes, 0);
    assert_memory_equal(rp__gguf_array_string(g, words, 3).text, "three\n", 6);
    assert_memory_equal(rp__gguf_array_string(g, words, 1).text, "one", 3);
    assert_null(rp__gguf_array_string(g, words, 4).text);
    assert_null(rp__gguf_array_string(g, text, 0).text);
    assert_true(rp__gguf_array_number(g, words, 1) == 0);
    assert_true(rp__gguf_array_number(g, rp__gguf_get(g, "a.ints"), 1) == -2);
    assert_true(rp__gguf_array_number(g, rp__gguf_get(g, "a.ints"), 3) == 0);
    assert_true(rp__gguf_array_number(g, rp__gguf_get(g, "a.ints"), -1) == 0);
    assert_true(rp__gguf_array_number(g, rp__gguf_get(g, "a.floats"), 1) == -1.25);
    assert_true(rp__gguf_array_number(g, rp__gguf_get(g, "a.bools"), 2) == 1);
    assert_null(rp__gguf_get(g, "absent"));
    assert_string_equal(rp__gguf_value_at(g, rp__gguf_n_values(g) - 1)->key, "a.bools");
    rp__gguf_close(g);
}

static void a_file_of_metadata_alone_opens(void **state)
{
    (void)state;
    rp_gguf *g;

    assert_ok(ctx, rp__gguf_open(ctx, io_golden("vocab.gguf"), &g));
    assert_int_equal(rp__gguf_n_tensors(g), 0);
    assert_null(rp__gguf_find(g, "absent"));
    assert_memory_equal(rp__gguf_array_string(g, rp__gguf_get(g, "tokenizer.ggml.tokens"), 2).text, "ab", 2);
    rp__gguf_close(g);
}

static void version_2_reads_as_version_3_does(void **state)
{
    (void)state;
    int64_t bytes;
    char *text = whole(ctx, io_golden("types.gguf"), &bytes);
    float two[192], three[192];
    rp_gguf *g, *newer;

    assert_int_equal(text[4], 3);
    text[4] = 2;
    assert_ok(ctx, rp__gguf_open_bytes(ctx, "version 2", text, bytes, &g));
    assert_ok(ctx, rp__gguf_open(ctx, io_golden("types.gguf"), &newer));
    assert_int_equal(rp__gguf_n_tensors(g), rp__gguf_n_tensors(newer));
    assert_ok(ctx, rp__gguf_read(g, rp__gguf_find(g, "values.Q5_1"), 0, 192, two));
    assert_ok(ctx, rp__gguf_read(newer, rp__gguf_find(newer, "values.Q5_1"), 0, 192, three));
    assert_memory_equal(two, three, sizeof two);
    rp__gguf_close(g);
    rp__gguf_close(newer);
    rp__release(text);
}

/* ---- reading ---- */

static void shapes_are_slowest_first_and_rows_read_as_the_whole_does(void **state)
{
    (void)state;
    float all[192], rows[128];
    rp_gguf *g;

    assert_ok(ctx, rp__gguf_open(ctx, io_golden("types.gguf"), &g));
    const rp_gguf_tensor *four = rp__gguf_find(g, "four"), *t = rp__gguf_find(g, "values.Q4_1");
    assert_int_equal(four->ndim, 4);
    assert_memory_equal(four->dim, ((int64_t[]){ 2, 3, 2, 2 }), sizeof four->dim);
    assert_string_equal(t->type, "Q4_1");
    assert_ok(ctx, rp__gguf_read(g, t, 0, 192, all));
    assert_ok(ctx, rp__gguf_read(g, t, 64, 128, rows));
    assert_memory_equal(rows, all + 64, sizeof rows);
    rp__gguf_drop(g, t);
    assert_ok(ctx, rp__gguf_read(g, t, 0, 64, rows));
    assert_memory_equal(rows, all, 64 * sizeof *rows);
    assert_int_equal(rp__gguf_read(g, t, 32, 64, rows), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "elements [32, +64) of tensor 'values.Q4_1' are not whole rows of 64");
    assert_int_equal(rp__gguf_read(g, t, 0, 32, rows), RP_ERR_ARG);
    assert_int_equal(rp__gguf_read(g, t, 128, 128, rows), RP_ERR_ARG);
    assert_int_equal(rp__gguf_read(g, t, -64, 64, rows), RP_ERR_ARG);
    rp__gguf_close(g);
}

static void a_type_that_is_only_listed_is_refused_with_those_that_are_read(void **state)
{
    (void)state;
    float out[256];
    rp_gguf *g;

    assert_ok(ctx, rp__gguf_open(ctx, io_golden("types.gguf"), &g));
    const rp_gguf_tensor *t = rp__gguf_find(g, "listed");
    assert_int_equal(t->elems, 256);
    assert_string_equal(t->type, "IQ2_XXS");
    assert_int_equal(rp__gguf_read(g, t, 0, 256, out), RP_ERR_UNSUPPORTED);
    assert_non_null(strstr(rp_error(ctx), "type IQ2_XXS, which cannot be read; readable types are F32 F16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K "
                                            "Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS I8 I16 I32 I64 F64 BF16 TQ1_0 TQ2_0 MXFP4 NVFP4"));
    rp__gguf_close(g);
}

/* ---- several files ---- */

#define PART(no) "split-0000" no "-of-00003.gguf"

static void a_model_in_several_files_is_read_as_one(void **state)
{
    (void)state;
    static const char *const in_order[] = { "c", "a", "e", "b", "d" };
    float row[4], all[8];
    rp_gguf *g;

    assert_ok(ctx, rp__gguf_open(ctx, io_golden(PART("1")), &g));
    assert_int_equal(rp__gguf_n_tensors(g), 5);
    for (int i = 0; i < 5; i++) {
        const rp_gguf_tensor *t = rp__gguf_find(g, in_order[i]);
        assert_ptr_equal(t, rp__gguf_tensor_at(g, i));
        assert_ok(ctx, rp__gguf_read(g, t, 0, 8, all));
        for (int k = 0; k < 8; k++) assert_true(all[k] == (float)i);
        rp__gguf_drop(g, t);
        assert_ok(ctx, rp__gguf_read(g, t, 4, 4, row));
        assert_true(row[3] == (float)i);
    }
    assert_null(rp__gguf_find(g, "f"));
    assert_memory_equal(rp__gguf_get(g, "general.name")->s.text, "in three files", 14);
    rp__gguf_close(g);
}

static void copy_part(const char *from, const char *to)
{
    int64_t bytes;
    char *text = whole(ctx, io_golden(from), &bytes);

    assert_ok(ctx, rp__file_write(ctx, temp_path(to), text, bytes));
    rp__release(text);
}

static void assert_split_refused(const char *name, rp_status expected, const char *message)
{
    rp_gguf *g       = NULL;
    rp_status status = rp__gguf_open(ctx, temp_path(name), &g);

    assert_null(g);
    if (status != expected || !strstr(rp_error(ctx), message))
        fail_msg("expected status %d and '%s', got %d: %s", (int)expected, message, (int)status, rp_error(ctx));
}

static void parts_that_do_not_make_a_model_are_refused(void **state)
{
    (void)state;

    copy_part(PART("2"), PART("2"));
    assert_split_refused(PART("2"), RP_ERR_FORMAT, "is part 2 of a model in 3 files; name the first, which ends in '-00001-of-00003.gguf'");
    copy_part(PART("1"), "renamed.gguf");
    assert_split_refused("renamed.gguf", RP_ERR_FORMAT, "its own does not end in '-00001-of-00003.gguf'");
    copy_part(PART("1"), PART("1"));
    assert_split_refused(PART("1"), RP_ERR_IO, PART("3") "': No such file");
    copy_part(PART("2"), PART("3"));
    assert_split_refused(PART("1"), RP_ERR_FORMAT, PART("3") "' is not part 3 of 3");
    copy_part("vocab.gguf", PART("3"));
    assert_split_refused(PART("1"), RP_ERR_FORMAT, PART("3") "' is not part 3 of 3");
}

/* ---- files made here ---- */

typedef struct { uint8_t data[1024]; int64_t bytes; } file;

static void add(file *f, const void *data, size_t bytes)
{
    memcpy(f->data + f->bytes, data, bytes);
    f->bytes += (int64_t)bytes;
}

static void add_u32(file *f, uint32_t v) { add(f, &v, sizeof v); }
static void add_u64(file *f, uint64_t v) { add(f, &v, sizeof v); }

static void add_text(file *f, const char *text)
{
    add_u64(f, strlen(text));
    add(f, text, strlen(text));
}

static file head(uint32_t version, uint64_t n_tensors, uint64_t n_values)
{
    file f = { .bytes = 0 };

    add(&f, "GGUF", 4);
    add_u32(&f, version);
    add_u64(&f, n_tensors);
    add_u64(&f, n_values);
    return f;
}

static void add_value(file *f, const char *key, uint32_t type)
{
    add_text(f, key);
    add_u32(f, type);
}

static void add_tensor(file *f, const char *name, uint64_t dim0, uint64_t dim1, uint32_t type, uint64_t offset)
{
    add_text(f, name);
    add_u32(f, 2);
    add_u64(f, dim0);
    add_u64(f, dim1);
    add_u32(f, type);
    add_u64(f, offset);
}

static void add_data(file *f, int alignment, int64_t bytes)
{
    f->bytes = (f->bytes + alignment - 1) / alignment * alignment + bytes;
}

static void assert_opens(const file *f, rp_status expected, const char *message)
{
    uint8_t *exact   = malloc((size_t)f->bytes + 1);
    rp_gguf *g       = NULL;
    rp_status status = (memcpy(exact, f->data, (size_t)f->bytes), rp__gguf_open_bytes(ctx, "input", exact, f->bytes, &g));

    if (status != expected || (status != RP_OK && !strstr(rp_error(ctx), message)))
        fail_msg("expected status %d and '%s', got %d: %s", (int)expected, message, (int)status, rp_error(ctx));
    assert_true((g != NULL) == (status == RP_OK));
    assert_null(strchr(rp_error(ctx), '\n'));
    rp__gguf_close(g);
    free(exact);
}

static void headers_that_lie_are_refused(void **state)
{
    (void)state;
    file f = head(2, 0, 0);

    assert_opens(&f, RP_OK, "");
    f = head(1, 0, 0);
    assert_opens(&f, RP_ERR_UNSUPPORTED, "version 1, only 2 and 3 are read");
    f = head(3u << 24, 0, 0);
    assert_opens(&f, RP_ERR_UNSUPPORTED, "is a big-endian GGUF file, which is not read");
    f = head(3, 0, 0);
    f.data[0] = 'X';
    assert_opens(&f, RP_ERR_FORMAT, "not a GGUF file");
    f = head(3, UINT64_MAX, 0);
    assert_opens(&f, RP_ERR_FORMAT, "18446744073709551615 for the number of tensors");
    f = head(3, 0, 7);
    assert_opens(&f, RP_ERR_FORMAT, "ends at byte 24, inside a metadata key");
    f.bytes = 0;
    assert_opens(&f, RP_ERR_FORMAT, "inside its first four bytes");
}

static void a_first_part_that_says_it_is_none_is_refused(void **state)
{
    (void)state;
    file f = head(3, 0, 2);

    add_value(&f, "split.count", 4);
    add_u32(&f, 2);
    add_value(&f, "split.no", 4);
    add_u32(&f, 2);
    assert_ok(ctx, rp__file_write(ctx, temp_path("lies.gguf"), f.data, f.bytes));
    assert_split_refused("lies.gguf", RP_ERR_FORMAT, "says it is part 2 of 2");
}

static void malformed_metadata_is_refused(void **state)
{
    (void)state;
    file f = head(3, 0, 1);

    add_value(&f, "a", 13);
    assert_opens(&f, RP_ERR_FORMAT, "'a' has the type 13, which does not exist");
    f = head(3, 0, 1);
    add_value(&f, "a", 7);
    add(&f, "\2", 1);
    assert_opens(&f, RP_ERR_FORMAT, "a boolean of 'a' is 2");
    f = head(3, 0, 1);
    add_u64(&f, 2);
    add(&f, "a\0", 2);
    assert_opens(&f, RP_ERR_FORMAT, "zero byte in a metadata key");
    f = head(3, 0, 2);
    for (int i = 0; i < 2; i++) {
        add_value(&f, "a", 4);
        add_u32(&f, 1);
    }
    assert_opens(&f, RP_ERR_FORMAT, "has the metadata key 'a' twice");
    f = head(3, 0, 1);
    add_value(&f, "a", 8);
    add_u64(&f, 20);
    assert_opens(&f, RP_ERR_FORMAT, "inside a metadata value");
    f = head(3, 0, 1);
    add_value(&f, "a", 9);
    add_u32(&f, 9);
    add_u64(&f, 0);
    assert_opens(&f, RP_ERR_UNSUPPORTED, "'a' is an array of arrays, which is not read");
    f = head(3, 0, 1);
    add_value(&f, "a", 9);
    add_u32(&f, 77);
    assert_opens(&f, RP_ERR_FORMAT, "elements of type 77");
    for (uint32_t type = 0; type < 13; type++) {
        if (type == 9) continue;
        f = head(3, 0, 1);
        add_value(&f, "a", 9);
        add_u32(&f, type);
        add_u64(&f, 46);            /* within the file's length, beyond its end */
        assert_opens(&f, RP_ERR_FORMAT, type == 8 ? "the array 'a' of 46 strings does not fit" : "the array 'a' of 46 elements does not fit");
    }
    f = head(3, 0, 1);
    add_value(&f, "a", 9);
    add_u32(&f, 7);
    add_u64(&f, 2);
    add(&f, "\1\3", 2);
    assert_opens(&f, RP_ERR_FORMAT, "a boolean of 'a' is 3");
}

static void alignment_must_be_a_power_of_two_and_is_then_followed(void **state)
{
    (void)state;
    static const struct { uint32_t alignment; uint64_t offset; rp_status status; const char *message; } cases[] = {
        { 0, 0, RP_ERR_FORMAT, "'general.alignment' is 0" },
        { 24, 0, RP_ERR_FORMAT, "'general.alignment' is 24" },
        { 8, 8, RP_OK, "" },
        { 8, 4, RP_ERR_FORMAT, "begins at 4, which is not a multiple of 8" },
        { 64, 8, RP_ERR_FORMAT, "begins at 8, which is not a multiple of 64" },
    };

    for (int i = 0; i < RP_COUNT(cases); i++) {
        file f = head(3, 1, 1);
        add_value(&f, "general.alignment", 4);
        add_u32(&f, cases[i].alignment);
        add_tensor(&f, "t", 1, 1, 0, cases[i].offset);
        add_data(&f, cases[i].alignment ? (int)cases[i].alignment : 1, 12);
        assert_opens(&f, cases[i].status, cases[i].message);
    }
    file f = head(3, 0, 1);
    add_value(&f, "general.alignment", 8);
    add_text(&f, "32");
    assert_opens(&f, RP_ERR_FORMAT, "'general.alignment' is not a number");
}

static void malformed_tensors_are_refused(void **state)
{
    (void)state;
    static const struct { uint64_t dim0, dim1; uint32_t type; uint64_t offset; rp_status status; const char *message; } cases[] = {
        { 32, 2, 8, 0, RP_OK, "" },
        { 32, 0, 8, 0, RP_OK, "" },
        { 16, 4, 8, 0, RP_ERR_FORMAT, "rows of tensor 't' have 16 elements, which is not a multiple of the 32 of a block of Q8_0" },
        { UINT64_MAX, 1, 0, 0, RP_ERR_FORMAT, "': tensor 't' has a shape whose size overflows" },
        { UINT64_C(1) << 40, UINT64_C(1) << 40, 0, 0, RP_ERR_FORMAT, "overflows" },
        { UINT64_C(1) << 62, 1, 0, 0, RP_ERR_FORMAT, "': tensor 't' has a shape whose size overflows" },
        { 1, 1, 4, 0, RP_ERR_UNSUPPORTED, "has the type 4, which is not known here" },
        { 1, 1, UINT32_MAX, 0, RP_ERR_UNSUPPORTED, "has the type 4294967295" },
        { 32, 3, 8, 0, RP_ERR_FORMAT, "ends beyond the end of the file" },
        { 32, 1, 8, 64, RP_ERR_FORMAT, "ends beyond the end of the file" },
        { 1, 1, 0, UINT64_MAX, RP_ERR_FORMAT, "18446744073709551615 for a tensor's offset" },
    };

    for (int i = 0; i < RP_COUNT(cases); i++) {
        file f = head(3, 1, 0);
        add_tensor(&f, "t", cases[i].dim0, cases[i].dim1, cases[i].type, cases[i].offset);
        add_data(&f, 32, 68);
        assert_opens(&f, cases[i].status, cases[i].message);
    }
    file f = head(3, 1, 0);
    add_text(&f, "t");
    add_u32(&f, 5);
    assert_opens(&f, RP_ERR_FORMAT, "tensor 't' has 5 dimensions, at most 4 are possible");
    f = head(3, 2, 0);
    add_tensor(&f, "t", 9, 1, 0, 0);
    add_tensor(&f, "u", 1, 1, 0, 32);
    add_data(&f, 32, 68);
    assert_opens(&f, RP_ERR_FORMAT, "the data of tensor 'u' overlaps another's");
    f = head(3, 2, 0);
    add_tensor(&f, "t", 1, 1, 0, 0);
    add_tensor(&f, "t", 1, 1, 0, 32);
    add_data(&f, 32, 68);
    assert_opens(&f, RP_ERR_FORMAT, "has the tensor 't' twice");
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    int64_t bytes, refused = 0;
    char *all = whole(ctx, io_golden("types.gguf"), &bytes);

    for (int64_t n = 0; n < bytes; n++) {
        uint8_t *cut     = malloc((size_t)n + 1);
        rp_gguf *g       = NULL;
        rp_status status = (memcpy(cut, all, (size_t)n), rp__gguf_open_bytes(ctx, "input", cut, n, &g));
        if (status == RP_OK) assert_int_equal(refused, n);      /* only the padding after the last tensor may be missing */
        else refused++;
        assert_true(status == RP_OK || status == RP_ERR_FORMAT);
        rp__gguf_close(g);
        free(cut);
        if (status == RP_OK) break;
    }
    assert_true(bytes - refused < 32);
    rp__release(all);
}

static void absent_files_and_folders_are_refused(void **state)
{
    (void)state;
    rp_gguf *g = NULL;

    assert_int_equal(rp__gguf_open(ctx, "/no/such.gguf", &g), RP_ERR_IO);
    assert_int_equal(rp__gguf_open(ctx, RP_SOURCE_DIR, &g), RP_ERR_IO);
    assert_null(g);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char *const files[] = { "types.gguf", PART("1") };

    for (int i = 0; i < RP_COUNT(files); i++) {
        rp_gguf *g = NULL;
        until_no_fault_fires(ctx, rp__gguf_open(ctx, io_golden(files[i]), &g), assert_null(g));
        rp__gguf_close(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_that_is_read_has_the_values_of_gguf_py),
        cmocka_unit_test(every_half_converts_exactly_whatever_the_floating_point_mode),
        cmocka_unit_test(the_table_of_types_is_the_one_of_ggml),
        cmocka_unit_test(metadata_of_every_kind_has_its_value),
        cmocka_unit_test(a_file_of_metadata_alone_opens),
        cmocka_unit_test(shapes_are_slowest_first_and_rows_read_as_the_whole_does),
        cmocka_unit_test(a_type_that_is_only_listed_is_refused_with_those_that_are_read),
        cmocka_unit_test(version_2_reads_as_version_3_does),
        cmocka_unit_test(a_model_in_several_files_is_read_as_one),
        cmocka_unit_test(parts_that_do_not_make_a_model_are_refused),
        cmocka_unit_test(headers_that_lie_are_refused),
        cmocka_unit_test(a_first_part_that_says_it_is_none_is_refused),
        cmocka_unit_test(malformed_metadata_is_refused),
        cmocka_unit_test(alignment_must_be_a_power_of_two_and_is_then_followed),
        cmocka_unit_test(malformed_tensors_are_refused),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(absent_files_and_folders_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };

    ctx = test_ctx(NULL);
    temp_enter();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    temp_leave(ctx);
    test_ctx_free(ctx);
    return failed;
}
