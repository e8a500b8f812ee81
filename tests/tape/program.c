/* program.c -- see program.h. */
#include "tape/program.h"

enum { ROWS = 16, COLUMNS = 8 };
enum { SILU, GELU, PRODUCT, CAPTURED, DROPOUT, N_OPS, PLAIN = N_OPS, REGION, SEQUENCE, CAUGHT, BACK };

typedef struct {
    const program *p;
    rp_tensor *param[PROGRAM_PARAMS];
    bool regions;
} machine;

typedef struct { machine *m; int node; rp_tensor *captured; } task;

static uint32_t draw(program *p, uint32_t below)
{
    p->state = p->state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(p->state >> 4) * below) >> 28);
}

static int make(program *p, int depth)
{
    int at            = p->n++;
    bool inner        = depth < 4 && p->n < PROGRAM_NODES - 8 && (depth < 2 || draw(p, 3) == 0);
    program_node made = { .kind = inner ? (int)(PLAIN + draw(p, 5)) : (int)draw(p, N_OPS) };

    if (depth == 0) made.kind = PLAIN;
    if (made.kind >= PLAIN && made.kind <= SEQUENCE) {
        made.n_children = 1 + (int)draw(p, PROGRAM_CHILDREN);
        for (int i = 0; i < made.n_children; i++) {
            if (p->n >= PROGRAM_NODES - 8) made.n_children = i;
            else made.child[i] = make(p, depth + 1);
        }
        made.segments = made.n_children ? 1 + (int)draw(p, (uint32_t)made.n_children) : 0;
    }
    p->at[at] = made;
    return at;
}

program program_make(uint32_t seed)
{
    program p = { .state = seed * 2654435761u + 1 };

    make(&p, 0);
    return p;
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
    return try_op(ctx, out, "matmul", &linear, x, t->m->param[t->node % PROGRAM_PARAMS], NULL);
}

static rp_status run_children(rp_ctx *ctx, task *t, rp_tensor *x, rp_tensor **out)
{
    const program_node *n    = &t->m->p->at[t->node];
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
    const program_node *n = &t->m->p->at[t->node];
    rp_checkpoint_function fn[PROGRAM_CHILDREN];
    task child[PROGRAM_CHILDREN];
    void *user[PROGRAM_CHILDREN];

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

    rp_status status = t->m->regions ? rp_checkpoint(ctx, fails, t, &x, NULL, &none) : fails(ctx, t, &x, &none);
    assert_null(none);
    assert_uses_add_up(ctx);
    if (status == RP_ERR_MEMORY) return status;
    assert_int_equal(status, RP_ERR_SHAPE);
    return run_op(ctx, t, SILU, x, out);
}

/* Gradients that are there already are added to by the backward at the end, in both ways alike. */
static rp_status run_back(rp_ctx *ctx, task *t, rp_tensor *x, rp_tensor **out)
{
    rp_tensor *y, *sum = NULL;

    RP_TRY(run_op(ctx, t, PRODUCT, x, &y));
    rp_status status = try_sum_all(ctx, y, &sum);
    if (status == RP_OK) status = rp_backward_with(ctx, sum, &(rp_backward_options){ .keep_record = true, .keep_replays = t->node % 2 });
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

/* ---- a run ---- */

static rp_status run_whole(rp_ctx *ctx, machine *m, rp_tensor *x, program_outcome *o)
{
    task whole   = { m, 0, x };
    rp_tensor *y = NULL, *loss = NULL;

    rp_status status = run_node(ctx, &whole, &x, &y);
    assert_null(rp_in_checkpoint(ctx));
    if (status == RP_OK) status = try_sum_all(ctx, y, &loss);
    rp_tensor_unref(y);
    if (status == RP_OK) {
        bits_of(loss, &o->loss);
        assert_uses_add_up(ctx);
        status = rp_backward(ctx, loss);
    }
    rp_tensor_unref(loss);
    rp_forget(ctx);
    return status;
}

static void read_outcome(rp_ctx *ctx, machine *m, rp_tensor *x, program_outcome *o)
{
    rp__tape_stats(ctx, &o->work);
    o->mem = ledger(ctx);
    bits_of(x->grad, &o->grad[PROGRAM_PARAMS]);
    for (int i = 0; i < PROGRAM_PARAMS; i++) bits_of(m->param[i]->grad, &o->grad[i]);
    for (int i = 0; i < PROGRAM_PARAMS; i++) drop_grad(m->param[i]);
    drop_grad(x);
}

rp_status program_run(const program *p, const program_way *way, program_outcome *o)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){
        .seed = 5, .threads = way->threads, .memory_limit_bytes = way->limit_bytes, .shapes_only = way->shapes_only, .device = way->device });
    machine m   = { p, { new_param(ctx, RP_F32, COLUMNS, COLUMNS, 0.5, 2, "w"), new_param(ctx, RP_F32, COLUMNS, COLUMNS, 0.5, 3, "v") }, way->regions };
    rp_tensor *x = new_param(ctx, RP_F32, ROWS, COLUMNS, 1, 1, "x");
    fates f      = { .seed = way->fates_seed };

    *o = (program_outcome){ 0 };
    assert_ok(ctx, rp_set_offload(ctx, &(rp_offload_options){ .device = "sim" }));
    if (f.seed) fates_use(ctx, &f);
    if (f.seed % 3 == 1) rp_set_verify(ctx, RP_VERIFY_ON);
    o->own_bytes     = ledger(ctx).live_bytes;
    rp_status status = run_whole(ctx, &m, x, o);
    snprintf(o->error, sizeof o->error, "%s", rp_error(ctx));
    read_outcome(ctx, &m, x, o);
    assert_int_equal(ledger(ctx).live_bytes, o->own_bytes);
    for (int i = 0; i < PROGRAM_PARAMS; i++) rp_tensor_unref(m.param[i]);
    rp_tensor_unref(x);
    assert_ok(ctx, rp_set_offload(ctx, NULL));
    test_ctx_free(ctx);
    return status;
}

void assert_same_outcome(const program_outcome *got, const program_outcome *expected, const char *what)
{
    assert_same_bits(&got->loss, &expected->loss, what);
    for (int i = 0; i <= PROGRAM_PARAMS; i++) assert_same_bits(&got->grad[i], &expected->grad[i], what);
}
