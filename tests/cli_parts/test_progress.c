/* Claims about the progress line. */
/* ctest: device-free thread-free */
#include "rp_test.h"

#include "cli/progress.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_is_a_bar_on_a_terminal_and_lines_elsewhere),
        cmocka_unit_test(the_bar_never_wraps_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
