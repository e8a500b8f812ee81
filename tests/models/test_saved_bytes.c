/* Claims about bytes: what is saved between forward and backward is the closed formula of docs/memory.md, to the byte, for every way
 * to checkpoint. The tables are those of that page: one line a value, its bytes, and the ways that save it; the engine is not asked. */
/* ctest: slow-emulated no-emulator */
#include "sized_model.h"

#include <math.h>

/* The ways, by letter:
 *
 *   N none                    F every block a region          P every mlp           T every attn          X blocks, and every mlp in them
 *   S selective_op as it is   M … save: [matmul]   A … save: [attention]   R … save: [rmsnorm, layernorm]    K F and everything kept
 *   n no region, norms recomputed op by op        s no region, the activation recomputed op by op           b both
 *   o S, and attn.output recomputed               Z everything recomputed                                   - everything offloaded
 *
 * "The activation" is swiglu or gelu. What add, down and dropout make is read by no backward.
 */
typedef struct {
    const char *value;
    int64_t bytes;
    const char *saved_by;
} line;

enum { MOST_LINES = 32 };
typedef struct { line line[MOST_LINES]; int n; } table;

static table llama_block(const sizes *d)
{
    int64_t R = d->batch * d->length, e = rp_dtype_bytes(d->dtype), H = d->hidden, M = d->mlp;
    int64_t Q = d->heads * d->head_dim, K = d->kv_heads * d->head_dim;

    return (table){ .n = 17, .line = {
        { "x, what the block reads",       R * H * e,         "NFPTXSMARKnsob" },
        { "attn_norm rmsnorm",             R * H * e,         "N PT    RK s  " },
        { "attn_norm rmsnorm, rstd",       R * 4,             "N PT    RK s  " },
        { "attn.q matmul",                 R * Q * e,         "     SM     o " },
        { "attn.k matmul",                 R * K * e,         "     SM     o " },
        { "attn.v matmul",                 R * K * e,         "N P  SM  Knsob" },
        { "attn rotary of q",              R * Q * e,         "N P      Kns b" },
        { "attn rotary of k",              R * K * e,         "N P      Kns b" },
        { "attn attention",                R * Q * e,         "N P  S A Knsob" },
        { "attn attention, log-sum-exp",   R * d->heads * 4,  "N P  S A Knsob" },
        { "attn.output matmul",            R * H * e,         "     SM       " },
        { "add",                           R * H * e,         "N PT     Kns b" },
        { "mlp_norm rmsnorm",              R * H * e,         "N PT    RK s  " },
        { "mlp_norm rmsnorm, rstd",        R * 4,             "N PT    RK s  " },
        { "mlp.gate matmul",               R * M * e,         "N  T SM  Knsob" },
        { "mlp.up matmul",                 R * M * e,         "N  T SM  Knsob" },
        { "mlp swiglu",                    R * M * e,         "N  T     Kn   " },
    } };
}

/* Weights and choices are what is decided: saved by every way. */
static table mixture_block(const sizes *d)
{
    int64_t R = d->batch * d->length, k = 2, e = rp_dtype_bytes(d->dtype), H = d->hidden, M = d->mlp;
    table t   = llama_block(d);

    t.n -= 3;                       /* gate, up, swiglu of an MLP */
    const line more[] = {
        { "mlp.router matmul",             R * d->experts * e, "N  T SM  Knsob" },
        { "mlp route, weights",            R * k * 4,          "NFPTXSMARKnsobZ" },
        { "mlp route, choices",            R * k * 4,          "NFPTXSMARKnsobZ" },
        { "mlp.experts spread",            R * k * H * e,      "N  T     Kns b" },
        { "mlp.experts.gate",              R * k * M * e,      "N  T SM  Knsob" },
        { "mlp.experts.up",                R * k * M * e,      "N  T SM  Knsob" },
        { "mlp.experts swiglu",            R * k * M * e,      "N  T     Kn   " },
        { "mlp.experts.down",              R * k * H * e,      "N  T SM  Knsob" },
    };
    memcpy(t.line + t.n, more, sizeof more);
    t.n += RP_COUNT(more);
    return t;
}

static table gpt2_block(const sizes *d)
{
    int64_t R = d->batch * d->length, e = rp_dtype_bytes(d->dtype), H = d->hidden, M = d->mlp, Q = d->heads * d->head_dim;

    return (table){ .n = 13, .line = {
        { "x, what the block reads",       R * H * e,         "NFPTXSMARKnsob" },
        { "attn_norm layernorm",           R * H * e,         "N PT    RK s  " },
        { "attn_norm layernorm, mean",     R * 4,             "N PT    RK s  " },
        { "attn_norm layernorm, rstd",     R * 4,             "N PT    RK s  " },
        { "attn.qkv matmul",               R * 3 * Q * e,     "N P  SM  Knsob" },
        { "attn attention",                R * Q * e,         "N P  S A Knsob" },
        { "attn attention, log-sum-exp",   R * d->heads * 4,  "N P  S A Knsob" },
        { "attn.output matmul",            R * H * e,         "     SM       " },
        { "add",                           R * H * e,         "N PT     Kns b" },
        { "mlp_norm layernorm",            R * H * e,         "N PT    RK s  " },
        { "mlp_norm layernorm, mean, rstd", R * 8,            "N PT    RK s  " },
        { "mlp.up matmul",                 R * M * e,         "N  T SM  Knsob" },
        { "mlp gelu",                      R * M * e,         "N  T     Kn   " },
    } };
}

/* Embeddings and dropout read ids and random streams: nothing is saved for them. */
static table around(const sizes *d)
{
    int64_t R = d->batch * d->length, e = rp_dtype_bytes(d->dtype), H = d->hidden;

    return (table){ .n = 4, .line = {
        { "x, what the last norm reads",   R * H * e,         "NFPTXSMARKnsob" },
        { "norm, statistics",              R * (d->gpt2 ? 8 : 4), "NFPTXSMARK so " },
        { "norm",                          R * H * e,         "NFPTXSMARK so " },
        { "linear_cross_entropy, log-sum-exp", R * 4,         "NFPTXSMARKnsob" },
    } };
}

static int64_t sum(const table *t, char letter)
{
    int64_t bytes = 0;

    for (int i = 0; i < t->n; i++)
        if (strchr(t->line[i].saved_by, letter)) bytes += t->line[i].bytes;
    return bytes;
}

/* The ways of the blocks, one letter each, again from the first when there are more; the first one is that of what is around them. */
static int64_t formula(const sizes *d, const char *letters)
{
    table block = d->gpt2 ? gpt2_block(d) : d->experts ? mixture_block(d) : llama_block(d), rest = around(d);
    int64_t bytes = sum(&rest, *letters), n = (int64_t)strlen(letters);

    for (int64_t i = 0; i < d->layers; i++) bytes += sum(&block, letters[i % n]);
    return bytes;
}

/* ---- the engine beside it ---- */

typedef struct { way way; const char *letters; } checked_way;

#define EVERYTHING "[{ op: '*', fate: keep }]"
static const checked_way ways[] = {
    { { .name = "none" }, "N" },
    { { "full", .mode = RP_MODE_FULL }, "F" },
    { { "every block, as a condition", .mode = RP_MODE_CONDITIONS, .conditions = { "module_type: TransformerBlock" } }, "F" },
    { { "selective_layer, every 2nd", .mode = RP_MODE_SELECTIVE_LAYER, .every = 2 }, "NF" },
    { { "selective_layer, every 2nd, offset 1", .mode = RP_MODE_SELECTIVE_LAYER, .every = 2, .offset = 1 }, "FN" },
    { { "selective_layer, every 3rd, offset 2", .mode = RP_MODE_SELECTIVE_LAYER, .every = 3, .offset = 2 }, "NFN" },
    { { "selective_op", .mode = RP_MODE_SELECTIVE_OP, .save = { "matmul", "attention", "reduce_scatter" } }, "S" },
    { { "selective_op, attn.output recomputed", .mode = RP_MODE_SELECTIVE_OP, .save = { "matmul", "attention", "reduce_scatter" },
        .rules = "[{ path: '*.attn.output', fate: recompute }]" }, "o" },
    { { "selective_op, matmul", .mode = RP_MODE_SELECTIVE_OP, .save = { "matmul" } }, "M" },
    { { "selective_op, attention", .mode = RP_MODE_SELECTIVE_OP, .save = { "attention" } }, "A" },
    { { "selective_op, norms", .mode = RP_MODE_SELECTIVE_OP, .save = { "rmsnorm", "layernorm" } }, "R" },
    { { "selective_op, what is not there", .mode = RP_MODE_SELECTIVE_OP, .save = { "softmax" } }, "F" },
    { { "every mlp", .mode = RP_MODE_CONDITIONS, .conditions = { "path: '*.mlp'" } }, "P" },
    { { "every attn", .mode = RP_MODE_CONDITIONS, .conditions = { "module_type: Attention" } }, "T" },
    { { "blocks and every mlp", .mode = RP_MODE_FULL, .conditions = { "path: '*.mlp'" } }, "X" },
    { { "norms op by op", .mode = RP_MODE_NONE, .rules = "[{ op: rmsnorm, fate: recompute }, { op: layernorm, fate: recompute }]" }, "n" },
    { { "norms op by op, by type", .mode = RP_MODE_NONE, .rules = "[{ type: Norm, fate: prefer_recompute }]" }, "n" },
    { { "activations op by op", .mode = RP_MODE_NONE, .rules = "[{ op: swiglu, fate: recompute }, { op: gelu, fate: recompute }]" }, "s" },
    { { "norms and activations op by op",
        .rules = "[{ type: Norm, fate: recompute }, { op: swiglu, fate: recompute }, { op: gelu, fate: recompute }]" }, "b" },
    { { "activations offloaded", .mode = RP_MODE_NONE, .rules = "[{ op: swiglu, fate: offload }, { op: gelu, fate: offload }]" }, "s" },
    { { "keep all in regions", .mode = RP_MODE_FULL, .rules = EVERYTHING }, "K" },
    { { "keep all in nested regions", .mode = RP_MODE_FULL, .conditions = { "path: '*.mlp'", "module_type: Linear" },
        .rules = EVERYTHING }, "K" },
    { { "everything recomputed", .mode = RP_MODE_NONE, .rules = "[{ op: '*', fate: recompute }]" }, "Z" },
    { { "everything recomputed, in regions", .mode = RP_MODE_FULL, .rules = "[{ op: '*', fate: recompute }]" }, "Z" },
    { { "everything offloaded", .mode = RP_MODE_NONE, .rules = "[{ op: '*', fate: offload }]" }, "-" },
};

static int64_t saved_now(rp_ctx *ctx)
{
    rp_mem m;

    rp_mem_read(ctx, 0, false, &m);
    return m.live_at[RP_MEM_SAVED];
}

static void describe(const sizes *d, char out[256])
{
    snprintf(out, 256, "%s %s, batch %d of %d, %d layers, hidden %d, heads %d/%d of %d, mlp %d, vocabulary %d, dropout %g%s",
             d->gpt2 ? "gpt2" : d->experts ? "mixture" : "llama", rp_dtype_name(d->dtype), (int)d->batch, (int)d->length, (int)d->layers, (int)d->hidden,
             (int)d->heads, (int)d->kv_heads, (int)d->head_dim, (int)d->mlp, (int)d->vocab, d->dropout, d->packed ? ", packed" : "");
}

/* How much of it is elsewhere. */
static int64_t offloaded(const checked_way *w, const sizes *d)
{
    bool offloads = w->way.rules && strstr(w->way.rules, "offload");

    return offloads ? formula(d, "N") - formula(d, w->letters) : 0;
}

static void add_saved(void *user, const rp_tape_slot *slot)
{
    if (slot->saved) *(int64_t *)user += rp_meta_bytes(&slot->meta);
}

static void check_way(sized_model *m, const checked_way *w)
{
    int64_t expected = formula(&m->sizes, w->letters), listed = 0;
    rp_tape_stats stats;
    rp_tensor *loss;
    way_in_use u;
    char what[256];

    way_begin(m->ctx, sized_root(m), &w->way, &u);
    rp__tape_stats(m->ctx, &stats);
    assert_ok(m->ctx, sized_loss(m, 0, 0, &loss));
    int64_t saved = saved_now(m->ctx);
    rp__tape_stats(m->ctx, &stats);
    assert_ok(m->ctx, rp__tape_slots(m->ctx, add_saved, &listed));
    describe(&m->sizes, what);
    if (saved != expected)
        fail_msg("%s: %s: %" PRId64 " bytes are saved, %" PRId64 " by the formula", w->way.name, what, saved, expected);
    if (stats.offloaded_bytes != offloaded(w, &m->sizes))
        fail_msg("%s: %s: %" PRId64 " bytes are offloaded, %" PRId64 " by the formula", w->way.name, what, stats.offloaded_bytes,
                 offloaded(w, &m->sizes));
    if (saved + stats.offloaded_bytes != listed)
        fail_msg("%s: %s: %" PRId64 " bytes are saved or offloaded, %" PRId64 " are listed", w->way.name, what, saved + stats.offloaded_bytes,
                 listed);
    assert_ok(m->ctx, rp__backward(m->ctx, loss));
    assert_int_equal(saved_now(m->ctx), 0);
    rp_tensor_unref(loss);
    sized_drop_grads(m);
    way_end(&u);
}

static void check_last_exempt(sized_model *m)
{
    char condition[128], letters[64] = "";
    int64_t last = m->sizes.layers - 1;

    memset(letters, 'F', (size_t)last);
    letters[last] = 'N';
    snprintf(condition, sizeof condition, "all: [{ module_type: TransformerBlock }, { not: { layers: [%d] } }]", (int)last);
    check_way(m, &(checked_way){ { "the last block exempt", .mode = RP_MODE_CONDITIONS, .conditions = { condition } }, letters });
}

static void check_sizes(rp_ctx *ctx, const sizes *d)
{
    sized_model m = sized_model_new(ctx, d);

    for (int i = 0; i < RP_COUNT(ways); i++) check_way(&m, &ways[i]);
    check_last_exempt(&m);
    sized_model_free(&m);
}

/* Both families and experts, both dtypes, with and without dropout, of one document or two. */
static void check_kinds(rp_ctx *ctx, const sizes *llama, const sizes *gpt2)
{
    assert_ok(ctx, rp_set_offload(ctx, &(rp_offload_options){ .device = "sim" }));
    for (int i = 0; i < 32; i++) {
        bool mixture = i & 16;
        sizes d      = i & 1 && !mixture ? *gpt2 : *llama;
        d.gpt2       = i & 1 && !mixture;
        d.experts    = mixture ? 3 + 2 * (i & 1) : 0;
        d.dtype   = i & 2 ? RP_BF16 : RP_F32;
        d.dropout = i & 4 ? 0.1 : 0;
        d.packed  = i & 8;
        check_sizes(ctx, &d);
    }
    assert_ok(ctx, rp_set_offload(ctx, NULL));
    test_ctx_free(ctx);
}

static void saved_bytes_are_the_formula(void **state)
{
    (void)state;
    check_kinds(test_ctx(&(rp_ctx_options){ .threads = 1 }), &(sizes){ SIZES_TINY }, &(sizes){ SIZES_TINY });
    check_kinds(test_ctx(&(rp_ctx_options){ .threads = 1 }),
                &(sizes){ .batch = 1, .length = 9, .layers = 4, .hidden = 20, .heads = 4, .kv_heads = 4, .head_dim = 6, .mlp = 7,
                          .vocab = 130 },
                &(sizes){ .batch = 3, .length = 5, .layers = 5, .hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .mlp = 33,
                          .vocab = 11 });
}

#define SMOLLM2 .batch = 4, .length = 1024, .layers = 30, .hidden = 576, .heads = 9, .kv_heads = 3, .head_dim = 64, .mlp = 1536, \
    .vocab = 49152

/* SmolLM2-135M and GPT-2, on shapes alone. */
static void saved_bytes_are_the_formula_at_the_sizes_of_real_models(void **state)
{
    (void)state;
    check_kinds(test_ctx(&(rp_ctx_options){ .shapes_only = true }),
                &(sizes){ SMOLLM2 },
                &(sizes){ .batch = 8, .length = 512, .layers = 12, .hidden = 768, .heads = 12, .kv_heads = 12, .head_dim = 64,
                          .mlp = 3072, .vocab = 50257 });
}

/* Bytes of a block and of all, as docs/memory.md has them. */
static void the_page_has_the_figures_of_the_formula(void **state)
{
    (void)state;
    static const struct { const char *way; int64_t block; double mib; } figures[] = {
        { "N", 69386240, 1994.2 }, { "S", 47333376, 1363.2 }, { "b", 47333376, 1358.7 }, { "A", 9584640, 283.2 }, { "F", 4718592, 144.0 },
    };
    sizes d     = { SMOLLM2, .dtype = RP_BF16 };
    table block = llama_block(&d);

    for (int i = 0; i < RP_COUNT(figures); i++) {
        assert_int_equal(sum(&block, *figures[i].way), figures[i].block);
        assert_true(fabs((double)formula(&d, figures[i].way) / (1 << 20) - figures[i].mib) < 0.0501);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_bytes_are_the_formula),
        cmocka_unit_test(the_page_has_the_figures_of_the_formula),
        cmocka_unit_test(saved_bytes_are_the_formula_at_the_sizes_of_real_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
