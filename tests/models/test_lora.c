/* Adapters against the peft package: logits, loss, gradients, twelve optimizer steps; fresh ones, and of every family.
 * tests/golden/README.md says what is in the goldens and who made them. */
#include "lora_test.h"

#include "models/adapter_names.h"
#include "optim/optim.h"
#include "quant_test.h"
#include "../train/temp.h"

/* ---- parameters ---- */

static const rp_param *param_of(const opened *o, const char *theirs)
{
    rp_lora_part part;
    char layer[RP_WEIGHT_NAME_CHARS], path[RP_WEIGHT_NAME_CHARS + 32];

    part = rp__adapter_name_ours(rp__model_config(o->m), theirs, layer);
    if (part != RP_LORA_NONE) snprintf(path, sizeof path, "%s%s", layer, rp__lora_part_end(part));
    else assert_true(rp__adapter_whole_ours(rp__model_config(o->m), theirs, path));
    const rp_param *p = rp__model_find_param(o->m, path);
    if (!p) fail_msg("no parameter for '%s' ('%s')", theirs, path);
    return p;
}

static int check_tensors(const opened *o, const char *prefix, bool gradients, double limit)
{
    int64_t at = 0;
    int n      = 0;

    for (const char *theirs; (theirs = golden_next(o->g, prefix, &at)) != NULL; n++) {
        char name[256];
        snprintf(name, sizeof name, "%s%s", prefix, theirs);
        golden_tensor want = golden_get(o->g, name);
        const rp_param *p  = param_of(o, theirs);
        double *got        = malloc((size_t)want.elems * sizeof *got);
        assert_ok(o->ctx, rp_tensor_read(gradients ? p->tensor->grad : p->tensor, got, want.elems));
        assert_rel_l2(got, &want, limit);
        golden_tensor_free(&want);
        free(got);
    }
    return n;
}

static void check_pass(const opened *o)
{
    double want = golden_number(o->g, named(o, "loss")), got = loss_and_gradients(o, 0);

    if (fabs(got - want) > 1e-6 * want) fail_msg("loss %.9g, expected %.9g", got, want);
    int n = check_tensors(o, named(o, "grad."), true, 1e-5);
    assert_int_equal(n, count_trained(o->m, false));
    assert_int_equal(n, count_trained(o->m, true));
    drop_gradients(o->m);
}

static void check_steps(const opened *o)
{
    rp_optim_config config = { .name = "adamw", .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .state_dtype = RP_F32 };
    rp_optim_step s        = { .lr = 5e-3, .grad_scale = 1, .measure = true };
    rp_optim_param params[64];
    rp_optim *optim;
    int n = rp__model_n_params(o->m);

    assert_in_range(n, 1, RP_COUNT(params));
    for (int i = 0; i < n; i++) {
        const rp_param *p = rp__model_param(o->m, i);
        params[i]         = (rp_optim_param){ .path = p->path, .tensor = p->tensor, .frozen = !p->tensor->requires_grad };
    }
    assert_ok(o->ctx, rp__optim_new(o->ctx, &config, params, n, &optim));
    for (int step = 0; step < STEPS; step++) {
        char key[64];
        s.step      = step + 1;
        double loss = loss_and_gradients(o, step % BATCHES);
        for (int i = 0; i < n; i++) {
            rp_tensor *t = rp__model_param(o->m, i)->tensor;
            if (t->grad) rp__optim_update(optim, i, t->grad, &s);
        }
        drop_gradients(o->m);
        snprintf(key, sizeof key, "losses/%d", step);
        if (fabs(loss - golden_number(o->g, key)) > 2e-5) fail_msg("%s: %.9g, expected %.9g", key, loss, golden_number(o->g, key));
        snprintf(key, sizeof key, "norms/%d", step);
        double norm = rp__optim_norm(optim), want = golden_number(o->g, key);
        if (fabs(norm - want) > 1e-4 * want) fail_msg("%s: %.9g, expected %.9g", key, norm, want);
    }
    assert_int_equal(check_tensors(o, "end.", false, 1e-4), count_trained(o->m, false));
    rp__optim_free(optim);
}

static void check_variant(const char *variant)
{
    opened o = open_variant(variant);

    check_logits(&o, o.m, 1e-4);
    check_pass(&o);
    rp_module_checkpoint(rp__model_root(o.m), rp__module_is_type, "TransformerBlock");
    check_pass(&o);
    check_steps(&o);
    close_variant(&o);
}

static void llama_with_query_and_value_adapted_is_pefts(void **state) { (void)state; check_variant("smollm2"); }
static void gpt2_with_fused_and_down_projection_adapted_is_pefts(void **state) { (void)state; check_variant("gpt2"); }
static void layers_with_biases_and_of_the_mlp_adapted_are_pefts(void **state) { (void)state; check_variant("llama_bias"); }

static void with_modules_trained_whole_they_are_pefts_too(void **state)
{
    (void)state;
    check_variant("smollm2_whole");
    check_variant("gpt2_whole");
    check_variant("llama_bias_whole");
}

static void with_magnitudes_all_of_them_are_pefts_too(void **state)
{
    (void)state;
    check_variant("smollm2_dora");
    check_variant("gpt2_dora");
    check_variant("llama_bias_dora");
}

/* ---- beside quantised weights ---- */

/* Writes base.gguf, and the adapter, which names it. */
static void unpack(const opened *o, const temp_dir *dir)
{
    int64_t at = 0;

    assert_int_equal(mkdir(temp_path(dir, "adapter"), 0777), 0);
    for (const char *name; (name = golden_next(o->g, named(o, "file."), &at)) != NULL;) {
        char full[256];
        snprintf(full, sizeof full, "%sfile.%s", o->of, name);
        const rp_safetensor *t = rp__safetensors_find(o->g->tensors, full);
        temp_write(dir, name, rp__safetensors_bytes(o->g->tensors, t), (size_t)t->bytes);
    }
}

static void beside_blocks_of_gguf_they_are_pefts_on_the_dequantised_model(void **state)
{
    static const struct { const char *of; rp_dtype attn_q, attn_v; } models[] = { { "llama.", RP_Q4_K, RP_Q4_0 }, { "qwen3.", RP_Q4_K, RP_Q4_K } };

    (void)state;
    for (int i = 0; i < RP_COUNT(models); i++) {
        opened o     = { .ctx = test_ctx(NULL), .of = models[i].of };
        temp_dir dir = temp_make();
        o.g          = golden_open(o.ctx, "lora/quantised");
        unpack(&o, &dir);
        o.m                       = quant_model(o.ctx, temp_path(&dir, "adapter"), RP_F32, RP_F32);
        rp__tape_ctx(o.ctx)->eval = true;
        assert_int_equal(rp__model_find_param(o.m, "layers.1.attn.q.weight")->whole.dtype, models[i].attn_q);
        assert_int_equal(rp__model_find_param(o.m, "layers.1.attn.v.weight")->whole.dtype, models[i].attn_v);
        assert_int_equal(rp__model_find_param(o.m, "layers.1.attn.output.weight")->whole.dtype, RP_Q4_0);
        check_logits(&o, o.m, 1e-4);
        check_pass(&o);
        rp_module_checkpoint(rp__model_root(o.m), rp__module_is_type, "TransformerBlock");
        check_pass(&o);
        temp_remove(&dir);
        close_variant(&o);
    }
}

/* ---- fresh ---- */

static rp_model_config config_of(rp_ctx *ctx, const char *variant)
{
    char path[RP_GOLDEN_PATH], name[128];
    rp_model_config config;
    rp_report report;

    snprintf(name, sizeof name, "models/%s", variant);
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__model_config_load(ctx, golden_path(path, name), NULL, &report, &config));
    rp__report_close(&report);
    return config;
}

static rp_model *fresh(rp_ctx *ctx, const char *variant, const rp_adapter_config *adapter)
{
    rp_model_config config = config_of(ctx, variant);
    rp_model *m;

    config.adapter = *adapter;
    assert_ok(ctx, rp__model_build(ctx, &config, RP_F32, &m));
    rp__model_init(m, 5);
    return m;
}

static void fresh_adapters_are_kaimings_and_change_nothing(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *m = fresh(ctx, "smollm2", &(rp_adapter_config){ .lora = { .rank = 16, .alpha = 32 } });
    const rp_param *a = rp__model_find_param(m, "layers.1.attn.v.lora_a.weight"), *b = rp__model_find_param(m, "layers.1.attn.v.lora_b.weight");
    int64_t n         = rp_meta_elems(&a->whole);
    double bound = 1 / sqrt(48), most = 0, squares = 0;

    for (int64_t i = 0; i < rp_meta_elems(&b->whole); i++) assert_true(rp_elem_get(b->tensor, i) == 0);
    for (int64_t i = 0; i < n; i++) {
        double x = rp_elem_get(a->tensor, i);
        squares += x * x;
        if (fabs(x) > most) most = fabs(x);
    }
    assert_true(most <= bound && most > 0.98 * bound);
    if (fabs(squares / (double)n * 3 / (bound * bound) - 1) > 0.1) fail_msg("variance %g, a uniform's is %g", squares / (double)n, bound * bound / 3);
    assert_null(rp__model_find_param(m, "layers.0.attn.k.lora_a.weight"));
    rp__model_free(m);
    test_ctx_free(ctx);
}

static void any_allocation_of_the_first_magnitudes_may_fail(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    rp_model *m   = fresh(ctx, "smollm2", &(rp_adapter_config){ .lora = { .rank = 2, .alpha = 4, .dora = true } });
    test_faults f = { 0 };
    const rp_param *w = rp__model_find_param(m, "layers.1.attn.v.weight"), *got = rp__model_find_param(m, "layers.1.attn.v.lora_magnitude.weight");
    int64_t n_in      = w->whole.dim[1];

    while (!f.over) {
        test_fault_begin(&f, ctx);
        test_fault_end(&f, rp__magnitudes_init(m));
    }
    assert_true(f.failed > 9);
    for (int64_t o = 0; o < rp_meta_elems(&got->whole); o++) {
        double squares = 0;
        for (int64_t i = 0; i < n_in; i++) squares += rp_elem_get(w->tensor, o * n_in + i) * rp_elem_get(w->tensor, o * n_in + i);
        if (fabs(rp_elem_get(got->tensor, o) - sqrt(squares)) > 1e-6) fail_msg("magnitude %d is %g", (int)o, rp_elem_get(got->tensor, o));
    }
    rp__model_free(m);
    test_ctx_free(ctx);
}

static int count_adapted(rp_model *m)
{
    rp_lora_parts parts;
    int n = 0;

    for (rp_module *root = rp__model_root(m), *at = root; at; at = rp__module_next(root, at)) n += rp__lora_parts(at, &parts);
    return n;
}

static void names_are_paths_their_ends_globs_or_all(void **state)
{
    static const struct { const char *model, *name; int n; } cases[] = {
        { "smollm2", NULL, 4 }, { "gpt2", NULL, 2 }, { "smollm2", "attn.k", 2 }, { "smollm2", "output", 2 }, { "smollm2", "layers.1.mlp.up", 1 },
        { "smollm2", "layers.0.*", 7 }, { "smollm2", "mlp.*", 6 }, { "smollm2", "all-linear", 14 }, { "gpt2", "all-linear", 8 }, { "smollm2", "*", 14 },
    };

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_ctx *ctx            = test_ctx(NULL);
        rp_adapter_config want = { .lora = { .rank = 2, .alpha = 4 }, .module = &cases[i].name, .n_modules = cases[i].name != NULL };
        rp_model *m            = fresh(ctx, cases[i].model, &want);
        if (count_adapted(m) != cases[i].n) fail_msg("'%s' of %s: %d adapted, expected %d", cases[i].name, cases[i].model, count_adapted(m), cases[i].n);
        rp__model_free(m);
        test_ctx_free(ctx);
    }
}

static void assert_not_whole(const char *variant, const char *whole, rp_status expected, const char *wanted)
{
    rp_ctx *ctx            = test_ctx(NULL);
    rp_model_config config = config_of(ctx, variant);
    rp_model *m;

    config.adapter = (rp_adapter_config){ .lora = { .rank = 2, .alpha = 4 }, .whole = &whole, .n_whole = 1 };
    assert_int_equal(rp__model_build(ctx, &config, RP_F32, &m), expected);
    if (!strstr(rp_error(ctx), wanted)) fail_msg("'%s' is not reported, but: %s", wanted, rp_error(ctx));
    rp__model_config_drop(&config);
    test_ctx_free(ctx);
}

static void what_is_trained_whole_is_a_module_that_peft_can_name(void **state)
{
    (void)state;
    assert_not_whole("llama_bias", "*.k.bias", RP_ERR_MATCH,
                     "'layers.0.attn.k.bias' is to be trained whole beside adapters, but 'layers.0.attn.k.weight' is not");
    assert_not_whole("mixtral", "layers.0.mlp.experts", RP_ERR_UNSUPPORTED,
                     "' holds weights of experts, which cannot be trained whole beside adapters");
    assert_not_whole("bert", "tok_embeddings", RP_ERR_UNSUPPORTED, "in an encoder");
    assert_not_whole("smollm2", "layers.7", RP_ERR_MATCH, "no module or parameter to train whole beside adapters is called 'layers.7'");
    assert_not_whole("smollm2", "attn.q", RP_ERR_MATCH, "no module or parameter to train whole beside adapters is called 'attn.q'");
}

static void freezing_what_is_not_there_is_refused(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    rp_model *m  = fresh(ctx, "smollm2", &(rp_adapter_config){ .n_modules = 0 });
    const char *const globs[] = { "layers.0", "layers.7" };

    (void)state;
    assert_int_equal(rp__model_freeze(m, 2, globs), RP_ERR_MATCH);
    assert_string_equal(rp_error(ctx), "freeze: 'layers.7' matches no parameter");
    rp__model_free(m);
    test_ctx_free(ctx);
}

/* Each linear layer of each family runs its adapter, and has a name that peft would know it by. */
static void every_family_is_adapted_written_and_read(void **state)
{
    static const char *const families[] = { "llama3", "gpt2", "qwen2", "qwen3", "mistral", "gemma2", "gemma3_text", "phi3", "olmo2" };
    static const char *const all[]      = { "all-linear" };

    (void)state;
    for (int f = 0; f < RP_COUNT(families); f++) {
        opened o     = { .ctx = test_ctx(NULL) };
        temp_dir dir = temp_make();
        char base[RP_GOLDEN_PATH], name[128];
        snprintf(name, sizeof name, "models/%s", families[f]);
        golden_path(base, name);
        o.m         = fresh(o.ctx, families[f], &(rp_adapter_config){ .lora = { .rank = 2, .alpha = 4 }, .module = all, .n_modules = 1 });
        int32_t ids[ALL];
        for (int i = 0; i < ALL; i++) ids[i] = 3 + i * 7 % 60;
        rp_model_batch batch = { .tokens = ints(o.ctx, ids), .labels = ints(o.ctx, ids) };
        rp_tensor *loss;
        rp__pass_begin(o.ctx, 1, 0);
        assert_ok(o.ctx, rp__model_loss(o.m, &batch, &(rp_attr_cross_entropy){ .weight = 1, .ignore_index = -100 }, &loss));
        assert_ok(o.ctx, rp__backward(o.ctx, loss));
        rp_tensor_unref(loss);
        assert_true(count_trained(o.m, false) >= 2 * 2 * 4);
        if (count_trained(o.m, true) != count_trained(o.m, false))
            fail_msg("%s: %d of %d adapters have a gradient", families[f], count_trained(o.m, true), count_trained(o.m, false));
        drop_gradients(o.m);
        assert_ok(o.ctx, rp__adapters_export(o.m, base, dir.path));
        rp_model *back = model_at(o.ctx, dir.path, NULL, RP_F32);
        assert_int_equal(count_trained(back, false), count_trained(o.m, false));
        assert_int_equal(count_adapted(back), count_adapted(o.m));
        rp__model_free(back);
        drop_batch(&batch);
        rp__model_free(o.m);
        temp_remove(&dir);
        test_ctx_free(o.ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_with_query_and_value_adapted_is_pefts),
        cmocka_unit_test(gpt2_with_fused_and_down_projection_adapted_is_pefts),
        cmocka_unit_test(layers_with_biases_and_of_the_mlp_adapted_are_pefts),
        cmocka_unit_test(with_modules_trained_whole_they_are_pefts_too),
        cmocka_unit_test(with_magnitudes_all_of_them_are_pefts_too),
        cmocka_unit_test(beside_blocks_of_gguf_they_are_pefts_on_the_dequantised_model),
        cmocka_unit_test(fresh_adapters_are_kaimings_and_change_nothing),
        cmocka_unit_test(any_allocation_of_the_first_magnitudes_may_fail),
        cmocka_unit_test(names_are_paths_their_ends_globs_or_all),
        cmocka_unit_test(what_is_trained_whole_is_a_module_that_peft_can_name),
        cmocka_unit_test(freezing_what_is_not_there_is_refused),
        cmocka_unit_test(every_family_is_adapted_written_and_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
