/* Claims about modules that a program makes: they are as any model's to conditions, policies, random numbers and plans. */
#include "rp_test.h"

#include <math.h>

#include "nn/layers.h"
#include "reprise/ops.h"
#include "reprise/train.h"

enum { LAYERS = 6, ROWS = 32, WIDTH = 16, MOST = ROWS * WIDTH };

typedef struct { rp_tensor *weight; rp_module *inner; int n_runs; } layer;
typedef struct { rp_ctx *ctx; rp_module *root, *list, *module[LAYERS]; layer layer[LAYERS]; rp_tensor *x; double grad[LAYERS][WIDTH * WIDTH]; bool data; } net;

/* drop(gelu(x w)) */
static rp_status run_inner(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    layer *l = user;
    rp_tensor *y;

    l->n_runs++;
    RP_TRY(rp_apply(ctx, "matmul", &(rp_attr_matmul){ 0 }, (rp_tensor *[]){ in[0], l->weight }, 2, &y));
    rp_status status = rp__op_step(ctx, &rp_op_gelu, &(rp_attr_gelu){ .erf = true }, &y);
    if (status == RP_OK) status = rp__dropout_step(ctx, 0.5f, &y);
    *out = y;
    return status;
}

/* x + inner(x) */
static rp_status run_layer(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *y;

    RP_TRY(rp_module_call(((layer *)user)->inner, in, &y));
    rp_status status = rp_apply(ctx, "add", NULL, (rp_tensor *[]){ in[0], y }, 2, out);
    rp_tensor_unref(y);
    return status;
}

static rp_status run_layers(net *n, rp_tensor **out)
{
    rp_tensor *x = rp_tensor_ref(n->x);

    for (int i = 0; i < LAYERS; i++) {
        rp_tensor *y     = NULL;
        rp_status status = rp_module_call(n->module[i], &x, &y);
        rp_tensor_unref(x);
        if (status != RP_OK) return status;
        x = y;
    }
    *out = x;
    return RP_OK;
}

static rp_status step(rp_ctx *ctx, void *user)
{
    net *n = user;
    rp_tensor *x, *loss;

    rp_pass_begin(ctx, 3, 0);
    RP_TRY(run_layers(n, &x));
    rp_status status = rp_apply(ctx, "mean", &(rp_attr_dim){ 0 }, &x, 1, &loss);
    rp_tensor_unref(x);
    if (status == RP_OK) status = rp__op_step(ctx, &rp_op_mean, &(rp_attr_dim){ 0 }, &loss);
    if (status == RP_OK) status = rp_backward(ctx, loss);
    if (status == RP_OK) rp_tensor_unref(loss);
    for (int i = 0; i < LAYERS; i++) {
        if (n->data && status == RP_OK) assert_ok(ctx, rp_tensor_read(rp_tensor_grad(n->layer[i].weight), n->grad[i], WIDTH * WIDTH));
        rp_tensor_drop_grad(n->layer[i].weight);
    }
    return status;
}

static rp_tensor *filled(rp_ctx *ctx, rp_meta meta, rp_mem_class mem_class)
{
    double number[MOST];
    rp_tensor *t;

    for (int i = 0; i < MOST; i++) number[i] = i * 31 % 17 / 17.0 - 0.4;
    assert_ok(ctx, rp_tensor_new(ctx, &meta, mem_class, &t));
    assert_ok(ctx, rp_tensor_write(t, number, rp_meta_elems(&meta)));
    rp_tensor_require_grad(t, mem_class == RP_MEM_PARAM);
    return t;
}

static void net_open_called(net *n, bool shapes_only, const char *list)
{
    char name[8];

    *n = (net){ .ctx = test_ctx(&(rp_ctx_options){ .seed = 5, .threads = 1, .shapes_only = shapes_only }), .data = !shapes_only };
    assert_ok(n->ctx, rp_module_new(n->ctx, NULL, "", "Net", NULL, NULL, &n->root));
    assert_ok(n->ctx, rp_module_new(n->ctx, n->root, list, "ModuleList", NULL, NULL, &n->list));
    for (int i = 0; i < LAYERS; i++) {
        layer *l = &n->layer[i];
        snprintf(name, sizeof name, "%d", i);
        assert_ok(n->ctx, rp_module_new(n->ctx, n->list, name, "Layer", run_layer, l, &n->module[i]));
        assert_ok(n->ctx, rp_module_new(n->ctx, n->module[i], "inner", i % 2 ? "Odd" : "Even", run_inner, l, &l->inner));
        l->weight = filled(n->ctx, rp_meta_2d(RP_F32, WIDTH, WIDTH), RP_MEM_PARAM);
    }
    n->x = filled(n->ctx, rp_meta_2d(RP_F32, ROWS, WIDTH), RP_MEM_TEMP);
}

static void net_open(net *n, bool shapes_only) { net_open_called(n, shapes_only, "layers"); }

static void net_close(net *n)
{
    for (int i = 0; i < LAYERS; i++) rp_tensor_unref(n->layer[i].weight);
    rp_tensor_unref(n->x);
    rp_module_free(n->root);
    test_ctx_free(n->ctx);
}

/* ---- the tree ---- */

static void the_tree_is_found_walked_and_printed(void **state)
{
    net n;
    char *text;

    (void)state;
    net_open(&n, true);
    assert_ptr_equal(rp_module_find(n.root, "layers.3.inner"), n.layer[3].inner);
    assert_string_equal(rp_module_type(n.layer[3].inner), "Odd");
    assert_string_equal(rp_module_path(rp_module_parent(n.layer[3].inner)), "layers.3");
    assert_ok(n.ctx, rp_module_print(n.module[2], &text));
    assert_string_equal(text, "2  Layer\n  inner  Even\n");
    rp_release(text);
    net_close(&n);
}

#define assert_refused(ctx, expr, expected, sentence) \
    do { \
        assert_int_equal((expr), (expected)); \
        assert_string_equal(rp_error(ctx), (sentence)); \
    } while (0)

static void names_that_make_no_path_are_refused(void **state)
{
    rp_module *m = NULL;
    net n;

    (void)state;
    net_open(&n, true);
    assert_refused(n.ctx, rp_module_new(n.ctx, n.root, "", "Layer", run_layer, NULL, &m), RP_ERR_ARG, "'' is not a valid module name under ''");
    assert_refused(n.ctx, rp_module_new(n.ctx, n.list, "a.b", "Layer", run_layer, NULL, &m), RP_ERR_ARG, "'a.b' is not a valid module name under 'layers'");
    assert_refused(n.ctx, rp_module_new(n.ctx, n.list, NULL, "Layer", run_layer, NULL, &m), RP_ERR_ARG, "'' is not a valid module name under 'layers'");
    assert_refused(n.ctx, rp_module_new(n.ctx, n.list, "0", "Layer", run_layer, NULL, &m), RP_ERR_ARG, "module 'layers.0' already exists");
    assert_refused(n.ctx, rp_module_new(n.ctx, n.list, "6", "", run_layer, NULL, &m), RP_ERR_ARG, "module '6' has no type");
    assert_null(m);
    net_close(&n);
}

static rp_status make_nothing(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    (void)ctx, (void)user, (void)in, (void)out;
    return RP_OK;
}

static void what_is_not_to_be_called_is_refused(void **state)
{
    rp_module *empty, *theirs;
    rp_tensor *y = NULL;
    net n;

    (void)state;
    net_open(&n, true);
    assert_ok(n.ctx, rp_module_new(n.ctx, n.root, "empty", "Empty", make_nothing, NULL, &empty));
    assert_ok(n.ctx, rp__linear_new(n.root, "head", &(rp_linear_config){ .in = WIDTH, .out = 3 }, RP_F32, &theirs));
    assert_refused(n.ctx, rp_module_call(n.list, &n.x, &y), RP_ERR_ARG, "module 'layers' (ModuleList) cannot be called by a program");
    assert_refused(n.ctx, rp_module_call(theirs, &n.x, &y), RP_ERR_ARG, "module 'head' (Linear) cannot be called by a program");
    assert_refused(n.ctx, rp_module_call(empty, &n.x, &y), RP_ERR_STATE, "the forward of module 'empty' returned no output");
    assert_null(y);
    net_close(&n);
}

/* ---- steps ---- */

/* Gradients of a step, and what the forward saved. A condition and rules as texts; either may be NULL. */
static void run_step(net *n, const char *condition, const char *rules, int n_regions, int64_t *peak)
{
    rp_condition *holds = NULL;
    rp_policy *policy   = NULL;
    rp_mem memory;

    if (condition) assert_ok(n->ctx, rp_condition_read(n->ctx, condition, &holds));
    if (condition) assert_int_equal(rp_module_checkpoint(n->root, rp_condition_holds, holds), n_regions);
    if (rules) assert_ok(n->ctx, rp_policy_read(n->ctx, "rules", rules, &policy));
    rp_set_policy(n->ctx, policy);
    rp_mem_read(n->ctx, 0, true, &memory);
    assert_ok(n->ctx, step(n->ctx, n));
    rp_mem_read(n->ctx, 0, true, &memory);
    *peak = memory.peak_bytes;
    rp_set_policy(n->ctx, NULL);
    rp_policy_free(policy);
    rp_condition_free(holds);
    rp_module_checkpoint(n->root, NULL, NULL);
}

static void conditions_and_rules_hold_for_it_and_change_no_bit(void **state)
{
    static const struct { const char *condition, *rules; int n_regions; } ways[] = {
        { "{ every_k_layers: 2 }", NULL, LAYERS / 2 }, { "{ path: 'layers.*.inner' }", NULL, LAYERS }, { "{ module_type: Odd }", NULL, LAYERS / 2 },
        { "{ module_type: Layer }", NULL, LAYERS }, { "{ layers: [0, 4-5] }", NULL, 3 },
        { NULL, "[{ type: Even, fate: recompute }]", 0 }, { NULL, "[{ path: layers.1, op: matmul, fate: recompute }]", 0 },
        { "{ module_type: Layer }", "[{ op: matmul, type: Odd, fate: keep }]", LAYERS },
    };
    double first[LAYERS][WIDTH * WIDTH];
    int64_t all, peak;
    net n;

    (void)state;
    net_open(&n, false);
    run_step(&n, NULL, NULL, 0, &all);
    memcpy(first, n.grad, sizeof first);
    for (int i = 0; i < RP_COUNT(ways); i++) {
        run_step(&n, ways[i].condition, ways[i].rules, ways[i].n_regions, &peak);
        if (peak >= all) fail_msg("way %d takes %" PRId64 " bytes of %" PRId64, i, peak, all);
        assert_memory_equal(first, n.grad, sizeof first);
    }
    assert_int_equal(n.layer[0].n_runs, 1 + RP_COUNT(ways));        /* replays run ops, not forwards */
    net_close(&n);
}

static void its_random_numbers_are_those_of_its_paths(void **state)
{
    net n, same, other;

    (void)state;
    net_open(&n, false);
    net_open(&same, false);
    net_open_called(&other, false, "blocks");
    assert_ok(n.ctx, step(n.ctx, &n));
    assert_ok(same.ctx, step(same.ctx, &same));
    assert_ok(other.ctx, step(other.ctx, &other));
    assert_memory_equal(n.grad, same.grad, sizeof n.grad);
    assert_true(memcmp(n.grad, other.grad, sizeof n.grad) != 0);
    net_close(&n);
    net_close(&same);
    net_close(&other);
}

static void a_step_of_it_is_planned_for_any_budget_and_changes_no_bit(void **state)
{
    double first[LAYERS][WIDTH * WIDTH];
    int64_t all = 0, least = 0;
    net shapes;

    (void)state;
    net_open(&shapes, true);
    for (int i = 0; i < 6; i++) {
        int64_t budget = i == 0 ? 0 : i == 1 ? RP_LEAST_BUDGET : least + (all - least) * (i - 1) / 5;
        rp_step_plan *plan;
        rp_step_facts said;
        rp_mem memory;
        net n;
        net_open(&n, false);
        assert_ok(shapes.ctx, rp_plan_step(shapes.ctx, step, &shapes, budget, &plan));
        rp_step_plan_read(plan, &said);
        assert_ok(n.ctx, rp_step_plan_run(plan, n.ctx, step, &n));
        rp_mem_read(n.ctx, 0, false, &memory);
        assert_int_equal(memory.peak_bytes, said.memory.peak_bytes);
        assert_int_equal(memory.reserved_bytes, said.memory.reserved_bytes);
        if (i == 0) memcpy(first, n.grad, sizeof first);
        if (i == 0) all = memory.reserved_bytes;
        if (i == 1) least = memory.reserved_bytes;
        if (i > 1) assert_true(memory.reserved_bytes <= budget);
        assert_memory_equal(first, n.grad, sizeof first);
        rp_step_plan_free(plan);
        net_close(&n);
    }
    assert_true(least < all * 9 / 10);
    net_close(&shapes);
}

/* ---- parameters and outputs ---- */

/* Two outputs: x + x, and their double. */
static rp_status run_pair(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    const int *n_made = user;

    RP_TRY(rp_apply(ctx, "add", NULL, (rp_tensor *[]){ in[0], in[0] }, 2, &out[0]));
    return *n_made < 2 ? RP_OK : rp_apply(ctx, "add", NULL, (rp_tensor *[]){ out[0], out[0] }, 2, &out[1]);
}

static void a_module_may_have_several_outputs_also_as_a_region(void **state)
{
    double value[2][2], slope[2];
    int n_made = 2;
    rp_tensor *out[2] = { NULL, NULL }, *loss;
    rp_module *m;
    net n;

    (void)state;
    net_open(&n, false);
    rp_tensor *x = filled(n.ctx, rp_meta_1d(RP_F32, 2), RP_MEM_PARAM);
    assert_ok(n.ctx, rp_module_new(n.ctx, NULL, "pair", "Pair", run_pair, &n_made, &m));
    for (int region = 0; region < 2; region++) {
        if (region) assert_int_equal(rp_module_checkpoint(m, rp__module_is_type, "Pair"), 1);
        assert_ok(n.ctx, rp_module_call_outputs(m, &x, 2, out));
        for (int i = 0; i < 2; i++) assert_ok(n.ctx, rp_tensor_read(out[i], value[i], 2));
        assert_true(value[0][1] != 0 && value[1][1] == 2 * value[0][1]);
        assert_ok(n.ctx, rp_apply(n.ctx, "mul", NULL, out, 2, &loss));
        rp_tensor_unref(out[0]);
        rp_tensor_unref(out[1]);
        assert_ok(n.ctx, rp__op_step(n.ctx, &rp_op_sum, &(rp_attr_dim){ 0 }, &loss));
        assert_ok(n.ctx, rp_backward(n.ctx, loss));
        assert_ok(n.ctx, rp_tensor_read(rp_tensor_grad(x), slope, 2));
        assert_true(fabs(slope[1] - 8 * value[0][1]) < 1e-6);      /* (2x)(4x) has the slope 16 x */
        rp_tensor_drop_grad(x);
        rp_tensor_unref(loss);
    }
    out[0] = out[1] = NULL;
    n_made = 1;
    assert_refused(n.ctx, rp_module_call_outputs(m, &x, 2, out), RP_ERR_STATE, "the forward of module 'pair' returned 1 outputs, 2 are expected");
    assert_refused(n.ctx, rp_module_call_outputs(m, &x, 9, out), RP_ERR_ARG, "module 'pair' is called for 9 outputs, 1 to 8 are possible");
    assert_true(!out[0] && !out[1]);
    rp_tensor_unref(x);
    rp_module_free(m);
    net_close(&n);
}

static void parameters_have_the_path_of_their_module_and_are_listed_in_order(void **state)
{
    static const rp_init ones = { RP_INIT_ONES, 0, false };
    const rp_meta meta        = { RP_F32, 1, { 4 } };
    rp_tensor *w, *b, *listed[2] = { NULL, NULL }, *deep, *none = NULL;
    rp_model *model;
    net n;

    (void)state;
    net_open(&n, false);
    assert_ok(n.ctx, rp_module_param(n.module[0], "bias", &meta, &ones, &b));
    assert_ok(n.ctx, rp_module_param(n.layer[0].inner, "weight", &meta, NULL, &deep));
    assert_ok(n.ctx, rp_module_param(n.root, "scale", &meta, NULL, &w));
    assert_string_equal(rp_tensor_name(w), "scale");
    assert_string_equal(rp_tensor_name(deep), "layers.0.inner.weight");
    assert_true(b->requires_grad && rp_elem_get(b, 3) == 1);
    assert_int_equal(rp_module_params(n.root, listed, 2), 3);
    assert_true(listed[0] == w && listed[1] == b);
    assert_int_equal(rp_module_params(n.layer[0].inner, NULL, 0), 1);
    assert_refused(n.ctx, rp_module_param(n.module[0], "bias", &meta, NULL, &none), RP_ERR_ARG, "parameter 'layers.0.bias' already exists");
    assert_refused(n.ctx, rp_module_param(n.module[0], "a.b", &meta, NULL, &none), RP_ERR_ARG, "'a.b' is not a valid parameter name in module 'layers.0'");
    assert_ok(n.ctx, rp_model_new(n.ctx, RP_SOURCE_DIR "/recipes/tiny_llama/config.json", NULL, &model));
    assert_refused(n.ctx, rp_module_param(rp_model_root(model), "w", &meta, NULL, &none), RP_ERR_ARG,
                   "module '' (Decoder) is not from rp_module_new: its parameters are fixed");
    int n_params = 0;
    while (rp_model_param(model, n_params, NULL)) n_params++;
    assert_int_equal(rp_module_params(rp_model_root(model), NULL, 0), n_params);
    assert_null(none);
    rp_model_free(model);
    net_close(&n);
}

static void each_failing_allocation_of_a_parameter_leaves_the_module_as_it_was(void **state)
{
    test_faults f = { 0 };
    net n;

    (void)state;
    net_open(&n, false);
    for (int i = 0; !f.over; i++) {
        rp_tensor *w = NULL;
        int before   = rp_module_params(n.root, NULL, 0);
        test_fault_begin(&f, n.ctx);
        bool failed = test_fault_end(&f, rp_module_param(n.root, "w", &(rp_meta){ RP_F32, 1, { 4 } }, NULL, &w));
        assert_int_equal(rp_module_params(n.root, NULL, 0), before + !failed);
    }
    assert_true(f.failed >= 4);
    net_close(&n);
}

/* ---- explanations ---- */

typedef struct { int n, n_recompute, n_by_rule; int64_t saved_bytes; char path[32]; } seen;

static void see(const rp_slot_fate *slot, void *user)
{
    seen *s = user;

    s->n++;
    s->n_recompute += slot->fate == RP_RECOMPUTE;
    s->n_by_rule += slot->by != NULL;
    s->saved_bytes += slot->saved ? slot->bytes : 0;
    assert_true(slot->flops > 0 && slot->bytes == rp_meta_bytes(&slot->meta));
    if (s->n == 1) snprintf(s->path, sizeof s->path, "%s", slot->path);
}

static seen explained(net *n)
{
    seen s = { 0 };
    rp_tensor *x;

    rp_pass_begin(n->ctx, 3, 0);
    assert_ok(n->ctx, run_layers(n, &x));
    assert_ok(n->ctx, rp_explain_slots(n->ctx, see, &s));
    rp_forget(n->ctx);
    rp_tensor_unref(x);
    return s;
}

static void slots_of_a_record_are_listed_with_their_fates(void **state)
{
    rp_policy *policy;
    seen s = { 0 };
    net n;

    (void)state;
    net_open(&n, false);
    assert_ok(n.ctx, rp_explain_slots(n.ctx, see, &s));
    assert_int_equal(s.n, 0);
    seen all = explained(&n);
    assert_true(all.n >= LAYERS && all.n_recompute == 0 && all.n_by_rule == 0);
    assert_string_equal(all.path, "layers.0.inner");
    assert_int_equal(rp_module_checkpoint(n.root, rp__module_is_type, "Layer"), LAYERS);
    seen regions = explained(&n);
    assert_true(regions.n_recompute > 0 && regions.saved_bytes < all.saved_bytes);
    rp_module_checkpoint(n.root, NULL, NULL);
    assert_ok(n.ctx, rp_policy_read(n.ctx, "mine", "[{ op: matmul, fate: recompute }]", &policy));
    assert_ok(n.ctx, rp_set_policy(n.ctx, policy));
    seen rules = explained(&n);
    assert_true(rules.n_by_rule == rules.n_recompute && rules.n_recompute == LAYERS);
    assert_ok(n.ctx, rp_set_policy(n.ctx, NULL));
    rp_policy_free(policy);
    net_close(&n);
}

/* ---- faults ---- */

static rp_status refuse(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    *out = rp_tensor_ref(in[0]);
    return rp_fail(ctx, RP_ERR_STATE, "refused by %s", (const char *)user);
}

static void a_forward_that_fails_leaves_nothing_of_a_region(void **state)
{
    rp_condition *all;
    rp_module *bad;
    rp_tensor *y = NULL;
    rp_mem before, after;
    net n;

    (void)state;
    net_open(&n, false);
    assert_ok(n.ctx, rp_module_new(n.ctx, n.root, "bad", "Bad", refuse, "hand", &bad));
    assert_ok(n.ctx, rp_condition_read(n.ctx, "{ module_type: Bad }", &all));
    for (int regions = 0; regions < 2; regions++) {
        rp_mem_read(n.ctx, 0, false, &before);
        assert_refused(n.ctx, rp_module_call(bad, &n.x, &y), RP_ERR_STATE, "refused by hand");
        rp_mem_read(n.ctx, 0, false, &after);
        assert_int_equal(before.live_bytes, after.live_bytes);
        assert_null(y);
        assert_ok(n.ctx, step(n.ctx, &n));
        assert_int_equal(rp_module_checkpoint(n.root, rp_condition_holds, all), 1);
    }
    rp_condition_free(all);
    net_close(&n);
}

static void one_under_a_models_root_goes_with_the_model(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_model *model;
    rp_module *head;

    (void)state;
    assert_ok(ctx, rp_model_new(ctx, RP_SOURCE_DIR "/recipes/tiny_llama/config.json", NULL, &model));
    assert_ok(ctx, rp_module_new(ctx, rp_model_root(model), "value_head", "ValueHead", run_inner, NULL, &head));
    assert_ptr_equal(rp_module_find(rp_model_root(model), "value_head"), head);
    assert_int_equal(rp_module_checkpoint(rp_model_root(model), rp__module_is_type, "ValueHead"), 1);
    rp_model_free(model);
    test_ctx_free(ctx);
}

static void each_failing_allocation_leaves_nothing(void **state)
{
    rp_ctx *ctx   = test_ctx(NULL);
    rp_module *m  = NULL;
    test_faults f = { 0 };

    (void)state;
    while (!f.over) {
        test_fault_begin(&f, ctx);
        if (test_fault_end(&f, rp_module_new(ctx, NULL, "net", "Net", run_layer, NULL, &m))) assert_null(m);
    }
    assert_true(f.failed > 1);
    assert_string_equal(rp_module_path(m), "net");
    rp_module_free(m);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tree_is_found_walked_and_printed), cmocka_unit_test(names_that_make_no_path_are_refused),
        cmocka_unit_test(what_is_not_to_be_called_is_refused),
        cmocka_unit_test(conditions_and_rules_hold_for_it_and_change_no_bit), cmocka_unit_test(its_random_numbers_are_those_of_its_paths),
        cmocka_unit_test(a_step_of_it_is_planned_for_any_budget_and_changes_no_bit), cmocka_unit_test(a_forward_that_fails_leaves_nothing_of_a_region),
        cmocka_unit_test(slots_of_a_record_are_listed_with_their_fates),
        cmocka_unit_test(a_module_may_have_several_outputs_also_as_a_region),
        cmocka_unit_test(parameters_have_the_path_of_their_module_and_are_listed_in_order),
        cmocka_unit_test(each_failing_allocation_of_a_parameter_leaves_the_module_as_it_was),
        cmocka_unit_test(one_under_a_models_root_goes_with_the_model), cmocka_unit_test(each_failing_allocation_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
