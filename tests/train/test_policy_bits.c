/* The claim about bits: losses, gradients and the weights after some optimizer steps are bit-identical for all fates of all slots, in any
 * regions.
 *
 *   combination   model (llama, gpt2, a classifier with batch norm) x dtype x dropout x accumulation      trained once with nothing to hide
 *   trial         a way of a recipe, or a policy that draws each slot's fate in regions up to three deep: trained from the same start
 *
 * After it the work of all trials is counted, as trials that replay and offload nothing would claim nothing. */
/* ctest: cost=20 */
#include "bn_mlp.h"
#include "optim/optim.h"
#include "sized_model.h"

enum { N_STEPS = 3, N_POLICIES = 200, DEPTHS = 3 };

/* ---- what a run leaves: hashes of losses, gradients, weights ---- */

typedef struct { uint64_t loss, grads, weights; } outcome;

static void add_bits(const rp_tensor *t, uint64_t *hash)
{
    if (t) *hash = rp__hash(test_bytes(t), (size_t)rp_meta_bytes(rp_tensor_meta(t)), *hash);
    else *hash = rp__hash("-", 1, *hash);
}

/* A model at its beginning. */
typedef struct {
    const char *trial, *name;       /* name: of the combination */
    uint32_t seed;
    rp_ctx *ctx;
    rp_module *root;
    int accumulation;
    sized_model decoder;            /* this … */
    bn_mlp classifier;              /* … or that */
    rp_optim_param *param;
    int n_params;
} subject;

static void must(const subject *s, rp_status status)
{
    if (status != RP_OK) fail_msg("%s, seed %u, on %s: %s", s->trial, s->seed, s->name, rp_error(s->ctx));
}

static rp_status subject_loss(subject *s, int step, int micro, rp_tensor **loss)
{
    if (s->classifier.root) return bn_mlp_loss(&s->classifier, step * 10 + micro, loss);
    return sized_loss(&s->decoder, step, micro * s->decoder.sizes.batch, loss);
}

static void add_state(const subject *s, outcome *o)
{
    rp_tensor *mean, *var;

    for (int i = 0; i < s->n_params; i++) add_bits(s->param[i].tensor, &o->weights);
    for (rp_module *m = s->classifier.root; m; m = rp__module_next(s->classifier.root, m)) {
        if (strcmp(rp_module_type(m), "BatchNorm")) continue;
        rp__batch_norm_running(m, &mean, &var);
        add_bits(mean, &o->weights);
        add_bits(var, &o->weights);
    }
}

static void train_step(subject *s, rp_optim *optim, int step, outcome *o)
{
    rp_optim_step update = { .step = step + 1, .lr = 0.01, .grad_scale = 1 };
    rp_tensor *loss;

    for (int micro = 0; micro < s->accumulation; micro++) {
        must(s, subject_loss(s, step, micro, &loss));
        must(s, rp__backward(s->ctx, loss));
        add_bits(loss, &o->loss);
        rp_tensor_unref(loss);
    }
    for (int i = 0; i < s->n_params; i++) {
        rp_tensor *t = s->param[i].tensor;
        add_bits(t->grad, &o->grads);
        rp__optim_update(optim, i, t->grad, &update);
        rp_tensor_drop_grad(t);
    }
}

static outcome train(subject *s)
{
    rp_optim_config adamw = { .name = "adamw", .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1 };
    outcome o             = { RP_HASH_START, RP_HASH_START, RP_HASH_START };
    rp_optim *optim;

    must(s, rp__optim_new(s->ctx, &adamw, s->param, s->n_params, &optim));
    for (int step = 0; step < N_STEPS; step++) train_step(s, optim, step, &o);
    rp__optim_free(optim);
    add_state(s, &o);
    return o;
}

/* ---- combinations ---- */

enum { LLAMA, GPT2, CLASSIFIER, MODELS };
typedef struct { int model; rp_dtype dtype; double dropout; int accumulation; } combination;
enum { COMBINATIONS = MODELS * 2 * 2 * 2 };

static combination combination_of(int i)
{
    return (combination){ i % MODELS, i / MODELS & 1 ? RP_BF16 : RP_F32, i / MODELS & 2 ? 0.1 : 0, i / MODELS & 4 ? 3 : 1 };
}

static const char *name_of(int i)
{
    static const char *const models[MODELS] = { "llama", "gpt2", "batch-norm mlp" };
    static char text[COMBINATIONS][96];
    combination c = combination_of(i);

    snprintf(text[i], sizeof text[i], "%s %s, dropout %g, accumulation %d", models[c.model], rp_dtype_name(c.dtype), c.dropout,
             c.accumulation);
    return text[i];
}

static void list_params(subject *s)
{
    int n = 0;

    for (rp_module *m = s->root; m; m = rp__module_next(s->root, m)) n += m->n_params;
    s->param = calloc((size_t)n, sizeof *s->param);
    assert_non_null(s->param);
    for (rp_module *m = s->root; m; m = rp__module_next(s->root, m))
        for (int i = 0; i < m->n_params; i++)
            if (!m->param[i].owner) s->param[s->n_params++] = (rp_optim_param){ .path = m->param[i].path, .tensor = m->param[i].tensor };
}

static subject subject_new(rp_ctx *ctx, int i, const char *trial, uint32_t seed)
{
    combination c = combination_of(i);
    subject s     = { .trial = trial, .name = name_of(i), .seed = seed, .ctx = ctx, .accumulation = c.accumulation };

    if (c.model == CLASSIFIER) {
        s.classifier = bn_mlp_new(ctx, &(bn_mlp_options){ .n_blocks = 3, .dropout = (float)c.dropout, .dtype = c.dtype });
        s.root       = s.classifier.root;
    } else {
        s.decoder = sized_model_new(ctx, &(sizes){ SIZES_TINY, .gpt2 = c.model == GPT2, .dtype = c.dtype, .dropout = c.dropout,
                                                   .packed = i & 1 });
        s.root    = rp__model_root(s.decoder.model);
    }
    rp__tape_ctx(ctx)->wide_grads = c.accumulation > 1;
    list_params(&s);
    return s;
}

static void subject_free(subject *s)
{
    free(s->param);
    if (s->classifier.root) bn_mlp_free(&s->classifier);
    else sized_model_free(&s->decoder);
}

static void assert_same(const subject *s, const outcome *got, const outcome *expected)
{
    const char *what = got->loss != expected->loss       ? "losses"
                       : got->grads != expected->grads     ? "gradients"
                       : got->weights != expected->weights ? "final weights"
                                                           : NULL;

    if (what) fail_msg("%s, seed %u, on %s: the %s differ from those of a run without checkpointing",
                       s->trial, s->seed, s->name, what);
}

/* ---- ways of a recipe ---- */

static const way ways[] = {
    { "full", .mode = RP_MODE_FULL },
    { "every block, of the classifier too", .conditions = { "path: 'layers.*'" } },
    { "selective_layer", .mode = RP_MODE_SELECTIVE_LAYER, .every = 2 },
    { "selective_op", .mode = RP_MODE_SELECTIVE_OP, .save = { "matmul", "attention", "reduce_scatter" } },
    { "selective_op, norms", .mode = RP_MODE_SELECTIVE_OP, .save = { "rmsnorm", "layernorm", "batch_norm", "relu" } },
    { "every mlp and block 1", .conditions = { "path: '*.mlp'", "layers: [1]" } },
    { "three deep", .conditions = { "path: 'layers.*'", "any: [{ path: '*.mlp' }, { path: '*.attn' }]", "module_type: Linear" } },
    { "every 2nd product", .mode = RP_MODE_FULL, .rules = "[{ op: matmul, every: 2, fate: keep }, { op: attention, fate: offload }]" },
    { "small ones op by op", .rules = "[{ type: Norm, fate: recompute }, { op: swiglu, fate: recompute }, { op: gelu, fate: recompute },"
                                      " { op: relu, fate: recompute }, { op: dropout, fate: recompute }]" },
    { "everything recomputed", .rules = "[{ op: '*', fate: recompute }]" },
    { "everything offloaded", .mode = RP_MODE_FULL, .rules = "[{ op: '*', fate: offload }]" },
};

/* ---- what was done: a sweep that makes nothing again claims nothing ---- */

typedef struct { int64_t trials, replaying, offloading, calls, replayed, offloaded_bytes; } work;

static void add_work(rp_ctx *ctx, work *w)
{
    rp_tape_stats stats;

    rp__tape_stats(ctx, &stats);
    w->trials++;
    w->replaying += stats.n_replayed > 0;
    w->offloading += stats.offloaded_bytes > 0;
    w->calls += stats.n_calls;
    w->replayed += stats.n_replayed;
    w->offloaded_bytes += stats.offloaded_bytes;
}

typedef struct { rp_ctx *ctx; outcome plain[COMBINATIONS]; } sweep;

static void sweep_open(sweep *s)
{
    rp_tape_stats stats;

    s->ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .seed = 5 });
    assert_ok(s->ctx, rp_set_offload(s->ctx, &(rp_offload_options){ .folder = RP_BINARY_DIR, .buffer_bytes = 1 << 16 }));
    for (int i = 0; i < COMBINATIONS; i++) {
        subject plain = subject_new(s->ctx, i, "none", 0);
        s->plain[i]   = train(&plain);
        subject_free(&plain);
    }
    rp__tape_stats(s->ctx, &stats);
    assert_int_equal(stats.n_replayed, 0);
    assert_int_equal(stats.offloaded_bytes, 0);
}

static void sweep_close(sweep *s)
{
    assert_ok(s->ctx, rp_set_offload(s->ctx, NULL));
    test_ctx_free(s->ctx);
}

/* Every combination learns something, and no two the same. */
static void runs_of_different_combinations_differ(void **state)
{
    (void)state;
    sweep s;

    sweep_open(&s);
    for (int i = 0; i < COMBINATIONS; i++)
        for (int j = 0; j < i; j++) assert_true(s.plain[i].loss != s.plain[j].loss && s.plain[i].weights != s.plain[j].weights);
    sweep_close(&s);
}

static void every_way_of_a_recipe_gives_the_same_bits(void **state)
{
    (void)state;
    work done = { 0 };
    int n = 0, n_decoders = 0;
    sweep s;

    sweep_open(&s);
    for (int i = 0; i < COMBINATIONS; i += test_few_or(5, 1)) {
        n++;
        n_decoders += combination_of(i).model != CLASSIFIER;
        for (int w = 0; w < RP_COUNT(ways); w++) {
            subject one = subject_new(s.ctx, i, ways[w].name, 0);
            way_in_use u;
            way_begin(s.ctx, one.root, &ways[w], &u);
            outcome got = train(&one);
            way_end(&u);
            assert_same(&one, &got, &s.plain[i]);
            subject_free(&one);
            add_work(s.ctx, &done);
        }
    }
    assert_int_equal(done.trials - done.replaying, n);          /* everything offloaded */
    assert_int_equal(done.offloading, n + n_decoders);          /* that, and attention of the decoders */
    assert_in_range(100 * done.replayed / done.calls, 45, 60);
    sweep_close(&s);
}

/* ---- drawn policies ---- */

static uint64_t draw(const char *path, const char *op, const int64_t number[3], uint32_t seed)
{
    uint64_t h = rp__hash(path, strlen(path) + 1, rp__hash(&seed, sizeof seed, RP_HASH_START));

    return rp__hash(number, 3 * sizeof *number, rp__hash(op, strlen(op) + 1, h)) >> 7;
}

static rp_fate drawn_fate(const rp_slot_info *slot, void *user)
{
    const int64_t number[3] = { slot->call, slot->output, slot->by_product };

    return (rp_fate)(draw(slot->path, slot->op, number, *(uint32_t *)user) % (RP_NO_FATE + 1));
}

static bool drawn_region(const char *path, const rp_module *module, void *user)
{
    (void)module;
    return draw(path, "", (int64_t[3]){ 0 }, *(uint32_t *)user) % 3 == 0;
}

static void check_policy(sweep *s, int i, uint32_t seed)
{
    subject one = subject_new(s->ctx, i, "drawn fates in drawn regions", seed);
    rp_policy *policy;

    assert_ok(s->ctx, rp_policy_new(s->ctx, "drawn", &policy));
    assert_ok(s->ctx, rp_policy_call(policy, drawn_fate, NULL, &seed));
    rp_set_policy(s->ctx, policy);
    for (uint32_t depth = 0; depth < seed % (DEPTHS + 1); depth++) {
        uint32_t own = seed * 16 + depth;
        rp_module_checkpoint(one.root, drawn_region, &own);
    }
    rp__tape_ctx(s->ctx)->verify = seed % 5 == 0 ? RP_TAPE_VERIFY_ALWAYS : RP_TAPE_VERIFY_NEVER;
    outcome got = train(&one);
    rp_set_policy(s->ctx, NULL);
    rp_policy_free(policy);
    assert_same(&one, &got, &s->plain[i]);
    subject_free(&one);
}

static void random_fates_in_random_regions_give_the_same_bits(void **state)
{
    (void)state;
    work done = { 0 };
    sweep s;

    sweep_open(&s);
    for (uint32_t seed = 1; seed <= (uint32_t)test_few_or(N_POLICIES / 4, N_POLICIES); seed++)
        for (int model = 0; model < MODELS; model++) {
            int i = (int)(seed / (DEPTHS + 1)) * MODELS % COMBINATIONS + model;
            check_policy(&s, i, seed);
            add_work(s.ctx, &done);
        }
    assert_in_range(done.replaying, done.trials * 95 / 100, done.trials);
    assert_in_range(done.offloading, done.trials * 95 / 100, done.trials);
    assert_in_range(100 * done.replayed / done.calls, 25, 50);
    assert_in_range(done.offloaded_bytes / done.trials, 10000, 40000);
    sweep_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_different_combinations_differ),
        cmocka_unit_test(every_way_of_a_recipe_gives_the_same_bits),
        cmocka_unit_test(random_fates_in_random_regions_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
