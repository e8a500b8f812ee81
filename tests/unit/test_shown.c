/* Claims about what may reach a terminal: an untrusted text drives none, in no message and on no line of a report. */
/* ctest: device-free */
#include "rp_test.h"

#include "base/report.h"

#define HOSTILE "a\x1b[31m\xc2\x9b" "2J\xe2\x80\xae\xe2\x81\xa6\xff\xc3\n\xed\xa0\x80\xf4\x90\x80\x80\x7f\r\xd8\x9c\xe2\x80\xa8\xc3\xa9z"
#define SHOWN "a?[31m?2J???" "??" "???" "????" "???" "?\xc3\xa9z"

static void assert_shown(const char *text, const char *wanted)
{
    char copy[256];

    snprintf(copy, sizeof copy, "%s", text);
    rp__shown_only(copy);
    assert_string_equal(copy, wanted);
}

static void letters_of_all_alphabets_are_shown_as_they_are(void **state)
{
    (void)state;
    assert_shown("", "");
    assert_shown("layers.0 'x' ~", "layers.0 'x' ~");
    assert_shown("Zo\xc3\xab \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x99\x82 \xef\xbf\xbd",
                 "Zo\xc3\xab \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x99\x82 \xef\xbf\xbd");
}

static void what_drives_a_terminal_or_is_no_text_is_not(void **state)
{
    (void)state;
    assert_shown("\x1b]0;x\x07", "?]0;x?");
    assert_shown("\xc2\x80\xc2\x9f\xc2\xa0", "??\xc2\xa0");                                      /* C1, and the first behind them */
    assert_shown("\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\x90", "??\xe2\x80\x90");                      /* marks of direction */
    assert_shown("\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf", "??\xe2\x80\xaf");                      /* embeddings, overrides */
    assert_shown("\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xb0", "??\xe2\x81\xb0");                      /* isolates */
    assert_shown("\xc0\xaf\xe0\x80\xaf\xf8", "??????");                                          /* not the shortest form, no beginning */
    assert_shown("\xe2\x82", "??");                                                              /* cut short */
    assert_shown(HOSTILE, SHOWN);
}

static void a_beginning_of_a_character_differs_from_a_wrong_byte(void **state)
{
    uint32_t point;
    int n;

    (void)state;
    assert_int_equal(rp__shown("\xf0\x9f\x99\x82", 3, &n, &point), RP_SHOWN_CUT);
    assert_int_equal(rp__shown("\xf0\x9f\x99\x82", 4, &n, &point), RP_SHOWN_AS_IS);
    assert_int_equal(n, 4);
    assert_int_equal(point, 0x1f642);
    assert_int_equal(rp__shown("\xf0\x9f""ab", 4, &n, &point), RP_SHOWN_BYTE);
    assert_int_equal(n, 1);
    assert_int_equal(point, 0xf0);
    assert_int_equal(rp__shown("\xe2\x80\xae", 3, &n, &point), RP_SHOWN_CONTROL);
    assert_int_equal(n, 3);
    assert_int_equal(point, 0x202e);
}

static void every_message_is_cleaned_where_it_is_recorded(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_report report;
    char line[512];

    (void)state;
    rp_fail(ctx, RP_ERR_FORMAT, "the tensor '%s'", HOSTILE);
    assert_string_equal(rp_error(ctx), "the tensor '" SHOWN "'");
    rp__fail_line(ctx, "rank 1: %s", HOSTILE);
    assert_string_equal(rp_error(ctx), "the tensor '" SHOWN "'\nrank 1: " SHOWN);
    rp__report_open(&report, ctx);
    rp__report_error(&report, (rp_place){ "r\x1b.yaml", 3 }, "unknown key '%s'", HOSTILE);
    rp__report_note(&report, (rp_place){ "r\xc2\x9b.yaml", 0 }, "%s", HOSTILE);
    assert_string_equal(rp__report_line(report.first, line, sizeof line), "r?.yaml:3: unknown key '" SHOWN "'");
    assert_string_equal(rp__report_line(report.last, line, sizeof line), "r?.yaml: note: " SHOWN);
    rp__report_close(&report);
    test_ctx_free(ctx);
}

/* The context has other members after the message. */
static void a_line_that_does_not_fit_is_cut_at_the_end_of_the_message(void **state)
{
    rp_ctx *ctx   = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    size_t room   = sizeof ctx->error;
    int64_t error = ctx->n_errors;

    (void)state;
    for (int width = (int)room - 4; width < (int)room; width++) {
        rp_fail(ctx, RP_ERR_FORMAT, "%*s", width, "x");
        rp__fail_line(ctx, "%*s", (int)room, "y");
        assert_int_equal(strlen(rp_error(ctx)), room - 1);
        assert_int_equal(ctx->n_errors, ++error);
    }
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_that_does_not_fit_is_cut_at_the_end_of_the_message),
        cmocka_unit_test(letters_of_all_alphabets_are_shown_as_they_are),
        cmocka_unit_test(what_drives_a_terminal_or_is_no_text_is_not),
        cmocka_unit_test(a_beginning_of_a_character_differs_from_a_wrong_byte),
        cmocka_unit_test(every_message_is_cleaned_where_it_is_recorded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
