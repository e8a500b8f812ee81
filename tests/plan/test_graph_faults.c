/* Claims about graphs when memory runs out: an error and nothing left, or the whole graph, plan or file. */
/* ctest: device-free */
#include "heap_test.h"

#include <jansson.h>

#include "base/file.h"
#include "base/json_text.h"
#include "random_graph.h"
#include "train/temp.h"

typedef struct { drawn_text graph; temp_dir dir; const char *path; char *plan; rp_graph read; } subject;

static char *file_text(const char *path)
{
    static char text[1 << 16];
    FILE *f = fopen(path, "rb");

    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

/* The plan's JSON is compared as text, so a part that is missing would show. */
static rp_status plans_alike(rp_ctx *ctx, void *user)
{
    const subject *s = user;
    rp_graph graph   = { .other_seconds = -1 };
    rp_graph_plan plan;
    json_t *json     = NULL;
    rp_status status = rp__graph_parse(ctx, "drawn", s->graph.at, s->graph.n, &graph);

    if (status != RP_OK) {
        assert_true(graph.other_seconds == -1);
        return status;
    }
    status = rp__graph_plan(ctx, &graph, 0, &plan);
    if (status == RP_OK) json = rp__graph_plan_json(ctx, &graph, &plan);
    if (status == RP_OK && !json) status = RP_ERR_MEMORY;
    if (json && s->plan) {
        heap_faults faults = heap_pause(ctx);
        char *text         = rp__json_text(json, 0);
        assert_string_equal(text, s->plan);
        free(text);
        heap_resume(ctx, faults);
    }
    json_decref(json);
    rp__graph_plan_close(&plan);
    rp__graph_close(&graph);
    return status;
}

static rp_status evaluates_alike(rp_ctx *ctx, void *user)
{
    const subject *s = user;
    rp_graph_plan plan;
    rp_status status = rp__graph_evaluate(ctx, &s->read, s->path, 0, &plan);

    if (status == RP_OK) assert_true(plan.plan->recompute_seconds > 0 && plan.plan->found.offloaded_bytes == 0);
    rp__graph_plan_close(&plan);
    return status;
}

static rp_status writes_all_or_nothing(rp_ctx *ctx, void *user)
{
    const subject *s   = user;
    heap_faults faults = heap_pause(ctx);
    const char *path   = temp_path(&s->dir, "g.json");

    remove(path);
    heap_resume(ctx, faults);
    rp_status status = rp__graph_write(ctx, path, &s->read.trace, 7, 0.25);
    faults           = heap_pause(ctx);
    if (status != RP_OK) assert_false(rp__file_exists(path));
    else if (s->plan) assert_string_equal(file_text(path), s->plan);
    heap_resume(ctx, faults);
    return status;
}

/* A drawn graph with at least 6 calls, and a plan that recomputes one of them. */
static void begin(rp_ctx *ctx, subject *s)
{
    *s = (subject){ .dir = temp_make() };
    for (uint32_t seed = 0; !s->read.trace.n_passes || s->read.trace.pass[0].n_calls < 6; seed++) {
        rp__graph_close(&s->read);
        drawn_graph(seed, &s->graph);
        assert_ok(ctx, rp__graph_parse(ctx, "drawn", s->graph.at, s->graph.n, &s->read));
    }
    s->path = temp_path(&s->dir, "p.json");
}

static void end(rp_ctx *ctx, subject *s)
{
    rp__graph_close(&s->read);
    free(s->plan);
    temp_remove(&s->dir);
    test_ctx_free(ctx);
}

static void a_graph_is_planned_whole_or_not_at_all(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    rp_graph_plan plan;
    subject s;

    (void)state;
    begin(ctx, &s);
    assert_ok(ctx, rp__graph_plan(ctx, &s.read, 0, &plan));
    json_t *json = rp__graph_plan_json(ctx, &s.read, &plan);
    s.plan       = rp__json_text(json, 0);
    json_decref(json);
    rp__graph_plan_close(&plan);
    every_allocation_fails_once(ctx, &(heap_sweep){ .each = test_few_or(20, 0), .least = 20 }, plans_alike, &s);
    end(ctx, &s);
}

/* Recomputes the first call that reruns and that a backward reads. */
static void write_plan(const subject *s)
{
    const rp_trace_pass *p = &s->read.trace.pass[0];
    FILE *f                = fopen(s->path, "wb");
    const char *name       = NULL;

    for (int c = 0; c < p->n_calls - 1 && !name; c++)
        for (int i = 0; i < p->call[c].n_needs && !name; i++) {
            const rp_trace_value *v = &p->value[p->call[c].needs[i]];
            if (v->call >= 0 && p->call[v->call].replays) name = s->read.name[0][p->call[c].needs[i]];
        }
    assert_non_null(name);
    fprintf(f, "{\"reprise_graph_plan\": 1, \"passes\": [{\"fates\": {\"%s\": \"recompute\"}, \"regions\": [[0, 1]]}]}",
            name);
    fclose(f);
}

static void a_plan_is_evaluated_whole_or_not_at_all(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    subject s;

    (void)state;
    begin(ctx, &s);
    write_plan(&s);
    every_allocation_fails_once(ctx, &(heap_sweep){ .each = test_few_or(20, 0), .least = 20 }, evaluates_alike, &s);
    end(ctx, &s);
}

static void a_graph_is_written_whole_or_not_at_all(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    subject s;

    (void)state;
    begin(ctx, &s);
    assert_ok(ctx, writes_all_or_nothing(ctx, &s));
    s.plan = strdup(file_text(temp_path(&s.dir, "g.json")));
    every_allocation_fails_once(ctx, &(heap_sweep){ .each = test_few_or(20, 0), .least = 3 }, writes_all_or_nothing, &s);
    end(ctx, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_is_planned_whole_or_not_at_all),
        cmocka_unit_test(a_plan_is_evaluated_whole_or_not_at_all),
        cmocka_unit_test(a_graph_is_written_whole_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
