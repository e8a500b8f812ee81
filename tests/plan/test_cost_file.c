/* Claims about the file of a measured table: what is read is what was written, what is damaged is named, what is another's is left alone. */
/* ctest: device-free thread-free */
#include "plan/cost_test.h"

#include "kernels/kernels.h"

static char *text_of(rp_ctx *ctx, const rp_cost_table *t)
{
    char *text = NULL;

    assert_ok(ctx, rp__cost_text(ctx, t, &text));
    return text;
}

static rp_status parse(rp_ctx *ctx, const char *text, bool *foreign, rp_cost_table **out)
{
    *foreign = false;
    return rp__cost_parse(ctx, "a.json", text, (int64_t)strlen(text), foreign, out);
}

static void a_file_gives_back_the_table(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = as_measured(ctx), *back = NULL;
    char *text       = text_of(ctx, t);
    rp_op_meta m     = product(ctx, RP_BF16, 1024, 576, 1536);
    bool foreign;

    (void)state;
    assert_ok(ctx, parse(ctx, text, &foreign, &back));
    assert_false(foreign);
    assert_true(rp__cost_hash(back) == rp__cost_hash(t));
    assert_string_equal(rp__cost_machine(back), rp__cost_machine(t));
    assert_true(rp__cost_seconds(back, &m, RP_FORWARD) == rp__cost_seconds(t, &m, RP_FORWARD));
    assert_true(rp__cost_move(back, RP_BF16, 1 << 20) == rp__cost_move(t, RP_BF16, 1 << 20));
    assert_true(rp__cost_offload_bandwidth(back, false) == 1.25e9);
    assert_true(rp__cost_measured(back));
    char *recompute = text_of(ctx, back);
    assert_string_equal(text, recompute);
    rp__release(text);
    rp__release(recompute);
    rp__cost_table_free(t);
    rp__cost_table_free(back);
    test_ctx_free(ctx);
}

static bool has_line(const char *text, const char *begins, const char *ends)
{
    for (const char *line = text; line; line = strchr(line + 1, '\n')) {
        const char *end = strchr(line + 1, '\n');
        size_t n        = end ? (size_t)(end - line) : strlen(line);
        if (!strncmp(line, begins, strlen(begins)) && n > strlen(ends) && !strncmp(line + n - strlen(ends), ends, strlen(ends))) return true;
    }
    return false;
}

static void a_row_is_a_line(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = as_measured(ctx);

    (void)state;
    rp__cost_row(t, rp__op_count(), RP_F64, RP_BACKWARD)->bandwidth = 5e9;
    char *text = text_of(ctx, t);
    assert_true(has_line(text, "\n  {\"op\": \"matmul\", \"dtype\": \"bf16\", \"pass\": \"backward\", \"overhead\": ", "},"));
    assert_true(has_line(text, "\n  {\"op\": \"others\", \"dtype\": \"fp64\", \"pass\": \"backward\", ", "\"bandwidth\": 5e9}"));
    rp__release(text);
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

/* ---- damage ---- */

/* The first `from` in the text as `to`; yours to free. */
static char *with(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    char *changed  = malloc(strlen(text) + strlen(to) + 1);

    if (!at) fail_msg("there is no %s", from);
    snprintf(changed, strlen(text) + strlen(to) + 1, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return changed;
}

#define OTHERS_ROW "\"others\", \"dtype\": \"bf16\", \"pass\": \"forward\""

static const struct { const char *from, *to, *why; } damage[] = {
    { "\"threads\": 2", "\"threads\": 3", "it does not match its hash" },
    { "\"overhead\": ", "\"overhead\": 1", "it does not match its hash" },
    { "\"hash\": ", "\"hush\": ", "it does not match its hash" },
    { "\"level\": ", "\"lovel\": ", "the description of the machine is incomplete" },
    { "\"cpu\": \"", "\"cpu\": \"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
      "the description of the machine is incomplete" },
    { "\"threads\": 2", "\"threads\": 0", "'threads' is not a number from 1 up" },
    { "\"measured\": \"full\"", "\"measured\": \"once\"", "'measured' is neither 'quick' nor 'full'" },
    { "\"update\": {\"fp32\": ", "\"update\": {\"fp32\": -", "a bandwidth of 'update' is not a number above 0" },
    { "\"offload\": ", "\"offload\": -", "'offload' is not a bandwidth" },
    { "\"rows\": ", "\"rews\": ", "it has no rows" },
    { "\"pass\": \"backward\"", "\"pass\": \"forward\"", "a row occurs twice" },
    { "\"pass\": \"backward\"", "\"pass\": \"sideways\"", "a row has no valid op, dtype or pass" },
    { "\"op\": \"matmul\"", "\"op\": 7", "a row has no valid op, dtype or pass" },
    { "\"rate\": ", "\"rate\": -", "a number in a row is missing or out of range" },
    { "\"rate\": ", "\"rate\": false, \"race\": ", "a number in a row is missing or out of range" },
    { OTHERS_ROW, "\"max\", \"dtype\": \"int32\", \"pass\": \"forward\"", "a row has no valid op, dtype or pass" },
    { "\"reprise\": ", "\"repose\": ", "it does not match its hash" },
};

static void damage_is_reported_with_the_name_of_the_file(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = as_measured(ctx), *back = NULL;
    char *text       = text_of(ctx, t), expected[256];
    bool foreign;

    (void)state;
    for (int i = 0; i < RP_COUNT(damage); i++) {
        char *damaged = with(text, damage[i].from, damage[i].to);
        assert_int_equal(parse(ctx, damaged, &foreign, &back), RP_ERR_FORMAT);
        snprintf(expected, sizeof expected, "the cost table 'a.json' is damaged: %s; run 'reprise calibrate' to replace it", damage[i].why);
        assert_string_equal(rp_error(ctx), expected);
        assert_null(back);
        free(damaged);
    }
    rp__release(text);
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

static void a_file_that_was_cut_anywhere_is_damaged(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = as_measured(ctx), *back = NULL;
    char *text       = text_of(ctx, t);
    int64_t bytes    = (int64_t)strlen(text);
    bool foreign     = false;

    (void)state;
    for (int64_t n = 0; n < bytes - 2; n += 1 + n / 50) {
        assert_int_equal(rp__cost_parse(ctx, "a.json", text, n, &foreign, &back), RP_ERR_FORMAT);
        assert_non_null(strstr(rp_error(ctx), "the cost table 'a.json' is damaged: line "));
    }
    rp__release(text);
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

/* A later version may measure ops that this one does not have, or write another format. */
static void a_table_of_another_version_is_not_ours(void **state)
{
    static const struct { const char *from, *to; } other[] = {
        { "\"format\": 1", "\"format\": 2" }, { "\"reprise\": \"", "\"reprise\": \"9." }, { "\"op\": \"matmul\"", "\"op\": \"matmul9\"" },
    };
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = as_measured(ctx), *back = NULL;
    char *text       = text_of(ctx, t);
    bool foreign;

    (void)state;
    for (int i = 0; i < RP_COUNT(other); i++) {
        char *changed = with(text, other[i].from, other[i].to);
        assert_ok(ctx, parse(ctx, changed, &foreign, &back));
        assert_true(foreign);
        assert_null(back);
        free(changed);
    }
    rp__release(text);
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

/* ---- where it is kept ---- */

static const char *saved(rp_ctx *ctx, rp_cost_table *t)
{
    const char *path = NULL;

    assert_ok(ctx, rp__cost_table_save(ctx, t, &path));
    return path;
}

static rp_cost_table *opened(rp_ctx *ctx)
{
    rp_cost_table *t = NULL;

    assert_ok(ctx, rp__cost_table_open(ctx, &t));
    return t;
}

static void a_saved_table_is_what_is_opened(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = as_measured(ctx);

    (void)state;
    assert_int_equal(setenv("REPRISE_COSTS", temp_path("new/folder/costs.json"), 1), 0);
    rp_cost_table *before = opened(ctx);
    assert_false(rp__cost_measured(before));
    assert_string_equal(saved(ctx, t), temp_path("new/folder/costs.json"));
    assert_string_equal(saved(ctx, t), temp_path("new/folder/costs.json"));        /* again: the old one is replaced */
    assert_int_equal(n_files_in(temp_path("new/folder")), 1);
    rp_cost_table *after = opened(ctx);
    assert_true(rp__cost_measured(after));
    assert_true(rp__cost_hash(after) == rp__cost_hash(t));
    rp__cost_table_free(t);
    rp__cost_table_free(before);
    rp__cost_table_free(after);
    test_ctx_free(ctx);
}

static void another_machines_table_is_left_alone(void **state)
{
    rp_ctx *two = shapes_ctx(), *three = test_ctx(&(rp_ctx_options){ .shapes_only = true, .device = "cpu", .threads = 3 });
    rp_cost_table *t = as_measured(two);

    (void)state;
    assert_int_equal(setenv("REPRISE_COSTS", temp_path("other.json"), 1), 0);
    saved(two, t);
    rp_cost_table *found = opened(three);
    assert_false(rp__cost_measured(found));
    rp__cost_table_free(found);
    rp__cost_table_free(t);
    test_ctx_free(two);
    test_ctx_free(three);
}

static void a_damaged_file_is_no_reason_to_guess(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = NULL;
    char expected[2048];

    (void)state;
    assert_int_equal(setenv("REPRISE_COSTS", temp_path("damaged.json"), 1), 0);
    assert_ok(ctx, rp__file_write(ctx, temp_path("damaged.json"), "{}", 2));
    assert_int_equal(rp__cost_table_open(ctx, &t), RP_ERR_FORMAT);
    snprintf(expected, sizeof expected,
             "the cost table '%s' is damaged: the description of the machine is incomplete; run 'reprise calibrate' to replace it",
             temp_path("damaged.json"));
    assert_string_equal(rp_error(ctx), expected);
    assert_null(t);
    test_ctx_free(ctx);
}

static void expect_path(rp_ctx *ctx, const rp_cost_machine *m, const char *expected)
{
    char *path;

    assert_ok(ctx, rp__cost_path(ctx, m, &path));
    if (expected) assert_string_equal(path, expected);
    else assert_null(path);
    rp__release(path);
}

static void a_long_path_is_not_cut(void **state)
{
    enum { LONG = 6000 };
    rp_ctx *ctx       = shapes_ctx();
    rp_cost_machine m = machine_of("v4", "amx", 8);
    char longest[LONG + 1];

    (void)state;
    memset(longest, 'x', LONG);
    longest[LONG] = 0;
    setenv("REPRISE_COSTS", longest, 1);
    expect_path(ctx, &m, longest);
    longest[LONG - 1] = '/';
    setenv("REPRISE_COSTS", longest, 1);
    assert_int_equal(rp__cost_table_place(ctx), RP_ERR_IO);
    unsetenv("REPRISE_COSTS");
    test_ctx_free(ctx);
}

static void each_machine_has_a_file_of_its_own(void **state)
{
    rp_ctx *ctx       = shapes_ctx();
    rp_cost_machine m = machine_of("v4", "amx", 8);
    char *home        = getenv("HOME") ? strdup(getenv("HOME")) : NULL;

    (void)state;
    snprintf(m.cpu, sizeof m.cpu, "A/CPU \"X\" 1.5");
    setenv("HOME", "/home/me", 1);
    setenv("XDG_CACHE_HOME", "/cache", 1);
    setenv("REPRISE_COSTS", "here.json", 1);
    expect_path(ctx, &m, "here.json");
    setenv("REPRISE_COSTS", "", 1);
    expect_path(ctx, &m, "/cache/reprise/costs-A-CPU--X--1.5-v4-8.json");
    setenv("XDG_CACHE_HOME", "not/absolute", 1);
    expect_path(ctx, &m, "/home/me/.cache/reprise/costs-A-CPU--X--1.5-v4-8.json");
    unsetenv("HOME");
    expect_path(ctx, &m, NULL);
    if (home) setenv("HOME", home, 1);
    free(home);
    unsetenv("XDG_CACHE_HOME");
    test_ctx_free(ctx);
}

static void without_a_place_nothing_is_saved(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = as_measured(ctx);
    char *home       = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    const char *path = NULL;

    (void)state;
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("REPRISE_COSTS");
    assert_int_equal(rp__cost_table_save(ctx, t, &path), RP_ERR_IO);
    assert_string_equal(rp_error(ctx),
                        "there is no place for the cost table: none of REPRISE_COSTS, XDG_CACHE_HOME and HOME is set");
    rp_cost_table *found = opened(ctx);
    assert_false(rp__cost_measured(found));
    rp__cost_table_free(found);
    if (home) setenv("HOME", home, 1);
    free(home);
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

/* ---- faults ---- */

static void no_memory_is_reported(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = as_measured(ctx), *back = NULL;
    const char *path = NULL;

    (void)state;
    assert_int_equal(setenv("REPRISE_COSTS", temp_path("faults/costs.json"), 1), 0);
    until_no_fault_fires(ctx, rp__cost_table_open(ctx, &back), assert_null(back));
    rp__cost_table_free(back);
    back = NULL;
    until_no_fault_fires(ctx, rp__cost_table_save(ctx, t, &path), assert_false(rp__file_exists(temp_path("faults/costs.json"))));
    until_no_fault_fires(ctx, rp__cost_table_open(ctx, &back), assert_null(back));
    assert_true(rp__cost_measured(back));
    rp__cost_table_free(back);
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_gives_back_the_table),
        cmocka_unit_test(a_row_is_a_line),
        cmocka_unit_test(damage_is_reported_with_the_name_of_the_file),
        cmocka_unit_test(a_file_that_was_cut_anywhere_is_damaged),
        cmocka_unit_test(a_table_of_another_version_is_not_ours),
        cmocka_unit_test(a_saved_table_is_what_is_opened),
        cmocka_unit_test(another_machines_table_is_left_alone),
        cmocka_unit_test(a_damaged_file_is_no_reason_to_guess),
        cmocka_unit_test(each_machine_has_a_file_of_its_own),
        cmocka_unit_test(a_long_path_is_not_cut),
        cmocka_unit_test(without_a_place_nothing_is_saved),
        cmocka_unit_test(no_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, enter, leave);
}
