/* Claims about metrics.jsonl. */
/* ctest: thread-free */
#include "rp_test.h"

#include <float.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <sys/stat.h>

#include "temp.h"
#include "train/metrics.h"

static rp_metrics line_of(int64_t step)
{
    return (rp_metrics){ .step = step,
                         .loss = 2.5 / (double)step,
                         .lr = 2e-5,
                         .grad_norm = 0.1f,
                         .tokens = 1024,
                         .step_seconds = 0.25,
                         .tokens_per_second = 4096,
                         .peak_memory_active = INT64_C(8589934592),
                         .peak_memory_alloc = 3,
                         .peak_memory_reserved = 4,
                         .saved_bytes = 5,
                         .recompute_flops = 6,
                         .step_flops = 7,
                         .offloaded_bytes = 8,
                         .rss = 9 };
}

static char *contents(const char *path)
{
    static char text[1 << 16];
    FILE *f  = fopen(path, "r");
    size_t n = fread(text, 1, sizeof text - 1, f);

    fclose(f);
    text[n] = 0;
    return text;
}

static void numbers_are_the_shortest_that_read_back(void **state)
{
    (void)state;
    static const struct { double value; const char *text; } cases[] = {
        { 0.1, "0.1" }, { 2e-5, "2e-05" }, { 1.0 / 3, "0.3333333333333333" }, { 0, "0" }, { -1.5, "-1.5" }, { 1e300, "1e+300" },
        { NAN, "null" }, { INFINITY, "null" }, { -INFINITY, "null" }, { 4096, "4096" }, { DBL_MAX, "1.7976931348623157e+308" },
    };
    char text[RP_NUMBER_CHARS];
    double back;

    for (int i = 0; i < RP_COUNT(cases); i++) assert_string_equal(rp__number_text(text, cases[i].value), cases[i].text);
    for (uint64_t i = 1; i < 2000; i++) {
        uint64_t bits = i * 0x9e3779b97f4a7c15ull;
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        assert_true(rp__parse_double(rp__number_text(text, value), &back) && back == value);
    }
}

static void numbers_do_not_follow_the_locale(void **state)
{
    (void)state;
    static const char *const with_comma[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE" };
    char text[RP_NUMBER_CHARS];

    for (int i = 0; i < RP_COUNT(with_comma); i++)
        if (setlocale(LC_NUMERIC, with_comma[i])) break;
    assert_string_equal(rp__number_text(text, 1.5), "1.5");
    setlocale(LC_NUMERIC, "C");
}

static void lines_hold_the_promised_keys_in_order(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    const char *path = temp_path(&dir, "metrics.jsonl");
    rp_metrics_file *m;
    rp_metrics line = line_of(1), second = line_of(2);

    line.grad_norm      = NAN;
    second.has_val_loss = true;
    second.val_loss     = 3.25;
    assert_ok(ctx, rp__metrics_open(ctx, path, 0, &m));
    assert_ok(ctx, rp__metrics_put(m, &line, NULL));
    assert_ok(ctx, rp__metrics_put(m, &second, NULL));
    assert_ok(ctx, rp__metrics_sync(m));
    assert_string_equal(contents(path),
        "{\"step\": 1, \"loss\": 2.5, \"lr\": 2e-05, \"grad_norm\": null, \"tokens\": 1024, \"step_seconds\": 0.25, \"tokens_per_second\": 4096, "
        "\"peak_memory_active\": 8589934592, \"peak_memory_alloc\": 3, \"peak_memory_reserved\": 4, \"saved_bytes\": 5, \"recompute_flops\": 6, "
        "\"step_flops\": 7, \"offloaded_bytes\": 8, \"rss\": 9}\n"
        "{\"step\": 2, \"loss\": 1.25, \"lr\": 2e-05, \"grad_norm\": 0.10000000149011612, \"tokens\": 1024, \"step_seconds\": 0.25, "
        "\"tokens_per_second\": 4096, \"peak_memory_active\": 8589934592, \"peak_memory_alloc\": 3, \"peak_memory_reserved\": 4, \"saved_bytes\": 5, "
        "\"recompute_flops\": 6, \"step_flops\": 7, \"offloaded_bytes\": 8, \"rss\": 9, \"val_loss\": 3.25}\n");
    rp__metrics_close(m);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* Five lines and what a crash may leave after them. */
static void resuming_cuts_after_the_step_and_drops_what_is_torn(void **state)
{
    (void)state;
    static const char *const tails[] = { "",       "{\"step\": 6, \"lo", "{\"step\": 6, \"loss\": 1",
                                         "\0\0\0", "not json\n",         "{\"step\": \"6\"}\n" };
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    const char *path = temp_path(&dir, "m");
    char path_kept[512];
    rp_metrics_file *m;

    snprintf(path_kept, sizeof path_kept, "%s", path);
    for (int t = 0; t < RP_COUNT(tails); t++) {
        for (int64_t keep = 0; keep <= 6; keep++) {
            assert_ok(ctx, rp__metrics_open(ctx, path_kept, 0, &m));
            for (int64_t s = 1; s <= 5; s++) assert_ok(ctx, rp__metrics_put(m, &(rp_metrics){ .step = s }, NULL));
            rp__metrics_close(m);
            FILE *f = fopen(path_kept, "a");
            fwrite(tails[t], 1, t == 3 ? 3 : strlen(tails[t]), f);
            fclose(f);
            assert_ok(ctx, rp__metrics_open(ctx, path_kept, keep, &m));
            assert_ok(ctx, rp__metrics_put(m, &(rp_metrics){ .step = 77 }, NULL));
            rp__metrics_close(m);
            int64_t lines = keep > 5 ? 5 : keep, n = 0;
            for (char *p = contents(path_kept); *p; p = strchr(p, '\n') + 1, n++) {
                json_t *object = json_loads(p, JSON_DISABLE_EOF_CHECK, NULL);
                assert_int_equal(json_integer_value(json_object_get(object, "step")), n < lines ? n + 1 : 77);
                json_decref(object);
            }
            assert_int_equal(n, lines + 1);
        }
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* Whatever the file of another program holds, and even where it can only be written to. */
static void a_run_from_the_start_keeps_no_line(void **state)
{
    (void)state;
    static const char *const others[] = { "{\"step\": 0}\n{\"step\": 1}\n", "{\"step\": -3}\n", "{\"step\": 1}\n", "step,loss\n0,1\n" };
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    char path[512];

    for (int i = 0; i < RP_COUNT(others); i++) {
        rp_metrics_file *m;
        snprintf(path, sizeof path, "%s", temp_text(&dir, "m", others[i]));
        assert_int_equal(chmod(path, 0200), 0);
        assert_ok(ctx, rp__metrics_open(ctx, path, 0, &m));
        rp__metrics_close(m);
        assert_int_equal(chmod(path, 0600), 0);
        assert_string_equal(contents(path), "");
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void a_file_that_cannot_be_written_is_an_error(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_metrics_file *m = NULL;

    assert_int_equal(rp__metrics_open(ctx, "/nowhere/metrics.jsonl", 0, &m), RP_ERR_IO);
    assert_string_equal(rp_error(ctx), "cannot open '/nowhere/metrics.jsonl': No such file or directory");
    assert_null(m);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_the_shortest_that_read_back),
        cmocka_unit_test(numbers_do_not_follow_the_locale),
        cmocka_unit_test(lines_hold_the_promised_keys_in_order),
        cmocka_unit_test(a_run_from_the_start_keeps_no_line),
        cmocka_unit_test(resuming_cuts_after_the_step_and_drops_what_is_torn),
        cmocka_unit_test(a_file_that_cannot_be_written_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
