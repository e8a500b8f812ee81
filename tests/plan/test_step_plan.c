/* The claims of rp_plan_step: a step of anybody's own fits the budget that was named, takes what was said to the byte, and leaves the gradients
 * of the step that kept everything; what is not the planned step is refused. */
#include "sized_model.h"

#include "reprise/ops.h"

static int n_budgets(void) { return test_few_or(3, 6); }

/* ---- two steps that a program may have ---- */

/* Micro-batches of a decoder. */
typedef struct { sized_model model; int n_micro; uint64_t hash; } decoder;

static rp_status decoder_step(rp_ctx *ctx, void *user)
{
    decoder *d       = user;
    rp_status status = RP_OK;
    rp_tensor *loss;

    for (int i = 0; i < d->n_micro && status == RP_OK; i++) {
        status = sized_loss(&d->model, 3, i * d->model.sizes.batch, &loss);
        if (status != RP_OK) break;
        status = rp_backward(ctx, loss);
        rp_tensor_unref(loss);
    }
    d->hash = RP_HASH_START;
    for (int i = 0; i < rp__model_n_params(d->model.model); i++) {
        rp_tensor *g = rp__model_param(d->model.model, i)->tensor->grad;
        if (g && rp__tensor_real(g)) d->hash = rp__hash(test_bytes(g), (size_t)rp_meta_bytes(&g->m), d->hash);
    }
    sized_drop_grads(&d->model);
    return status;
}

/* A net of ops without modules: each layer reads the one before it and the one two before that, so that no cut of it is one value wide. */
enum { LAYERS = 12, ROWS = 24, WIDTH = 20 };
typedef struct {
    rp_ctx *ctx;
    rp_tensor *x, *w[LAYERS];
    uint64_t hash;
    int n_layers, n_second;
    double p;
    bool keeps_gradients;
} net; /* n_second: layers of a second pass; 0: none */

static rp_tensor *filled(rp_ctx *ctx, int64_t rows, int64_t columns, int salt)
{
    rp_meta m = rp_meta_2d(RP_F32, rows, columns);
    rp_tensor *t;

    assert_ok(ctx, rp_tensor_new(ctx, &m, salt ? RP_MEM_PARAM : RP_MEM_TEMP, &t));
    for (int64_t i = 0; rp__tensor_real(t) && i < rows * columns; i++) rp_elem_put(t, i, (double)((i * 37 + salt * 11) % 23) / 46 - 0.25);
    rp_tensor_require_grad(t, salt > 0);
    return t;
}

static net net_new(rp_ctx *ctx, double p)
{
    net n = { .ctx = ctx, .x = filled(ctx, ROWS, WIDTH, 0), .n_layers = LAYERS, .p = p };

    for (int i = 0; i < LAYERS; i++) n.w[i] = filled(ctx, WIDTH, WIDTH, i + 1);
    return n;
}

static void net_free(net *n)
{
    rp_tensor_unref(n->x);
    for (int i = 0; i < LAYERS; i++) rp_tensor_unref(n->w[i]);
}

/* gelu(dropout(x w)) + the layer two before */
static rp_status layer(const net *n, rp_tensor *x, rp_tensor *w, rp_tensor *before, rp_tensor **out)
{
    rp_tensor *t[3] = { NULL };
    rp_status status;

    (void)((status = rp_apply(n->ctx, "matmul", &(rp_attr_matmul){ .transpose_w = true }, (rp_tensor *[]){ x, w }, 2, &t[0])) ||
           (status = rp_apply(n->ctx, "dropout", &(rp_attr_dropout){ (float)n->p }, &t[0], 1, &t[1])) ||
           (status = rp_apply(n->ctx, "gelu", &(rp_attr_gelu){ false }, &t[1], 1, &t[2])) ||
           (status = rp_apply(n->ctx, "add", NULL, (rp_tensor *[]){ t[2], before }, 2, out)));
    for (int i = 0; i < 3; i++) rp_tensor_unref(t[i]);
    return status;
}

static rp_status net_loss(net *n, rp_tensor **loss)
{
    rp_tensor *at[LAYERS + 1] = { rp_tensor_ref(n->x) }, *sum = NULL;
    rp_status status          = RP_OK;

    for (int i = 0; i < n->n_layers && status == RP_OK; i++) status = layer(n, at[i], n->w[i], at[i < 2 ? 0 : i - 2], &at[i + 1]);
    if (status == RP_OK) status = rp_apply(n->ctx, "mean", &(rp_attr_dim){ 0 }, &at[n->n_layers], 1, &sum);
    if (status == RP_OK) status = rp_apply(n->ctx, "mean", &(rp_attr_dim){ 0 }, &sum, 1, loss);
    rp_tensor_unref(sum);
    for (int i = 0; i <= LAYERS; i++) rp_tensor_unref(at[i]);
    return status;
}

static rp_status net_pass(net n, int n_layers, int row)
{
    rp_tensor *loss;

    n.n_layers = n_layers;
    rp_pass_begin(n.ctx, 1, row);
    RP_TRY(net_loss(&n, &loss));
    rp_status status = rp_backward(n.ctx, loss);
    rp_tensor_unref(loss);
    return status;
}

static rp_status net_step(rp_ctx *ctx, void *user)
{
    net *n           = user;
    rp_status status = net_pass(*n, n->n_layers, 0);

    (void)ctx;
    if (status == RP_OK && n->n_second) status = net_pass(*n, n->n_second, ROWS);
    n->hash = RP_HASH_START;
    for (int i = 0; i < LAYERS; i++) {
        rp_tensor *g = rp_tensor_grad(n->w[i]);
        if (g && rp__tensor_real(g)) n->hash = rp__hash(test_bytes(g), (size_t)rp_meta_bytes(&g->m), n->hash);
        if (!n->keeps_gradients) rp_tensor_drop_grad(n->w[i]);
    }
    return status;
}

/* ---- claims ---- */

typedef struct {
    rp_ctx *shapes, *ctx;
    rp_step_function step;
    void *on_shapes, *on_data;
    uint64_t *hash, expected;           /* of the gradients: of the last step; without a plan */
} program;

static rp_step_facts plan_of(program *p, int64_t budget, rp_step_plan **plan)
{
    rp_step_facts facts;

    assert_ok(p->shapes, rp_plan_step(p->shapes, p->step, p->on_shapes, budget, plan));
    rp_step_plan_read(*plan, &facts);
    assert_true(facts.memory.peak_bytes <= facts.memory.reserved_bytes && facts.bound_bytes <= facts.memory.reserved_bytes);
    assert_true(facts.bound_seconds <= facts.recompute_seconds * (1 + 1e-9));
    return facts;
}

static uint64_t run(program *p, int64_t budget, rp_step_facts *facts)
{
    rp_step_plan *plan;
    rp_mem before, after;

    *facts = plan_of(p, budget, &plan);
    for (int i = 0; i < 2; i++) {
        uint64_t first = *p->hash;
        rp_mem_read(p->ctx, 0, true, &before);
        assert_ok(p->ctx, rp_step_plan_run(plan, p->ctx, p->step, p->on_data));
        rp_mem_read(p->ctx, 0, false, &after);
        assert_int_equal(after.peak_bytes, facts->memory.peak_bytes);
        assert_memory_equal(after.peak_at, facts->memory.peak_at, sizeof after.peak_at);
        assert_int_equal(after.peak_alloc_bytes, facts->memory.peak_alloc_bytes);
        assert_int_equal(after.live_bytes, before.live_bytes);
        if (i > 0) assert_int_equal(*p->hash, first);
    }
    rp_step_plan_free(plan);
    return *p->hash;
}

static uint64_t expected_of(const sizes *s, int n_micro)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 2 });
    decoder d   = { sized_model_new(ctx, s), n_micro, 0 };

    assert_ok(ctx, decoder_step(ctx, &d));
    sized_model_free(&d.model);
    test_ctx_free(ctx);
    return d.hash;
}

static uint64_t expected_of_net(double p, int n_layers, int n_second)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 2 });
    net n       = net_new(ctx, p);

    n.n_layers  = n_layers;
    n.n_second  = n_second;

    assert_ok(ctx, net_step(ctx, &n));
    net_free(&n);
    test_ctx_free(ctx);
    return n.hash;
}

/* … for the PHASE of OP, or … for the PHASE of OP of PATH */
static void assert_names_a_call(const char *error)
{
    char phase[16], op[32], path[128];
    int to_op = 0, to_path = 0;
    const char *at = strstr(error, ", for the ");

    assert_non_null(at);
    int found = sscanf(at, ", for the %15s of %31s%n of %127s%n", phase, op, &to_op, path, &to_path);
    if (found < 2 || at[found == 3 ? to_path : to_op]) fail_msg("%s", error);
}

/* From the least to all, the real steps from small to large, so that what is reserved shows what each one needs. */
static void check_budgets(program *p)
{
    rp_step_plan *plan;
    rp_step_facts least, all, facts = { .recompute_seconds = 0 };
    rp_mem memory;
    double before = 1e30;

    all = plan_of(p, 0, &plan);
    rp_step_plan_free(plan);
    assert_true(all.n_recomputed == 0 && all.n_regions == 0 && all.recompute_flops == 0);
    least = plan_of(p, RP_LEAST_BUDGET, &plan);
    rp_step_plan_free(plan);
    assert_true(least.memory.reserved_bytes < all.memory.reserved_bytes);
    for (int i = 0; i <= n_budgets(); i++) {
        int64_t budget = least.memory.reserved_bytes + (all.memory.reserved_bytes - least.memory.reserved_bytes) * i / n_budgets();
        uint64_t got   = run(p, budget, &facts);
        assert_int_equal(got, p->expected);
        assert_true(facts.memory.reserved_bytes <= budget);
        assert_true(facts.recompute_seconds <= before * (1 + 1e-12));
        before = facts.recompute_seconds;
    }
    assert_true(before == 0);
    assert_int_equal(rp_plan_step(p->shapes, p->step, p->on_shapes, least.memory.reserved_bytes - 1, &plan), RP_ERR_BUDGET);
    assert_names_a_call(rp_error(p->shapes));
    char size[RP_SIZE_CHARS];
    assert_non_null(strstr(rp_error(p->shapes), rp__size_text_up(size, least.memory.reserved_bytes)));
    rp_mem_read(p->ctx, 0, false, &memory);
    assert_int_equal(memory.reserved_bytes, all.memory.reserved_bytes);
}

static void a_decoders_step_keeps_to_every_budget(void **state)
{
    static const sizes all[] = {
        { SIZES_TINY }, { SIZES_TINY, .gpt2 = true, .dropout = 0.1, .dtype = RP_BF16 },
    };

    (void)state;
    for (int i = 0; i < RP_COUNT(all); i++) {
        rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .threads = 2, .shapes_only = true }), *ctx = test_ctx(&(rp_ctx_options){ .threads = 2 });
        decoder a = { sized_model_new(shapes, &all[i]), 1 + i, 0 }, b = { sized_model_new(ctx, &all[i]), 1 + i, 0 };
        check_budgets(&(program){ shapes, ctx, decoder_step, &a, &b, &b.hash, expected_of(&all[i], 1 + i) });
        sized_model_free(&a.model);
        sized_model_free(&b.model);
        test_ctx_free(shapes);
        test_ctx_free(ctx);
    }
}

static void check_net(double p, int n_layers, int n_second)
{
    rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .threads = 2, .shapes_only = true }), *ctx = test_ctx(&(rp_ctx_options){ .threads = 2 });
    net a = net_new(shapes, p), b = net_new(ctx, p);

    a.n_layers = b.n_layers = n_layers;
    a.n_second = b.n_second = n_second;
    check_budgets(&(program){ shapes, ctx, net_step, &a, &b, &b.hash, expected_of_net(p, n_layers, n_second) });
    net_free(&a);
    net_free(&b);
    test_ctx_free(shapes);
    test_ctx_free(ctx);
}

static void a_step_of_bare_ops_with_skips_keeps_to_every_budget(void **state)
{
    (void)state;
    check_net(0, LAYERS, 0);
    check_net(0.25, LAYERS, 0);
}

/* As those of ranks do, whose first call is a gather, however long their rows are. */
static void passes_that_begin_alike_are_distinguished(void **state)
{
    (void)state;
    check_net(0.25, LAYERS, LAYERS - 3);
    check_net(0, LAYERS - 3, LAYERS);
}

static void another_step_than_the_planned_one_is_refused(void **state)
{
    rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .threads = 2, .shapes_only = true }), *ctx = test_ctx(&(rp_ctx_options){ .threads = 2 });
    net a = net_new(shapes, 0), b = net_new(ctx, 0);
    rp_step_plan *plan;
    rp_mem memory;

    (void)state;
    assert_ok(shapes, rp_plan_step(shapes, net_step, &a, RP_LEAST_BUDGET, &plan));
    rp_tensor *more = filled(ctx, 8, 8, 0);
    assert_int_equal(rp_step_plan_run(plan, ctx, net_step, &b), RP_ERR_STATE);
    assert_string_equal(rp_error(ctx), "the live memory before the step differs from the plan, in size or address");
    rp_tensor_unref(more);
    b.n_layers--;
    assert_int_equal(rp_step_plan_run(plan, ctx, net_step, &b), RP_ERR_STATE);
    assert_non_null(strstr(rp_error(ctx), "the step is not the one that was planned: call 44 is mean"));
    b.n_layers++;
    assert_ok(ctx, rp_step_plan_run(plan, ctx, net_step, &b));
    rp_mem_read(ctx, 0, false, &memory);
    rp_step_plan_free(plan);
    net_free(&b);
    test_ctx_free(ctx);

    ctx = test_ctx(&(rp_ctx_options){ .threads = 2, .memory_limit_bytes = memory.reserved_bytes - 1 });
    b   = net_new(ctx, 0);
    assert_ok(shapes, rp_plan_step(shapes, net_step, &a, RP_LEAST_BUDGET, &plan));
    assert_int_equal(rp_step_plan_run(plan, ctx, net_step, &b), RP_ERR_MEMORY);
    rp_step_plan_free(plan);
    net_free(&a);
    net_free(&b);
    test_ctx_free(ctx);
    test_ctx_free(shapes);
}

static void what_cannot_be_planned_is_reported(void **state)
{
    rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .shapes_only = true }), *ctx = test_ctx(NULL);
    net a = net_new(shapes, 0);
    rp_step_plan *plan;

    (void)state;
    assert_int_equal(rp_plan_step(ctx, net_step, &a, 0, &plan), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "planning a step needs a shapes-only context");
    assert_int_equal(rp_plan_step(shapes, net_step, &a, -2, &plan), RP_ERR_ARG);
    assert_string_equal(rp_error(shapes), "the memory budget is negative: -2 bytes");
    a.keeps_gradients = true;
    assert_int_equal(rp_plan_step(shapes, net_step, &a, 0, &plan), RP_ERR_STATE);
    assert_string_equal(rp_error(shapes),
                        "the step leaves 19200 bytes that were not live before it: drop gradients, and allocate one-time memory before planning");
    for (int i = 0; i < LAYERS; i++) rp_tensor_drop_grad(a.w[i]);
    a.w[3] = (rp_tensor_unref(a.w[3]), filled(shapes, WIDTH, WIDTH + 1, 4));
    assert_int_equal(rp_plan_step(shapes, net_step, &a, 0, &plan), RP_ERR_SHAPE);
    assert_int_equal(rp_plan_step(shapes, net_step, &a, 1, &plan), RP_ERR_SHAPE);
    net_free(&a);
    test_ctx_free(ctx);
    test_ctx_free(shapes);
}

typedef struct { net net; rp_step_plan *plan; rp_status status; } nested;

static rp_status run_inside(rp_ctx *ctx, void *user)
{
    nested *n = user;

    n->status = n->plan ? rp_step_plan_run(n->plan, ctx, net_step, &n->net) : rp_plan_step(ctx, net_step, &n->net, 0, &n->plan);
    return n->status == RP_OK ? net_step(ctx, &n->net) : n->status;
}

static void a_planned_step_needs_an_empty_record_of_its_own(void **state)
{
    rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .threads = 2, .shapes_only = true }), *ctx = test_ctx(&(rp_ctx_options){ .threads = 2 });
    nested a = { .net = net_new(shapes, 0) }, b = { .net = net_new(ctx, 0) };
    rp_step_plan *plan, *more = NULL;
    rp_meta none = rp_meta_2d(RP_F32, 0, WIDTH);
    rp_tensor *x, *y;

    (void)state;
    assert_ok(shapes, rp_plan_step(shapes, net_step, &a.net, RP_LEAST_BUDGET, &plan));
    for (int i = 0; i < 2; i++) {               /* a recorded call whose values have no memory */
        rp_ctx *of = i ? ctx : shapes;
        assert_ok(of, rp_tensor_new(of, &none, RP_MEM_TEMP, &x));
        rp_tensor_require_grad(x, true);
        assert_ok(of, rp_apply(of, "gelu", &(rp_attr_gelu){ false }, &x, 1, &y));
        assert_int_equal(i ? rp_step_plan_run(plan, of, net_step, &b.net) : rp_plan_step(of, net_step, &a.net, 0, &more), RP_ERR_STATE);
        assert_string_equal(rp_error(of), "the record holds 1 calls before the step: call rp_backward or rp_forget first");
        rp_tensor_unref(y);
        rp_forget(of);
        rp_tensor_unref(x);
    }
    b.plan = plan;
    assert_int_equal(rp_step_plan_run(plan, ctx, run_inside, &b), RP_ERR_STATE);
    assert_string_equal(rp_error(ctx), "a planned step cannot begin inside another one");
    assert_int_equal(rp_plan_step(shapes, run_inside, &a, 0, &more), RP_ERR_STATE);
    assert_string_equal(rp_error(shapes), "a planned step cannot begin inside another one");
    assert_null(more);
    assert_ok(ctx, rp_step_plan_run(plan, ctx, net_step, &b.net));
    rp_step_plan_free(plan);
    net_free(&a.net);
    net_free(&b.net);
    test_ctx_free(shapes);
    test_ctx_free(ctx);
}

/* Each allocation on the way fails once: an error, nothing is left, and the next attempt succeeds. */
static void each_failing_allocation_leaves_nothing(void **state)
{
    rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .threads = 2, .shapes_only = true });
    net a          = net_new(shapes, 0);
    rp_step_plan *plan;
    rp_mem before, after;
    test_faults f = { .each = 5 };

    (void)state;
    rp_mem_read(shapes, 0, false, &before);
    while (!f.over) {
        test_fault_begin(&f, shapes);
        test_fault_end(&f, rp_plan_step(shapes, net_step, &a, RP_LEAST_BUDGET, &plan));
        for (int i = 0; i < LAYERS; i++) rp_tensor_drop_grad(a.w[i]);
        rp_mem_read(shapes, 0, false, &after);
        assert_int_equal(after.live_bytes, before.live_bytes);
    }
    assert_true(f.failed > 20);
    rp_step_plan_free(plan);
    net_free(&a);
    test_ctx_free(shapes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decoders_step_keeps_to_every_budget),
        cmocka_unit_test(a_step_of_bare_ops_with_skips_keeps_to_every_budget),
        cmocka_unit_test(passes_that_begin_alike_are_distinguished),
        cmocka_unit_test(another_step_than_the_planned_one_is_refused),
        cmocka_unit_test(what_cannot_be_planned_is_reported),
        cmocka_unit_test(a_planned_step_needs_an_empty_record_of_its_own),
        cmocka_unit_test(each_failing_allocation_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
