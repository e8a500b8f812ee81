/* Claims about states of sharded runs: what some ranks wrote any number of ranks reads, and what is missing, damaged or listed wrongly is
 * named. No rank talks to another: each is played by its number, one after the other. */
/* ctest: thread-free */
#include "rp_test.h"

#include "base/file.h"
#include "held_tensors.h"
#include "state_index.h"
#include "temp.h"

enum { MOST = 8 };

static const rp_state_info info = { .step = 20, .epoch = 1, .samples = 160, .ranks = 4, .seed = 7, .data_hash = 42, .recipe = "seed: 7\n" };

/* state/step-20 as `parts` ranks leave it; *status is of the first call that fails. */
static rp_status try_write(rp_ctx *ctx, const temp_dir *dir, int parts, uint32_t salt)
{
    uint64_t checksums[N_TENSORS], sums[MOST];
    const char *folder = temp_path(dir, "state/step-20");
    rp_status status   = rp__make_dirs(ctx, folder);

    for (int part = 0; part < parts && status == RP_OK; part++) {
        int64_t countdown    = ctx->fault_countdown;
        ctx->fault_countdown = 0;
        holding h            = hold(ctx, part, parts, salt);
        ctx->fault_countdown = countdown;
        status               = rp__state_write_part(ctx, folder, part, parts, h.at, N_TENSORS, checksums);
        sums[part]           = status == RP_OK ? rp__state_part_checksum(h.at, N_TENSORS, checksums) : 0;
        if (status == RP_OK && part == parts - 1)
            status = rp__state_write_index(ctx, folder, &info, h.at, N_TENSORS, parts, parts == 1 ? checksums : sums);
        release_held(&h);
    }
    return status;
}

static rp_status try_read(rp_ctx *ctx, const temp_dir *dir, holding *h)
{
    rp_state *s = NULL;

    RP_TRY(rp__state_open(ctx, temp_path(dir, "state/step-20"), &s));
    rp_status status = rp__state_load(s, h->at, N_TENSORS);
    rp__state_close(s);
    return status;
}

static void what_some_ranks_wrote_any_number_reads(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);

    for (int parts = 1; parts <= MOST; parts += parts == 4 ? 4 : 1) {
        temp_dir dir = temp_make();
        assert_ok(ctx, try_write(ctx, &dir, parts, 1));
        for (int ranks = 0; ranks <= 5; ranks++)
            for (int rank = 0; rank < (ranks ? ranks : 1); rank++) {
                holding h = hold(ctx, rank, ranks, 2);
                assert_ok(ctx, try_read(ctx, &dir, &h));
                assert_holds(&h, 1);
                release_held(&h);
            }
        temp_remove(&dir);
    }
    test_ctx_free(ctx);
}

/* 4 to 2 to 1 to 3 ranks, each writing what it read. */
static void a_state_goes_from_ranks_to_ranks_unchanged(void **state)
{
    (void)state;
    static const int chain[] = { 4, 2, 1, 3 };
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    holding h[MOST];

    assert_ok(ctx, try_write(ctx, &dir, chain[0], 5));
    for (int i = 1; i < RP_COUNT(chain); i++) {
        uint64_t checksums[N_TENSORS], sums[MOST];
        const char *folder = temp_path(&dir, "state/step-20");
        for (int r = 0; r < chain[i]; r++) {
            h[r] = hold(ctx, r, chain[i], 6);
            assert_ok(ctx, try_read(ctx, &dir, &h[r]));
        }
        assert_ok(ctx, rp__remove_tree(ctx, folder));
        assert_ok(ctx, rp__make_dirs(ctx, folder));
        for (int r = 0; r < chain[i]; r++) {
            assert_ok(ctx, rp__state_write_part(ctx, folder, r, chain[i], h[r].at, N_TENSORS, checksums));
            sums[r] = rp__state_part_checksum(h[r].at, N_TENSORS, checksums);
        }
        assert_ok(ctx, rp__state_write_index(ctx, folder, &info, h[0].at, N_TENSORS, chain[i], chain[i] == 1 ? checksums : sums));
        for (int r = 0; r < chain[i]; r++) release_held(&h[r]);
    }
    h[0] = hold(ctx, 0, 0, 7);
    assert_ok(ctx, try_read(ctx, &dir, &h[0]));
    assert_holds(&h[0], 5);
    release_held(&h[0]);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* Whether weights are whole or one slice with room for more. */
static void one_rank_writes_the_file_of_a_run_alone(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    holding h    = hold(ctx, 0, 0, 1);
    char *alone, *slices;
    int64_t n, m;

    assert_ok(ctx, rp__state_save(ctx, dir.path, &info, h.at, N_TENSORS, 1));
    assert_ok(ctx, rp__file_read(ctx, temp_path(&dir, "state/step-20/tensors.safetensors"), 1 << 20, &alone, &n));
    assert_ok(ctx, try_write(ctx, &dir, 1, 1));
    assert_ok(ctx, rp__file_read(ctx, temp_path(&dir, "state/step-20/tensors.safetensors"), 1 << 20, &slices, &m));
    assert_int_equal(n, m);
    assert_memory_equal(alone, slices, n);
    rp__release(alone);
    rp__release(slices);
    release_held(&h);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void who_wrote_it_is_known(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    holding h    = hold(ctx, 0, 0, 1);
    rp_state *s;

    assert_ok(ctx, try_write(ctx, &dir, 2, 1));
    assert_ok(ctx, rp__state_open(ctx, temp_path(&dir, "state/step-20"), &s));
    assert_int_equal(rp__state_info(s)->ranks, 4);      /* two copies of two parts */
    rp__state_close(s);
    assert_ok(ctx, rp__state_save(ctx, dir.path, &info, h.at, N_TENSORS, 1));
    assert_ok(ctx, rp__state_open(ctx, temp_path(&dir, "state/step-20"), &s));
    assert_int_equal(rp__state_info(s)->ranks, 1);
    rp__state_close(s);
    release_held(&h);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* ---- what is wrong ---- */

static void assert_refused(rp_ctx *ctx, const temp_dir *dir, rp_status want, const char *message)
{
    holding h        = hold(ctx, 1, 2, 2);
    rp_status status = try_read(ctx, dir, &h);

    if (status != want || !strstr(rp_error(ctx), message)) fail_msg("status %d: %s; expected: %s", (int)status, rp_error(ctx), message);
    release_held(&h);
}

static void a_missing_or_damaged_file_is_named(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);

    for (int part = 0; part < 4; part++) {
        temp_dir dir = temp_make();
        char name[RP_STATE_PART_CHARS], path[512], expected[128];
        rp__state_part_name(part, 4, name);
        snprintf(path, sizeof path, "%s/state/step-20/%s", dir.path, name);
        assert_ok(ctx, try_write(ctx, &dir, 4, 1));
        FILE *f = fopen(path, "r+b");
        assert_non_null(f);
        assert_int_equal(fseek(f, -1, SEEK_END), 0);        /* of the smallest dtype, in the last rank's piece of the embedding or the like */
        int c = fgetc(f);
        assert_int_equal(fseek(f, -1, SEEK_END), 0);
        assert_true(fputc(c ^ 4, f) != EOF && !fclose(f));
        snprintf(expected, sizeof expected, "%s' is damaged: it does not match its checksum", name);
        assert_refused(ctx, &dir, RP_ERR_FORMAT, expected);
        assert_int_equal(remove(path), 0);
        snprintf(expected, sizeof expected, "is partial: it has no %s", name);
        assert_refused(ctx, &dir, RP_ERR_FORMAT, expected);
        temp_remove(&dir);
    }
    test_ctx_free(ctx);
}

static void a_file_of_another_state_is_refused(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();

    assert_ok(ctx, try_write(ctx, &dir, 4, 1));
    assert_int_equal(rename(temp_path(&dir, "state/step-20/tensors-0-of-4.safetensors"),
                            temp_path(&dir, "state/step-20/tensors-3-of-4.safetensors")), 0);
    assert_ok(ctx, rp__file_write(ctx, temp_path(&dir, "state/step-20/tensors-0-of-4.safetensors"), "", 0));
    assert_refused(ctx, &dir, RP_ERR_FORMAT, "tensors-0-of-4.safetensors");
    assert_ok(ctx, try_write(ctx, &dir, 3, 1));         /* its index, beside the files of four */
    assert_int_equal(rename(temp_path(&dir, "state/step-20/tensors-3-of-4.safetensors"),
                            temp_path(&dir, "state/step-20/tensors-2-of-3.safetensors")), 0);
    assert_refused(ctx, &dir, RP_ERR_FORMAT, "lists no tensor 'layers.0.w' with the dtype and shape in ");
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void slices_of_another_model_are_refused_before_a_byte_is_written(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    holding h    = hold(ctx, 1, 2, 2);
    rp_state *s;

    assert_ok(ctx, try_write(ctx, &dir, 4, 1));
    assert_ok(ctx, rp__state_open(ctx, temp_path(&dir, "state/step-20"), &s));
    h.at[3].whole = rp_meta_2d(RP_F32, 3, 1009);
    assert_int_equal(rp__state_load(s, h.at, N_TENSORS), RP_ERR_CONFIG);
    assert_non_null(strstr(rp_error(ctx), "holds 'tok_embeddings.weight' in another shape than fp32 [3, 1009]"));
    h.at[3].whole = rp_meta_2d(RP_BF16, 1009, 3);
    assert_int_equal(rp__state_load(s, h.at, N_TENSORS), RP_ERR_CONFIG);
    assert_non_null(strstr(rp_error(ctx), "holds 'tok_embeddings.weight' as F32, this run as bf16"));
    assert_int_equal(*(uint8_t *)test_bytes(h.at[0].tensor), byte_of(2, 0, h.at[0].slice.first * 2));
    rp__state_close(s);
    release_held(&h);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* ---- the index ---- */

/* As versions before sharding wrote it. */
static void an_index_of_format_1_is_read(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    const char *name;
    json_t *entry;

    assert_ok(ctx, try_write(ctx, &dir, 1, 1));
    json_t *root = read_state_index(temp_path(&dir, "state/step-20/state.json")), *tensors = json_object();
    json_object_foreach(json_object_get(root, "tensors"), name, entry)
        json_object_set(tensors, name, json_object_get(entry, "checksums"));
    json_object_set_new(root, "tensors", tensors);
    json_object_set_new(root, "format", json_integer(1));
    json_object_del(root, "ranks");
    json_object_del(root, "parts");
    write_state_index(temp_path(&dir, "state/step-20/state.json"), root);
    for (int rank = 0; rank < 3; rank++) {
        holding h = hold(ctx, rank, 3, 2);
        assert_ok(ctx, try_read(ctx, &dir, &h));
        assert_holds(&h, 1);
        release_held(&h);
    }
    root = read_state_index(temp_path(&dir, "state/step-20/state.json"));
    json_object_set_new(json_object_get(root, "tensors"), "more", json_string("0123456789abcdef"));
    write_state_index(temp_path(&dir, "state/step-20/state.json"), root);
    assert_refused(ctx, &dir, RP_ERR_FORMAT, "lists a tensor that '");
    root = read_state_index(temp_path(&dir, "state/step-20/state.json"));
    json_object_set_new(root, "parts", json_integer(-1));       /* none, of which each is as it should be */
    write_state_index(temp_path(&dir, "state/step-20/state.json"), root);
    assert_refused(ctx, &dir, RP_ERR_FORMAT, "is of format 1, which has no parts");
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* As versions before format 3 wrote it: every tensor with a checksum of each of two parts. */
static json_t *index_of_format_2(rp_ctx *ctx, const temp_dir *dir)
{
    const char *folder = temp_path(dir, "state/step-20");
    uint64_t checksums[2][N_TENSORS];
    json_t *root = read_state_index(temp_path(dir, "state/step-20/state.json"));

    for (int part = 0; part < 2; part++) {
        holding h = hold(ctx, part, 2, 1);
        assert_ok(ctx, rp__state_write_part(ctx, folder, part, 2, h.at, N_TENSORS, checksums[part]));
        release_held(&h);
    }
    for (int i = 0; i < N_TENSORS; i++) {
        char text[40];
        snprintf(text, sizeof text, "%016" PRIx64 " %016" PRIx64, checksums[0][i], checksums[1][i]);
        json_object_set_new(json_object_get(json_object_get(root, "tensors"), names[i]), "checksums", json_string(text));
    }
    json_object_set_new(root, "format", json_integer(2));
    json_object_del(root, "part_checksums");
    return root;
}

static void an_index_of_format_2_is_read(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();

    assert_ok(ctx, try_write(ctx, &dir, 2, 1));
    write_state_index(temp_path(&dir, "state/step-20/state.json"), index_of_format_2(ctx, &dir));
    for (int rank = 0; rank < 3; rank++) {
        holding h = hold(ctx, rank, 3, 2);
        assert_ok(ctx, try_read(ctx, &dir, &h));
        assert_holds(&h, 1);
        release_held(&h);
    }
    json_t *root = index_of_format_2(ctx, &dir);
    json_object_set_new(json_object_get(json_object_get(root, "tensors"), names[1]), "checksums", json_string("0123456789abcdef 0123456789abcdef"));
    write_state_index(temp_path(&dir, "state/step-20/state.json"), root);
    assert_refused(ctx, &dir, RP_ERR_FORMAT, "is damaged: the tensor 'layers.0.w' does not match its checksum");
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* Llama 3.1 405B has 1,137 weights, each with two moments. */
static void the_index_of_405b_on_16384_ranks_is_small_and_read(void **state)
{
    (void)state;
    enum { PARTS = 16384, N = 3 * 1137, NAME = 64 };
    rp_ctx *ctx              = test_ctx(NULL);
    rp_state_tensor *tensors = calloc(N, sizeof *tensors);
    char (*name)[NAME]       = calloc(N, sizeof *name);
    uint64_t *sums           = calloc(PARTS, sizeof *sums), sum;
    rp_state_info found;
    rp_state_entry e;
    json_t *root;

    for (int i = 0; i < N; i++) {
        snprintf(name[i], NAME, "layers.%d.feed_forward.w%d.weight.exp_avg", i / 27, i % 27);
        tensors[i] = (rp_state_tensor){ .name = name[i], .whole = rp_meta_2d(RP_BF16, 53248, 16384), .slice = rp__slice_of(53248 * 16384, 0, PARTS) };
    }
    for (int p = 0; p < PARTS; p++) sums[p] = (uint64_t)p * 0x9e3779b97f4a7c15u;
    char *text = rp__state_json_text(&info, tensors, N, PARTS, sums);
    assert_non_null(text);
    assert_true((int64_t)strlen(text) < N * 300 + PARTS * 17 + 1000);
    assert_ok(ctx, rp__state_json_parse(ctx, "state.json", text, (int64_t)strlen(text), &root, &found));
    assert_int_equal(rp__state_json_parts(root), PARTS);
    assert_true(rp__state_json_part_checksum(root, PARTS - 1, &sum) && sum == sums[PARTS - 1]);
    assert_true(rp__state_json_tensor(root, name[N - 1], &e) && rp__state_entry_slice(&e, PARTS - 1).count == tensors[0].slice.count);
    json_decref(root);
    free(text);
    free(sums);
    free(name);
    free(tensors);
    test_ctx_free(ctx);
}

static void a_shape_whose_dimension_is_no_whole_number_is_refused(void **state)
{
    static const struct { const char *shape; bool read; } cases[] = { { "[0]", true }, { "[\"0\"]", false }, { "[0.0]", false }, { "[null, 7]", false } };
    rp_state_entry e;

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        json_t *root = json_pack("{s:i, s:{s:{s:s, s:o, s:i, s:s}}}", "parts", 1, "tensors", "w", "dtype", "F32", "shape",
                                 json_loads(cases[i].shape, 0, NULL), "room", 0, "checksums", "0123456789abcdef");
        assert_non_null(root);
        assert_int_equal(rp__state_json_tensor(root, "w", &e), cases[i].read);
        json_decref(root);
    }
}

/* The checksum is right, so somebody wrote it so. */
static void an_index_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const struct { const char *key, *value; } wrong[] = {
        { "dtype", "\"F99\"" }, { "dtype", "1" }, { "shape", "[-3,7]" }, { "shape", "[4611686018427387904,4]" }, { "shape", "3" },
        { "shape", "[1,1,1,1,1,1,1,1,1]" }, { "shape", "[21]" }, { "room", "10" }, { "room", "11" }, { "room", "-16" }, { "room", "null" },
        { "room", "9223372036854775807" }, { "checksums", "1" }, { "checksums", "\"0123456789abcdef\"" },
        { "checksums", "\"0123456789abcdef 0123456789abcdeg\"" }, { "checksums", "\"0123456789abcdef-0123456789abcdef\"" },
    };
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();

    char expected[512];

    for (int i = 0; i < 2 * RP_COUNT(wrong); i++) {
        assert_ok(ctx, try_write(ctx, &dir, 2, 1));
        json_t *root  = i < RP_COUNT(wrong) ? read_state_index(temp_path(&dir, "state/step-20/state.json")) : index_of_format_2(ctx, &dir);
        json_t *entry = json_object_get(json_object_get(root, "tensors"), "layers.0.w");
        const char *key = wrong[i % RP_COUNT(wrong)].key, *value = wrong[i % RP_COUNT(wrong)].value;
        json_object_set_new(entry, key, json_loads(value, JSON_DECODE_ANY, NULL));
        write_state_index(temp_path(&dir, "state/step-20/state.json"), root);
        holding h        = hold(ctx, 1, 2, 2);
        rp_status status = try_read(ctx, &dir, &h);
        if (status != RP_ERR_FORMAT && status != RP_ERR_CONFIG) fail_msg("%s %s: status %d", key, value, (int)status);
        release_held(&h);
    }
    static const char *const sums[] = { "1", "\"\"", "\"0123456789abcdef\"", "\"0123456789abcdef 0123456789abcdeg\"", "\"0123456789abcdef-0123456789abcdef\"",
                                        "\"0123456789abcdef 0123456789abcdef\"" };
    for (int i = 0; i < RP_COUNT(sums); i++) {
        assert_ok(ctx, try_write(ctx, &dir, 2, 1));
        json_t *root = read_state_index(temp_path(&dir, "state/step-20/state.json"));
        json_object_set_new(root, "part_checksums", json_loads(sums[i], JSON_DECODE_ANY, NULL));
        write_state_index(temp_path(&dir, "state/step-20/state.json"), root);
        assert_refused(ctx, &dir, RP_ERR_FORMAT, i + 1 < RP_COUNT(sums) ? "has wrong checksums of its parts" : "is damaged: it does not match its checksum");
    }
    static const char *const parts[] = { "0", "-1", "3", "99999999999", "\"2\"" };
    for (int i = 0; i < RP_COUNT(parts); i++) {
        assert_ok(ctx, try_write(ctx, &dir, 2, 1));
        json_t *root = read_state_index(temp_path(&dir, "state/step-20/state.json"));
        json_object_set_new(root, "parts", json_loads(parts[i], JSON_DECODE_ANY, NULL));
        write_state_index(temp_path(&dir, "state/step-20/state.json"), root);
        assert_refused(ctx, &dir, RP_ERR_FORMAT, i == 2 ? "is partial: it has no tensors-0-of-3.safetensors" : "/state.json' lacks ranks or parts");
    }
    assert_ok(ctx, try_write(ctx, &dir, 2, 1));
    json_t *more    = read_state_index(temp_path(&dir, "state/step-20/state.json"));
    json_t *tensors = json_object_get(more, "tensors");
    json_object_set(tensors, "one.more", json_object_get(tensors, "layers.0.w"));
    snprintf(expected, sizeof expected, "the state '%s/state/step-20' lists %d tensors, '%s/state/step-20/tensors-0-of-2.safetensors' holds %d", dir.path,
             (int)json_object_size(tensors), dir.path, (int)json_object_size(tensors) - 1);
    write_state_index(temp_path(&dir, "state/step-20/state.json"), more);
    assert_refused(ctx, &dir, RP_ERR_FORMAT, expected);
    assert_ok(ctx, try_write(ctx, &dir, 2, 1));
    more = read_state_index(temp_path(&dir, "state/step-20/state.json"));
    json_object_set_new(more, "seed", json_integer(1));
    write_state_index(temp_path(&dir, "state/step-20/state.json"), more);
    snprintf(expected, sizeof expected, "the state file '%s/state/step-20/state.json' lacks seed or data_hash", dir.path);
    assert_refused(ctx, &dir, RP_ERR_FORMAT, expected);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void failing_allocations_are_reported(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    test_faults writing = { 0 }, reading = { 0 };

    while (!writing.over) {
        test_fault_begin(&writing, ctx);
        test_fault_end(&writing, try_write(ctx, &dir, 3, 1));
    }
    assert_true(writing.failed > 19);
    while (!reading.over) {
        holding h = hold(ctx, 1, 2, 2);
        test_fault_begin(&reading, ctx);
        if (!test_fault_end(&reading, try_read(ctx, &dir, &h))) assert_holds(&h, 1);
        release_held(&h);
    }
    assert_true(reading.failed > 19);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_some_ranks_wrote_any_number_reads),
        cmocka_unit_test(a_state_goes_from_ranks_to_ranks_unchanged),
        cmocka_unit_test(one_rank_writes_the_file_of_a_run_alone),
        cmocka_unit_test(who_wrote_it_is_known),
        cmocka_unit_test(a_missing_or_damaged_file_is_named),
        cmocka_unit_test(a_file_of_another_state_is_refused),
        cmocka_unit_test(slices_of_another_model_are_refused_before_a_byte_is_written),
        cmocka_unit_test(an_index_of_format_1_is_read),
        cmocka_unit_test(an_index_of_format_2_is_read),
        cmocka_unit_test(the_index_of_405b_on_16384_ranks_is_small_and_read),
        cmocka_unit_test(an_index_that_makes_no_sense_is_refused),
        cmocka_unit_test(a_shape_whose_dimension_is_no_whole_number_is_refused),
        cmocka_unit_test(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
