/* Claims about the page of a step: it holds exactly what was given, whatever texts say, and stands alone. */
/* ctest: device-free thread-free */
#include "rp_test.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/file.h"
#include "train/temp.h"
#include "view/step.h"

static temp_dir dir;
static rp_ctx *ctx;

static int setup(void **state)
{
    (void)state;
    dir = temp_make();
    ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_ctx_free(ctx);
    temp_remove(&dir);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- pages ---- */

/* Yours to rp__release. */
static char *written(const rp_page *page)
{
    const char *file = temp_path(&dir, "page.html");
    char *text;
    int64_t bytes;

    assert_ok(ctx, rp__page_write(ctx, page, file));
    assert_ok(ctx, rp__file_read(ctx, file, 1 << 24, &text, &bytes));
    assert_int_equal(strlen(text), bytes);
    return text;
}

static json_t *data_of(const char *text)
{
    const char *from = strstr(text, "id=\"data\">");
    json_error_t error;

    assert_non_null(from);
    from += strlen("id=\"data\">");
    json_t *data = json_loadb(from, (size_t)(strstr(from, "</script>") - from), 0, &error);
    if (!data) fail_msg("%s", error.text);
    return data;
}

static int count(const char *text, const char *what)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, what)); at++) n++;
    return n;
}

static watched_step *smollm2(const char *more, const char *also)
{
    const char *const setting[] = { "~model.path", "model.config=" RP_SOURCE_DIR "/bench/configs/smollm2-135m.json", "threads=2", more,
                                    also, NULL };

    return step_watch(RP_SOURCE_DIR "/recipes/smollm2_135m_full.yaml", setting);
}

static const rp_page_owner owners[] = { { "norm", "rmsnorm" }, { "layers.0", "matmul" } };
static const rp_page_work works[]   = { { 1, "forward", "layers.0", "matmul" }, { 3, "backward", "layers.0", "matmul" } };
static const rp_page_buffer buffers[] = {
    { 1000, 0, 0, 6, RP_MEM_PARAM, 0, 1, 0 },           /* kept from the first event on */
    { 4096, 1024, 1, 5, RP_MEM_TEMP, 2, 4, 1 },
    { 640, 5120, 2, 3, RP_MEM_COMM, -1, -1, 1 },
    { 0, 5120, 2, 6, RP_MEM_TEMP, 5, 6, 1 },            /* … until the last one */
    { 0, 5120, 3, 3, RP_MEM_TEMP, -1, -1, 1 },
};
static const rp_page_slot slots[]   = { { "layers.*", "matmul", "bf16 [2, 4]", "keep", "a rule", 16, 3, 1e-3, 0 } };
static const rp_page_point curve[]  = { { NULL, 6000, .25, false }, { "none", 9000, 0, true }, { "full", 6500, NAN, false } };
static const rp_page_loss losses[]  = { { 7, 2.5, 0, 1e-4, false }, { 8, NAN, 2.25, 5e-5, true } };
static const rp_page_fact facts[]   = { { "machine", "any CPU" } };
static const rp_page_sample samples[] = { { 8, "<one>", "& two" } };

static rp_page small(void)
{
    return (rp_page){
        .title = "a small step", .budget = 8192, .reserved = 6016, .peak = 5736, .overhead = NAN, .n_events = 6,
        .n_buffers = RP_COUNT(buffers), .n_owners = RP_COUNT(owners), .n_works = RP_COUNT(works), .n_slots = RP_COUNT(slots),
        .n_points = RP_COUNT(curve), .n_losses = RP_COUNT(losses), .n_facts = RP_COUNT(facts), .n_samples = RP_COUNT(samples), .sample = samples,
        .buffer = buffers, .owner = owners, .work = works, .slot = slots,
        .point = curve, .loss = losses, .fact = facts,
    };
}

/* ---- what is given is what is reported ---- */

static int64_t at(const json_t *object, const char *key, int i)
{
    const json_t *value = json_array_get(json_object_get(object, key), (size_t)i);

    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static const char *text_at(const json_t *data, const char *key, int i)
{
    return json_string_value(json_array_get(json_object_get(data, "texts"), (size_t)at(data, key, i)));
}

static void check_buffers(const rp_page *page, const json_t *data)
{
    const char *classes = json_string_value(json_object_get(data, "class"));
    int64_t begin       = 0;
    int n_kept          = 0;

    for (int i = 0; i < page->n_buffers; i++) {
        const rp_page_buffer *b = &page->buffer[i];
        begin += at(data, "begin", i);
        assert_int_equal(begin, b->begin);
        assert_int_equal(begin + at(data, "length", i), b->end);
        assert_int_equal(at(data, "bytes", i), b->bytes);
        assert_int_equal(at(data, "offset", i), b->offset);
        assert_int_equal(at(data, "of", i), b->owner);
        assert_int_equal(classes[i] - '0', b->mem_class);
        if (b->kept_from < 0) continue;
        assert_int_equal(at(data, "kept", n_kept++), i);
        assert_int_equal(at(data, "kept", n_kept++), b->kept_from);
        assert_int_equal(at(data, "kept", n_kept++), b->kept_until);
    }
    assert_int_equal(json_array_size(json_object_get(data, "kept")), n_kept);
    assert_int_equal(json_array_size(json_object_get(data, "bytes")), page->n_buffers);
}

static void check_texts(const rp_page *page, const json_t *data)
{
    int64_t begin = 0;

    for (int i = 0; i < page->n_owners; i++) {
        assert_string_equal(text_at(data, "owners", 2 * i), page->owner[i].path);
        assert_string_equal(text_at(data, "owners", 2 * i + 1), page->owner[i].name);
    }
    for (int i = 0; i < page->n_works; i++) {
        begin += at(data, "works", 4 * i);
        assert_int_equal(begin, page->work[i].begin);
        assert_string_equal(text_at(data, "works", 4 * i + 1), page->work[i].phase);
        assert_string_equal(text_at(data, "works", 4 * i + 2), page->work[i].path);
        assert_string_equal(text_at(data, "works", 4 * i + 3), page->work[i].op);
    }
}

static void every_buffer_owner_and_work_is_in_the_data_as_it_was_given(void **state)
{
    (void)state;
    watched_step *step = smollm2("enable_activation_checkpointing=true", NULL);
    const rp_page *page[] = { step_page(step), &(rp_page){ 0 } }, few = small();

    page[1] = &few;
    for (int i = 0; i < 2; i++) {
        char *text   = written(page[i]);
        json_t *data = data_of(text);
        check_buffers(page[i], data);
        check_texts(page[i], data);
        assert_int_equal(json_integer_value(json_object_get(data, "peak")), page[i]->peak);
        assert_int_equal(json_integer_value(json_object_get(data, "reserved")), page[i]->reserved);
        json_decref(data);
        rp__release(text);
    }
    step_free(step);
}

static void what_is_not_finite_is_null(void **state)
{
    (void)state;
    rp_page page = small();
    char *text   = written(&page);
    json_t *data = data_of(text);

    json_t *points = json_object_get(data, "points"), *loss = json_object_get(data, "loss"), *val = json_object_get(data, "val");
    assert_true(json_is_null(json_array_get(json_array_get(points, 0), 0)));
    assert_true(json_is_null(json_array_get(json_array_get(points, 2), 2)));
    assert_true(json_is_null(json_object_get(data, "overhead")));
    assert_true(json_real_value(json_array_get(loss, 0)) == 2.5);
    assert_true(json_is_null(json_array_get(loss, 1)));
    assert_true(json_is_null(json_array_get(val, 0)));
    assert_true(json_real_value(json_array_get(val, 1)) == 2.25);
    json_decref(data);
    rp__release(text);
}

/* At event 2 live are 1000 of class param, 4096 that are saved just then, and 640 of class comm. */
static void without_a_script_the_peak_is_shown_with_classes_and_owners(void **state)
{
    (void)state;
    rp_page page = small();
    char *text   = written(&page);
    static const char *const rows[] = {
        "<strong>5736 bytes (5.60 KiB)</strong> at its peak, in forward of <span class=path>layers.0</span> (matmul)",
        "within a budget of 8192 bytes (8.00 KiB)",
        "event 2 of 6, in forward of",
        "saved<td class=n>4096 <small>4.00 KiB</small><td class=n>71.4 %",
        "comm<td class=n>640 <small></small><td class=n>11.2 %",
        "param<td class=n>1000 <small></small><td class=n>17.4 %",
        "total<td class=n>5736 <small>5.60 KiB</small>",
        "<span class=path>norm</span> <small>rmsnorm</small><td class=n>1000",
        "<td class=n>3<td class=n>16<td class=n>48 <small></small><td class=n>100.0 %<td class=n>1.000<td class=n>\xe2\x80\x93",
        "<td>planned<td class=n>6000 <small>5.86 KiB</small><td class=n>25.00 %<td>predicted",
        "<tr><td class=n>8<td class=n>nan<td class=n>2.25",
    };

    for (int i = 0; i < RP_COUNT(rows); i++)
        if (!strstr(text, rows[i])) fail_msg("not on the page: %s", rows[i]);
    assert_null(strstr(text, "data-class=grad"));
    rp__release(text);
}

static void an_owner_has_one_row_for_its_buffers_of_a_class_at_the_peak(void **state)
{
    (void)state;
    static const rp_page_buffer several[] = {
        { 100, 0, 0, 6, RP_MEM_TEMP, -1, -1, 0 }, { 2000, 128, 0, 6, RP_MEM_TEMP, -1, -1, 1 }, { 300, 2176, 0, 6, RP_MEM_TEMP, -1, -1, 0 },
        { 50, 2560, 0, 6, RP_MEM_GRAD, -1, -1, 0 }, { 7, 2688, 0, 6, RP_MEM_TEMP, -1, -1, 0 }, { 3000, 2816, 0, 6, RP_MEM_TEMP, -1, -1, 1 },
    };
    rp_page page   = small();
    page.buffer    = several;
    page.n_buffers = RP_COUNT(several);
    char *text     = written(&page);
    static const char *const rows[] = {
        "<span class=path>layers.0</span> <small>matmul, 2 buffers</small><td class=n>5000 <small>4.88 KiB</small>",
        "<span class=path>norm</span> <small>rmsnorm, 3 buffers</small><td class=n>407 <small></small>",
        "<span class=path>norm</span> <small>rmsnorm</small><td class=n>50 <small></small>",
    };

    for (int i = 0; i < RP_COUNT(rows); i++)
        if (count(text, rows[i]) != 1) fail_msg("not on the page: %s", rows[i]);
    rp__release(text);
}

static void the_peak_on_the_page_is_the_ledgers(void **state)
{
    (void)state;
    static const char *const modes[] = { "enable_activation_checkpointing=false", "enable_activation_checkpointing=true" };

    for (int i = 0; i < 2; i++) {
        watched_step *step = smollm2(modes[i], NULL);
        char *text         = written(step_page(step)), row[128];
        for (int c = 0; c < RP_MEM_CLASSES; c++) {
            int64_t bytes = step_peak_at(step, c);
            snprintf(row, sizeof row, "%s<td class=n>%" PRId64 " ", rp_mem_class_name(c), bytes);
            if (bytes && !strstr(text, row)) fail_msg("not on the page: %s", row);
        }
        snprintf(row, sizeof row, "total<td class=n>%" PRId64 " ", step_page(step)->peak);
        assert_non_null(strstr(text, row));
        rp__release(text);
        step_free(step);
    }
}

/* ---- it stands alone ---- */

static void the_page_asks_for_nothing_outside(void **state)
{
    (void)state;
    rp_page page = small();
    char *text   = written(&page);

    assert_int_equal(count(text, "http"), count(text, "http://www.w3.org/2000/svg") + count(text, "http-equiv"));
    assert_int_equal(count(text, "url("), count(text, "url(#"));
    assert_null(strstr(text, "src="));
    assert_null(strstr(text, "@import"));
    assert_int_equal(count(text, "href="), count(text, "href=\"data:,\""));
    assert_non_null(strstr(text, "default-src 'none'"));
    rp__release(text);
}

static void what_there_is_nothing_of_is_left_out_with_its_heading(void **state)
{
    (void)state;
    static const char *const headings[] = { "Memory over the step<", "The arena<", "Step time at each budget<", "Losses<",
                                            "The fate of each slot<", "class=\"facts\"" };
    rp_page all = small(), none = { .title = "empty", .reserved = 64, .peak = 64 };
    char *with = written(&all), *without = written(&none);

    for (int i = 0; i < RP_COUNT(headings); i++) {
        assert_int_equal(count(with, headings[i]), 1);
        assert_int_equal(count(without, headings[i]), 0);
    }
    none.n_losses = 1;
    none.loss     = losses;
    rp__release(without);
    without = written(&none);
    assert_int_equal(count(without, "Losses<"), 1);
    assert_int_equal(count(without, "The arena<"), 0);
    for (const char *mark = "=?/"; *mark; mark++) {
        char text[] = { '<', '!', '-', '-', *mark, 0 };
        assert_int_equal(count(with, text) + count(without, text), 0);
    }
    rp__release(with);
    rp__release(without);
}

static void a_step_of_4000_buffers_and_10000_events_takes_less_than_600_kb(void **state)
{
    (void)state;
    watched_step *step  = smollm2("enable_activation_checkpointing=true", "gradient_accumulation_steps=2");
    const rp_page *page = step_page(step);
    char *text          = written(page);

    assert_true(page->n_buffers >= 4000 && page->n_events >= 10000);
    assert_true(strlen(text) <= 600000);
    rp__release(text);
    step_free(step);
}

/* ---- texts of others ---- */

static void hostile_texts_stay_texts(void **state)
{
    (void)state;
    static const char *const hostile[] = {
        "</script><script>alert(1)</script>", "<!--<script>", "\"'><img src=x onerror=alert(1)>", "</title></style></table>", "&lt;&amp;",
        "\\\"\n\t\x01\x7f", "\xe2\x80\xa8\xe2\x80\xa9", "caf\xc3\xa9 \xf0\x9f\x98\x80", "<!--=data-->", "]]>", "%s%n", "",
    };

    for (int i = 0; i < RP_COUNT(hostile); i++) {
        const char *h            = hostile[i];
        rp_page page             = small();
        const rp_page_owner mine = { h, h };
        rp_page_buffer all[RP_COUNT(buffers)];
        char *before = written(&page);
        memcpy(all, buffers, sizeof all);
        for (int k = 0; k < RP_COUNT(buffers); k++) all[k].owner = 0;
        page.title    = h;
        page.buffer   = all;
        page.owner    = &mine;
        page.n_owners = 1;
        page.work     = &(rp_page_work){ 0, h, h, h };
        page.slot     = &(rp_page_slot){ h, h, h, h, h, 16, 3, 1e-3, 0 };
        page.point    = &(rp_page_point){ h, 6000, .1, true };
        page.fact     = &(rp_page_fact){ h, h };
        page.n_works = page.n_points = 1;
        char *text   = written(&page);
        json_t *data = data_of(text);
        assert_string_equal(text_at(data, "owners", 0), h);
        assert_string_equal(text_at(data, "works", 1), h);
        static const char *const tags[] = { "<script", "</script", "<img", "</title", "</style", "<!--", "onerror=alert(1)>" };
        for (int k = 0; k < RP_COUNT(tags); k++)
            if (count(text, tags[k]) != count(before, tags[k])) fail_msg("'%s' got through as %s", h, tags[k]);
        json_decref(data);
        rp__release(text);
        rp__release(before);
    }
}

static void what_is_no_text_is_replaced(void **state)
{
    (void)state;
    static const struct { const char *bytes, *text; } cases[] = {
        { "\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd" }, { "\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd" },
        { "a\xc3<", "a\xef\xbf\xbd<" }, { "\xed\xa0\x80z", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz" },
    };

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_page page  = small();
        page.owner    = (rp_page_owner[]){ { cases[i].bytes, "x" }, { "y", "z" } };
        char *text    = written(&page);
        json_t *data  = data_of(text);
        assert_string_equal(text_at(data, "owners", 0), cases[i].text);
        json_decref(data);
        rp__release(text);
    }
}

/* ---- what can go wrong ---- */

static void a_failing_allocation_is_reported_and_leaves_the_old_page(void **state)
{
    (void)state;
    rp_page page     = small();
    const char *file = temp_text(&dir, "page.html", "old");
    test_faults f    = { 0 };

    while (!f.over) {
        char *text;
        int64_t bytes;
        test_fault_begin(&f, ctx);
        if (!test_fault_end(&f, rp__page_write(ctx, &page, file))) continue;
        assert_ok(ctx, rp__file_read(ctx, file, 1 << 24, &text, &bytes));
        assert_string_equal(text, "old");
        rp__release(text);
    }
    assert_true(f.failed >= 5);
}

static void a_full_disk_is_reported_and_leaves_the_old_page(void **state)
{
    (void)state;
    rp_page page     = small();
    const char *file = temp_text(&dir, "page.html", "old");
    struct rlimit old, few;
    char *text;
    int64_t bytes;

    assert_int_equal(rp__page_write(ctx, &page, "/dev/full"), RP_ERR_IO);
    assert_string_equal(rp_error(ctx), "cannot write '/dev/full': No space left on device");
    getrlimit(RLIMIT_FSIZE, &old);
    few = (struct rlimit){ 4096, old.rlim_max };
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    rp_status status = rp__page_write(ctx, &page, file);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, RP_ERR_IO);
    assert_ok(ctx, rp__file_read(ctx, file, 1 << 24, &text, &bytes));
    assert_string_equal(text, "old");
    rp__release(text);
    assert_int_equal(rp__page_write(ctx, &page, temp_path(&dir, "absent/page.html")), RP_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_buffer_owner_and_work_is_in_the_data_as_it_was_given),
        TEST(what_is_not_finite_is_null),
        TEST(without_a_script_the_peak_is_shown_with_classes_and_owners),
        TEST(an_owner_has_one_row_for_its_buffers_of_a_class_at_the_peak),
        TEST(the_peak_on_the_page_is_the_ledgers),
        TEST(the_page_asks_for_nothing_outside),
        TEST(what_there_is_nothing_of_is_left_out_with_its_heading),
        TEST(a_step_of_4000_buffers_and_10000_events_takes_less_than_600_kb),
        TEST(hostile_texts_stay_texts),
        TEST(what_is_no_text_is_replaced),
        TEST(a_failing_allocation_is_reported_and_leaves_the_old_page),
        TEST(a_full_disk_is_reported_and_leaves_the_old_page),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
