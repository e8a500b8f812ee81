/* Claims about JSON data: a list of objects is the same data as its objects on lines, however it is written; what is wrong is reported with its place. */
#include "byte_data.h"
#include "temp.h"

static uint64_t hash_of(rp_ctx *ctx, const char *path, int64_t *n)
{
    rp_data_config c = config_of(path, "jsonl");
    rp_data *d       = open_data(ctx, &c);
    uint64_t hash    = rp__data_info(d).hash;

    *n = rp__data_info(d).n_documents;
    rp__data_close(d);
    return hash;
}

static void a_list_is_the_same_data_as_lines(void **state)
{
    (void)state;
    static const char lines[] = "{\"text\":\"ab\"}\n{\"x\":[{\"}\":1},\"]\"],\"text\":\"c]},\\\"{[\\\\\"}\n{\"text\":\"e\"}\n";
    static const char *const lists[] = {
        "[{\"text\":\"ab\"},{\"x\":[{\"}\":1},\"]\"],\"text\":\"c]},\\\"{[\\\\\"},{\"text\":\"e\"}]",
        "\xef\xbb\xbf\r\n [ {\n\"text\" :\r\n \"ab\" } , {\"x\" : [ {\"}\" : 1}, \"]\" ],\n\n\"text\":\"c]},\\\"{[\\\\\"}\n,\n{\"text\":\"e\"}\n]\n\n",
    };
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    int64_t n, m;
    uint64_t hash = hash_of(ctx, temp_text(&dir, "a", lines), &n);

    for (int i = 0; i < RP_COUNT(lists); i++) {
        assert_true(hash_of(ctx, temp_text(&dir, "b", lists[i]), &m) == hash);
        assert_int_equal(m, n);
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* Objects that begin, end and are cut anywhere within the windows that are read. */
static void a_list_of_many_windows_is_read_whole(void **state)
{
    (void)state;
    enum { N = 3000 };
    static char list[N * 200], lines[N * 200];
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    size_t used  = 1, used_lines = 0;
    uint32_t x   = 9;
    int64_t n, m;

    list[0] = '[';
    for (int i = 0; i < N; i++) {
        char object[160];
        x = x * 1664525u + 1013904223u;
        snprintf(object, sizeof object, "{\"n\": {\"m\": [%u, \"}\"]}, \"text\": \"%.*s\\\"]}%u\"}", x, (int)(x >> 26) & ~1,
                 "\\\\\\\\\\\\\\\\[[[[[{{{{{ab{{{{{{{]]]]]]]]}}}}}}}}}}}cdefghijklmn", x >> 8);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? x & 256 ? ",\n " : "," : "", object);
        used_lines += (size_t)snprintf(lines + used_lines, sizeof lines - used_lines, "%s\n", object);
    }
    list[used++] = ']';
    assert_true(used > 3 << 16);
    uint64_t hash = hash_of(ctx, temp_write(&dir, "a", lines, used_lines), &n);
    assert_int_equal(n, N);
    assert_true(hash_of(ctx, temp_write(&dir, "b", list, used), &m) == hash && m == N);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void what_is_no_list_of_objects_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct { const char *text, *says; } cases[] = {
        { "[{\"text\":\"a\"}", " is cut short: its list goes on after object 1" },
        { "[{\"text\":\"a\"},\n{\"text\"", " is cut short: its list goes on after object 2" },
        { "[", " is cut short: its list goes on after object 0" },
        { "[1]", ", object 1 (line 1): not a JSON object" },
        { "[{\"text\":\"a\"}, \n\n[]]", ", object 2 (line 3): not a JSON object" },
        { "[{\"text\":\"a\"},\n]", ", line 2: an object must follow the comma" },
        { "[,{\"text\":\"a\"}]", ", object 1 (line 1): not a JSON object" },
        { "[{\"text\":\"a\"}\n{\"text\":\"a\"}]", ", line 2: a comma or a bracket must follow the object" },
        { "[{\"text\":\"a\"}]\n{}", ", line 2: something follows the list" },
        { "[{\"text\":\"a\"},{\"text\":\n\"b\" \"c\"}]", ", object 2 (line 1): '}' expected near '\"c\"'" },
        { "[{\"text\":\"a\"}, {\"text\" ]", ", object 2 (line 1): ':' expected near ']'" },
        { "[{\"text\":\"a\"}, {\"body\":\"b\"}]", ", object 2 (line 1): no column 'text', there is 'body': set 'dataset.column'" },
        { "{\n \"data\": 1}\n", ", line 1, column 1: string or '}' expected near end of file; each object must be on one line, or all objects in one list" },
    };
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    char wanted[512];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        const char *path = temp_text(&dir, "f", cases[i].text);
        rp_data_config c = config_of(path, "jsonl");
        snprintf(wanted, sizeof wanted, "'%s'%s", path, cases[i].says);
        refuse(ctx, &c, RP_ERR_FORMAT, wanted);
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    rp_ctx *ctx      = test_ctx(NULL);
    temp_dir dir     = temp_make();
    rp_data_config c = config_of(temp_text(&dir, "a.json", "[{\"text\":\"abc\"}, {\"text\":\"def\"}]"), "jsonl");

    open_with_faults(ctx, &c);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_the_same_data_as_lines),
        cmocka_unit_test(a_list_of_many_windows_is_read_whole),
        cmocka_unit_test(what_is_no_list_of_objects_is_refused_with_its_place),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
