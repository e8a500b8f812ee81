/* The decoder without any file: paths, parameters, gradients, regions, caches. */
/* ctest: slow-emulated */
#include "rp_test.h"

#include <math.h>

#include "models/model.h"

typedef struct { bool gpt2, tied, experts, balanced; double dropout; } tiny;

static rp_model_config tiny_config(tiny t)
{
    return (rp_model_config){
        .vocab = 61, .hidden = 24, .n_layers = 3, .n_heads = 6, .n_kv_heads = t.gpt2 ? 6 : 2, .head_dim = 4, .mlp_hidden = 40,
        .context = 32, .norm = t.gpt2 ? RP_NORM_LAYER : RP_NORM_RMS, .norm_eps = 1e-5,
        .activation = t.gpt2 ? RP_ACT_GELU_TANH : RP_ACT_SILU, .gated_mlp = !t.gpt2, .fused_qkv = t.gpt2, .qkv_bias = t.gpt2,
        .attn_output_bias = t.gpt2, .mlp_bias = t.gpt2, .tied = t.tied, .weights_in_out = t.gpt2, .learned_positions = t.gpt2,
        .rope = { .kind = t.gpt2 ? RP_ROPE_NONE : RP_ROPE_DEFAULT, .theta = 10000, .factor = 1 }, .attn_scale = 0.5,
        .experts = t.experts ? 5 : 0, .experts_chosen = 2, .expert_hidden = 12, .experts_balanced = t.balanced, .experts_balance = 0.7,
        .embd_dropout = t.dropout, .attn_dropout = t.dropout, .resid_dropout = t.dropout, .bos = -1, .eos = -1,
    };
}

static void fill(rp_tensor *t, unsigned seed, double scale)
{
    int64_t n = rp_meta_elems(&t->m);
    double *v = malloc((size_t)n * sizeof *v);

    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = ((double)(seed >> 8) / 8388608.0 - 1) * scale + (t->m.ndim == 1 ? 0.5 : 0);
    }
    assert_int_equal(rp_tensor_write(t, v, n), RP_OK);
    free(v);
}

static rp_model *tiny_model(rp_ctx *ctx, tiny t, rp_dtype dtype)
{
    rp_model_config config = tiny_config(t);
    rp_model *m;

    assert_ok(ctx, rp__model_build(ctx, &config, dtype, &m));
    for (int i = 0; i < rp__model_n_params(m); i++) fill(rp__model_param(m, i)->tensor, 7u + (unsigned)i, 0.3);
    return m;
}

static rp_tensor *ids(rp_ctx *ctx, int64_t rows, int64_t length, int shift)
{
    rp_meta meta = rp_meta_2d(RP_I32, rows, length);
    rp_tensor *t;
    int32_t v[256];

    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &t));
    for (int64_t i = 0; i < rows * length; i++) v[i] = (int32_t)((i + shift) * 37 % 61);
    assert_ok(ctx, rp_tensor_write_i32(t, v, rows * length));
    return t;
}

typedef struct { double loss, saved; double *grad; int64_t n; } outcome;

static outcome one_step(rp_ctx *ctx, rp_model *m)
{
    rp_model_batch batch = { .tokens = ids(ctx, 2, 9, 0), .labels = ids(ctx, 2, 9, 1) };
    outcome o            = { 0 };
    rp_tensor *loss;
    rp_mem mem;

    rp__pass_begin(ctx, 3, 0);
    assert_ok(ctx, rp__model_loss(m, &batch, &(rp_attr_cross_entropy){ .weight = 1.0f / 18, .ignore_index = -100 }, &loss));
    rp_mem_read(ctx, 0, false, &mem);
    o.saved = (double)mem.live_at[RP_MEM_SAVED];
    assert_ok(ctx, rp_tensor_read(loss, &o.loss, 1));
    assert_ok(ctx, rp__backward(ctx, loss));
    rp_tensor_unref(loss);
    rp_tensor_unref(batch.tokens);
    rp_tensor_unref(batch.labels);
    for (int i = 0; i < rp__model_n_params(m); i++) {
        rp_tensor *t = rp__model_param(m, i)->tensor;
        int64_t n    = rp_meta_elems(&t->m);
        o.grad       = realloc(o.grad, (size_t)(o.n + n) * sizeof(double));
        assert_non_null(t->grad);
        assert_ok(ctx, rp_tensor_read(t->grad, o.grad + o.n, n));
        o.n += n;
        rp_tensor_unref(t->grad);
        t->grad = NULL;
    }
    return o;
}

static void regions_keep_every_bit_with_dropout(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        rp_ctx *ctx  = test_ctx(NULL);
        rp_model *m  = tiny_model(ctx, (tiny){ .gpt2 = i & 1, .tied = i & 2, .dropout = 0.3 }, i & 4 ? RP_BF16 : RP_F32);
        outcome kept = one_step(ctx, m), full, nested;

        rp_module_checkpoint(rp__model_root(m), rp__module_is_type, "TransformerBlock");
        full = one_step(ctx, m);
        for (rp_module *at = rp__model_root(m); at; at = rp__module_next(rp__model_root(m), at))
            at->checkpointed = !strcmp(at->type->name, "TransformerBlock") || !strcmp(at->type->name, "MLP");
        nested = one_step(ctx, m);
        assert_true(kept.loss == full.loss && kept.loss == nested.loss);
        assert_memory_equal(kept.grad, full.grad, (size_t)kept.n * sizeof(double));
        assert_memory_equal(kept.grad, nested.grad, (size_t)kept.n * sizeof(double));
        assert_true(full.saved < kept.saved && nested.saved == full.saved);
        free(kept.grad);
        free(full.grad);
        free(nested.grad);
        rp__model_free(m);
        test_ctx_free(ctx);
    }
}

static rp_status try_step(rp_ctx *ctx, rp_model *m, const rp_model_batch *batch)
{
    rp_tensor *loss  = NULL;
    rp_status status = rp__model_loss(m, batch, &(rp_attr_cross_entropy){ .weight = 1, .ignore_index = -100 }, &loss);

    if (status == RP_OK) status = rp__backward(ctx, loss);
    rp_tensor_unref(loss);
    rp__tape_reset(ctx);
    for (int i = 0; i < rp__model_n_params(m); i++) rp_tensor_drop_grad(rp__model_param(m, i)->tensor);
    return status;
}

static bool has_no_parts(const char *path, const rp_module *m, void *user)
{
    (void)path;
    (void)user;
    return !m->first_child;
}

/* With a region a layer, so that the end of every one is where memory runs out once. */
static void every_allocation_of_a_step_may_fail(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        rp_ctx *ctx          = test_ctx(&(rp_ctx_options){ .threads = 1 });
        tiny t               = { .gpt2 = kind == 1, .experts = kind == 2, .balanced = kind == 2, .tied = kind > 0, .dropout = 0.1 };
        rp_model *m          = tiny_model(ctx, t, RP_F32);
        rp_model_batch batch = { .tokens = ids(ctx, 1, 5, 0), .labels = ids(ctx, 1, 5, 1) };
        test_faults f        = { 0 };
        rp_mem before, after;

        rp_module_checkpoint(rp__model_root(m), has_no_parts, NULL);
        rp_policy *policy = NULL;       /* entered with each module */
        assert_ok(ctx, rp_policy_new(ctx, "keeps", &policy));
        assert_ok(ctx, rp_policy_rule(policy, NULL, "matmul", RP_KEEP));
        for (rp_module *each = rp__model_root(m); each; each = rp__module_next(rp__model_root(m), each))
            if (kind || !strcmp(each->path, "output")) rp_module_policy(each, policy);
        assert_ok(ctx, try_step(ctx, m, &batch));
        rp_mem_read(ctx, 0, false, &before);
        while (!f.over) {
            test_fault_begin(&f, ctx);
            test_fault_end(&f, try_step(ctx, m, &batch));
            rp_mem_read(ctx, 0, false, &after);
            assert_int_equal(after.live_bytes, before.live_bytes);
        }
        rp_tensor_unref(batch.tokens);
        rp_tensor_unref(batch.labels);
        rp__model_free(m);
        rp_policy_free(policy);
        test_ctx_free(ctx);
    }
}

static double loss_of(rp_ctx *ctx, rp_model *m)
{
    rp_model_batch batch = { .tokens = ids(ctx, 2, 9, 0), .labels = ids(ctx, 2, 9, 1) };
    rp_tensor *loss;
    double value;

    rp__pass_begin(ctx, 3, 0);
    assert_ok(ctx, rp__model_loss(m, &batch, &(rp_attr_cross_entropy){ .weight = 1.0f / 18, .ignore_index = -100 }, &loss));
    assert_ok(ctx, rp_tensor_read(loss, &value, 1));
    rp_tensor_unref(loss);
    rp_tensor_unref(batch.tokens);
    rp_tensor_unref(batch.labels);
    rp__tape_reset(ctx);
    return value;
}

static void nudge(rp_tensor *t, int64_t element, double by)
{
    rp_elem_put(t, element, rp_elem_get(t, element) + by);
    rp__tensor_wrote(t, "the test");
}

/* Some elements of every parameter against central differences, in double, with regions and dropout. */
static void gradients_are_the_slopes_of_the_loss(void **state)
{
    (void)state;
    for (int family = 0; family < 5; family++) {
        rp_ctx *ctx = test_ctx(NULL);
        tiny t      = { .gpt2 = family & 1, .tied = family & 2, .experts = family & 4, .balanced = family & 4, .dropout = 0.2 };
        rp_model *m = tiny_model(ctx, t, RP_F64);
        rp_module_checkpoint(rp__model_root(m), rp__module_is_type, "TransformerBlock");
        outcome o    = one_step(ctx, m);
        double *grad = o.grad, h = 1e-5;
        for (int i = 0; i < rp__model_n_params(m); i++) {
            rp_tensor *w = rp__model_param(m, i)->tensor;
            int64_t n    = rp_meta_elems(&w->m);
            for (int64_t e = i % 5; e < n; e += 1 + n / 3) {
                nudge(w, e, h);
                double above = loss_of(ctx, m);
                nudge(w, e, -2 * h);
                double below = loss_of(ctx, m), slope = (above - below) / (2 * h);
                nudge(w, e, h);
                if (fabs(slope - grad[e]) > 1e-7 + 1e-6 * fabs(slope))
                    fail_msg("%s[%d]: %.10g, slope %.10g", rp__model_param(m, i)->path, (int)e, grad[e], slope);
            }
            grad += n;
        }
        free(o.grad);
        rp__model_free(m);
        test_ctx_free(ctx);
    }
}

typedef rp_status a_loss(rp_model *m, const rp_model_batch *batch, const rp_attr_cross_entropy *how, rp_tensor **loss);

static double loss_by(rp_ctx *ctx, rp_model *m, a_loss *loss_of_batch, const rp_model_batch *batch, float weight)
{
    rp_tensor *loss;
    double value;

    assert_ok(ctx, loss_of_batch(m, batch, &(rp_attr_cross_entropy){ .weight = weight, .ignore_index = -100 }, &loss));
    assert_ok(ctx, rp_tensor_read(loss, &value, 1));
    rp_tensor_unref(loss);
    rp__tape_reset(ctx);
    return value;
}

/* Whose parts of a batch weigh alike is as with the labels' loss: by targets. */
static void the_term_that_balances_is_weighed_as_the_loss_is_and_left_out_of_the_labels(void **state)
{
    (void)state;
    rp_ctx *ctx          = test_ctx(NULL);
    rp_model *plain      = tiny_model(ctx, (tiny){ .experts = true }, RP_F64), *m = tiny_model(ctx, (tiny){ .experts = true, .balanced = true }, RP_F64);
    rp_model_batch batch = { .tokens = ids(ctx, 2, 9, 0), .labels = ids(ctx, 2, 9, 1) };
    double without       = loss_by(ctx, plain, rp__model_loss, &batch, 1.0f / 16), with = loss_by(ctx, m, rp__model_loss, &batch, 1.0f / 16);

    assert_true(with > without + 0.7);          /* the term is 1 where all experts get alike, and more where they do not */
    assert_true(loss_by(ctx, m, rp__model_label_loss, &batch, 1.0f / 16) == without);
    assert_true(fabs(loss_by(ctx, m, rp__model_loss, &batch, 1.0f / 64) - with / 4) < 1e-12);
    rp_tensor_unref(batch.tokens);
    rp_tensor_unref(batch.labels);
    rp__model_free(m);
    rp__model_free(plain);
    test_ctx_free(ctx);
}

/* What stands in the padding is routed, and the term does not see it. */
static void padding_does_not_count_among_what_is_balanced(void **state)
{
    static const int32_t start[2 * 9] = { 0, 0, 0, 0, 0, 5, 5, 5, 5 };         /* row 1 is whole */
    double loss[2][2];

    (void)state;
    for (int padded = 0; padded < 2; padded++) {
        for (int other = 0; other < 2; other++) {
            rp_ctx *ctx          = test_ctx(NULL);
            rp_model *m          = tiny_model(ctx, (tiny){ .experts = true, .balanced = true }, RP_F64);
            rp_model_batch batch = { .tokens = ids(ctx, 2, 9, 0), .labels = ids(ctx, 2, 9, 1), .doc_start = ids(ctx, 2, 9, 0), .padded = padded };
            assert_ok(ctx, rp_tensor_write_i32(batch.doc_start, start, 18));
            for (int i = 5; i < 9; i++) {
                rp_elem_put(batch.labels, i, -100);
                if (other) rp_elem_put(batch.tokens, i, 60 - i);
            }
            loss[padded][other] = loss_by(ctx, m, rp__model_loss, &batch, 1.0f / 14);
            rp_tensor_unref(batch.tokens);
            rp_tensor_unref(batch.labels);
            rp_tensor_unref(batch.doc_start);
            rp__model_free(m);
            test_ctx_free(ctx);
        }
    }
    assert_true(loss[0][0] != loss[0][1]);
    assert_true(loss[1][0] == loss[1][1]);
}

static void a_cache_continues_the_sequence(void **state)
{
    (void)state;
    for (int gpt2 = 0; gpt2 < 2; gpt2++) {
        rp_ctx *ctx   = test_ctx(NULL);
        rp_model *m   = tiny_model(ctx, (tiny){ .gpt2 = gpt2 }, RP_F32);
        rp_tensor *in = ids(ctx, 2, 12, 0), *whole, *part, *logits;
        double *want  = malloc(2 * 12 * 61 * sizeof(double)), *got = malloc(2 * 12 * 61 * sizeof(double));

        rp__tape_ctx(ctx)->no_grad = true;
        assert_ok(ctx, rp__model_logits(m, &(rp_model_batch){ .tokens = in }, &whole));
        assert_ok(ctx, rp_tensor_read(whole, want, 2 * 12 * 61));
        assert_ok(ctx, rp__model_cache_new(m, 2, 12));
        for (int64_t at = 0, n; at < 12; at += n) {
            n = at == 0 ? 5 : at == 5 ? 3 : 1;
            rp_meta meta = rp_meta_2d(RP_I32, 2, n);
            int32_t v[24];
            for (int64_t r = 0; r < 2; r++)
                for (int64_t i = 0; i < n; i++) v[r * n + i] = rp_int_get(in, r * 12 + at + i);
            assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &part));
            assert_ok(ctx, rp_tensor_write_i32(part, v, 2 * n));
            assert_ok(ctx, rp__model_logits(m, &(rp_model_batch){ .tokens = part }, &logits));
            assert_ok(ctx, rp_tensor_read(logits, got, 2 * n * 61));
            for (int64_t r = 0; r < 2; r++)
                for (int64_t i = 0; i < n * 61; i++)
                    assert_true(fabs(got[r * n * 61 + i] - want[(r * 12 + at) * 61 + i]) < 2e-5);
            rp_tensor_unref(logits);
            rp_tensor_unref(part);
        }
        assert_int_equal(rp__model_cache_used(m), 12);
        rp__model_cache_drop(m);
        rp_tensor_unref(whole);
        rp_tensor_unref(in);
        free(want);
        free(got);
        rp__model_free(m);
        test_ctx_free(ctx);
    }
}

static void paths_are_those_of_the_contract(void **state)
{
    static const char *const llama[] = { "tok_embeddings.weight", "layers.0.attn_norm.weight", "layers.2.attn.q.weight",
        "layers.2.attn.output.weight", "layers.1.mlp_norm.weight", "layers.1.mlp.gate.weight", "layers.1.mlp.down.weight", "norm.weight",
        "output.weight" };
    static const char *const gpt2[] = { "pos_embeddings.weight", "layers.0.attn.qkv.bias", "layers.0.mlp.up.weight", "norm.bias" };

    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *l = tiny_model(ctx, (tiny){ 0 }, RP_F32), *g = tiny_model(ctx, (tiny){ .gpt2 = true, .tied = true }, RP_F32);
    for (int i = 0; i < RP_COUNT(llama); i++) assert_non_null(rp__model_find_param(l, llama[i]));
    for (int i = 0; i < RP_COUNT(gpt2); i++) assert_non_null(rp__model_find_param(g, gpt2[i]));
    assert_null(rp__model_find_param(g, "output.weight"));
    assert_non_null(rp_module_find(rp__model_root(g), "output"));
    rp__model_free(l);
    rp__model_free(g);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_keep_every_bit_with_dropout),
        cmocka_unit_test(every_allocation_of_a_step_may_fail),
        cmocka_unit_test(gradients_are_the_slopes_of_the_loss),
        cmocka_unit_test(the_term_that_balances_is_weighed_as_the_loss_is_and_left_out_of_the_labels),
        cmocka_unit_test(padding_does_not_count_among_what_is_balanced),
        cmocka_unit_test(a_cache_continues_the_sequence),
        cmocka_unit_test(paths_are_those_of_the_contract),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
