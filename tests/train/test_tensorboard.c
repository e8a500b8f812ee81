/* Claims about event files, read back by protobuf-c: records are framed and checked, tags and values are those of metrics.jsonl. */
/* ctest: device-free thread-free */
#include "loop_test.h"

#include <dirent.h>
#include <math.h>

#include "base/file.h"
#include "train/event.pb-c.h"
#include "train/tensorboard.h"

static void crc32c_is_castagnolis(void **state)
{
    uint8_t zeros[32] = { 0 };

    (void)state;
    assert_true(rp__crc32c("123456789", 9) == 0xe3069283u);     /* the check value of the polynomial's catalogue entry */
    assert_true(rp__crc32c(zeros, 32) == 0x8a9136aau);          /* RFC 3720, B.4 */
    assert_true(rp__crc32c("", 0) == 0);
}

/* ---- reading ---- */

enum { MOST_EVENTS = 64 };
typedef struct { Rp__Event *event[MOST_EVENTS]; int n; } events;

static uint32_t u32_at(const char *p)
{
    const uint8_t *b = (const uint8_t *)p;

    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* The mask of TensorFlow's record format, undone. */
static uint32_t unmasked(uint32_t masked)
{
    uint32_t rotated = masked - 0xa282ead8u;

    return rotated >> 17 | rotated << 15;
}

static void read_events(const char *path, events *out)
{
    static char bytes[1 << 20];
    FILE *f = fopen(path, "rb");

    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (size_t at = 0; at < n;) {
        assert_true(at + 16 <= n);
        uint32_t length = u32_at(bytes + at);
        assert_int_equal(u32_at(bytes + at + 4), 0);
        assert_true(at + 16 + length <= n);
        assert_true(unmasked(u32_at(bytes + at + 8)) == rp__crc32c(bytes + at, 8));
        assert_true(unmasked(u32_at(bytes + at + 12 + length)) == rp__crc32c(bytes + at + 12, length));
        assert_true(out->n < MOST_EVENTS);
        out->event[out->n] = rp__event__unpack(NULL, length, (const uint8_t *)bytes + at + 12);
        assert_non_null(out->event[out->n++]);
        at += 16 + length;
    }
}

static void drop(events *e)
{
    for (int i = 0; i < e->n; i++) rp__event__free_unpacked(e->event[i], NULL);
    e->n = 0;
}

/* Files of the folder by name. */
static int files_of(const char *folder, char path[8][1024])
{
    struct dirent **list;
    int n = scandir(folder, &list, NULL, alphasort), kept = 0;

    for (int i = 0; i < n; i++) {
        if (list[i]->d_name[0] != '.' && kept < 8) snprintf(path[kept++], 1024, "%.700s/%s", folder, list[i]->d_name);
        free(list[i]);
    }
    free(list);
    return kept;
}

static double value_of(const Rp__Event *event, const char *tag)
{
    for (size_t i = 0; i < event->summary->n_value; i++)
        if (!strcmp(event->summary->value[i]->tag, tag)) return event->summary->value[i]->simple_value;
    return NAN;
}

/* ---- runs ---- */

static const char *folder_of(const char *name)
{
    static char path[900];

    snprintf(path, sizeof path, "%s/%s/tensorboard", dir.path, name);
    return path;
}

static void each_step_has_what_its_line_of_metrics_has(void **state)
{
    char set[300], path[8][1024];
    events e = { .n = 0 };

    (void)state;
    snprintf(set, sizeof set, "dataset_val={path: %s/val.bin, format: tokens}", dir.path);
    run_whole(&dir, "llama", "out", RUN("max_steps=4", "tensorboard=true", set, "run_val_every_n_steps=2"));
    assert_int_equal(files_of(folder_of("out"), path), 1);
    read_events(path[0], &e);
    metrics m = metrics_of(&dir, "out");
    assert_int_equal(e.n, 2 + 4);
    assert_string_equal(e.event[0]->file_version, "brain.Event:2");
    assert_int_equal(e.event[1]->session_log->status, RP__SESSION_LOG__STATUS__START);
    assert_int_equal(e.event[1]->step, 1);
    for (int i = 0; i < 4; i++) {
        const Rp__Event *event = e.event[2 + i];
        json_t *line           = json_loads(m.line[i], 0, NULL), *value;
        const char *key;
        assert_int_equal(event->what_case, RP__EVENT__WHAT_SUMMARY);
        assert_int_equal(event->step, i + 1);
        assert_true(event->wall_time > 1.6e9);
        assert_int_equal(event->summary->n_value, json_object_size(line) - 1);
        json_object_foreach(line, key, value)
            if (strcmp(key, "step")) assert_true(value_of(event, key) == (double)(float)json_number_value(value));
        assert_int_equal(!isnan(value_of(event, "val_loss")), i % 2);
        json_decref(line);
    }
    free(m.text);
    drop(&e);
}

static void a_run_that_goes_on_voids_what_it_makes_again(void **state)
{
    char path[8][1024];
    events e = { .n = 0 };

    (void)state;
    run r = run_open(&dir, "llama", "out", RUN("max_steps=6", "tensorboard=true", "save_every_n_steps=2"));
    assert_ok(r.ctx, r.status);
    rp_metrics line;
    for (int i = 0; i < 5; i++) assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    run_close(&r);                                          /* killed after step 5: the newest state is of step 4 */
    run_whole(&dir, "llama", "out", RUN("max_steps=6", "tensorboard=true", "save_every_n_steps=2", "resume=auto"));
    assert_int_equal(files_of(folder_of("out"), path), 2);
    read_events(path[1], &e);
    assert_int_equal(e.n, 2 + 2);
    assert_int_equal(e.event[1]->session_log->status, RP__SESSION_LOG__STATUS__START);
    assert_int_equal(e.event[1]->step, 5);
    assert_int_equal(e.event[2]->step, 5);
    drop(&e);
}

/* TensorBoard reads files in the order of their names; a clock may be set back between two runs. */
static void a_later_file_comes_later_whatever_the_clock_says(void **state)
{
    char path[8][1024];
    rp_ctx *ctx = test_ctx(NULL);
    rp_tensorboard *board;

    (void)state;
    assert_ok(ctx, rp__make_dirs(ctx, folder_of("out")));
    temp_text(&dir, "out/tensorboard/events.out.tfevents.4102444800.host.1.v2", "");       /* in 2100 */
    for (int i = 0; i < 2; i++) {
        assert_ok(ctx, rp__tensorboard_open(ctx, folder_of("out"), 0, &board));
        rp__tensorboard_close(board);
    }
    assert_int_equal(files_of(folder_of("out"), path), 3);
    assert_non_null(strstr(path[1], ".4102444801."));
    assert_non_null(strstr(path[2], ".4102444802."));
    test_ctx_free(ctx);
}

static void without_the_key_there_is_no_folder(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "out", RUN("max_steps=1"));
    assert_false(is_there(&dir, "out/tensorboard"));
}

static void a_folder_that_cannot_be_made_is_reported(void **state)
{
    rp_ctx *ctx           = test_ctx(NULL);
    rp_tensorboard *board = NULL;

    (void)state;
    assert_int_equal(rp__tensorboard_open(ctx, temp_text(&dir, "file", ""), 0, &board), RP_ERR_EXISTS);
    assert_null(board);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_is_castagnolis),
        TEST(each_step_has_what_its_line_of_metrics_has),
        TEST(a_run_that_goes_on_voids_what_it_makes_again),
        TEST(a_later_file_comes_later_whatever_the_clock_says),
        TEST(without_the_key_there_is_no_folder),
        TEST(a_folder_that_cannot_be_made_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
