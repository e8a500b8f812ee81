/* Claims about rp_optimizer: it follows PyTorch, gives the same bits in backward, and a plan counts its states to the byte. */
#include "optim_test.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "reprise/ops.h"
#include "reprise/train.h"

#define assert_refused(ctx, call, status, text) \
    do { \
        assert_int_equal((call), (status)); \
        if (!strstr(rp_error(ctx), (text))) fail_msg("'%s' lacks '%s'", rp_error(ctx), (text)); \
    } while (0)

/* ---- a net of linear layers, whose loss is the mean of the last layer's squares ---- */

enum { LAYERS = 6, ROWS = 32, WIDTH = 16, MOST = ROWS * WIDTH };
static int64_t n_rows = ROWS;
typedef struct { rp_ctx *ctx; rp_tensor *w[LAYERS], *x; rp_optimizer *optimizer; bool in_backward; rp_update last; int n_used; } net;

static net net_new(const rp_ctx_options *ctx_options, const rp_optimizer_options *options, rp_dtype dtype)
{
    net n = { .ctx = test_ctx(ctx_options), .n_used = LAYERS };
    char name[16];

    for (int i = 0; i < LAYERS; i++) {
        snprintf(name, sizeof name, "layer%d", i);
        assert_ok(n.ctx, rp_param_new(n.ctx, name, &(rp_meta){ dtype, 2, { WIDTH, WIDTH } }, &(rp_init){ RP_INIT_XAVIER_NORMAL, 1.5, false }, &n.w[i]));
    }
    assert_ok(n.ctx, rp_tensor_new(n.ctx, &(rp_meta){ dtype, 2, { n_rows, WIDTH } }, RP_MEM_TEMP, &n.x));
    assert_ok(n.ctx, rp_tensor_set_name(n.x, "x"));
    assert_ok(n.ctx, rp_tensor_init(n.x, &(rp_init){ RP_INIT_NORMAL, 1, false }));
    if (options) assert_ok(n.ctx, rp_optimizer_new(n.ctx, n.w, LAYERS, options, &n.optimizer));
    return n;
}

static void net_free(net *n)
{
    rp_optimizer_free(n->optimizer);
    for (int i = 0; i < LAYERS; i++) rp_tensor_unref(n->w[i]);
    rp_tensor_unref(n->x);
    test_ctx_free(n->ctx);
}

static rp_status net_next(const net *n, const char *op, const void *attr, rp_tensor *with, rp_tensor **x)
{
    rp_tensor *y;

    RP_TRY(rp_apply(n->ctx, op, attr, (rp_tensor *[]){ *x, with }, with ? 2 : 1, &y));
    rp_tensor_unref(*x);
    *x = y;
    return RP_OK;
}

static rp_status net_loss(const net *n, rp_tensor **x)
{
    for (int i = 0; i < n->n_used; i++) {
        RP_TRY(net_next(n, "matmul", &(rp_attr_matmul){ 0 }, n->w[i], x));
        RP_TRY(net_next(n, "gelu", &(rp_attr_gelu){ true }, NULL, x));
    }
    RP_TRY(net_next(n, "mul", NULL, *x, x));
    RP_TRY(net_next(n, "mean", &(rp_attr_dim){ 0 }, NULL, x));
    return net_next(n, "mean", &(rp_attr_dim){ 0 }, NULL, x);
}

static rp_status net_step(rp_ctx *ctx, void *user)
{
    net *n           = user;
    rp_tensor *x     = rp_tensor_ref(n->x);
    rp_status status = net_loss(n, &x);

    if (status == RP_OK && n->in_backward) status = rp_optimizer_backward(n->optimizer, x, &n->last);
    else if (status == RP_OK) status = rp_backward(ctx, x);
    rp_tensor_unref(x);
    return status == RP_OK && !n->in_backward ? rp_optimizer_step(n->optimizer, &n->last) : status;
}

static uint64_t bits_of(const net *n)
{
    uint64_t hash = RP_HASH_START;

    for (int i = 0; i < LAYERS; i++) hash = rp__hash(test_bytes(n->w[i]), (size_t)rp_meta_bytes(&n->w[i]->m), hash);
    return hash;
}

/* ---- PyTorch ---- */

static double option(const json_t *options, const char *key) { return json_number_value(json_object_get(options, key)); }

static rp_optimizer_options options_of(const char *name, const json_t *c)
{
    const json_t *o = json_object_get(c, "options"), *betas = json_object_get(o, "betas");

    return (rp_optimizer_options){ .name = strncmp(name, "sgd", 3) ? NULL : "sgd", .lr = option(o, "lr"), .eps = option(o, "eps"),
                                   .momentum = option(o, "momentum"), .weight_decay = option(o, "weight_decay"),
                                   .beta1 = json_number_value(json_array_get(betas, 0)), .beta2 = json_number_value(json_array_get(betas, 1)),
                                   .clip_norm = option(c, "max_norm") };
}

static void from_json(rp_tensor *t, const json_t *numbers)
{
    for (size_t i = 0; i < json_array_size(numbers); i++) rp_elem_put(t, (int64_t)i, json_number_value(json_array_get(numbers, i)));
}

/* The gradient of sum(w * g) is g. */
static void one_step(rp_optimizer *optimizer, rp_tensor *w, rp_tensor *g, rp_update *done)
{
    rp_tensor *product, *sum;

    assert_ok(w->ctx, rp_apply(w->ctx, "mul", NULL, (rp_tensor *[]){ w, g }, 2, &product));
    assert_ok(w->ctx, rp_apply(w->ctx, "sum", &(rp_attr_dim){ 0 }, &product, 1, &sum));
    assert_ok(w->ctx, rp_backward(w->ctx, sum));
    assert_ok(w->ctx, rp_optimizer_step(optimizer, done));
    assert_null(rp_tensor_grad(w));
    rp_tensor_unref(product);
    rp_tensor_unref(sum);
}

static void follow_torch(const json_t *all, const char *name, const json_t *c)
{
    rp_ctx *ctx                  = test_ctx(NULL);
    rp_optimizer_options options = options_of(name, c);
    int n                        = (int)json_array_size(json_object_get(all, "start"));
    rp_tensor *w, *g;
    rp_optimizer *optimizer;
    rp_update done;

    assert_ok(ctx, rp_param_new(ctx, "w", &(rp_meta){ RP_F32, 1, { n } }, NULL, &w));
    assert_ok(ctx, rp_tensor_new(ctx, &w->m, RP_MEM_TEMP, &g));
    from_json(w, json_object_get(all, "start"));
    assert_ok(ctx, rp_optimizer_new(ctx, &w, 1, &options, &optimizer));
    const json_t *after = json_object_get(c, "after"), *norms = json_object_get(c, "norms");
    for (size_t s = 0; s < json_array_size(after); s++) {
        from_json(g, json_array_get(json_object_get(all, "grads"), s));
        one_step(optimizer, w, g, &done);
        assert_int_equal(done.step, s + 1);
        if (options.clip_norm > 0) assert_true(fabs(done.grad_norm / json_number_value(json_array_get(norms, s)) - 1) < 1e-6);
        for (int i = 0; i < n; i++) {
            double got = rp_elem_get(w, i), want = json_number_value(json_array_get(json_array_get(after, s), (size_t)i));
            if (fabs(got - want) > 2e-6 * (1 + fabs(want))) fail_msg("%s, step %zu, element %d: %.9g, torch has %.9g", name, s + 1, i, got, want);
        }
    }
    rp_optimizer_free(optimizer);
    rp_tensor_unref(g);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

static void steps_are_those_of_torch(void **state)
{
    (void)state;
    json_error_t e;
    json_t *all = json_load_file(RP_SOURCE_DIR "/tests/train/optim_golden.json", 0, &e), *c;
    const char *name;

    assert_non_null(all);
    json_object_foreach(json_object_get(all, "cases"), name, c) follow_torch(all, name, c);
    json_decref(all);
}

/* ---- ways to step ---- */

static void the_schedule_multiplies_the_rate(void **state)
{
    (void)state;
    rp_optimizer_options options = { .lr = 0.5, .schedule = "linear", .warmup_steps = 2, .n_steps = 6 };
    static const double rate[]   = { 0, 0.25, 0.5, 0.375, 0.25, 0.125, 0 };
    net n                        = net_new(NULL, &options, RP_F32);
    double factor;

    for (int i = 0; i < RP_COUNT(rate); i++) {
        assert_ok(n.ctx, net_step(n.ctx, &n));
        assert_true(n.last.lr == rate[i] && n.last.step == i + 1 && rp_optimizer_steps(n.optimizer) == i + 1);
        assert_ok(n.ctx, rp_schedule_factor(n.ctx, "linear", 2, 6, i, &factor));
        assert_true(factor == rate[i] / 0.5);
    }
    assert_ok(n.ctx, rp_schedule_factor(n.ctx, "cosine", 0, 8, 4, &factor));
    assert_true(fabs(factor - 0.5) < 1e-15);
    net_free(&n);
}

static void a_new_rate_holds_from_the_next_step(void **state)
{
    (void)state;
    net n           = net_new(NULL, &(rp_optimizer_options){ .lr = 0.5 }, RP_F32);
    uint64_t before = bits_of(&n);

    assert_ok(n.ctx, rp_optimizer_set_lr(n.optimizer, 0));
    assert_ok(n.ctx, net_step(n.ctx, &n));
    assert_true(bits_of(&n) == before && n.last.lr == 0);
    assert_refused(n.ctx, rp_optimizer_set_lr(n.optimizer, -1), RP_ERR_ARG, "the learning rate is -1");
    net_free(&n);
}

/* Also with bf16 parameters, masters, states in 8 bits and on disk. */
static void updates_in_backward_give_the_same_bits_with_fewer_gradients(void **state)
{
    (void)state;
    static const rp_optimizer_options row[] = {
        { .lr = 0.01 },
        { .lr = 0.01, .name = "sgd", .momentum = 0.9 },
        { .lr = 0.01, .state_dtype = RP_U8, .weight_decay = 0.1 },
        { .lr = 0.01, .master_weights = true, .stochastic = true, .state_dtype = RP_BF16 },
        { .lr = 0.01, .offload = "/tmp" },
    };

    n_rows = 2;                         /* gradients are most of the peak */
    for (int i = 0; i < RP_COUNT(row); i++) {
        rp_mem peak[2];
        uint64_t bits[2];
        double norm[2];
        for (int way = 0; way < 2; way++) {
            net n         = net_new(NULL, &row[i], row[i].master_weights ? RP_BF16 : RP_F32);
            n.in_backward = way;
            for (int s = 0; s < 3; s++) assert_ok(n.ctx, net_step(n.ctx, &n));
            rp_mem_read(n.ctx, 0, false, &peak[way]);
            bits[way] = bits_of(&n);
            norm[way] = n.last.grad_norm;
            net_free(&n);
        }
        assert_true(bits[0] == bits[1] && norm[0] == norm[1] && norm[0] > 0);
        assert_true(peak[1].peak_bytes < peak[0].peak_bytes);
    }
    n_rows = ROWS;
}

/* The norm is needed before the first update, so all gradients exist at once. */
static void clipping_in_backward_gives_the_bits_of_a_step_after_it(void **state)
{
    (void)state;
    rp_update last[2];
    uint64_t bits[2];
    double loss = 0;

    for (int way = 0; way < 2; way++) {
        net n         = net_new(NULL, &(rp_optimizer_options){ .lr = 0.01, .clip_norm = 0.01 }, RP_F32);
        n.in_backward = way;
        for (int s = 0; s < 3; s++) assert_ok(n.ctx, net_step(n.ctx, &n));
        bits[way]     = bits_of(&n);
        last[way]     = n.last;
        rp_tensor *x  = rp_tensor_ref(n.x);
        assert_ok(n.ctx, net_loss(&n, &x));
        assert_ok(n.ctx, rp_tensor_read(x, &loss, 1));
        rp_tensor_unref(x);
        assert_ok(n.ctx, net_step(n.ctx, &n));
        assert_true(n.last.loss == (way ? loss : 0));
        net_free(&n);
    }
    assert_true(bits[0] == bits[1] && last[0].grad_norm == last[1].grad_norm && last[0].grad_norm > 0.01);
}

static void states_on_disk_give_the_bits_of_those_in_memory(void **state)
{
    (void)state;
    uint64_t bits[2];

    for (int way = 0; way < 2; way++) {
        net n = net_new(NULL, &(rp_optimizer_options){ .lr = 0.01, .clip_norm = 0.1, .offload = way ? "/tmp" : NULL }, RP_F32);
        for (int s = 0; s < 3; s++) assert_ok(n.ctx, net_step(n.ctx, &n));
        bits[way] = bits_of(&n);
        net_free(&n);
    }
    assert_true(bits[0] == bits[1]);
}

/* Gradients of two passes are summed before the update. */
static void gradients_of_earlier_passes_are_included(void **state)
{
    (void)state;
    double norm[3];
    uint64_t bits[2];

    for (int way = 0; way < 2; way++) {
        net n        = net_new(NULL, &(rp_optimizer_options){ .lr = 0.01 }, RP_F32);
        rp_tensor *x = rp_tensor_ref(n.x);
        assert_ok(n.ctx, net_loss(&n, &x));
        assert_ok(n.ctx, rp_backward(n.ctx, x));
        rp_tensor_unref(x);
        n.in_backward = way;
        assert_ok(n.ctx, net_step(n.ctx, &n));
        norm[way] = n.last.grad_norm;
        bits[way] = bits_of(&n);
        net_free(&n);
    }
    net once = net_new(NULL, &(rp_optimizer_options){ .lr = 0.01 }, RP_F32);
    assert_ok(once.ctx, net_step(once.ctx, &once));
    assert_true(bits[0] == bits[1] && norm[0] == norm[1] && fabs(norm[0] / once.last.grad_norm - 2) < 1e-6);
    net_free(&once);
}

static void a_parameter_without_a_gradient_is_not_updated_and_not_in_the_norm(void **state)
{
    (void)state;
    static double before[WIDTH * WIDTH], after[WIDTH * WIDTH];
    net n   = net_new(NULL, &(rp_optimizer_options){ .lr = 0.01, .weight_decay = 0.1 }, RP_F32);
    net few = net_new(NULL, &(rp_optimizer_options){ .lr = 0.01 }, RP_F32);

    assert_ok(n.ctx, rp_optimizer_set_lr(n.optimizer, 0));
    assert_ok(n.ctx, net_step(n.ctx, &n));
    assert_ok(n.ctx, rp_optimizer_set_lr(n.optimizer, 0.01));
    assert_ok(n.ctx, rp_tensor_read(n.w[LAYERS - 1], before, WIDTH * WIDTH));
    n.n_used = few.n_used = 2;
    assert_ok(n.ctx, net_step(n.ctx, &n));
    assert_ok(few.ctx, net_step(few.ctx, &few));
    assert_ok(n.ctx, rp_tensor_read(n.w[LAYERS - 1], after, WIDTH * WIDTH));
    assert_memory_equal(before, after, sizeof before);
    assert_true(n.last.grad_norm == few.last.grad_norm);
    net_free(&n);
    net_free(&few);
}

static void a_frozen_parameter_has_no_state(void **state)
{
    (void)state;
    static double before[WIDTH * WIDTH], after[WIDTH * WIDTH];
    net n = net_new(NULL, NULL, RP_F32);
    rp_mem mem;

    assert_ok(n.ctx, rp_tensor_require_grad(n.w[0], false));
    assert_ok(n.ctx, rp_optimizer_new(n.ctx, n.w, LAYERS, &(rp_optimizer_options){ .lr = 0.01 }, &n.optimizer));
    rp_mem_read(n.ctx, 0, false, &mem);
    assert_int_equal(mem.live_at[RP_MEM_OPTIM], 2 * (LAYERS - 1) * WIDTH * WIDTH * 4);
    assert_ok(n.ctx, rp_tensor_read(n.w[0], before, WIDTH * WIDTH));
    assert_ok(n.ctx, net_step(n.ctx, &n));
    assert_ok(n.ctx, rp_tensor_read(n.w[0], after, WIDTH * WIDTH));
    assert_memory_equal(before, after, sizeof before);
    net_free(&n);
}

/* ---- plans ---- */

static void a_plan_counts_the_optimizer_to_the_byte(void **state)
{
    (void)state;
    static const rp_optimizer_options options = { .lr = 0.01 };

    for (int way = 0; way < 2; way++) {
        net shapes   = net_new(&(rp_ctx_options){ .threads = 1, .shapes_only = true }, &options, RP_F32);
        net n        = net_new(&(rp_ctx_options){ .threads = 1 }, &options, RP_F32);
        net free_run = net_new(&(rp_ctx_options){ .threads = 1 }, &options, RP_F32);
        rp_step_plan *plan;
        rp_step_facts facts;
        rp_mem mem;
        shapes.in_backward = n.in_backward = free_run.in_backward = way;
        assert_ok(shapes.ctx, rp_plan_step(shapes.ctx, net_step, &shapes, RP_LEAST_BUDGET, &plan));
        assert_true(rp_optimizer_steps(shapes.optimizer) == 0 && shapes.last.grad_norm == 0);
        rp_step_plan_read(plan, &facts);
        for (int s = 0; s < 3; s++) {
            assert_ok(n.ctx, rp_step_plan_run(plan, n.ctx, net_step, &n));
            assert_ok(free_run.ctx, net_step(free_run.ctx, &free_run));
        }
        rp_mem_read(n.ctx, 0, false, &mem);
        assert_int_equal(mem.peak_bytes, facts.memory.peak_bytes);
        assert_int_equal(mem.reserved_bytes, facts.memory.reserved_bytes);
        assert_int_equal(mem.peak_at[RP_MEM_OPTIM], 2 * LAYERS * WIDTH * WIDTH * 4);
        assert_true(facts.recompute_flops > 0 && bits_of(&n) == bits_of(&free_run));
        rp_step_plan_free(plan);
        net_free(&n);
        net_free(&shapes);
        net_free(&free_run);
    }
}

/* ---- errors ---- */

static void wrong_options_are_refused(void **state)
{
    (void)state;
    static const char *const biases[] = { "*.bias" };
    static const struct { rp_optimizer_options options; rp_status status; const char *text; } row[] = {
        { { .lr = 0 }, RP_ERR_CONFIG, "rp_optimizer_new: lr is 0, expected a number above 0" },
        { { .lr = 1, .clip_norm = -1 }, RP_ERR_ARG, "rp_optimizer_new: clip_norm is -1" },
        { { .lr = 1, .name = "adam" }, RP_ERR_CONFIG, "unknown optimizer 'adam'; did you mean 'adamw'?" },
        { { .lr = 1, .beta2 = 1 }, RP_ERR_CONFIG, "optimizer.betas: 1 is not in [0, 1)" },
        { { .lr = 1, .schedule = "cosin" }, RP_ERR_CONFIG, "unknown schedule 'cosin'; did you mean 'cosine'?" },
        { { .lr = 1, .state_dtype = RP_I32 }, RP_ERR_DTYPE, "optimizer.state_dtype: int32" },
        { { .lr = 1, .no_decay = biases, .n_no_decay = 1 }, RP_ERR_MATCH, "'*.bias' matches no parameter" },
        { { .lr = 1, .offload = "/nonexistent" }, RP_ERR_IO, "/nonexistent" },
    };
    net n = net_new(NULL, NULL, RP_F32);
    rp_optimizer *out = NULL;
    double factor;

    for (int i = 0; i < RP_COUNT(row); i++) assert_refused(n.ctx, rp_optimizer_new(n.ctx, n.w, LAYERS, &row[i].options, &out), row[i].status, row[i].text);
    assert_null(out);
    assert_refused(n.ctx, rp_schedule_factor(n.ctx, "constant", 0, 0, -1, &factor), RP_ERR_CONFIG, "step -1 is negative");
    net_free(&n);
}

static void wrong_parameters_are_refused(void **state)
{
    (void)state;
    net n                              = net_new(NULL, NULL, RP_F32);
    const rp_optimizer_options options = { .lr = 1 };
    rp_tensor *plain, *view, *ids;
    rp_optimizer *out = NULL;

    assert_ok(n.ctx, rp_tensor_new(n.ctx, &n.x->m, RP_MEM_PARAM, &plain));
    assert_ok(n.ctx, rp_tensor_slice(n.w[0], 0, 0, 2, &view));
    assert_ok(n.ctx, rp_tensor_new(n.ctx, &(rp_meta){ RP_I32, 1, { 4 } }, RP_MEM_PARAM, &ids));
    assert_ok(n.ctx, rp_tensor_set_name(ids, "ids"));
    assert_ok(n.ctx, rp_tensor_require_grad(ids, true));
    assert_refused(n.ctx, rp_optimizer_new(n.ctx, (rp_tensor *[]){ n.w[0], plain }, 2, &options, &out), RP_ERR_ARG, "parameter 1 (fp32 [32, 16]) has no name");
    assert_refused(n.ctx, rp_optimizer_new(n.ctx, &view, 1, &options, &out), RP_ERR_ARG, "parameter 0 is a view of 'layer0'");
    assert_refused(n.ctx, rp_optimizer_new(n.ctx, (rp_tensor *[]){ n.w[0], n.w[0] }, 2, &options, &out), RP_ERR_ARG,
                   "the parameters 0 and 1 are both named 'layer0'");
    assert_refused(n.ctx, rp_optimizer_new(n.ctx, (rp_tensor *[]){ NULL }, 1, &options, &out), RP_ERR_ARG, "parameter 0 is NULL");
    assert_refused(n.ctx, rp_optimizer_new(n.ctx, n.w, -1, &options, &out), RP_ERR_ARG, "the number of parameters is -1");
    assert_refused(n.ctx, rp_optimizer_new(n.ctx, &ids, 1, &options, &out), RP_ERR_DTYPE, "the parameter 'ids' is int32 [4]");
    assert_null(out);
    rp_tensor_unref(ids);
    rp_tensor_unref(view);
    rp_tensor_unref(plain);
    net_free(&n);
}

static void spoil(const net *n) { rp_elem_put(n->x, 0, NAN); }

static void a_norm_that_is_not_finite_updates_nothing_if_it_is_clipped(void **state)
{
    (void)state;
    net n           = net_new(NULL, &(rp_optimizer_options){ .lr = 0.1, .clip_norm = 1 }, RP_F32);
    uint64_t before = bits_of(&n);

    assert_refused(n.ctx, rp_optimizer_step(n.optimizer, NULL), RP_ERR_STATE, "no parameter has a gradient: call rp_backward first");
    spoil(&n);
    assert_refused(n.ctx, net_step(n.ctx, &n), RP_ERR_NONFINITE, "the norm of the gradients of step 1 is");
    assert_true(bits_of(&n) == before && rp_optimizer_steps(n.optimizer) == 0);
    assert_null(rp_tensor_grad(n.w[0]));
    net_free(&n);
}

static void a_backward_that_updates_asks_for_a_finite_loss(void **state)
{
    (void)state;

    for (int clips = 0; clips < 2; clips++) {
        net n           = net_new(NULL, &(rp_optimizer_options){ .lr = 0.1, .clip_norm = clips }, RP_F32);
        uint64_t before = bits_of(&n);
        n.in_backward   = true;
        spoil(&n);
        assert_refused(n.ctx, net_step(n.ctx, &n), RP_ERR_NONFINITE, "the loss of step 1 is");
        assert_true(bits_of(&n) == before && !rp_tensor_grad(n.w[0]));
        net_free(&n);
    }
}

/* The file of the states cannot grow. */
static void a_disk_that_fails_ends_the_optimizer(void **state)
{
    (void)state;
    net n = net_new(NULL, &(rp_optimizer_options){ .lr = 0.1, .offload = "/tmp" }, RP_F32);
    struct rlimit old;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 0, old.rlim_max }), 0);
    rp_status status = net_step(n.ctx, &n);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, RP_ERR_IO);
    assert_null(rp_tensor_grad(n.w[0]));
    assert_int_equal(rp_optimizer_steps(n.optimizer), 0);
    assert_refused(n.ctx, net_step(n.ctx, &n), RP_ERR_STATE, "rp_optimizer_step: an earlier update failed, so the parameters are no longer usable");
    net_free(&n);
}

static void an_optimizer_that_cannot_be_made_leaves_nothing(void **state)
{
    (void)state;
    net n         = net_new(NULL, NULL, RP_F32);
    test_faults f = { 0 };

    while (!f.over) {
        rp_optimizer *out = NULL;
        test_fault_begin(&f, n.ctx);
        rp_status status = rp_optimizer_new(n.ctx, n.w, LAYERS, &(rp_optimizer_options){ .lr = 1, .offload = "/tmp" }, &out);
        if (test_fault_end(&f, status)) assert_null(out);
        rp_optimizer_free(out);
    }
    assert_true(f.failed > 10);
    net_free(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_torch),
        cmocka_unit_test(the_schedule_multiplies_the_rate),
        cmocka_unit_test(a_new_rate_holds_from_the_next_step),
        cmocka_unit_test(updates_in_backward_give_the_same_bits_with_fewer_gradients),
        cmocka_unit_test(clipping_in_backward_gives_the_bits_of_a_step_after_it),
        cmocka_unit_test(states_on_disk_give_the_bits_of_those_in_memory),
        cmocka_unit_test(gradients_of_earlier_passes_are_included),
        cmocka_unit_test(a_parameter_without_a_gradient_is_not_updated_and_not_in_the_norm),
        cmocka_unit_test(a_frozen_parameter_has_no_state),
        cmocka_unit_test(a_plan_counts_the_optimizer_to_the_byte),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(wrong_parameters_are_refused),
        cmocka_unit_test(a_norm_that_is_not_finite_updates_nothing_if_it_is_clipped),
        cmocka_unit_test(a_backward_that_updates_asks_for_a_finite_loss),
        cmocka_unit_test(a_disk_that_fails_ends_the_optimizer),
        cmocka_unit_test(an_optimizer_that_cannot_be_made_leaves_nothing),
    };

    setenv("REPRISE_CPU", "base", 1);       /* products of few rows need little scratch there, so that gradients and activations are most of a peak */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
