/* graph.c -- see graph.h. */
#include "tape/fates.h"

/* ---- draws ---- */

typedef struct { uint32_t state; } draws;

static uint32_t draw(draws *d, uint32_t below)
{
    d->state = d->state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(d->state >> 4) * below) >> 28);
}

/* ---- making a graph ---- */

typedef struct {
    const char *op;
    const void *attr;
    int n_square;                           /* inputs drawn among the squares */
    graph_view view;
    int leaf[2], n_leaf;                    /* inputs behind them */
    bool grows, kink;                       /* grows: a norm follows */
} kind;

static const kind kinds[] = {
    { "add", NULL, 2, SQUARE, { 0 }, 0, false, false },
    { "add", NULL, 2, SQUARE, { 0 }, 0, false, false },
    { "add", NULL, 1, SQUARE, { LEAF_BIAS }, 1, false, false },
    { "sub", NULL, 2, SQUARE, { 0 }, 0, false, false },
    { "mul", NULL, 2, SQUARE, { 0 }, 0, true, false },
    { "mul", NULL, 1, SQUARE, { LEAF_GAIN }, 1, false, false },
    { "tanh", NULL, 1, FLAT, { 0 }, 0, false, false },
    { "sigmoid", NULL, 1, SQUARE, { 0 }, 0, false, false },
    { "batched_matmul", &(rp_attr_batched_matmul){ false, true }, 2, SQUARE, { 0 }, 0, true, false },
    { "swiglu", NULL, 2, SQUARE, { 0 }, 0, true, false },
    { "scale", &(rp_attr_scale){ -0.7f }, 1, FLAT, { 0 }, 0, false, false },
    { "gelu", &(rp_attr_gelu){ false }, 1, SQUARE, { 0 }, 0, false, false },
    { "silu", NULL, 1, FLAT, { 0 }, 0, false, false },
    { "relu", NULL, 1, SQUARE, { 0 }, 0, false, true },
    { "dropout", &(rp_attr_dropout){ 0.25f }, 1, SQUARE, { 0 }, 0, false, false },
    { "softmax", NULL, 1, SQUARE, { 0 }, 0, false, false },
    { "rmsnorm", &(rp_attr_norm){ .eps = 1e-2f }, 1, SQUARE, { LEAF_GAIN }, 1, false, false },
    { "layernorm", &(rp_attr_norm){ .eps = 1e-2f }, 1, SQUARE, { LEAF_GAIN, LEAF_BIAS }, 2, false, false },
    { "matmul", &(rp_attr_matmul){ true }, 1, SQUARE, { LEAF_W }, 1, false, false },
    { "matmul", &(rp_attr_matmul){ false }, 1, SQUARE, { LEAF_V, LEAF_BIAS }, 2, false, false },
    { "matmul", &(rp_attr_matmul){ true }, 2, SQUARE, { 0 }, 0, true, false },
    { "embedding", NULL, 0, SQUARE, { LEAF_TABLE, LEAF_IDS }, 2, false, false },
    { "attention", &(rp_attr_attention){ .scale = 0.5f, .dropout = 0.25f, .causal = true }, 3, HEADS, { 0 }, 0, false, false },
    { "split", &(rp_attr_split){ -1, 2, { SIDE / 2, SIDE / 2 } }, 1, SQUARE, { 0 }, 0, false, false },
    { "concat", &(rp_attr_dim){ -1 }, 0, HALF, { 0 }, 0, false, false },
};

static bool may_read(const graph *g, int value)
{
    return !g->is_half[value] && (value >= N_LEAVES || value <= LEAF_V || value == LEAF_CONSTANT);
}

/* One of the last few values in general, any of all at times. */
static int draw_square(const graph *g, draws *d)
{
    for (;;) {
        int back  = (int)draw(d, draw(d, 4) ? 5 : (uint32_t)g->n_value), value = g->n_value - 1 - back;
        bool leaf = value < N_LEAVES;
        if (leaf && draw(d, 2)) value = (int)draw(d, N_LEAVES);
        if (value >= 0 && may_read(g, value)) return value;
    }
}

static graph_input draw_half(const graph *g, draws *d)
{
    for (int value = g->n_value - 1; value >= N_LEAVES && draw(d, 4); value--)
        if (g->is_half[value] && draw(d, 2)) return (graph_input){ value, HALF, 0 };
    return (graph_input){ draw_square(g, d), HALF_OF_SQUARE, (int)draw(d, SIDE / 2 + 1) };
}

static void add_step(graph *g, const kind *k, draws *d)
{
    graph_step *s = &g->step[g->n_step++];
    bool split    = !strcmp(k->op, "split");

    *s = (graph_step){ .op = k->op, .attr = k->attr, .out = g->n_value, .n_out = split ? 2 : 1 };
    for (int i = 0; i < k->n_square; i++) {
        bool recompute        = i > 0 && draw(d, 4) == 0;
        int value         = recompute ? s->in[0].value : draw_square(g, d);
        s->in[s->n_in++] = (graph_input){ value, k->view == SQUARE && draw(d, 5) == 0 ? TURNED : k->view, 0 };
    }
    for (int i = 0; k->view == HALF && i < 2; i++) s->in[s->n_in++] = draw_half(g, d);
    for (int i = 0; i < k->n_leaf; i++) s->in[s->n_in++] = (graph_input){ k->leaf[i], WHOLE_LEAF, 0 };
    for (int i = 0; i < s->n_out; i++) g->is_half[g->n_value++] = split;
}

static const rp_attr_norm norm = { .eps = 1e-2f };

static void add_norm(graph *g)
{
    graph_step *s = &g->step[g->n_step++];

    *s = (graph_step){ .op = "rmsnorm", .attr = &norm, .n_in = 2, .n_out = 1, .out = g->n_value };
    s->in[0] = (graph_input){ g->n_value - 1, SQUARE, 0 };
    s->in[1] = (graph_input){ LEAF_GAIN, WHOLE_LEAF, 0 };
    g->is_half[g->n_value++] = false;
}

static void find_last_readers(graph *g)
{
    for (int v = 0; v < g->n_value; v++) g->last_reader[v] = -1;
    for (int s = 0; s < g->n_step; s++) {
        for (int i = 0; i < g->step[s].n_out; i++) g->last_reader[g->step[s].out + i] = s;
        for (int i = 0; i < g->step[s].n_in; i++) g->last_reader[g->step[s].in[i].value] = s;
    }
}

static int loss_value(const graph *g)
{
    int value = g->n_value - 1;

    while (g->is_half[value]) value--;
    return value;
}

void graph_make(graph *g, uint32_t seed, bool smooth)
{
    draws d = { seed * 2654435761u + 1 };
    int aim = 4 + (int)draw(&d, MOST_STEPS - 6);

    *g = (graph){ .n_value = N_LEAVES };
    while (g->n_step < aim) {
        const kind *k = &kinds[draw(&d, RP_COUNT(kinds))];
        if (smooth && k->kink) continue;
        add_step(g, k, &d);
        if (k->grows) add_norm(g);
    }
    if (loss_value(g) < N_LEAVES) add_norm(g);
    find_last_readers(g);
    g->last_reader[loss_value(g)] = g->n_step;
}

/* ---- nestings ---- */

nesting nesting_none(void) { return (nesting){ { 0 }, { 0 } }; }

nesting nesting_whole(const graph *g)
{
    nesting n = nesting_none();

    n.begins[0] = n.ends[g->n_step - 1] = 1;
    return n;
}

nesting nesting_blocks(const graph *g, int steps)
{
    nesting n = nesting_none();

    for (int s = 0; s < g->n_step; s += steps) {
        n.begins[s] = 1;
        n.ends[s + steps <= g->n_step ? s + steps - 1 : g->n_step - 1] = 1;
    }
    return n;
}

nesting nesting_random(const graph *g, uint32_t seed)
{
    nesting n = nesting_none();
    draws d   = { seed };
    int open  = 0;

    for (int s = 0; s < g->n_step; s++) {
        while (draw(&d, 3) == 0 && n.begins[s] < 3) n.begins[s]++;
        open += n.begins[s];
        while (open > 0 && (s == g->n_step - 1 || draw(&d, 4) == 0)) {
            n.ends[s]++;
            open--;
        }
    }
    return n;
}

/* ---- leaves ---- */

graph_leaves leaves_new(rp_ctx *ctx, rp_dtype dtype)
{
    graph_leaves l;

    l.at[LEAF_X]        = new_param(ctx, dtype, SIDE, SIDE, 1, 1, "x");
    l.at[LEAF_W]        = new_param(ctx, dtype, SIDE, SIDE, 0.5, 2, "w");
    l.at[LEAF_V]        = new_param(ctx, dtype, SIDE, SIDE, 0.5, 3, "v");
    l.at[LEAF_GAIN]     = new_param(ctx, dtype, 0, SIDE, 1, 4, "gain");
    l.at[LEAF_BIAS]     = new_param(ctx, dtype, 0, SIDE, 0.5, 5, "bias");
    l.at[LEAF_TABLE]    = new_param(ctx, dtype, CLASSES, SIDE, 1, 6, "table");
    l.at[LEAF_HEAD]     = new_param(ctx, dtype, CLASSES, SIDE, 0.5, 7, "head");
    l.at[LEAF_CONSTANT] = new_tensor(ctx, dtype, SIDE, SIDE, RP_MEM_TEMP, 1, 8);
    l.at[LEAF_IDS]      = new_labels(ctx, SIDE, CLASSES);
    return l;
}

void leaves_free(graph_leaves *l)
{
    for (int i = 0; i < N_LEAVES; i++) rp_tensor_unref(l->at[i]);
}

void leaves_drop_grads(graph_leaves *l)
{
    for (int i = 0; i < N_LEAVES; i++) drop_grad(l->at[i]);
}

/* ---- running ---- */

/* The value as [8, 8], whatever shape it was left in. */
static rp_status as_square(rp_tensor *t, rp_tensor **out)
{
    if (t->m.ndim != 2 || t->m.dim[0] != SIDE) return rp_tensor_reshape(t, 2, (int64_t[]){ SIDE, SIDE }, out);
    *out = rp_tensor_ref(t);
    return RP_OK;
}

static rp_status look(rp_tensor *t, graph_input in, rp_tensor **out)
{
    rp_tensor *square = NULL;
    rp_status status  = RP_OK;

    if (in.view == WHOLE_LEAF || in.view == HALF) {
        *out = rp_tensor_ref(t);
        return RP_OK;
    }
    if (in.view == FLAT) return rp_tensor_reshape(t, 2, (int64_t[]){ SIDE / 2, 2 * SIDE }, out);
    if (in.view == HEADS) return rp_tensor_reshape(t, 4, (int64_t[]){ 1, SIDE, 2, SIDE / 2 }, out);
    RP_TRY(as_square(t, &square));
    if (in.view == TURNED) status = rp_tensor_transpose(square, 0, 1, out);
    else if (in.view == HALF_OF_SQUARE) status = rp_tensor_slice(square, 1, in.start, SIDE / 2, out);
    else *out = rp_tensor_ref(square);
    rp_tensor_unref(square);
    return status;
}

static rp_status run_step(const graph_step *s, rp_ctx *ctx, rp_tensor **value)
{
    rp_tensor *in[RP_MAX_IN] = { 0 };
    rp_status status         = RP_OK;

    for (int i = 0; i < s->n_in && status == RP_OK; i++) status = look(value[s->in[i].value], s->in[i], &in[i]);
    if (status == RP_OK) status = rp__apply(ctx, counted_op(s->op), s->attr, in, s->n_in, &value[s->out]);
    for (int i = 0; i < s->n_in; i++) rp_tensor_unref(in[i]);
    return status;
}

static void release_after(const graph *g, rp_tensor **value, int step)
{
    for (int v = N_LEAVES; v < g->n_value; v++) {
        if (g->last_reader[v] != step || !value[v]) continue;
        rp_tensor_unref(value[v]);
        value[v] = NULL;
    }
}

static rp_status run_steps(const graph *g, const nesting *regions, rp_ctx *ctx, rp_tensor **value)
{
    for (int s = 0; s < g->n_step; s++) {
        for (int i = 0; i < regions->begins[s]; i++) RP_TRY(rp__region_begin(ctx, "region"));
        RP_TRY(run_step(&g->step[s], ctx, value));
        release_after(g, value, s);
        for (int i = 0; i < regions->ends[s]; i++) RP_TRY(rp__region_end(ctx));
    }
    return RP_OK;
}

rp_status graph_forward(const graph *g, const nesting *regions, rp_ctx *ctx, const graph_leaves *leaves, rp_tensor **loss)
{
    rp_tensor *value[MOST_VALUES] = { 0 }, *x = NULL;
    rp_attr_cross_entropy mean = { 1.0f / SIDE, -100, 0, 0, 0, 0, 0 };

    rp__tape_ctx(ctx)->pass++;
    memcpy(value, leaves->at, sizeof leaves->at);
    rp_status status = run_steps(g, regions, ctx, value);
    if (status == RP_OK) status = as_square(value[loss_value(g)], &x);
    if (status == RP_OK)
        status = try_op(ctx, loss, "linear_cross_entropy", &mean, x, leaves->at[LEAF_HEAD], leaves->at[LEAF_IDS], NULL);
    rp_tensor_unref(x);
    for (int v = N_LEAVES; v < g->n_value; v++) rp_tensor_unref(value[v]);
    return status;
}

rp_status graph_step_run(const graph *g, const nesting *regions, rp_ctx *ctx, const graph_leaves *leaves, tensor_bits *loss_bits)
{
    rp_tensor *loss  = NULL;
    rp_status status = graph_forward(g, regions, ctx, leaves, &loss);

    if (status == RP_OK) {
        bits_of(loss, loss_bits);
        status = rp__backward(ctx, loss);
    }
    rp_tensor_unref(loss);
    rp__tape_reset(ctx);
    return status;
}

void graph_run(const graph *g, const nesting *regions, rp_ctx *ctx, graph_leaves *leaves, graph_result *out)
{
    *out = (graph_result){ 0 };
    assert_ok(ctx, graph_step_run(g, regions, ctx, leaves, &out->loss));
    for (int i = 0; i < N_LEAVES; i++) bits_of(leaves->at[i]->grad, &out->grad[i]);
    leaves_drop_grads(leaves);
}

void assert_same_result(const graph_result *got, const graph_result *expected, const char *what, uint32_t seed)
{
    char text[80];

    snprintf(text, sizeof text, "loss of graph %u, %s", seed, what);
    assert_same_bits(&got->loss, &expected->loss, text);
    for (int i = 0; i < N_LEAVES; i++) {
        snprintf(text, sizeof text, "gradient of leaf %d of graph %u, %s", i, seed, what);
        assert_same_bits(&got->grad[i], &expected->grad[i], text);
    }
}
