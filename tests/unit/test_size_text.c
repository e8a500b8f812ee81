/* Claims: a size is text in bytes and in its largest unit; as a limit its readable part never rounds down. */
/* ctest: device-free thread-free */
#include "base/base.h"
#include "rp_test.h"

#include <stdlib.h>
#include <string.h>

static void a_size_has_bytes_and_its_largest_unit(void **state)
{
    char text[RP_SIZE_CHARS];

    (void)state;
    assert_string_equal(rp__size_text(text, 1), "1 byte");
    assert_string_equal(rp__size_text(text, 1023), "1023 bytes");
    assert_string_equal(rp__size_text(text, 7811039), "7811039 bytes (7.45 MiB)");
    assert_string_equal(rp__size_text(text, INT64_C(1) << 42), "4398046511104 bytes (4.00 TiB)");
}

/* The smallest size with two decimals that is at least `bytes`. */
static void a_limit_of_the_printed_size_has_room(void **state)
{
    char text[RP_SIZE_CHARS];

    (void)state;
    assert_string_equal(rp__size_text_up(text, 1023), "1023 bytes");
    assert_string_equal(rp__size_text_up(text, 8 << 20), "8388608 bytes (8.00 MiB)");
    assert_string_equal(rp__size_text_up(text, (8 << 20) + 1), "8388609 bytes (8.01 MiB)");
    for (int64_t bytes = 1 << 20; bytes < 1 << 30; bytes += bytes / 97) {
        double shown = strtod(strchr(rp__size_text_up(text, bytes), '(') + 1, NULL) * (1 << 20);
        assert_true(shown >= (double)bytes && shown < (double)bytes + 0.0100001 * (1 << 20));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_size_has_bytes_and_its_largest_unit),
        cmocka_unit_test(a_limit_of_the_printed_size_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
