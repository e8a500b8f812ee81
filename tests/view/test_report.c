/* Claims about the report of a run or a plan: its buffers are those of the step, its losses those of the run. */
/* ctest: device-free thread-free */
#include "rp_test.h"

#include <math.h>

#include "train/temp.h"
#include "view/step.h"

static watched_step *watch(const char *mode, const char *more)
{
    const char *const setting[] = { "~model.path", "model.config=" RP_SOURCE_DIR "/bench/configs/smollm2-135m.json", "threads=2", mode,
                                    more, NULL };

    return step_watch(RP_SOURCE_DIR "/recipes/smollm2_135m_full.yaml", setting);
}

static const char *const steps[][2] = {
    { "enable_activation_checkpointing=false", NULL },
    { "enable_activation_checkpointing=true", "gradient_accumulation_steps=2" },
    { "~enable_activation_checkpointing", "memory_budget=1700MiB" },
};

/* ---- buffers ---- */

static void the_most_that_lives_at_an_event_is_the_peak(void **state)
{
    (void)state;
    for (int k = 0; k < RP_COUNT(steps); k++) {
        watched_step *step = watch(steps[k][0], steps[k][1]);
        const rp_page *p   = step_page(step);
        int64_t *change    = calloc((size_t)p->n_events + 1, sizeof *change), live = 0, most = 0;
        assert_non_null(change);
        for (int i = 0; i < p->n_buffers; i++) {
            change[p->buffer[i].begin] += p->buffer[i].bytes;
            change[p->buffer[i].end] -= p->buffer[i].bytes;
        }
        for (int e = 0; e < p->n_events; e++) {
            live += change[e];
            if (live > most) most = live;
        }
        assert_int_equal(most, p->peak);
        assert_int_equal(most, step_forecast(step)->plan.found.memory.peak_bytes);
        free(change);
        step_free(step);
    }
}

static void no_two_buffers_are_at_one_address_at_one_time(void **state)
{
    (void)state;
    for (int k = 0; k < RP_COUNT(steps); k++) {
        watched_step *step = watch(steps[k][0], steps[k][1]);
        const rp_page *p   = step_page(step);
        for (int i = 0; i < p->n_buffers; i++) {
            const rp_page_buffer *a = &p->buffer[i];
            assert_true(a->offset >= 0 && a->offset + a->bytes <= p->reserved && a->begin <= a->end && a->end <= p->n_events);
            if (i) assert_true(a->begin >= p->buffer[i - 1].begin);
            if (a->kept_from >= 0) assert_true(a->kept_from >= a->begin && a->kept_until <= a->end && a->kept_from <= a->kept_until);
            for (int j = i + 1; j < p->n_buffers && p->buffer[j].begin < a->end; j++) {
                const rp_page_buffer *b = &p->buffer[j];
                if (b->begin < b->end && b->offset < a->offset + a->bytes && a->offset < b->offset + b->bytes)
                    fail_msg("%s %s and %s %s overlap", p->owner[a->owner].path, p->owner[a->owner].name, p->owner[b->owner].path,
                             p->owner[b->owner].name);
            }
        }
        step_free(step);
    }
}

static void each_buffer_has_the_owner_of_its_event_and_each_owner_is_there_once(void **state)
{
    (void)state;
    watched_step *step  = watch(steps[1][0], steps[1][1]);
    const rp_page *p    = step_page(step);
    const rp_explain *e = &step_forecast(step)->explain;
    int n               = 0;

    for (int i = -e->n_before; i < e->n_events; i++) {
        const rp_explain_event *event = i < 0 ? &e->before[e->n_before + i] : &e->event[i];
        if (!event->take || !event->bytes) continue;
        assert_true(n < p->n_buffers);
        assert_string_equal(p->owner[p->buffer[n].owner].path, event->path);
        assert_string_equal(p->owner[p->buffer[n].owner].name, event->name);
        n++;
    }
    assert_int_equal(n, p->n_buffers);
    assert_true(p->n_owners > 50 && p->n_owners < n);
    for (int i = 0; i < p->n_owners; i++)
        for (int j = 0; j < i; j++) assert_false(!strcmp(p->owner[i].path, p->owner[j].path) && !strcmp(p->owner[i].name, p->owner[j].name));
    step_free(step);
}

static void a_work_begins_with_the_first_event_of_another_call(void **state)
{
    (void)state;
    static const char *const phases[] = { "other", "forward", "replay", "backward" };
    static const rp_tape_phase phase[] = { RP_TAPE_OTHER, RP_TAPE_FORWARD, RP_TAPE_REPLAY, RP_TAPE_BACKWARD };
    watched_step *step  = watch(steps[1][0], steps[1][1]);
    const rp_page *p    = step_page(step);
    const rp_explain *e = &step_forecast(step)->explain;
    int n = 0, seen[4] = { 0 };

    for (int i = 0; i < e->n_events; i++) {
        const rp_explain_event *event = &e->event[i];
        const char *path = event->at ? event->at : "", *op = event->op ? event->op : event->name ? event->name : "";
        int k = 0;
        if (!event->take) continue;
        while (phase[k] != event->phase) k++;
        if (n && !strcmp(p->work[n - 1].phase, phases[k]) && !strcmp(p->work[n - 1].path, path) && !strcmp(p->work[n - 1].op, op)) continue;
        assert_true(n < p->n_works);
        assert_int_equal(p->work[n].begin, i);
        assert_string_equal(p->work[n].phase, phases[k]);
        assert_string_equal(p->work[n].path, path);
        assert_string_equal(p->work[n].op, op);
        seen[k]++;
        n++;
    }
    assert_int_equal(n, p->n_works);
    for (int k = 0; k < 4; k++) assert_true(seen[k] > 0);
    step_free(step);
}

static void lines_of_slots_stand_for_all_of_them(void **state)
{
    (void)state;
    watched_step *step = watch(steps[2][0], steps[2][1]);
    const rp_page *p   = step_page(step);
    int64_t kept       = 0;
    int n              = 0;

    for (int i = 0; i < p->n_slots; i++) {
        n += p->slot[i].count;
        kept += strcmp(p->slot[i].fate, "keep") ? 0 : p->slot[i].count * p->slot[i].bytes;
    }
    assert_int_equal(n, step_forecast(step)->explain.n_slots);
    assert_int_equal(kept, step_forecast(step)->plan.found.saved_bytes);
    assert_true(p->reserved <= p->budget && p->overhead > 0);
    step_free(step);
}

/* ---- losses ---- */

static rp_status losses_of(watched_step *step, const char *text, rp_bump *bump, rp_page *out)
{
    temp_dir dir           = temp_make();
    const rp_report_page r = { step_forecast(step), NULL, "a run", temp_text(&dir, "metrics.jsonl", text) };

    rp_status status = rp__report_page_fill(&r, bump, out);
    temp_remove(&dir);
    return status;
}

static void a_loss_that_is_not_finite_is_not_written_as_a_number(void **state)
{
    (void)state;
    watched_step *step = watch(steps[0][0], steps[0][1]);
    rp_ctx *ctx        = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_bump bump       = { .ctx = ctx };
    rp_page p;

    assert_ok(ctx, losses_of(step,
                             "{\"step\": 1, \"loss\": 2.5, \"lr\": 1e-4}\n"
                             "{\"step\": 2, \"loss\": null, \"val_loss\": 3, \"lr\": 1e-5}\n",
                             &bump, &p));
    assert_int_equal(p.n_losses, 2);
    assert_true(p.loss[0].step == 1 && p.loss[0].loss == 2.5 && p.loss[0].lr == 1e-4 && !p.loss[0].has_val);
    assert_true(p.loss[1].step == 2 && isnan(p.loss[1].loss) && p.loss[1].has_val && p.loss[1].val_loss == 3);
    assert_string_equal(p.fact[p.n_facts - 1].name, "lowest validation loss");
    assert_string_equal(p.fact[p.n_facts - 1].value, "3 at step 2");
    assert_ok(ctx, losses_of(step, "{\"step\": 1, \"loss\": 2, \"val_loss\": 3}\n{\"step\": 2, \"loss\": 2, \"val_loss\": 2.5}\n"
                                   "{\"step\": 3, \"loss\": 2, \"val_loss\": null}\n{\"step\": 4, \"loss\": 2, \"val_loss\": 2.5}\n", &bump, &p));
    assert_string_equal(p.fact[p.n_facts - 1].value, "2.5 at step 2");
    assert_ok(ctx, losses_of(step, "{\"step\": 1, \"loss\": 2}\n{\"step\": 2, \"loss\": 2, \"val_loss\": null}\n", &bump, &p));
    assert_int_equal(p.n_samples, 0);
    assert_string_equal(p.fact[p.n_facts - 1].name, "regions");

    assert_int_equal(losses_of(step, "{\"step\": 1, \"loss\": 2.5}\n{\"step\"", &bump, &p), RP_ERR_FORMAT);
    assert_non_null(strstr(rp_error(ctx), "metrics.jsonl' line 2 is not JSON: "));
    rp__bump_free(&bump);
    test_ctx_free(ctx);
    step_free(step);
}

/* The last prompts, in the order of the file. Values that are not text become empty. */
static void continued_prompts_are_listed(void **state)
{
    (void)state;
    watched_step *step = watch(steps[0][0], steps[0][1]);
    rp_ctx *ctx        = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_bump bump       = { .ctx = ctx };
    static char text[100 * 160];
    int used = 0;
    rp_page p;

    assert_ok(ctx, losses_of(step, "{\"step\": 1, \"loss\": 2, \"samples\": [{\"prompt\": \"a\", \"text\": \"b\"}, {\"prompt\": 5}]}\n", &bump, &p));
    assert_int_equal(p.n_samples, 2);
    assert_true(p.sample[0].step == 1 && !strcmp(p.sample[0].prompt, "a") && !strcmp(p.sample[0].text, "b"));
    assert_true(!*p.sample[1].prompt && !*p.sample[1].text);
    for (int i = 1; i <= 100; i++)
        used += snprintf(text + used, 160, "{\"step\": %d, \"loss\": 2, \"samples\": [{\"prompt\": \"a\", \"text\": \"%d\"}]}\n", i, i);
    assert_ok(ctx, losses_of(step, text, &bump, &p));
    assert_int_equal(p.n_samples, 64);
    for (int i = 0; i < 64; i++) assert_true(p.sample[i].step == 37 + i && strtol(p.sample[i].text, NULL, 10) == 37 + i);
    rp__bump_free(&bump);
    test_ctx_free(ctx);
    step_free(step);
}

/* The steps of a long run are thinned: evenly, as little as the page allows, and with both ends. Lines with a validation, too. */
static void a_long_run_is_shown_by_steps_at_one_distance_and_its_last(void **state)
{
    (void)state;
    enum { MOST = 4096, VAL = 1500 };
    static const int64_t lengths[] = { 1, MOST, MOST + 1, 2 * (MOST - 1), 2 * MOST - 1, 2 * MOST };
    watched_step *step = watch(steps[0][0], steps[0][1]);
    rp_ctx *ctx        = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    char *text         = malloc(2 * MOST * 64);

    assert_non_null(text);
    for (int k = 0; k < RP_COUNT(lengths); k++) {
        rp_bump bump = { .ctx = ctx };
        int64_t n = lengths[k], used = 0, n_even = 0, n_val = 0;
        rp_page p;
        for (int64_t i = 1; i <= n; i++)
            used += snprintf(text + used, 64, "{\"step\": %" PRId64 ", \"loss\": 1%s}\n", i, i % VAL ? "" : ", \"val_loss\": 2");
        assert_ok(ctx, losses_of(step, text, &bump, &p));
        int64_t distance = p.n_losses > 1 ? p.loss[1].step - p.loss[0].step : 1;
        for (int i = 0; i < p.n_losses; i++) {
            bool even = (p.loss[i].step - 1) % distance == 0;
            assert_true(even || p.loss[i].step == n || p.loss[i].has_val);
            assert_true(p.loss[i].has_val == (p.loss[i].step % VAL == 0) && (!i || p.loss[i].step > p.loss[i - 1].step));
            n_even += even;
            n_val += p.loss[i].has_val;
        }
        assert_true(p.loss[0].step == 1 && p.loss[p.n_losses - 1].step == n);
        assert_int_equal(n_val, n / VAL);
        assert_int_equal(n_even, (n - 1) / distance + 1);
        assert_true(n > MOST || p.n_losses == n);
        assert_true(n_even <= MOST && (distance == 1 || (n - 1) / (distance - 1) + 1 >= MOST));     /* a smaller distance would fill the page */
        rp__bump_free(&bump);
    }
    free(text);
    test_ctx_free(ctx);
    step_free(step);
}

/* ---- what can go wrong ---- */

static void a_failing_allocation_is_reported(void **state)
{
    (void)state;
    watched_step *step = watch(steps[1][0], steps[1][1]);
    rp_ctx *ctx        = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    test_faults f      = { 0 };

    while (!f.over) {
        rp_bump bump = { .ctx = ctx };
        rp_page p;
        test_fault_begin(&f, ctx);
        test_fault_end(&f, losses_of(step, "{\"step\": 1, \"loss\": 2.5}\n", &bump, &p));
        rp__bump_free(&bump);
    }
    assert_true(f.failed > 5);
    test_ctx_free(ctx);
    step_free(step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_that_lives_at_an_event_is_the_peak),
        cmocka_unit_test(no_two_buffers_are_at_one_address_at_one_time),
        cmocka_unit_test(each_buffer_has_the_owner_of_its_event_and_each_owner_is_there_once),
        cmocka_unit_test(a_work_begins_with_the_first_event_of_another_call),
        cmocka_unit_test(lines_of_slots_stand_for_all_of_them),
        cmocka_unit_test(a_loss_that_is_not_finite_is_not_written_as_a_number),
        cmocka_unit_test(continued_prompts_are_listed),
        cmocka_unit_test(a_long_run_is_shown_by_steps_at_one_distance_and_its_last),
        cmocka_unit_test(a_failing_allocation_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
