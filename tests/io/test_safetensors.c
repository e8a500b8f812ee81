/* Claims about safetensors: what is written reads back, the Python library agrees, and what is malformed is refused. */
/* ctest: device-free thread-free */
#include "io_test.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "safetensors/safetensors.h"

static rp_ctx *ctx;
static uint32_t draw_state = 1;

static int draw(int n) { return (int)(((draw_state = draw_state * 1664525u + 1013904223u) >> 8) % (unsigned)n); }

static void put_text(const char *name, const char *text)
{
    assert_ok(ctx, rp__file_write(ctx, temp_path(name), text, (int64_t)strlen(text)));
}

/* ---- against the Python library ---- */

static void every_dtype_reads_with_the_values_torch_gives(void **state)
{
    (void)state;
    int64_t bytes, at = 0;
    float *expected = (float *)whole(ctx, io_golden("dtypes.f32"), &bytes);
    rp_safetensors *set;

    assert_ok(ctx, rp__safetensors_open(ctx, io_golden("dtypes.safetensors"), &set));
    assert_int_equal(rp__safetensors_n_tensors(set), 18);
    for (int64_t i = 0; i < 18; i++) {
        const rp_safetensor *t = rp__safetensors_at(set, i);
        float *got             = calloc((size_t)t->elems + 1, sizeof *got);
        assert_ok(ctx, rp__safetensors_read(set, t, 0, t->elems, got));
        for (int64_t k = 0; k < t->elems; k++, at++)
            if (isnan(expected[at])) assert_true(isnan(got[k]));
            else assert_memory_equal(&got[k], &expected[at], sizeof *got);
        free(got);
    }
    assert_int_equal(at * 4, bytes);
    assert_string_equal(rp__safetensors_metadata(set, "note"), "every dtype");
    assert_null(rp__safetensors_metadata(set, "format"));
    assert_int_equal(rp__safetensors_find(set, "naïve.名前")->elems, 1);
    assert_int_equal(rp__safetensors_find(set, "scalar")->ndim, 0);
    assert_int_equal(rp__safetensors_find(set, "empty")->dim[2], 3);
    assert_null(rp__safetensors_find(set, "absent"));
    rp__safetensors_close(set);
    rp__release(expected);
}

static void a_saved_file_has_the_bytes_the_python_library_writes(void **state)
{
    (void)state;
    static const rp_safetensor declared[] = {
        { .name = "a.weight", .dtype = RP_ST_F32, .ndim = 2, .dim = { 2, 3 } },
        { .name = "b.weight", .dtype = RP_ST_BF16, .ndim = 1, .dim = { 5 } },
        { .name = "c.count", .dtype = RP_ST_I64 },
        { .name = "d.bias", .dtype = RP_ST_F32, .ndim = 1, .dim = { 2 } },
        { .name = "e.empty", .dtype = RP_ST_F32, .ndim = 2, .dim = { 0, 4 } },
    };
    struct __attribute__((packed)) { float a[6]; uint16_t b[5]; int64_t c; float d[2]; } data = {
        { 0, 1, 2, 3, 4, 5 }, { 0, 0x3f80, 0x4000, 0x4040, 0x4080 }, 7, { 0.5f, -0.5f },
    };
    rp_safetensors_writer *w;
    int64_t got_bytes, expected_bytes;

    assert_ok(ctx, rp__safetensors_create(ctx, temp_path("saved"), RP_COUNT(declared), declared, 0, NULL, &w));
    for (size_t i = 0; i < sizeof data; i += 7)
        assert_ok(ctx, rp__safetensors_put(w, (char *)&data + i, (int64_t)(sizeof data - i < 7 ? sizeof data - i : 7)));
    assert_ok(ctx, rp__safetensors_commit(w));
    char *got = whole(ctx, temp_path("saved"), &got_bytes), *expected = whole(ctx, io_golden("saved.safetensors"), &expected_bytes);
    assert_int_equal(got_bytes, expected_bytes);
    assert_memory_equal(got, expected, (size_t)got_bytes);
    rp__release(got);
    rp__release(expected);
}

/* ---- round trips ---- */

typedef struct { int n; rp_safetensor t[24]; char name[24][32]; uint8_t *data; int64_t bytes; } random_set;

static void draw_set(random_set *s)
{
    memset(s, 0, sizeof *s);
    s->n = draw(24);
    for (int i = 0; i < s->n; i++) {
        int64_t elems = 1;
        snprintf(s->name[i], sizeof s->name[i], "t%d.%d", draw(1000), i);
        s->t[i] = (rp_safetensor){ .name = s->name[i], .dtype = (rp_safetensors_dtype)draw(RP_ST_DTYPES), .ndim = draw(5) };
        for (int d = 0; d < s->t[i].ndim; d++) elems *= s->t[i].dim[d] = draw(5);
        s->t[i].bytes = elems * rp__safetensors_dtype_bytes(s->t[i].dtype);
        s->bytes += s->t[i].bytes;
    }
    s->data = malloc((size_t)s->bytes + 1);
    for (int64_t i = 0; i < s->bytes; i++) s->data[i] = (uint8_t)draw(256);
}

static void put_all(rp_safetensors_writer *w, const random_set *s)
{
    for (int64_t at = 0, n; at < s->bytes; at += n) {
        n = 1 + draw(700);
        if (n > s->bytes - at) n = s->bytes - at;
        assert_ok(ctx, rp__safetensors_put(w, s->data + at, n));
    }
}

static void assert_reads_back(const char *path, const random_set *s)
{
    rp_safetensors *set;
    int64_t at = 0;

    assert_ok(ctx, rp__safetensors_open(ctx, path, &set));
    assert_int_equal(rp__safetensors_n_tensors(set), s->n);
    for (int i = 0; i < s->n; i++) {
        const rp_safetensor *t = rp__safetensors_find(set, s->name[i]);
        assert_non_null(t);
        assert_int_equal(t->dtype, s->t[i].dtype);
        assert_int_equal(t->ndim, s->t[i].ndim);
        assert_memory_equal(t->dim, s->t[i].dim, sizeof t->dim);
        assert_int_equal(t->bytes, s->t[i].bytes);
        assert_int_equal(t->offset % rp__safetensors_dtype_bytes(t->dtype), 0);
        assert_memory_equal(rp__safetensors_bytes(set, t), s->data + at, (size_t)t->bytes);
        at += t->bytes;
    }
    assert_string_equal(rp__safetensors_metadata(set, "step"), "3");
    assert_string_equal(rp__safetensors_metadata(set, "format"), "pt");
    rp__safetensors_close(set);
}

static void what_is_written_in_chunks_of_any_size_reads_back_from_one_file(void **state)
{
    (void)state;
    const rp_safetensors_pair step = { "step", "3" };

    for (int round = 0; round < 60; round++) {
        random_set s;
        rp_safetensors_writer *w;
        draw_set(&s);
        assert_ok(ctx, rp__safetensors_create(ctx, temp_path("round"), s.n, s.t, 1, &step, &w));
        put_all(w, &s);
        assert_ok(ctx, rp__safetensors_commit(w));
        assert_reads_back(temp_path("round"), &s);
        free(s.data);
    }
}

static void what_is_written_to_a_folder_reads_back_whatever_the_shard_size(void **state)
{
    (void)state;
    const rp_safetensors_pair step = { "step", "3" };

    assert_ok(ctx, rp__make_dirs(ctx, temp_path("folder")));
    for (int round = 0; round < 60; round++) {      /* over what the round before left, too */
        random_set s;
        rp_safetensors_writer *w;
        draw_set(&s);
        assert_ok(ctx, rp__safetensors_create_folder(ctx, temp_path("folder"), draw(2000), s.n, s.t, 1, &step, &w));
        put_all(w, &s);
        assert_ok(ctx, rp__safetensors_commit(w));
        assert_reads_back(temp_path("folder"), &s);
        free(s.data);
    }
    assert_ok(ctx, rp__remove_tree(ctx, temp_path("folder")));
}

static const rp_safetensor three[] = {
    { .name = "a", .dtype = RP_ST_U8, .ndim = 1, .dim = { 4 } },
    { .name = "b", .dtype = RP_ST_U8, .ndim = 1, .dim = { 4 } },
    { .name = "c", .dtype = RP_ST_U8, .ndim = 1, .dim = { 9 } },
};

static rp_status save_three(int64_t max_shard_bytes)
{
    rp_safetensors_writer *w = NULL;
    rp_status status = rp__safetensors_create_folder(ctx, temp_path("three"), max_shard_bytes, 3, three, 0, NULL, &w);

    if (status == RP_OK) status = rp__safetensors_put(w, "aaaabbbbccccccccc", 17);
    if (status == RP_OK) return rp__safetensors_commit(w);
    rp__safetensors_discard(w);
    return status;
}

static void shards_are_named_and_indexed_as_transformers_does(void **state)
{
    (void)state;
    int64_t bytes;

    assert_ok(ctx, rp__make_dirs(ctx, temp_path("three")));
    assert_ok(ctx, save_three(8));
    char *index = whole(ctx, temp_path("three/model.safetensors.index.json"), &bytes);
    assert_string_equal(index, "{\n  \"metadata\": {\n    \"total_parameters\": 17,\n    \"total_size\": 17\n  },\n"
                               "  \"weight_map\": {\n    \"a\": \"model-00001-of-00002.safetensors\",\n"
                               "    \"b\": \"model-00001-of-00002.safetensors\",\n"
                               "    \"c\": \"model-00002-of-00002.safetensors\"\n  }\n}\n");
    rp__release(index);
    assert_int_equal(n_files_in(temp_path("three")), 3);
    assert_ok(ctx, save_three(17));
    assert_true(rp__file_exists(temp_path("three/model.safetensors")));
    assert_false(rp__file_exists(temp_path("three/model.safetensors.index.json")));
    assert_ok(ctx, rp__remove_tree(ctx, temp_path("three")));
}

/* ---- the writer refuses ---- */

static void declarations_that_cannot_be_written_are_refused_and_make_no_file(void **state)
{
    (void)state;
    static const struct { rp_safetensor t[2]; const char *message; } cases[] = {
        { { { .name = "a" }, { .name = "a" } }, "tensor 'a' is declared twice" },
        { { { .name = "__metadata__" }, { .name = "b" } }, "a tensor cannot have the reserved name '__metadata__'" },
        { { { .name = "\xff" }, { .name = "b" } }, "the tensor name '?' is not UTF-8" },
        { { { .name = "a", .ndim = 9 }, { .name = "b" } }, "9 dimensions" },
        { { { .name = "a", .ndim = 1, .dim = { -1 } }, { .name = "b" } }, "is -1" },
        { { { .name = "a", .ndim = 2, .dim = { INT64_C(1) << 40, INT64_C(1) << 40 } }, { .name = "b" } }, "tensor 'a' has a shape whose size overflows" },
        { { { .name = "a", .dtype = RP_ST_DTYPES }, { .name = "b" } }, "unknown dtype" },
        { { { .name = "a", .ndim = 1, .dim = { INT64_MAX } }, { .name = "b", .ndim = 1, .dim = { INT64_MAX } } }, "overflow a file's size" },
    };

    rp_safetensors_writer *wrong = NULL;
    assert_int_equal(rp__safetensors_create(ctx, temp_path("never"), 0, NULL, 1, &(rp_safetensors_pair){ "k", "\xff" }, &wrong), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "the metadata 'k' is not UTF-8");
    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_safetensors_writer *w = NULL;
        assert_int_equal(rp__safetensors_create(ctx, temp_path("never"), 2, cases[i].t, 0, NULL, &w), RP_ERR_ARG);
        if (!strstr(rp_error(ctx), cases[i].message)) fail_msg("%s", rp_error(ctx));
        assert_null(w);
        assert_false(rp__file_exists(temp_path("never")));
    }
}

static void too_few_or_too_many_bytes_are_refused_and_leave_nothing(void **state)
{
    (void)state;
    int before = n_files_in(temp_dir);
    rp_safetensors_writer *w;

    assert_ok(ctx, rp__safetensors_create(ctx, temp_path("never"), 3, three, 0, NULL, &w));
    assert_ok(ctx, rp__safetensors_put(w, "aaaabb", 6));
    assert_int_equal(rp__safetensors_commit(w), RP_ERR_STATE);
    assert_string_equal(rp_error(ctx), "tensor 'b' lacks 2 of its 4 bytes");
    assert_ok(ctx, rp__safetensors_create(ctx, temp_path("never"), 3, three, 0, NULL, &w));
    assert_int_equal(rp__safetensors_put(w, "aaaabbbbccccccccc!", 18), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "1 bytes were put after the last declared tensor");
    rp__safetensors_discard(w);
    assert_int_equal(n_files_in(temp_dir), before);
}

static void an_index_that_cannot_be_removed_is_an_error(void **state)
{
    (void)state;
    char expected[1200];

    assert_ok(ctx, rp__make_dirs(ctx, temp_path("three/model.safetensors.index.json")));
    assert_int_equal(save_three(1000), RP_ERR_IO);
    snprintf(expected, sizeof expected, "cannot remove '%s': Is a directory", temp_path("three/model.safetensors.index.json"));
    assert_string_equal(rp_error(ctx), expected);
    assert_ok(ctx, rp__remove_tree(ctx, temp_path("three")));
}

static void a_full_disk_leaves_no_shard_behind(void **state)
{
    (void)state;
    static uint8_t data[40000];
    static const rp_safetensor t[] = {
        { .name = "small", .dtype = RP_ST_U8, .ndim = 1, .dim = { 1000 } },
        { .name = "large", .dtype = RP_ST_U8, .ndim = 1, .dim = { 39000 } },
    };
    struct rlimit old, small = { 16384, 0 };
    rp_safetensors_writer *w;

    assert_ok(ctx, rp__make_dirs(ctx, temp_path("full")));
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_ok(ctx, rp__safetensors_create_folder(ctx, temp_path("full"), 1000, 2, t, 0, NULL, &w));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rp_status status = rp__safetensors_put(w, data, sizeof data);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, RP_ERR_IO);
    rp__safetensors_discard(w);
    assert_int_equal(n_files_in(temp_path("full")), 0);
}

/* ---- the reader refuses ---- */

#define T(name, dtype, shape, from, to) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

static const struct { const char *header; int n_data; rp_status status; const char *message; } malformed[] = {
    { "{\"a\":", 0, RP_ERR_FORMAT, "'input' has malformed JSON at byte 5" },
    { "[1]", 0, RP_ERR_FORMAT, "has JSON that is not an object" },
    { "{} {}", 0, RP_ERR_FORMAT, "malformed JSON" },
    { "{" T("a", "U8", "[1]", 0, 1) "," T("a", "U8", "[1]", 1, 2) "}", 2, RP_ERR_FORMAT, "duplicate object key" },
    { "{\"\xff\":1}", 0, RP_ERR_FORMAT, "malformed JSON" },
    { "{\"a\\u0000\":1}", 0, RP_ERR_FORMAT, "malformed JSON" },
    { "{\"a\":1}", 0, RP_ERR_FORMAT, "entry of tensor 'a' is not an object" },
    { "{\"a\":{\"shape\":[],\"data_offsets\":[0,1]}}", 1, RP_ERR_FORMAT, "tensor 'a' has no dtype" },
    { "{" T("a", "F4", "[2]", 0, 1) "}", 1, RP_ERR_UNSUPPORTED, "has the dtype 'F4', which is not known here" },
    { "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, RP_ERR_FORMAT, "tensor 'a' has no shape" },
    { "{" T("a", "U8", "[-1]", 0, 1) "}", 1, RP_ERR_FORMAT, "dimension 0 of tensor 'a' is not a whole number" },
    { "{" T("a", "U8", "[1.0]", 0, 1) "}", 1, RP_ERR_FORMAT, "dimension 0 of tensor 'a' is not a whole number" },
    { "{" T("a", "U8", "[99999999999999999999]", 0, 1) "}", 1, RP_ERR_FORMAT, "too big integer" },
    { "{" T("a", "F32", "[1099511627776,1099511627776]", 0, 4) "}", 4, RP_ERR_FORMAT, "': tensor 'a' has a shape whose size overflows" },
    { "{" T("a", "F32", "[4611686018427387904]", 0, 4) "}", 4, RP_ERR_FORMAT, "overflows" },
    { "{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1, RP_ERR_UNSUPPORTED, "': tensor 'a' has 9 dimensions, at most 8 are read" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, RP_ERR_FORMAT, "no pair of data offsets" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, RP_ERR_FORMAT, "no pair of data offsets" },
    { "{" T("a", "U8", "[1]", 1, 0) "}", 1, RP_ERR_FORMAT, "data offsets [1, 0)" },
    { "{" T("a", "U8", "[1]", -1, 0) "}", 1, RP_ERR_FORMAT, "data offsets [-1, 0)" },
    { "{" T("a", "U8", "[9]", 0, 9) "}", 3, RP_ERR_FORMAT, "the file has 3 bytes of data" },
    { "{" T("a", "F32", "[1]", 0, 3) "}", 3, RP_ERR_FORMAT, "has 3 bytes of data, its shape needs 4" },
    { "{" T("a", "U8", "[2]", 0, 2) "," T("b", "U8", "[2]", 1, 3) "}", 3, RP_ERR_FORMAT, "overlaps" },
    { "{" T("a", "U8", "[1]", 0, 1) "," T("b", "U8", "[1]", 2, 3) "}", 3, RP_ERR_FORMAT, "gap" },
    { "{" T("a", "U8", "[1]", 0, 1) "}", 3, RP_ERR_FORMAT, "2 bytes after the data" },
    { "{\"__metadata__\":[]}", 0, RP_ERR_FORMAT, "'__metadata__' is not an object" },
    { "{\"__metadata__\":{\"a\":1}}", 0, RP_ERR_FORMAT, "the metadata 'a' is not a string" },
};

static void assert_refused(const void *data, int64_t bytes, rp_status expected, const char *message)
{
    rp_safetensors *set = NULL;
    rp_status status    = rp__safetensors_open_bytes(ctx, "input", data, bytes, &set);

    if (status != expected || !strstr(rp_error(ctx), message))
        fail_msg("expected status %d and '%s', got %d: %s", (int)expected, message, (int)status, rp_error(ctx));
    assert_null(set);
    assert_null(strchr(rp_error(ctx), '\n'));
}

static void every_malformed_header_is_refused_with_one_sentence(void **state)
{
    (void)state;
    uint8_t file[512];

    for (int i = 0; i < RP_COUNT(malformed); i++) {
        uint64_t n = strlen(malformed[i].header);
        memset(file, 0, sizeof file);
        memcpy(file, &n, sizeof n);
        memcpy(file + 8, malformed[i].header, n);
        assert_refused(file, 8 + (int64_t)n + malformed[i].n_data, malformed[i].status, malformed[i].message);
    }
    assert_refused("", 0, RP_ERR_FORMAT, "is no safetensors file: it has 0 bytes, too few for a header");
    assert_refused("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, RP_ERR_FORMAT, "18446744073709551615 bytes");
    assert_refused("\x03\0\0\0\0\0\0\0{}", 10, RP_ERR_FORMAT, "3 bytes, the file has 10");
}

static void a_header_beyond_what_the_format_allows_is_refused_unread(void **state)
{
    (void)state;
    uint64_t n          = 100000001;
    rp_safetensors *set = NULL;

    assert_ok(ctx, rp__file_write(ctx, temp_path("long"), &n, sizeof n));
    assert_int_equal(truncate(temp_path("long"), (off_t)n + 8), 0);
    assert_int_equal(rp__safetensors_open(ctx, temp_path("long"), &set), RP_ERR_FORMAT);
    assert_non_null(strstr(rp_error(ctx), "header has 100000001 bytes, at most 100000000 are allowed"));
    assert_int_equal(unlink(temp_path("long")), 0);
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    int64_t bytes;
    char *file = whole(ctx, io_golden("saved.safetensors"), &bytes);

    for (int64_t n = 0; n < bytes; n++) {
        uint8_t *cut = malloc((size_t)n + 1);
        memcpy(cut, file, (size_t)n);
        assert_refused(cut, n, RP_ERR_FORMAT, "input");
        free(cut);
    }
    rp__release(file);
}

/* JSON nested deep must end in a sentence, not in the stack's end. */
static void nesting_without_end_is_refused(void **state)
{
    (void)state;
    enum { DEEP = 1000000 };
    uint8_t *file = malloc(8 + DEEP);
    uint64_t n    = DEEP;

    memcpy(file, &n, sizeof n);
    memset(file + 8, '[', DEEP);
    assert_refused(file, 8 + DEEP, RP_ERR_FORMAT, "depth");
    free(file);
}

/* ---- reading ---- */

static void parts_of_a_tensor_read_as_the_whole_does_and_not_beyond_it(void **state)
{
    (void)state;
    float all[6], part[3] = { 9, 9, 9 };
    rp_safetensors *set;

    assert_ok(ctx, rp__safetensors_open(ctx, io_golden("saved.safetensors"), &set));
    const rp_safetensor *t = rp__safetensors_find(set, "a.weight");
    assert_ok(ctx, rp__safetensors_read(set, t, 0, 6, all));
    assert_ok(ctx, rp__safetensors_read(set, t, 2, 3, part));
    assert_memory_equal(part, all + 2, sizeof part);
    assert_ok(ctx, rp__safetensors_read(set, t, 6, 0, part));
    assert_int_equal(rp__safetensors_read(set, t, 4, 3, part), RP_ERR_ARG);
    assert_int_equal(rp__safetensors_read(set, t, -1, 1, part), RP_ERR_ARG);
    assert_int_equal(rp__safetensors_read(set, t, 1, INT64_MAX, part), RP_ERR_ARG);
    assert_memory_equal(part, all + 2, sizeof part);
    rp__safetensors_close(set);
}

/* Pages of files that count as this process's memory. */
static int64_t resident_file_bytes(void)
{
    long long size, resident, shared;
    FILE *f = fopen("/proc/self/statm", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lld %lld %lld", &size, &resident, &shared), 3);
    fclose(f);
    return shared * sysconf(_SC_PAGESIZE);
}

static void long_reads_and_drops_leave_little_of_a_file_resident(void **state)
{
    (void)state;
    enum { MIB = 1 << 20, ELEMS = 16 * MIB };
    const rp_safetensor declared = { .name = "large", .dtype = RP_ST_BF16, .ndim = 1, .dim = { ELEMS } };
    float *out                   = calloc(ELEMS, sizeof *out);
    rp_safetensors_writer *w;
    rp_safetensors *set;
    uint8_t sum = 0;

    assert_ok(ctx, rp__safetensors_create(ctx, temp_path("large"), 1, &declared, 0, NULL, &w));
    for (int i = 0; i < 32; i++) assert_ok(ctx, rp__safetensors_put(w, out, MIB));
    assert_ok(ctx, rp__safetensors_commit(w));
    assert_ok(ctx, rp__safetensors_open(ctx, temp_path("large"), &set));
    const rp_safetensor *t = rp__safetensors_find(set, "large");
    int64_t before         = resident_file_bytes();
    assert_ok(ctx, rp__safetensors_read(set, t, 0, ELEMS, out));
    assert_true(resident_file_bytes() - before < 2 * RP_FILE_WINDOW_BYTES);
    for (int64_t i = 0; i < t->bytes; i += 4096) sum ^= rp__safetensors_bytes(set, t)[i];
    assert_true(sum == 0 && resident_file_bytes() - before > 30 * MIB);
    rp__safetensors_drop(set, t);
    assert_true(resident_file_bytes() - before < MIB);
    rp__safetensors_close(set);
    free(out);
}

/* ---- folders ---- */

#define SHARD "model-00001-of-00001.safetensors"

static void an_index_that_does_not_fit_its_shards_is_refused(void **state)
{
    (void)state;
    static const struct { const char *index; rp_status status; const char *message; } cases[] = {
        { "{", RP_ERR_FORMAT, "malformed JSON" },
        { "{}", RP_ERR_FORMAT, "no object 'weight_map'" },
        { "{\"weight_map\":{\"a\":1}}", RP_ERR_FORMAT, "not a file name" },
        { "{\"weight_map\":{\"a\":\"\"}}", RP_ERR_FORMAT, "not a file name" },
        { "{\"weight_map\":{\"a\":\"../" SHARD "\"}}", RP_ERR_FORMAT, "not a file name" },
        { "{\"weight_map\":{\"a\":\"/etc/passwd\"}}", RP_ERR_FORMAT, "not a file name" },
        { "{\"weight_map\":{\"a\":\"..\"}}", RP_ERR_FORMAT, "not a file name" },
        { "{\"weight_map\":{\"a\":\"absent\"}}", RP_ERR_IO, "No such file" },
        { "{\"weight_map\":{\"a\":\"" SHARD "\",\"z\":\"" SHARD "\"}}", RP_ERR_FORMAT, "lists tensor 'z'" },
        { "{\"weight_map\":{\"a\":\"" SHARD "\",\"a\":\"" SHARD "\"}}", RP_ERR_FORMAT, "duplicate" },
        { "{\"weight_map\":{\"a\":\"model.safetensors.index.json\"}}", RP_ERR_FORMAT, "index.json" },
    };
    rp_safetensors *set = NULL;

    assert_ok(ctx, rp__make_dirs(ctx, temp_path("three")));
    assert_ok(ctx, save_three(1000));
    assert_int_equal(rename(temp_path("three/model.safetensors"), temp_path("three/" SHARD)), 0);
    for (int i = 0; i < RP_COUNT(cases); i++) {
        put_text("three/model.safetensors.index.json", cases[i].index);
        rp_status status = rp__safetensors_open(ctx, temp_path("three"), &set);
        if (status != cases[i].status || !strstr(rp_error(ctx), cases[i].message))
            fail_msg("case %d: status %d: %s", i, (int)status, rp_error(ctx));
        assert_null(set);
    }
    put_text("three/model.safetensors.index.json", "{\"weight_map\":{\"b\":\"" SHARD "\"}}");
    assert_ok(ctx, rp__safetensors_open(ctx, temp_path("three"), &set));
    assert_int_equal(rp__safetensors_n_tensors(set), 1);        /* what the index does not list is not there */
    assert_memory_equal(rp__safetensors_bytes(set, rp__safetensors_find(set, "b")), "bbbb", 4);
    assert_non_null(strstr(rp__safetensors_file_name(set, 0), SHARD));
    rp__safetensors_close(set);
    assert_ok(ctx, rp__remove_tree(ctx, temp_path("three")));
}

static void a_folder_without_index_gives_the_tensors_of_all_its_files(void **state)
{
    (void)state;
    rp_safetensors *set = NULL;

    assert_ok(ctx, rp__make_dirs(ctx, temp_path("three")));
    assert_int_equal(rp__safetensors_open(ctx, temp_path("three"), &set), RP_ERR_MATCH);
    assert_ok(ctx, save_three(8));
    assert_int_equal(unlink(temp_path("three/model.safetensors.index.json")), 0);
    assert_ok(ctx, rp__safetensors_open(ctx, temp_path("three"), &set));
    assert_int_equal(rp__safetensors_n_tensors(set), 3);
    rp__safetensors_close(set);
    set = NULL;
    assert_int_equal(link(temp_path("three/model-00001-of-00002.safetensors"), temp_path("three/again.safetensors")), 0);
    assert_int_equal(rp__safetensors_open(ctx, temp_path("three"), &set), RP_ERR_FORMAT);
    assert_non_null(strstr(rp_error(ctx), "tensor 'a' is in both"));
    assert_null(set);
    assert_ok(ctx, rp__remove_tree(ctx, temp_path("three")));
}

static void files_of_pytorch_are_refused_with_the_way_to_convert_them(void **state)
{
    (void)state;
    static const char *const names[] = { "three/pytorch_model.bin", "three/consolidated.00.pth" };
    rp_safetensors *set = NULL;

    assert_ok(ctx, rp__make_dirs(ctx, temp_path("three")));
    for (int i = 0; i < RP_COUNT(names); i++) {
        put_text(names[i], "PK\003\004");
        assert_int_equal(rp__safetensors_open(ctx, temp_path("three"), &set), RP_ERR_UNSUPPORTED);
        assert_non_null(strstr(rp_error(ctx), names[i]));
        assert_non_null(strstr(rp_error(ctx), "from_pretrained(folder).save_pretrained(folder)"));
        assert_int_equal(rp__safetensors_open(ctx, temp_path(names[i]), &set), RP_ERR_UNSUPPORTED);
        assert_int_equal(unlink(temp_path(names[i])), 0);
    }
    assert_null(set);
    put_text("three/pytorch_model.bin", "PK\003\004");
    assert_ok(ctx, save_three(1000));
    assert_ok(ctx, rp__safetensors_open(ctx, temp_path("three"), &set));        /* beside safetensors they are not looked at */
    rp__safetensors_close(set);
    assert_ok(ctx, rp__remove_tree(ctx, temp_path("three")));
}

/* ---- without memory ---- */

static void every_allocation_may_fail(void **state)
{
    (void)state;
    rp_safetensors *set = NULL;

    assert_ok(ctx, rp__make_dirs(ctx, temp_path("three")));
    until_no_fault_fires(ctx, save_three(8), assert_int_equal(n_files_in(temp_path("three")), 0));
    assert_int_equal(n_files_in(temp_path("three")), 3);
    until_no_fault_fires(ctx, rp__safetensors_open(ctx, temp_path("three"), &set), assert_null(set));
    rp__safetensors_close(set);
    assert_int_equal(unlink(temp_path("three/model.safetensors.index.json")), 0);
    set = NULL;
    until_no_fault_fires(ctx, rp__safetensors_open(ctx, temp_path("three"), &set), assert_null(set));
    rp__safetensors_close(set);
    assert_ok(ctx, rp__remove_tree(ctx, temp_path("three")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_reads_with_the_values_torch_gives),
        cmocka_unit_test(a_saved_file_has_the_bytes_the_python_library_writes),
        cmocka_unit_test(what_is_written_in_chunks_of_any_size_reads_back_from_one_file),
        cmocka_unit_test(what_is_written_to_a_folder_reads_back_whatever_the_shard_size),
        cmocka_unit_test(shards_are_named_and_indexed_as_transformers_does),
        cmocka_unit_test(declarations_that_cannot_be_written_are_refused_and_make_no_file),
        cmocka_unit_test(an_index_that_cannot_be_removed_is_an_error),
        cmocka_unit_test(too_few_or_too_many_bytes_are_refused_and_leave_nothing),
        cmocka_unit_test(a_full_disk_leaves_no_shard_behind),
        cmocka_unit_test(every_malformed_header_is_refused_with_one_sentence),
        cmocka_unit_test(a_header_beyond_what_the_format_allows_is_refused_unread),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(nesting_without_end_is_refused),
        cmocka_unit_test(parts_of_a_tensor_read_as_the_whole_does_and_not_beyond_it),
        cmocka_unit_test(long_reads_and_drops_leave_little_of_a_file_resident),
        cmocka_unit_test(an_index_that_does_not_fit_its_shards_is_refused),
        cmocka_unit_test(files_of_pytorch_are_refused_with_the_way_to_convert_them),
        cmocka_unit_test(a_folder_without_index_gives_the_tensors_of_all_its_files),
        cmocka_unit_test(every_allocation_may_fail),
    };

    ctx = test_ctx(NULL);
    temp_enter();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    temp_leave(ctx);
    test_ctx_free(ctx);
    return failed;
}
