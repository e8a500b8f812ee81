/* The peft package's files of adapters: read and written, refused where it would compute otherwise, merged. */
#include "lora_test.h"

#include "base/file.h"
#include "../train/temp.h"

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
        "llama_bias_dora", "smollm2_whole", "gpt2_whole", "llama_bias_whole" }, *const same[] = { "peft_type", "task_type", "r", "lora_alpha",
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
        assert_int_equal(json_is_true(json_object_get(mine, "ensure_weight_tying")), json_is_true(json_object_get(want, "ensure_weight_tying")));
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

static int count_parts(const rp_model *m)
{
    int n = 0, unused;

    for (int i = 0; i < rp__model_n_params(m); i++) n += rp__lora_part_of(rp__model_param(m, i)->path, &unused) != RP_LORA_NONE;
    return n;
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
    assert_int_equal(rp__model_n_params(merged), rp__model_n_params(o.m) - count_parts(o.m));
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
    check_merged("smollm2_whole", "layers.1.attn.v", RP_F32);
    check_merged("llama_bias_whole", "layers.1.attn.k", RP_F32);
}

typedef struct { int n; char last[600]; uint64_t mark; } marked_files;

static rp_status note_mark(void *user, const char *file, uint64_t mark)
{
    marked_files *m = user;

    m->n++;
    m->mark = mark;
    snprintf(m->last, sizeof m->last, "%s", file);
    return RP_OK;
}

/* Ranks compare them, so that all have the same adapter. */
static void the_marks_of_weight_files_include_the_adapters(void **state)
{
    rp_ctx *ctx           = test_ctx(NULL);
    rp_model_files *files = NULL;
    marked_files m        = { 0 };
    char path[RP_GOLDEN_PATH];
    rp_report report;

    (void)state;
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__model_files_open(ctx, variant_path(path, "smollm2"), NULL, &report, &files));
    assert_ok(ctx, rp__model_files_marks(files, note_mark, &m));
    assert_int_equal(m.n, 2);
    assert_true(m.mark != 0);
    assert_true(rp__ends_with(m.last, "lora/smollm2/adapter_model.safetensors"));
    rp__model_files_close(files);
    rp__report_close(&report);
    test_ctx_free(ctx);
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

static void assert_refused_of(const char *variant, const char *key, json_t *value, const char *wanted)
{
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    char folder[RP_GOLDEN_PATH], base[RP_GOLDEN_PATH];
    rp_model_files *files = NULL;
    rp_report report;

    json_t *config = json_in(variant_path(folder, variant), "adapter_config.json");
    copy_into(ctx, &dir, variant, "adapter_model.safetensors");
    json_object_set_new(config, "base_model_name_or_path", json_string(golden_path(base, "models/smollm2")));
    json_object_set_new(config, key, value);
    char *text = json_dumps(config, 0);
    temp_text(&dir, "adapter_config.json", text);
    rp__report_open(&report, ctx);
    rp_status status = rp__model_files_open(ctx, dir.path, NULL, &report, &files);
    assert_int_not_equal(status, RP_OK);
    if (!strstr(rp_error(ctx), wanted)) fail_msg("'%s' is not reported, but: %s", wanted, rp_error(ctx));
    rp__report_close(&report);
    free(text);
    json_decref(config);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void assert_refused(const char *key, json_t *value, const char *wanted) { assert_refused_of("smollm2", key, value, wanted); }

static void what_peft_would_compute_otherwise_is_refused_by_name(void **state)
{
    (void)state;
    assert_refused("peft_type", json_string("IA3"), "'peft_type' is IA3, and only LORA is read");
    assert_refused("bias", json_string("all"), "'bias' is set");
    assert_refused("rank_pattern", json_pack("{s:i}", "q_proj", 2), "'rank_pattern' is set");
    assert_refused("modules_to_save", json_pack("[s]", "lm_head"), "'modules_to_save' is set, and");
    assert_refused_of("smollm2_whole", "modules_to_save", json_null(), "lm_head.weight' is no adapter of a layer of this model");
    assert_refused_of("smollm2_whole", "ensure_weight_tying", json_false(), "is trained separately from the weight that it is tied to");
    assert_refused_of("smollm2_dora", "use_dora", json_false(), "is a magnitude, and 'use_dora' is not set");
    assert_refused("r", json_string("four"), "'r' is no number from 1");
    assert_refused("r", json_real(4.5), "the rank 'r' is 4.5, which is not a whole number");
    assert_refused("use_rslora", json_string("true"), "'use_rslora' is neither true nor false");
    assert_refused("use_dora", json_integer(1), "'use_dora' is neither true nor false");
    assert_refused("base_model_name_or_path", json_null(), "does not name its base model");
    assert_refused("base_model_name_or_path", json_string("someone/some-model"), "has the base model 'someone/some-model', which does not exist here");
}

static void a_file_without_adapters_is_refused(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    char base[RP_GOLDEN_PATH], expected[256];
    rp_model_files *files;
    rp_report report;

    copy_into(ctx, &dir, "smollm2", "adapter_config.json");
    temp_write(&dir, "adapter_model.safetensors", "\2\0\0\0\0\0\0\0{}", 10);
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__model_files_open(ctx, golden_path(base, "models/smollm2"), NULL, &report, &files));
    assert_int_equal(rp__model_files_adapter(files, dir.path), RP_ERR_FORMAT);
    snprintf(expected, sizeof expected, "'%s/adapter_model.safetensors' holds no adapter", dir.path);
    assert_string_equal(rp_error(ctx), expected);
    rp__model_files_close(files);
    rp__report_close(&report);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void an_adapter_of_another_rank_than_it_says_is_refused(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    char folder[RP_GOLDEN_PATH], base[RP_GOLDEN_PATH], expected[2 * RP_GOLDEN_PATH];
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
    snprintf(expected, sizeof expected, "cannot add the adapter '%s' to '%s', which already has one", dir.path, base);
    assert_string_equal(rp_error(ctx), expected);
    assert_ok(ctx, rp__model_files_config(files, &model));
    assert_ok(ctx, rp__model_build(ctx, &model, RP_F32, &m));
    assert_int_equal(rp__model_files_config(files, &model), RP_ERR_STATE);
    snprintf(expected, sizeof expected, "the config of '%s' was taken before", base);
    assert_string_equal(rp_error(ctx), expected);
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

/* ---- faults ---- */

static void sweep_files(const char *variant)
{
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    char path[RP_GOLDEN_PATH];
    test_faults f = { 0 };
    rp_mem m;

    while (!f.over) {
        test_fault_begin(&f, ctx);
        test_fault_end(&f, open_load_export(ctx, variant_path(path, variant), "base", dir.path));
        rp_mem_read(ctx, 0, false, &m);
        assert_int_equal(m.live_bytes, 0);
    }
    assert_true(f.failed > 99);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void any_allocation_of_reading_and_writing_an_adapter_may_fail(void **state)
{
    (void)state;
    sweep_files("gpt2");
    sweep_files("llama_bias_whole");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_adapter_that_is_read_and_written_is_the_file_peft_wrote),
        cmocka_unit_test(the_marks_of_weight_files_include_the_adapters),
        cmocka_unit_test(an_exported_model_has_its_adapters_added_in),
        cmocka_unit_test(what_peft_would_compute_otherwise_is_refused_by_name),
        cmocka_unit_test(a_file_without_adapters_is_refused),
        cmocka_unit_test(an_adapter_of_another_rank_than_it_says_is_refused),
        cmocka_unit_test(any_allocation_of_reading_and_writing_an_adapter_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
