/* Claims about explaining when memory runs out: whichever allocation fails, there is an error and nothing is left, or the whole explanation. */
/* ctest: device-free */
#include "heap_test.h"

#include "explain/explain.h"
#include "reprise/ops.h"
#include "tape/tape.h"

enum { WIDTH = 8 };

typedef struct { rp_tensor *x, *first, *second, *h, *g, *y; } step;

static rp_status param(rp_ctx *ctx, const char *name, int64_t columns, rp_tensor **out)
{
    rp_meta m = rp_meta_2d(RP_F32, WIDTH, columns);

    RP_TRY(rp__tensor_new_named(ctx, &m, RP_MEM_PARAM, name, out));
    rp_tensor_require_grad(*out, true);
    return RP_OK;
}

static rp_status product(rp_ctx *ctx, rp_tensor *x, rp_tensor *w, rp_tensor **out)
{
    return rp_apply(ctx, "matmul", &(rp_attr_matmul){ false }, (rp_tensor *[]){ x, w }, 2, out);
}

/* A module without parameters. */
static rp_scope activation = { .path = "activation" };

/* Its region is replayed. */
static rp_status forward(rp_ctx *ctx, step *s)
{
    RP_TRY(product(ctx, s->x, s->first, &s->h));
    RP_TRY(rp__region_begin(ctx, "between"));
    rp__tape_ctx(ctx)->scope = &activation;
    rp_status status         = rp_apply(ctx, "gelu", &(rp_attr_gelu){ false }, &s->h, 1, &s->g);
    rp__tape_ctx(ctx)->scope = NULL;
    RP_TRY(status);
    RP_TRY(product(ctx, s->g, s->second, &s->y));
    rp_tensor_unref(s->g);
    s->g = NULL;
    return rp__region_end(ctx);
}

static rp_status begin(rp_ctx *ctx, rp_explain *e, step *s)
{
    rp_meta row = rp_meta_2d(RP_F32, 1, WIDTH);

    RP_TRY(rp__explain_watch_ctx(e, ctx));
    RP_TRY(rp__tensor_new_named(ctx, &row, RP_MEM_TEMP, "the input", &s->x));
    RP_TRY(param(ctx, "first.weight", WIDTH, &s->first));
    RP_TRY(param(ctx, "second.weight", 1, &s->second));
    return rp__explain_pause(e);
}

static rp_status run(rp_ctx *ctx, rp_explain *e, step *s)
{
    rp_tape_stats work;

    RP_TRY(begin(ctx, e, s));
    rp__explain_begin(e);
    RP_TRY(forward(ctx, s));
    RP_TRY(rp__explain_slots(e));
    RP_TRY(rp__backward(ctx, s->y));
    rp__tape_stats(ctx, &work);
    return rp__explain_end(e, &work);
}

static void drop(rp_ctx *ctx, step *s)
{
    rp_tensor *const all[] = { s->x, s->first, s->second, s->h, s->g, s->y };

    rp__tape_reset(ctx);
    for (int i = 0; i < RP_COUNT(all); i++) rp_tensor_unref(all[i]);
}

/* ---- before the step ---- */

static rp_status begins(rp_ctx *ctx, void *user)
{
    step s = { 0 };
    rp_explain e;

    (void)user;
    rp__explain_open(&e, ctx);
    rp_status status = begin(ctx, &e, &s);
    rp__explain_close(&e);
    drop(ctx, &s);
    return status;
}

/* A watch may be closed without a step. */
static void the_pause_before_a_step_reports_a_buffer_that_is_not_recorded(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true, .threads = 1 });

    (void)state;
    ctx->fault_pieces = true;
    every_allocation_fails_once(ctx, &(heap_sweep){ .least = 10 }, begins, NULL);
    test_ctx_free(ctx);
}

/* ---- the whole step ---- */

typedef struct { int slots, modules, owners, before, events, rows; int64_t peak_bytes, saved_bytes, recompute_flops, owned_bytes; } figures;

static rp_status figures_of(rp_explain *e, figures *out)
{
    rp_explain_row *row;

    *out = (figures){ .slots = e->n_slots, .modules = e->n_modules, .owners = e->n_owners, .before = e->n_before, .events = e->n_events,
                      .peak_bytes = e->peak_bytes, .saved_bytes = e->saved_bytes, .recompute_flops = e->recompute_flops };
    for (int i = 0; i < e->n_owners; i++) out->owned_bytes += e->owner[i].bytes;
    return rp__explain_rows(e, &row, &out->rows);
}

static rp_status explains_alike(rp_ctx *ctx, void *user)
{
    figures *want = user, got;
    step s        = { 0 };
    rp_explain e;

    rp__explain_open(&e, ctx);
    e.wants_events   = true;
    rp_status status = run(ctx, &e, &s);
    if (status == RP_OK) status = figures_of(&e, &got);
    if (status == RP_OK && !want->slots) *want = got;
    if (status == RP_OK) assert_memory_equal(&got, want, sizeof got);
    rp__explain_close(&e);
    drop(ctx, &s);
    return status;
}

static void a_step_is_explained_whole_or_not_at_all(void **state)
{
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .shapes_only = true, .threads = 1 });
    figures want = { 0 };

    (void)state;
    ctx->fault_pieces = true;
    every_allocation_fails_once(ctx, &(heap_sweep){ .least = 10 }, explains_alike, &want);
    assert_true(want.slots > 1 && want.rows > 1 && want.before == 3 && want.recompute_flops > 0 && want.events > 10);
    assert_int_equal(want.owned_bytes, want.peak_bytes);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pause_before_a_step_reports_a_buffer_that_is_not_recorded),
        cmocka_unit_test(a_step_is_explained_whole_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
