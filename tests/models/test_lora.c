/* Adapters against the peft package: logits, loss, gradients, twelve optimizer steps; its files read and written; merged weights.
 * tests/golden/README.md says what is in the goldens and who made them. */
#include "golden_model.h"

#include <unistd.h>

#include "base/file.h"
#include "models/adapter.h"
#include "models/adapter_names.h"
#include "models/weights.h"
#include "train/optim.h"
#include "../train/temp.h"

enum { ROWS = 2, TOKENS = 24, ALL = ROWS * TOKENS, BATCHES = 3, STEPS = 12 };

typedef struct { rp_ctx *ctx; golden *g; rp_model *m; } opened;

static const char *variant_path(char out[RP_GOLDEN_PATH], const char *variant)
{
    char name[128];

    snprintf(name, sizeof name, "lora/%s", variant);
    return golden_path(out, name);
}

static opened open_variant(const char *variant)
{
    opened o = { .ctx = test_ctx(NULL) };
    char path[RP_GOLDEN_PATH], name[128];

    snprintf(name, sizeof name, "lora/%s/golden", variant);
    o.g         = golden_open(o.ctx, name);
    o.m         = model_at(o.ctx, variant_path(path, variant), NULL, RP_F32);
    o.ctx->eval = true;
    return o;
}

static void drop_gradients(rp_model *m)
{
    for (int i = 0; i < rp__model_n_params(m); i++) rp_tensor_drop_grad(rp__model_param(m, i)->tensor);
}

static void close_variant(opened *o)
{
    drop_gradients(o->m);
    rp__model_free(o->m);
    golden_close(o->g);
    test_ctx_free(o->ctx);
}

/* ---- batches ---- */

static rp_tensor *ints(rp_ctx *ctx, const int32_t *v)
{
    rp_meta meta = rp_meta_2d(RP_I32, ROWS, TOKENS);
    rp_tensor *t;

    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &t));
    assert_ok(ctx, rp_tensor_write_i32(t, v, ALL));
    return t;
}

/* Position t is asked for the token of t + 1; the last has no target. */
static rp_model_batch batch_of(const opened *o, int batch)
{
    int32_t *v = golden_ints(o->g, "input_ids", batch * ALL, ALL), labels[ALL];

    for (int i = 0; i < ALL; i++) labels[i] = i % TOKENS == TOKENS - 1 ? -100 : v[i + 1];
    rp_model_batch out = { .tokens = ints(o->ctx, v), .labels = ints(o->ctx, labels) };
    free(v);
    return out;
}

static void drop_batch(rp_model_batch *b)
{
    rp_tensor_unref(b->tokens);
    rp_tensor_unref(b->labels);
}

static double loss_and_gradients(const opened *o, int batch)
{
    rp_model_batch b = batch_of(o, batch);
    rp_tensor *loss;
    double value;

    rp__pass_begin(o->ctx, 1, 0);
    assert_ok(o->ctx, rp__model_loss(o->m, &b, &(rp_attr_cross_entropy){ .weight = 1.0f / (ROWS * (TOKENS - 1)), .ignore_index = -100 }, &loss));
    assert_ok(o->ctx, rp_tensor_read(loss, &value, 1));
    assert_ok(o->ctx, rp__backward(o->ctx, loss));
    rp_tensor_unref(loss);
    drop_batch(&b);
    return value;
}

static double *logits_of(rp_ctx *ctx, rp_model *m, const rp_model_batch *batch, int64_t n)
{
    double *got = malloc((size_t)n * sizeof *got);
    rp_tensor *logits;

    assert_ok(ctx, rp__tape_no_grad(ctx, true));
    assert_ok(ctx, rp__model_logits(m, batch, &logits));
    assert_ok(ctx, rp__tape_no_grad(ctx, false));
    assert_ok(ctx, rp_tensor_read(logits, got, n));
    rp_tensor_unref(logits);
    return got;
}

static void check_logits(const opened *o, rp_model *m, double limit)
{
    golden_tensor want   = golden_get(o->g, "logits");
    rp_model_batch batch = batch_of(o, 0);
    double *got          = logits_of(o->ctx, m, &batch, want.elems);

    assert_max_abs(got, &want, limit);
    free(got);
    golden_tensor_free(&want);
    drop_batch(&batch);
}

/* ---- parameters ---- */

static const rp_param *param_of(const opened *o, const char *theirs)
{
    rp_lora_part part;
    char layer[RP_WEIGHT_NAME_CHARS], path[RP_WEIGHT_NAME_CHARS + 32];

    part = rp__adapter_name_ours(rp__model_config(o->m), theirs, layer);
    assert_int_not_equal(part, RP_LORA_NONE);
    snprintf(path, sizeof path, "%s%s", layer, rp__lora_part_end(part));
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

static int count_trained(const rp_model *m, bool gradients)
{
    int n = 0;

    for (int i = 0; i < rp__model_n_params(m); i++) {
        const rp_tensor *t = rp__model_param(m, i)->tensor;
        n += gradients ? t->grad != NULL : t->requires_grad;
    }
    return n;
}

static void check_pass(const opened *o)
{
    double want = golden_number(o->g, "loss"), got = loss_and_gradients(o, 0);

    if (fabs(got - want) > 1e-6 * want) fail_msg("loss %.9g, expected %.9g", got, want);
    int n = check_tensors(o, "grad.", true, 1e-5);
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

static void with_magnitudes_all_of_them_are_pefts_too(void **state)
{
    (void)state;
    check_variant("smollm2_dora");
    check_variant("gpt2_dora");
    check_variant("llama_bias_dora");
}

/* ---- files ---- */

static void assert_same_bytes(rp_ctx *ctx, const char *a, const char *b)
{
    rp_file_map x, y;

    assert_ok(ctx, rp__file_map(ctx, a, &x));
    assert_ok(ctx, rp__file_map(ctx, b, &y));
    assert_int_equal(x.bytes, y.bytes);
    assert_memory_equal(x.data, y.data, (size_t)x.bytes);
    rp__file_unmap(&x);
    rp__file_unmap(&y);
}

static json_t *json_in(const char *folder, const char *name)
{
    char path[600];
    json_t *json;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    json = json_load_file(path, 0, NULL);
    if (!json) fail_msg("no JSON in '%s'", path);
    return json;
}

static void an_adapter_that_is_read_and_written_is_the_file_peft_wrote(void **state)
{
    static const char *const variants[] = { "smollm2", "gpt2", "llama_bias", "smollm2_dora", "gpt2_dora",
        "llama_bias_dora" }, *const same[] = { "peft_type", "task_type", "r", "lora_alpha",
        "lora_dropout", "use_rslora", "use_dora", "bias", "fan_in_fan_out", "base_model_name_or_path" };

    (void)state;
    for (int v = 0; v < RP_COUNT(variants); v++) {
        opened o     = open_variant(variants[v]);
        temp_dir dir = temp_make();
        char theirs[RP_GOLDEN_PATH], a[600], b[600];
        json_t *want = json_in(variant_path(theirs, variants[v]), "adapter_config.json");
        assert_ok(o.ctx, rp__adapters_export(o.m, json_string_value(json_object_get(want, "base_model_name_or_path")), dir.path));
        snprintf(a, sizeof a, "%s/adapter_model.safetensors", dir.path);
        snprintf(b, sizeof b, "%s/adapter_model.safetensors", theirs);
        assert_same_bytes(o.ctx, a, b);
        json_t *mine = json_in(dir.path, "adapter_config.json");
        for (int i = 0; i < RP_COUNT(same); i++)
            if (!json_equal(json_object_get(mine, same[i]), json_object_get(want, same[i]))) fail_msg("%s: '%s' differs", variants[v], same[i]);
        const json_t *each, *targets = json_object_get(mine, "target_modules");
        size_t i;
        assert_int_equal(json_array_size(targets), json_array_size(json_object_get(want, "target_modules")));
        json_array_foreach(targets, i, each) {
            bool found = false;
            for (size_t k = 0; k < json_array_size(targets); k++) found = found || json_equal(each, json_array_get(json_object_get(want, "target_modules"), k));
            if (!found) fail_msg("%s: target '%s' is not peft's", variants[v], json_string_value(each));
        }
        json_decref(mine);
        json_decref(want);
        temp_remove(&dir);
        close_variant(&o);
    }
}

/* Of w + scale b a. */
static double sum_at(const rp_lora_parts *parts, const rp_param *w, int64_t out, int64_t in)
{
    int64_t rank = parts->lora.rank, n_in = parts->a->whole.dim[1], n_out = parts->b->whole.dim[0];
    double sum   = 0;

    for (int64_t k = 0; k < rank; k++) sum += rp_elem_get(parts->b->tensor, out * rank + k) * rp_elem_get(parts->a->tensor, k * n_in + in);
    return rp_elem_get(w->tensor, parts->in_out ? in * n_out + out : out * n_in + in) + (double)rp__lora_scale(&parts->lora) * sum;
}

static double norm_at(const rp_lora_parts *parts, const rp_param *w, int64_t out)
{
    double squares = 0;

    for (int64_t in = 0; in < parts->a->whole.dim[1]; in++) squares += sum_at(parts, w, out, in) * sum_at(parts, w, out, in);
    return sqrt(squares);
}

/* The merged weight against a sum in double, and the model of it against the adapted one. */
static void check_merged(const char *variant, const char *layer, rp_dtype dtype)
{
    opened o     = open_variant(variant);
    temp_dir dir = temp_make();
    char path[RP_GOLDEN_PATH], weight[128];
    rp_lora_parts parts;

    rp__model_free(o.m);
    o.m = model_at(o.ctx, variant_path(path, variant), NULL, dtype);
    assert_ok(o.ctx, rp__model_export(o.m, dir.path));
    rp_model *merged = model_at(o.ctx, dir.path, NULL, dtype);
    assert_int_equal(rp__model_n_params(merged), rp__model_n_params(o.m) - count_trained(o.m, false));
    assert_true(rp__lora_parts(rp_module_find(rp__model_root(o.m), layer), &parts));
    snprintf(weight, sizeof weight, "%s.weight", layer);
    const rp_param *w = rp__model_find_param(o.m, weight), *sum = rp__model_find_param(merged, weight);
    for (int64_t e = 0; e < rp_meta_elems(&w->whole); e++) {
        int64_t columns = w->whole.dim[1], out = parts.in_out ? e % columns : e / columns, in = parts.in_out ? e / columns : e % columns;
        double want = sum_at(&parts, w, out, in) * (parts.magnitude ? rp_elem_get(parts.magnitude->tensor, out) / norm_at(&parts, w, out) : 1);
        double off = fabs(rp_elem_get(sum->tensor, e) - want), limit = dtype == RP_BF16 ? fabs(want) / (parts.magnitude ? 100 : 256) + 1e-6 : 1e-6;
        if (off > limit) fail_msg("element %d of '%s': %.9g, expected %.9g", (int)e, weight, rp_elem_get(sum->tensor, e), want);
    }
    if (dtype == RP_F32) check_logits(&o, merged, 2e-4);
    rp__model_free(merged);
    temp_remove(&dir);
    close_variant(&o);
}

static void an_exported_model_has_its_adapters_added_in(void **state)
{
    (void)state;
    check_merged("smollm2", "layers.1.attn.v", RP_F32);
    check_merged("smollm2", "layers.0.attn.q", RP_BF16);
    check_merged("gpt2", "layers.1.attn.qkv", RP_F32);
    check_merged("llama_bias", "layers.0.mlp.down", RP_F32);
    check_merged("smollm2_dora", "layers.1.attn.v", RP_F32);
    check_merged("smollm2_dora", "layers.0.attn.q", RP_BF16);
    check_merged("gpt2_dora", "layers.1.attn.qkv", RP_F32);
}

/* ---- refusals ---- */

static void copy_into(rp_ctx *ctx, const temp_dir *d, const char *variant, const char *name)
{
    char path[RP_GOLDEN_PATH + 64], folder[RP_GOLDEN_PATH];
    rp_file_map file;

    snprintf(path, sizeof path, "%s/%s", variant_path(folder, variant), name);
    assert_ok(ctx, rp__file_map(ctx, path, &file));
    temp_write(d, name, file.data, (size_t)file.bytes);
    rp__file_unmap(&file);
}

static void assert_refused(const char *key, json_t *value, const char *wanted)
{
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    char folder[RP_GOLDEN_PATH], base[RP_GOLDEN_PATH];
    rp_model_files *files = NULL;
    rp_report report;

    json_t *config = json_in(variant_path(folder, "smollm2"), "adapter_config.json");
    copy_into(ctx, &dir, "smollm2", "adapter_model.safetensors");
    json_object_set_new(config, "base_model_name_or_path", json_string(golden_path(base, "models/smollm2")));
    json_object_set_new(config, key, value);
    char *text = json_dumps(config, 0);
    temp_text(&dir, "adapter_config.json", text);
    rp__report_open(&report, ctx);
    rp_status status = rp__model_files_open(ctx, dir.path, NULL, &report, &files);
    assert_int_not_equal(status, RP_OK);
    if (!strstr(rp_error(ctx), wanted)) fail_msg("'%s' is not told but: %s", wanted, rp_error(ctx));
    rp__report_close(&report);
    free(text);
    json_decref(config);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void what_peft_would_compute_otherwise_is_refused_by_name(void **state)
{
    (void)state;
    assert_refused("peft_type", json_string("IA3"), "'peft_type' is IA3, and only LORA is read");
    assert_refused("bias", json_string("all"), "'bias' is set");
    assert_refused("rank_pattern", json_pack("{s:i}", "q_proj", 2), "'rank_pattern' is set");
    assert_refused("modules_to_save", json_pack("[s]", "lm_head"), "'modules_to_save' is set");
    assert_refused("r", json_string("four"), "'r' is no number from 1");
    assert_refused("base_model_name_or_path", json_null(), "does not say which model it is of");
    assert_refused("base_model_name_or_path", json_string("someone/some-model"), "is of the model 'someone/some-model', which is not here");
}

static void an_adapter_of_another_rank_than_it_says_is_refused(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    char folder[RP_GOLDEN_PATH], base[RP_GOLDEN_PATH];
    rp_model_config model;
    rp_model_files *files;
    rp_report report;
    rp_model *m;

    json_t *config = json_in(variant_path(folder, "smollm2"), "adapter_config.json");
    copy_into(ctx, &dir, "smollm2", "adapter_model.safetensors");
    json_object_set_new(config, "r", json_integer(3));
    char *text = json_dumps(config, 0);
    temp_text(&dir, "adapter_config.json", text);
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__model_files_open(ctx, golden_path(base, "models/smollm2"), NULL, &report, &files));
    assert_ok(ctx, rp__model_files_adapter(files, dir.path));
    assert_int_equal(rp__model_files_adapter(files, dir.path), RP_ERR_CONFIG);
    assert_ok(ctx, rp__model_files_config(files, &model));
    assert_ok(ctx, rp__model_build(ctx, &model, RP_F32, &m));
    assert_int_equal(rp__model_load(m, files), RP_ERR_SHAPE);
    assert_non_null(strstr(rp_error(ctx), "self_attn.q_proj.lora_A.weight' has another shape than 'layers.0.attn.q.lora_a.weight'"));
    rp__model_free(m);
    rp__model_files_close(files);
    rp__report_close(&report);
    free(text);
    json_decref(config);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* ---- fresh ---- */

static rp_model *fresh(rp_ctx *ctx, const char *variant, const rp_adapter_config *adapter)
{
    char path[RP_GOLDEN_PATH], name[128];
    rp_model_config config;
    rp_report report;
    rp_model *m;

    snprintf(name, sizeof name, "models/%s", variant);
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__model_config_load(ctx, golden_path(path, name), NULL, &report, &config));
    rp__report_close(&report);
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

/* ---- faults ---- */

static rp_status open_load_export(rp_ctx *ctx, const char *path, const char *folder)
{
    rp_model_files *files  = NULL;
    rp_model_config config = { .family = NULL };
    rp_model *m            = NULL;
    rp_report report;

    rp__report_open(&report, ctx);
    rp_status status = rp__model_files_open(ctx, path, NULL, &report, &files);
    if (status == RP_OK) status = rp__model_files_config(files, &config);
    if (status == RP_OK) status = rp__model_build(ctx, &config, RP_BF16, &m);
    if (status == RP_OK) status = rp__model_load(m, files);
    if (status == RP_OK) status = rp__adapters_export(m, "base", folder);
    if (status == RP_OK) status = rp__model_export(m, folder);
    rp__model_config_drop(&config);
    rp__model_free(m);
    rp__model_files_close(files);
    rp__report_close(&report);
    return status;
}

static void any_allocation_of_reading_and_writing_an_adapter_may_fail(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    char path[RP_GOLDEN_PATH];
    test_faults f = { 0 };
    rp_mem m;

    while (!f.over) {
        test_fault_begin(&f, ctx);
        test_fault_end(&f, open_load_export(ctx, variant_path(path, "gpt2"), dir.path));
        rp_mem_read(ctx, 0, false, &m);
        assert_int_equal(m.live_bytes, 0);
    }
    assert_true(f.failed > 99);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_with_query_and_value_adapted_is_pefts),
        cmocka_unit_test(gpt2_with_fused_and_down_projection_adapted_is_pefts),
        cmocka_unit_test(layers_with_biases_and_of_the_mlp_adapted_are_pefts),
        cmocka_unit_test(with_magnitudes_all_of_them_are_pefts_too),
        cmocka_unit_test(an_adapter_that_is_read_and_written_is_the_file_peft_wrote),
        cmocka_unit_test(an_exported_model_has_its_adapters_added_in),
        cmocka_unit_test(what_peft_would_compute_otherwise_is_refused_by_name),
        cmocka_unit_test(an_adapter_of_another_rank_than_it_says_is_refused),
        cmocka_unit_test(fresh_adapters_are_kaimings_and_change_nothing),
        cmocka_unit_test(names_are_paths_their_ends_globs_or_all),
        cmocka_unit_test(every_family_is_adapted_written_and_read),
        cmocka_unit_test(any_allocation_of_reading_and_writing_an_adapter_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
