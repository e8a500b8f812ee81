/* Claims about work: each call is replayed exactly as often as the rules imply. The tables are the tape of a model, a line a call, with the
 * ways to checkpoint that replay it (a letter twice: twice). A call without a letter is never replayed, because nothing reads its result. */
#include "sized_model.h"

/* The ways, by letter:
 *
 *   F every block a region             P every mlp       T every attn
 *   X F, with every attn and mlp in them, and every linear in those: what an inner region's output takes runs for the outer one, too
 *   S selective_op as it is            M … save: [matmul]      A … save: [attention]      Q F, and attn.output kept
 *   n norms op by op                   s activations op by op  Z everything, op by op    o S, and attn.output recomputed
 */
typedef struct { const char *path, *op, *again; } line;

enum { MOST_LINES = 32, MOST_CALLS = 80 };
typedef struct { int n_before, n_block, n_after; line line[MOST_LINES]; } table;      /* the lines of a block stand for each of them */

static const table llama = { 2, 17, 2, {
    { "tok_embeddings", "embedding",      "            Z " },
    { "", "dropout",                      "            Z " },
    { "attn_norm", "rmsnorm",             "F   X SMAQn Zo" },
    { "attn.q", "matmul",                 "F T XX  AQ  Z " },
    { "attn.k", "matmul",                 "F T XX  AQ  Z " },
    { "attn.v", "matmul",                 "F T XX  AQ  Z " },
    { "attn", "rotary",                   "F T XXSMAQ  Zo" },
    { "attn", "rotary",                   "F T XXSMAQ  Zo" },
    { "attn", "attention",                "F T XX M Q  Z " },
    { "attn.output", "matmul",            "F   X   A   Zo" },
    { "", "dropout",                      "F   X SMAQ  Zo" },
    { "", "add",                          "F   X SMAQ  Zo" },
    { "mlp_norm", "rmsnorm",              "F   X SMAQn Zo" },
    { "mlp.gate", "matmul",               "FP  X   AQ  Z " },
    { "mlp.up", "matmul",                 "FP  X   AQ  Z " },
    { "mlp", "swiglu",                    "FP  X SMAQ sZo" },
    { "mlp.down", "matmul",               "            Z " },
    { "", "dropout",                      "            Z " },
    { "", "add",                          "            Z " },
    { "norm", "rmsnorm",                  "          n Z " },
    { "output", "linear_cross_entropy",   "            Z " },
} };

/* A call that decides is never replayed. */
static const table mixture = { 2, 21, 2, {
    { "tok_embeddings", "embedding",      "            Z " },
    { "", "dropout",                      "            Z " },
    { "attn_norm", "rmsnorm",             "F   X SMAQn Zo" },
    { "attn.q", "matmul",                 "F T XX  AQ  Z " },
    { "attn.k", "matmul",                 "F T XX  AQ  Z " },
    { "attn.v", "matmul",                 "F T XX  AQ  Z " },
    { "attn", "rotary",                   "F T XXSMAQ  Zo" },
    { "attn", "rotary",                   "F T XXSMAQ  Zo" },
    { "attn", "attention",                "F T XX M Q  Z " },
    { "attn.output", "matmul",            "F   X   A   Zo" },
    { "", "dropout",                      "F   X SMAQ  Zo" },
    { "", "add",                          "F   X SMAQ  Zo" },
    { "mlp_norm", "rmsnorm",              "F   X SMAQn Zo" },
    { "mlp.router", "matmul",             "FP  X   AQ  Z " },
    { "mlp", "route",                     "              " },
    { "mlp.experts", "spread",            "FP  X SMAQ  Zo" },
    { "mlp.experts.gate", "grouped_matmul", "FP  X   AQ  Z " },
    { "mlp.experts.up", "grouped_matmul", "FP  X   AQ  Z " },
    { "mlp.experts", "swiglu",            "FP  X SMAQ sZo" },
    { "mlp.experts.down", "grouped_matmul", "FP  X   AQ  Z " },
    { "mlp.experts", "combine",           "            Z " },
    { "", "dropout",                      "            Z " },
    { "", "add",                          "            Z " },
    { "norm", "rmsnorm",                  "          n Z " },
    { "output", "linear_cross_entropy",   "            Z " },
} };

static const table gpt2 = { 4, 12, 2, {
    { "tok_embeddings", "embedding",      "            Z " },
    { "pos_embeddings", "embedding",      "            Z " },
    { "", "add",                          "            Z " },
    { "", "dropout",                      "            Z " },
    { "attn_norm", "layernorm",           "F   X SMAQn Zo" },
    { "attn.qkv", "matmul",               "F T XX  AQ  Z " },
    { "attn", "attention",                "F T XX M Q  Z " },
    { "attn.output", "matmul",            "F   X   A   Zo" },
    { "", "dropout",                      "F   X SMAQ  Zo" },
    { "", "add",                          "F   X SMAQ  Zo" },
    { "mlp_norm", "layernorm",            "F   X SMAQn Zo" },
    { "mlp.up", "matmul",                 "FP  X   AQ  Z " },
    { "mlp", "gelu",                      "FP  X SMAQ sZo" },
    { "mlp.down", "matmul",               "            Z " },
    { "", "dropout",                      "            Z " },
    { "", "add",                          "            Z " },
    { "norm", "layernorm",                "          n Z " },
    { "output", "linear_cross_entropy",   "            Z " },
} };

static const table *table_of(const sizes *d) { return d->gpt2 ? &gpt2 : d->experts ? &mixture : &llama; }

/* ---- the tape that a table stands for ---- */

typedef struct { char path[64]; const char *op, *again; int seen; } call;
typedef struct { call at[MOST_CALLS]; int n; } tape_calls;

static void add_line(tape_calls *t, const line *l, int64_t block, bool dropout)
{
    if (!dropout && !strcmp(l->op, "dropout")) return;
    assert_true(t->n < MOST_CALLS);
    call *c = &t->at[t->n++];
    *c      = (call){ .op = l->op, .again = l->again };
    if (block < 0) snprintf(c->path, sizeof c->path, "%s", l->path);
    else snprintf(c->path, sizeof c->path, "layers.%d%s%s", (int)block, *l->path ? "." : "", l->path);
}

static tape_calls calls_of(const sizes *d)
{
    const table *t   = table_of(d);
    const line *at   = t->line;
    tape_calls calls = { .n = 0 };

    for (int i = 0; i < t->n_before; i++) add_line(&calls, at++, -1, d->dropout > 0);
    for (int64_t block = 0; block < d->layers; block++)
        for (int i = 0; i < t->n_block; i++) add_line(&calls, &at[i], block, d->dropout > 0);
    for (int i = 0; i < t->n_after; i++) add_line(&calls, &at[t->n_block + i], -1, d->dropout > 0);
    return calls;
}

static int times(const char *again, char letter)
{
    int n = 0;

    for (; *again; again++) n += *again == letter;
    return n;
}

/* ---- the engine beside it ---- */

static void see(void *user, int at, const char *path, const char *op)
{
    tape_calls *t = user;

    assert_in_range(at, 0, t->n - 1);
    if (strcmp(t->at[at].path, path) || strcmp(t->at[at].op, op))
        fail_msg("call %d is %s of '%s', not %s of '%s'", at, op, path, t->at[at].op, t->at[at].path);
    t->at[at].seen++;
}

typedef struct { way way; char letter; } counted_way;

static const counted_way ways[] = {
    { { .name = "none" }, '-' },
    { { "full", .mode = RP_MODE_FULL }, 'F' },
    { { "every mlp", .conditions = { "path: '*.mlp'" } }, 'P' },
    { { "every mlp, and every linear in them", .conditions = { "path: '*.mlp'", "path: '*.mlp.*'" } }, 'P' },
    { { "every attn", .conditions = { "module_type: Attention" } }, 'T' },
    { { "every linear", .conditions = { "module_type: Linear" } }, '-' },
    { { "blocks, and every mlp", .mode = RP_MODE_FULL, .conditions = { "path: '*.mlp'" } }, 'F' },
    { { "blocks, every attn and mlp, every linear", .mode = RP_MODE_FULL,
        .conditions = { "any: [{ path: '*.mlp' }, { path: '*.attn' }]", "module_type: Linear" } }, 'X' },
    { { "selective_op", .mode = RP_MODE_SELECTIVE_OP, .save = { "matmul", "grouped_matmul", "attention", "reduce_scatter" } }, 'S' },
    { { "selective_op, attn.output recomputed", .mode = RP_MODE_SELECTIVE_OP, .save = { "matmul", "grouped_matmul", "attention", "reduce_scatter" },
        .rules = "[{ path: '*.attn.output', fate: recompute }]" }, 'o' },
    { { "selective_op, matmul", .mode = RP_MODE_SELECTIVE_OP, .save = { "matmul" } }, 'M' },
    { { "selective_op, attention", .mode = RP_MODE_SELECTIVE_OP, .save = { "attention" } }, 'A' },
    { { "full, attn.output kept", .mode = RP_MODE_FULL, .rules = "[{ path: '*.attn.output', fate: keep }]" }, 'Q' },
    { { "full, attn.output offloaded", .mode = RP_MODE_FULL, .rules = "[{ path: '*.attn.output', fate: offload }]" }, 'Q' },
    { { "norms op by op", .rules = "[{ op: rmsnorm, fate: recompute }, { op: layernorm, fate: recompute }]" }, 'n' },
    { { "activations op by op", .rules = "[{ op: swiglu, fate: recompute }, { op: gelu, fate: recompute }]" }, 's' },
    { { "full, everything kept", .mode = RP_MODE_FULL, .rules = "[{ op: '*', fate: keep }]" }, '-' },
    { { "full, everything offloaded", .mode = RP_MODE_FULL, .rules = "[{ op: '*', fate: offload }]" }, '-' },
    { { "everything recomputed", .rules = "[{ op: '*', fate: recompute }]" }, 'Z' },
};

static void check_way(sized_model *m, const counted_way *w)
{
    const sizes *d   = &m->sizes;
    tape_calls calls = calls_of(d);
    rp_tape_stats stats;
    rp_tensor *loss;
    way_in_use u;

    way_begin(m->ctx, sized_root(m), &w->way, &u);
    rp__tape_stats(m->ctx, &stats);
    rp__tape_ctx(m->ctx)->on_replay = (rp_call_hook){ see, &calls };
    assert_ok(m->ctx, sized_loss(m, 0, 0, &loss));
    assert_ok(m->ctx, rp__backward(m->ctx, loss));
    rp__tape_ctx(m->ctx)->on_replay = (rp_call_hook){ 0 };
    rp_tensor_unref(loss);
    sized_drop_grads(m);
    way_end(&u);

    rp__tape_stats(m->ctx, &stats);
    assert_int_equal(stats.n_calls, calls.n);
    for (int i = 0; i < calls.n; i++) {
        const call *c = &calls.at[i];
        int expected  = times(c->again, w->letter);
        if (c->seen != expected)
            fail_msg("%s, %s, dropout %g: %s of '%s' (call %d) ran again %d times, %d by the rules", w->way.name,
                     d->gpt2 ? "gpt2" : d->experts ? "mixture" : "llama", d->dropout, c->op, c->path, i, c->seen, expected);
        stats.n_replayed -= expected;
    }
    assert_int_equal(stats.n_replayed, 0);
}

static void each_call_runs_again_as_often_as_the_rules_imply(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });

    assert_ok(ctx, rp_set_offload(ctx, &(rp_offload_options){ .device = "sim" }));
    for (int i = 0; i < 6; i++) {
        sized_model m = sized_model_new(ctx, &(sizes){ SIZES_TINY, .gpt2 = i % 3 == 1, .experts = i % 3 == 2 ? 5 : 0, .dropout = i > 2 ? 0.1 : 0 });
        for (int w = 0; w < RP_COUNT(ways); w++) check_way(&m, &ways[w]);
        sized_model_free(&m);
    }
    assert_ok(ctx, rp_set_offload(ctx, NULL));
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_runs_again_as_often_as_the_rules_imply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
