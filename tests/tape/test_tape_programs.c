/* Claims about random programs: regions in regions, sequences, errors that are caught, backwards in the middle, under random fates. What is
 * a region never shows in a gradient.
 *
 *   program   a tree; a node runs its children one after the other, each on the output of the one before
 *   region    rp_checkpoint · sequence: rp_checkpoint_sequential · caught: a region that fails in its middle · back: backward of the sum
 *   captured  ops also read what the node around them began with, which is no argument of theirs
 */
#include "tape/fates.h"

enum { N_PROGRAMS = 400, ROWS = 4, COLUMNS = 8, MOST_CHILDREN = 4, MOST_NODES = 64, MOST_PARAMS = 2 };
enum { SILU, GELU, PRODUCT, CAPTURED, DROPOUT, N_OPS, PLAIN = N_OPS, REGION, SEQUENCE, CAUGHT, BACK };

typedef struct { int kind, child[MOST_CHILDREN], n_children, segments; } node;

typedef struct {
    node at[MOST_NODES];
    int n;
    uint32_t state;
} program;

typedef struct {
    const program *p;
    rp_tensor *param[MOST_PARAMS];
    bool regions;                   /* false: the same calls without any */
} machine;

typedef struct { machine *m; int node; rp_tensor *captured; } task;

static uint32_t draw(program *p, uint32_t below)
{
    p->state = p->state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(p->state >> 4) * below) >> 28);
}

static int make(program *p, int depth)
{
    int at      = p->n++;
    bool inner  = depth < 4 && p->n < MOST_NODES - 8 && (depth < 2 || draw(p, 3) == 0);
    node made   = { .kind = inner ? (int)(PLAIN + draw(p, 5)) : (int)draw(p, N_OPS) };

    if (depth == 0) made.kind = PLAIN;
    if (made.kind >= PLAIN && made.kind <= SEQUENCE) {
        made.n_children = 1 + (int)draw(p, MOST_CHILDREN);
        for (int i = 0; i < made.n_children; i++) {
            if (p->n >= MOST_NODES - 8) made.n_children = i;
            else made.child[i] = make(p, depth + 1);
        }
        made.segments = made.n_children ? 1 + (int)draw(p, (uint32_t)made.n_children) : 0;
    }
    p->at[at] = made;
    return at;
}

/* ---- running ---- */

static rp_status run_node(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out);

static rp_status run_op(rp_ctx *ctx, const task *t, int kind, rp_tensor *x, rp_tensor **out)
{
    const rp_attr_gelu erf      = { true };
    const rp_attr_dropout third = { 0.3f };
    const rp_attr_matmul linear = { true };

    if (kind == SILU) return try_op(ctx, out, "silu", NULL, x, NULL);
    if (kind == GELU) return try_op(ctx, out, "gelu", &erf, x, NULL);
    if (kind == DROPOUT) return try_op(ctx, out, "dropout", &third, x, NULL);
    if (kind == CAPTURED) return try_op(ctx, out, "add", NULL, x, t->captured, NULL);
    return try_op(ctx, out, "matmul", &linear, x, t->m->param[t->node % MOST_PARAMS], NULL);
}

static rp_status run_children(rp_ctx *ctx, task *t, rp_tensor *x, rp_tensor **out)
{
    const node *n    = &t->m->p->at[t->node];
    rp_tensor *y     = rp_tensor_ref(x), *next;
    rp_status status = RP_OK;

    for (int i = 0; i < n->n_children && status == RP_OK; i++) {
        task child = { t->m, n->child[i], x };
        status     = run_node(ctx, &child, &y, &next);
        if (status != RP_OK) break;
        rp_tensor_unref(y);
        y = next;
    }
    if (status == RP_OK) *out = y;
    else rp_tensor_unref(y);
    return status;
}

static rp_status region_body(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out) { return run_children(ctx, user, in[0], out); }

static rp_status run_sequence(rp_ctx *ctx, task *t, rp_tensor *x, rp_tensor **out)
{
    const node *n = &t->m->p->at[t->node];
    rp_checkpoint_function fn[MOST_CHILDREN];
    task child[MOST_CHILDREN];
    void *user[MOST_CHILDREN];

    if (!n->n_children || !t->m->regions) return run_children(ctx, t, x, out);
    for (int i = 0; i < n->n_children; i++) {
        fn[i]    = run_node;
        child[i] = (task){ t->m, n->child[i], x };
        user[i]  = &child[i];
    }
    return rp_checkpoint_sequential(ctx, fn, user, n->n_children, n->segments, x, NULL, out);
}

/* Two calls that are recorded, and one that is refused. */
static rp_status fails(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    task *t          = user;
    rp_tensor *h     = NULL, *y = NULL;
    rp_status status = run_op(ctx, t, PRODUCT, in[0], &h);

    if (status == RP_OK) status = run_op(ctx, t, CAPTURED, h, &y);
    if (status == RP_OK) status = try_op(ctx, out, "matmul", &(rp_attr_matmul){ false }, y, y, NULL);
    rp_tensor_unref(h);
    rp_tensor_unref(y);
    return status;
}

static rp_status run_caught(rp_ctx *ctx, task *t, rp_tensor *x, rp_tensor **out)
{
    rp_tensor *none = NULL;

    assert_int_equal(t->m->regions ? rp_checkpoint(ctx, fails, t, &x, NULL, &none) : fails(ctx, t, &x, &none), RP_ERR_SHAPE);
    assert_null(none);
    return run_op(ctx, t, SILU, x, out);
}

/* Gradients that are there already are added to by the backward at the end, in both ways alike. */
static rp_status run_back(rp_ctx *ctx, task *t, rp_tensor *x, rp_tensor **out)
{
    rp_tensor *y, *sum;

    RP_TRY(run_op(ctx, t, PRODUCT, x, &y));
    sum              = sum_all(ctx, y);
    rp_status status = rp_backward_with(ctx, sum, &(rp_backward_options){ .keep_record = true, .keep_replays = t->node % 2 });
    rp_tensor_unref(sum);
    if (status == RP_OK) *out = y;
    else rp_tensor_unref(y);
    return status;
}

static rp_status run_node(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    task *t  = user;
    int kind = t->m->p->at[t->node].kind;

    if (kind < N_OPS) return run_op(ctx, t, kind, in[0], out);
    if (kind == REGION && t->m->regions) return rp_checkpoint(ctx, region_body, t, in, NULL, out);
    if (kind == SEQUENCE) return run_sequence(ctx, t, in[0], out);
    if (kind == CAUGHT) return run_caught(ctx, t, in[0], out);
    if (kind == BACK) return run_back(ctx, t, in[0], out);
    return run_children(ctx, t, in[0], out);
}

typedef struct { tensor_bits loss, grad[MOST_PARAMS + 1]; rp_tape_stats work; } outcome;

static void run_program(const program *p, bool regions, uint32_t fates_seed, outcome *o)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .seed = 5 });
    machine m   = { p, { new_param(ctx, RP_F32, COLUMNS, COLUMNS, 0.5, 2, "w"), new_param(ctx, RP_F32, COLUMNS, COLUMNS, 0.5, 3, "v") }, regions };
    rp_tensor *x = new_param(ctx, RP_F32, ROWS, COLUMNS, 1, 1, "x"), *y = NULL, *loss;
    fates f     = { .seed = fates_seed };
    task whole  = { &m, 0, x };

    assert_ok(ctx, rp_set_offload(ctx, &(rp_offload_options){ .device = "sim" }));
    if (fates_seed) fates_use(ctx, &f);
    if (fates_seed % 3 == 1) rp_set_verify(ctx, RP_VERIFY_ON);
    int64_t own = ledger(ctx).live_bytes;
    assert_ok(ctx, run_node(ctx, &whole, &x, &y));
    assert_null(rp_in_checkpoint(ctx));
    loss = sum_all(ctx, y);
    rp_tensor_unref(y);
    bits_of(loss, &o->loss);
    assert_ok(ctx, rp_backward(ctx, loss));
    rp_tensor_unref(loss);
    rp__tape_stats(ctx, &o->work);
    bits_of(x->grad, &o->grad[MOST_PARAMS]);
    for (int i = 0; i < MOST_PARAMS; i++) bits_of(m.param[i]->grad, &o->grad[i]);
    for (int i = 0; i < MOST_PARAMS; i++) drop_grad(m.param[i]);
    drop_grad(x);
    assert_int_equal(ledger(ctx).live_bytes, own);
    for (int i = 0; i < MOST_PARAMS; i++) rp_tensor_unref(m.param[i]);
    rp_tensor_unref(x);
    assert_ok(ctx, rp_set_offload(ctx, NULL));
    test_ctx_free(ctx);
}

static void random_programs_have_the_gradients_of_the_same_calls_without_regions(void **state)
{
    (void)state;
    static outcome plain, other;
    int64_t replays = 0, offloaded = 0, calls = 0;

    for (uint32_t seed = 1; seed <= N_PROGRAMS; seed++) {
        program p = { .state = seed * 2654435761u + 1 };
        make(&p, 0);
        run_program(&p, false, 0, &plain);
        for (uint32_t drawn = 0; drawn < 3; drawn++) {
            char what[64];
            run_program(&p, true, drawn ? seed * 10 + drawn : 0, &other);
            snprintf(what, sizeof what, "program %u, fates %u", seed, drawn);
            assert_same_bits(&other.loss, &plain.loss, what);
            for (int i = 0; i <= MOST_PARAMS; i++) assert_same_bits(&other.grad[i], &plain.grad[i], what);
            replays += other.work.n_replayed;
            offloaded += other.work.offloaded_bytes;
            calls += other.work.n_calls;
        }
    }
    assert_in_range(calls, 10 * N_PROGRAMS, 200 * N_PROGRAMS);      /* else it would say little */
    assert_in_range(replays, calls / 20, 3 * calls);
    assert_true(offloaded > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_have_the_gradients_of_the_same_calls_without_regions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
