/* Claims about plan files: read back they plan the same step; what has changed since is named; what is no plan is refused in a sentence. */
/* ctest: device-free thread-free */
#include "plan/modes.h"
#include "plan/planned_step.h"

static const char *write_it(planned_step *x, const char *name)
{
    const char *path = temp_path(&x->dir, name);

    assert_ok(x->ctx, rp__plan_write(x->ctx, path, x->plan, &STAMP, &TAKES, "seed: 1\n# \"quoted\"\n"));
    return path;
}

/* A budget may be below the simulated bytes of the least plan, because slots of must-rules count for longer than they are held. The figures of
 * such a plan are numbers, too. */
static void a_plan_that_takes_less_than_simulated_is_read_back(void **state)
{
    rp_plan_stamp stamp = STAMP;
    planned_step x;
    rp_plan_text *text;
    rp_plan *recompute;
    double bound;

    (void)state;
    stamp.budget = 1;
    planned_begin(&x, &SMALL);
    const char *path = temp_path(&x.dir, "p.json");
    assert_ok(x.ctx, rp__plan_write(x.ctx, path, x.plan, &stamp, &TAKES, ""));
    assert_ok(x.ctx, rp__plan_read(x.ctx, path, &text));
    assert_ok(x.ctx, rp__plan_from_text(x.ctx, text, &x.problem, &stamp, &recompute));
    assert_ok(x.ctx, rp__plan_bound(x.ctx, &x.problem, stamp.budget, &bound));
    assert_true(isfinite(bound));
    rp__plan_free(recompute);
    rp__plan_text_free(text);
    planned_end(&x);
}

static void a_plan_read_back_plans_the_same_step(void **state)
{
    planned_step x;
    rp_plan_text *text;
    rp_plan *recompute;

    (void)state;
    planned_begin(&x, &SMALL);
    assert_ok(x.ctx, rp__plan_read(x.ctx, write_it(&x, "p.json"), &text));
    assert_true(rp__plan_text_variant(text).in_backward && rp__plan_text_variant(text).keeps_logits);
    assert_false(rp__plan_text_is_empty(text));
    assert_string_equal(rp__plan_text_recipe(text), "seed: 1\n# \"quoted\"\n");
    assert_ok(x.ctx, rp__plan_from_text(x.ctx, text, &x.problem, &STAMP, &recompute));
    assert_int_equal(recompute->n_passes, x.plan->n_passes);
    const rp_plan_pass *a = &recompute->pass[0], *b = &x.plan->pass[0];
    assert_true(b->n_recomputed > 0);
    assert_int_equal(a->n_recomputed, b->n_recomputed);
    for (int i = 0; i < b->n_calls; i++) assert_int_equal(a->call[i].recompute, b->call[i].recompute);
    assert_int_equal(a->n_regions, b->n_regions);
    for (int i = 0; i < b->n_regions; i++) {
        assert_int_equal(a->region[i].first, b->region[i].first);
        assert_int_equal(a->region[i].end, b->region[i].end);
        assert_string_equal(a->region[i].path, b->region[i].path);
    }
    rp__plan_free(recompute);
    rp__plan_text_free(text);
    planned_end(&x);
}

static void what_a_mode_keeps_in_its_regions_is_read_back(void **state)
{
    planned_step x;
    rp_plan_text *text;
    rp_plan *mode, *recompute;
    int n_kept = 0;

    (void)state;
    planned_begin(&x, &SMALL);
    assert_ok(x.ctx, rp__plan_mode(x.ctx, &x.problem, RP_PLAN_SELECTIVE_OP, &mode));
    assert_non_null(mode);
    mode->variant    = (rp_step_variant){ true, true };
    const char *path = temp_path(&x.dir, "m.json");
    assert_ok(x.ctx, rp__plan_write(x.ctx, path, mode, &STAMP, &TAKES, ""));
    assert_ok(x.ctx, rp__plan_read(x.ctx, path, &text));
    assert_ok(x.ctx, rp__plan_from_text(x.ctx, text, &x.problem, &STAMP, &recompute));
    const rp_plan_pass *a = &recompute->pass[0], *b = &mode->pass[0];
    assert_true(b->n_regions > 0);
    assert_int_equal(a->n_regions, b->n_regions);
    for (int i = 0; i < b->n_calls; i++) {
        assert_int_equal(a->call[i].kept, b->call[i].kept);
        n_kept += b->call[i].kept;
    }
    assert_true(n_kept > 0);
    rp__plan_free(mode);
    rp__plan_free(recompute);
    rp__plan_text_free(text);
    planned_end(&x);
}

static void what_has_changed_is_named(void **state)
{
    static const struct { rp_plan_stamp stamp; const char *words;
    } cases[] = {
        { { "0.2", "a machine", 2, 0x1234, 300000, "adamw with fp32 states", 0x77 }, "made for version 0.1, this is 0.2" },
        { { "0.1", "another", 2, 0x1234, 300000, "adamw with fp32 states", 0x77 }, "made for machine a machine, this is another" },
        { { "0.1", "a machine", 3, 0x1234, 300000, "adamw with fp32 states", 0x77 }, "made for threads 2, this is 3" },
        { { "0.1", "a machine", 2, 0x1235, 300000, "adamw with fp32 states", 0x77 }, "made for cost table 0000000000001234, this is 0000000000001235" },
        { { "0.1", "a machine", 2, 0x1234, 300001, "adamw with fp32 states", 0x77 }, "made for a memory_budget of 300000, this is 300001" },
        { { "0.1", "a machine", 2, 0x1234, 300000, "adamw with bf16 states", 0x77 },
          "made for optimizer adamw with fp32 states, this is adamw with bf16 states" },
        { { "0.1", "a machine", 2, 0x1234, 300000, "adamw with fp32 states", 0x78 },
          "made for the memory before a step (weights, optimizer states) 0000000000000077" },
    };
    planned_step x, other;
    rp_plan_text *text;
    rp_plan *plan;

    (void)state;
    planned_begin(&x, &SMALL);
    planned_begin(&other, &(sizes){ SIZES_TINY, .gpt2 = true });
    assert_ok(x.ctx, rp__plan_read(x.ctx, write_it(&x, "p.json"), &text));
    for (int i = 0; i < RP_COUNT(cases); i++) {
        assert_int_equal(rp__plan_from_text(x.ctx, text, &x.problem, &cases[i].stamp, &plan), RP_ERR_CONFIG);
        if (!strstr(rp_error(x.ctx), cases[i].words)) fail_msg("'%s' is not in: %s", cases[i].words, rp_error(x.ctx));
    }
    assert_int_equal(rp__plan_from_text(other.ctx, text, &other.problem, &STAMP, &plan), RP_ERR_CONFIG);
    assert_non_null(strstr(rp_error(other.ctx), "made for calls (model, shapes, dtype)"));
    rp__plan_text_free(text);
    planned_end(&x);
    planned_end(&other);
}

/* Each a change of a good file, as text in place of text. */
static void what_is_no_plan_is_refused(void **state)
{
    static const struct { const char *from, *to, *words; rp_status status; } cases[] = {
        { "{\"reprise_plan\"", "\"reprise_plan\"", "is no plan: line 1", RP_ERR_FORMAT },
        { "\"reprise_plan\": 1", "\"reprise_plan\": 2", "of another version", RP_ERR_FORMAT },
        { "\"reprise_plan\": 1", "\"plan\": 1", "has no 'reprise_plan'", RP_ERR_FORMAT },
        { "\"threads\"", "\"thread\"", "'made_for' is incomplete", RP_ERR_FORMAT },
        { "\"optimizer_in_bwd\": true", "\"optimizer_in_bwd\": 1", "'optimizer_in_bwd' is no boolean", RP_ERR_FORMAT },
        { "\"recipe\"", "\"recipes\"", "has no 'recipe'", RP_ERR_FORMAT },
        { "\"passes\"", "\"pass\"", "has no 'passes'", RP_ERR_FORMAT },
        { "\"at\": ", "\"in\": ", "one of 'passes' is incomplete", RP_ERR_FORMAT },
        { "\"at\": ", "\"at\": 9999", "is not in the step", RP_ERR_CONFIG },
        { "\"at\": ", "\"at\": -", "is not in the step", RP_ERR_CONFIG },
        { "\"regions\": [", "\"regions\": [{\"first\": 4294967296, \"end\": 2, \"path\": \"x\"}", "does not nest", RP_ERR_CONFIG },
    };
    planned_step x;
    char *good, changed[65536];
    int64_t bytes;

    (void)state;
    planned_begin(&x, &SMALL);
    assert_ok(x.ctx, rp__file_read(x.ctx, write_it(&x, "p.json"), 1 << 20, &good, &bytes));
    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_plan_text *text = NULL;
        rp_plan *plan      = NULL;
        const char *at     = strstr(good, cases[i].from);
        assert_non_null(at);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - good), good, cases[i].to, at + strlen(cases[i].from));
        rp_status status = rp__plan_parse(x.ctx, "p.json", changed, (int64_t)strlen(changed), &text);
        if (status == RP_OK) status = rp__plan_from_text(x.ctx, text, &x.problem, &STAMP, &plan);
        if (status != cases[i].status || !strstr(rp_error(x.ctx), cases[i].words)) fail_msg("case %d: status %d, %s", i, (int)status, rp_error(x.ctx));
        rp__plan_text_free(text);
    }
    rp__release(good);
    planned_end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_read_back_plans_the_same_step),
        cmocka_unit_test(a_plan_that_takes_less_than_simulated_is_read_back),
        cmocka_unit_test(what_a_mode_keeps_in_its_regions_is_read_back),
        cmocka_unit_test(what_has_changed_is_named),
        cmocka_unit_test(what_is_no_plan_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
