/* Claims about JSON texts when memory runs out. */
/* ctest: device-free thread-free */
#include "heap_test.h"

#include <string.h>

#include "base/json_text.h"

static rp_status reads_alike(rp_ctx *ctx, void *user)
{
    const char *text = user;
    json_error_t error;
    json_t *root = rp__json_read(text, strlen(text), 0, &error);

    if (!root) return rp_fail(ctx, json_error_code(&error) == json_error_out_of_memory ? RP_ERR_MEMORY : RP_ERR_IO, "%s", error.text);
    const char *value = json_string_value(json_array_get(root, 0));
    assert_memory_equal(value, text + 2, strlen(value));
    assert_int_equal(strlen(value), strlen(text) - 4);
    json_decref(root);
    return RP_OK;
}

/* The closing quote may be the byte for which the token has to grow. */
static void a_string_of_any_length_is_read_whole_or_not_at_all(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    char text[160];

    (void)state;
    for (int n = 0; n < 140; n++) {
        memset(text, 'x', sizeof text);
        memcpy(text, "[\"", 2);
        memcpy(text + 2 + n, "\"]", 3);
        every_allocation_fails_once(ctx, &(heap_sweep){ .survives = true }, reads_alike, text);
    }
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_string_of_any_length_is_read_whole_or_not_at_all) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
