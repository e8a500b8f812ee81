/* Claims about the progress line and about printed sizes. */
/* ctest: device-free thread-free */
#include "rp_test.h"

#include "cli/progress.h"
#include "cli/sizes.h"

static char *progress_of(cli_progress p, const rp_metrics *m, double left)
{
    char *text = NULL;
    size_t bytes;

    p.to = open_memstream(&text, &bytes);
    cli_progress_step(&p, m, left);
    cli_progress_break(&p);
    fclose(p.to);
    return text;
}

static void progress_is_a_bar_on_a_terminal_and_lines_elsewhere(void **state)
{
    (void)state;
    rp_metrics m = { .step = 5, .loss = 0.5, .lr = 2e-5, .grad_norm = 0.1f, .tokens_per_second = 4096, .peak_memory_active = INT64_C(8) << 30 };
    char *bar = progress_of((cli_progress){ .terminal = true, .n_steps = 10, .columns = 100 }, &m, 62);
    char *plain = progress_of((cli_progress){ .n_steps = 10 }, &m, -1);

    assert_string_equal(bar,
                        "\rstep 5/10 [=================>                ] loss 0.5000  4096 tokens/s  peak 8.00 GiB  1:02 left\n");
    assert_string_equal(plain, "step 5/10  lr 2e-05  grad_norm 0.1  loss 0.5000  4096 tokens/s  peak 8.00 GiB\n");
    free(bar);
    free(plain);
}

static void the_bar_never_wraps_the_terminal(void **state)
{
    (void)state;
    rp_metrics m = { .step = 1000000, .loss = 2.5e-6, .tokens_per_second = 4096, .peak_memory_active = INT64_C(8) << 30, .has_val_loss = true };

    for (int columns = 1; columns < 200; columns++) {
        char *text = progress_of((cli_progress){ .terminal = true, .n_steps = 1000000, .columns = columns }, &m, 3e5);
        assert_true(strcspn(text, "\n") - 1 < (size_t)columns);        /* without the \r, and a column left free */
        free(text);
    }
}

static void a_size_has_three_digits_unless_it_is_exact(void **state)
{
    (void)state;
    static const struct { int64_t bytes; const char *near, *up; } sizes[] = {
        { 0, "0 bytes", "0 bytes" }, { 1, "1 byte", "1 byte" }, { 1023, "1023 bytes", "1023 bytes" }, { 1024, "1.00 KiB", "1.00 KiB" },
        { 1025, "1.00 KiB", "1.01 KiB" }, { 10235, "10.0 KiB", "10.0 KiB" }, { 102348, "99.9 KiB", "100 KiB" }, { 102400, "100 KiB", "100 KiB" },
        { 1023 * 1024, "0.999 MiB", "1.00 MiB" }, { INT64_C(1699675392), "1.58 GiB", "1.59 GiB" }, { INT64_C(1) << 31, "2.00 GiB", "2.00 GiB" },
        { INT64_C(1) << 40, "1.00 TiB", "1.00 TiB" }, { INT64_C(1) << 56, "65536 TiB", "65536 TiB" },
    };
    char text[RP_SIZE_CHARS];

    for (int i = 0; i < RP_COUNT(sizes); i++) {
        int64_t read;
        assert_string_equal(cli_size(text, sizes[i].bytes), sizes[i].near);
        assert_string_equal(cli_size_cell(text, sizes[i].bytes), sizes[i].bytes ? sizes[i].near : "0");
        assert_string_equal(cli_size_up(text, sizes[i].bytes), sizes[i].up);
        if (sizes[i].bytes >= 1024) assert_true(rp__size_parse(text, &read) && read >= sizes[i].bytes);
    }
    cli_sizes_exact(true);
    assert_string_equal(cli_size(text, INT64_C(1699675392)), "1699675392 bytes (1.58 GiB)");
    assert_string_equal(cli_size_up(text, INT64_C(1699675392)), "1699675392 bytes (1.59 GiB)");
    assert_string_equal(cli_size_cell(text, INT64_C(1699675392)), "1699675392");
    assert_string_equal(cli_size_short(text, INT64_C(1699675392)), "1.58 GiB");
    cli_sizes_exact(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_is_a_bar_on_a_terminal_and_lines_elsewhere),
        cmocka_unit_test(a_size_has_three_digits_unless_it_is_exact),
        cmocka_unit_test(the_bar_never_wraps_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
