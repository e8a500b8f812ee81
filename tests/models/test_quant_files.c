/* Claims about quantised weights and files: bitsandbytes' NF4 is read exactly and written alike, what is wrong with it is said, and models that are
 * quantised while they are read hold what the encoder makes. */
/* ctest: device-free watched */
#include "heap_test.h"      /* before a global ctx */
#include "weights_test.h"

#include <math.h>
#include <sys/stat.h>

#include "base/quant.h"
#include "models/quant.h"
#include "safetensors/safetensors.h"

#define GATE "layers.0.mlp.gate.weight"

typedef struct { bool keep; rp_dtype dtype; const char *path; } storing;

/* Files to a model whose matrices are all frozen. */
static rp_status load_stored(rp_ctx *own, const storing *how, rp_model **out)
{
    rp_model_config config = { .family = NULL };
    rp_model_files *files  = NULL;
    rp_model *model        = NULL;
    rp_report report;

    rp__report_open(&report, own);
    rp_status status = rp__model_files_open(own, how->path, NULL, &report, &files);
    if (status == RP_OK) status = rp__model_files_quantise(files, how->keep, how->dtype);
    if (status == RP_OK) status = rp__model_files_config(files, &config);
    config.quant.all_frozen = true;
    if (status == RP_OK) status = rp__model_build(own, &config, RP_F32, &model);
    if (status == RP_OK) status = rp__model_load(model, files);
    rp__model_config_drop(&config);
    rp__model_files_close(files);
    rp__report_close(&report);
    if (status == RP_OK) *out = model;
    else rp__model_free(model);
    return status;
}

static rp_model *stored(bool keep, rp_dtype dtype, const char *path)
{
    rp_model *m = NULL;

    assert_ok(ctx, load_stored(ctx, &(storing){ keep, dtype, path }, &m));
    return m;
}

/* Returns the values of a layer as bitsandbytes dequantises them, in fp32; free it. */
static float *golden_values(const char *name, int64_t *n)
{
    char path[RP_GOLDEN_PATH];
    rp_safetensors *set;

    assert_ok(ctx, rp__safetensors_open(ctx, golden_path(path, "nf4.safetensors"), &set));
    const rp_safetensor *t = rp__safetensors_find(set, name);
    assert_non_null(t);
    float *v = malloc((size_t)t->elems * sizeof *v);
    assert_ok(ctx, rp__safetensors_read(set, t, 0, t->elems, v));
    *n = t->elems;
    rp__safetensors_close(set);
    return v;
}

static const struct { const char *ours, *theirs; rp_dtype dtype; } layers[] = {
    { "layers.0.attn.q.weight", "self_attn.q_proj", RP_NF4 }, { "layers.0.attn.output.weight", "self_attn.o_proj", RP_NF4_FP32 },
    { GATE, "mlp.gate_proj", RP_NF4 },
};

static void weights_of_bitsandbytes_are_read_bit_for_bit(void **state)
{
    char path[RP_GOLDEN_PATH], name[64];

    (void)state;
    rp_model *m = stored(true, RP_F32, golden_path(path, "nf4"));
    for (int i = 0; i < RP_COUNT(layers); i++) {
        const rp_param *p = rp__model_find_param(m, layers[i].ours);
        int64_t n;
        snprintf(name, sizeof name, "%s.dequantised", layers[i].theirs);
        float *want = golden_values(name, &n);
        assert_int_equal(p->whole.dtype, layers[i].dtype);
        assert_false(p->tensor->requires_grad);
        for (int64_t e = 0; e < n; e++)
            if (rp_elem_get(p->tensor, e) != (double)want[e]) fail_msg("%s: element %d", layers[i].ours, (int)e);
        free(want);
    }
    assert_int_equal(rp__model_find_param(m, "tok_embeddings.weight")->whole.dtype, RP_F32);
    assert_int_equal(rp__model_find_param(m, "norm.weight")->whole.dtype, RP_F32);
    rp__model_free(m);
}

/* The mean of the scales is summed in another order, so it and what follows may differ in the last digit. */
static void weights_are_quantised_as_by_bitsandbytes(void **state)
{
    char path[RP_GOLDEN_PATH];
    int64_t n, far = 0;
    float *from = golden_values("mlp.gate_proj.original", &n);
    const rp_quant_type *type = rp__quant_type(RP_NF4);
    uint8_t *made = malloc((size_t)rp__quant_bytes(type, n));
    rp_quantiser q = { type, { made, 0, rp__quant_bytes(type, n) }, n, malloc((size_t)rp__quant_scales(type, n) * sizeof(float)) };

    (void)state;
    rp__quant_put(&q, n / 2, n - n / 2, from + n / 2);
    rp__quant_put(&q, 0, n / 2, from);
    rp__quant_end(&q);
    rp_model *m       = stored(true, RP_F32, golden_path(path, "nf4"));
    uint8_t *theirs   = malloc((size_t)rp__quant_bytes(type, n));
    const rp_tensor *t = rp__model_find_param(m, GATE)->tensor;
    memcpy(theirs, test_bytes(t), (size_t)rp__quant_bytes(type, n));
    for (int64_t b = 0; b < n / RP_NF4_ELEMS; b++) {
        const uint8_t *x = rp__nf4_block(made, b), *y = rp__nf4_block(theirs, b);
        assert_memory_equal(x + 1, y + 1, RP_NF4_ELEMS / 2);
        far += x[0] != y[0];
        assert_true(abs(x[0] - y[0]) <= 1);
        assert_true(fabsf(rp__nf4_scale(made, b) - rp__nf4_scale(theirs, b)) <= 2e-2f * rp__nf4_scale(theirs, b));
    }
    assert_true(far <= 1);
    free(theirs);
    free(q.scales);
    free(made);
    free(from);
    rp__model_free(m);
}

static void without_the_key_such_weights_are_refused_by_its_name(void **state)
{
    static const char says[] = "tensor 'model.layers.0.self_attn.q_proj.weight' is quantised by bitsandbytes, which is read only with 'model.quantize: keep', "
                               "and only if the weight is not trained";
    char path[RP_GOLDEN_PATH];
    rp_model *m = NULL;

    (void)state;
    opened o = open_model(golden_path(path, "nf4"), NULL, RP_F32);
    assert_int_equal(rp__model_load(o.model, o.files), RP_ERR_UNSUPPORTED);
    if (!strstr(rp_error(ctx), says)) fail_msg("%s", rp_error(ctx));
    close_model(&o);
    assert_int_equal(load_stored(ctx, &(storing){ false, RP_Q8_0, path }, &m), RP_ERR_UNSUPPORTED);
    if (!strstr(rp_error(ctx), says)) fail_msg("%s", rp_error(ctx));
}

/* ---- damaged files ---- */

/* A copy of the golden in the test's folder, in which the tensor `end` of the gate is absent (text NULL) or has these bytes. bytes < 0: its own, with
 * the last one changed. */
static void damage(const char *end, const char *text, int64_t bytes)
{
    char path[RP_GOLDEN_PATH], name[256];
    rp_safetensors_writer *w;
    rp_safetensor declared[64];
    rp_safetensors *set;
    int n = 0;

    snprintf(name, sizeof name, "model.layers.0.mlp.gate_proj.weight%s", end);
    assert_ok(ctx, rp__safetensors_open(ctx, golden_path(path, "nf4"), &set));
    for (int64_t i = 0; i < rp__safetensors_n_tensors(set); i++) {
        declared[n] = *rp__safetensors_at(set, i);
        bool found  = !strcmp(declared[n].name, name);
        if (found && !text && bytes >= 0) continue;
        if (found && text) declared[n].ndim = 1, declared[n].dim[0] = bytes / rp__safetensors_dtype_bytes(declared[n].dtype);
        n++;
    }
    /* The writer lays data out by the size of its elements: all of this dtype or none. */
    assert_ok(ctx, rp__safetensors_create(ctx, temp_path("model.safetensors"), n, declared, 0, NULL, &w));
    for (int i = 0; i < n; i++) {
        const rp_safetensor *t = rp__safetensors_find(set, declared[i].name);
        bool found             = !strcmp(t->name, name);
        char *copy             = malloc((size_t)t->bytes + 1);
        memcpy(copy, rp__safetensors_bytes(set, t), (size_t)t->bytes);
        if (found && bytes < 0) copy[t->bytes - 1] ^= 0x10;
        assert_ok(ctx, rp__safetensors_put(w, found && text ? text : copy, found && text ? bytes : t->bytes));
        free(copy);
    }
    assert_ok(ctx, rp__safetensors_commit(w));
    rp__safetensors_close(set);
    int64_t size;
    char *config = whole(ctx, golden_path(path, "nf4/config.json"), &size);
    assert_ok(ctx, rp__file_write(ctx, temp_path("config.json"), config, size));
    rp__release(config);
}

#define STATE ".quant_state.bitsandbytes__nf4"
#define JSON(type, size, nested, shape, offset) \
    "{\"quant_type\": \"" type "\", \"blocksize\": " size ", \"shape\": " shape ", \"nested_blocksize\": " nested offset "}"
#define TEXT(json) json, sizeof json - 1

static void what_is_wrong_with_a_weight_of_bitsandbytes_is_said(void **state)
{
    static const struct { const char *end, *text; int64_t bytes; const char *says; } wrong[] = {
        { STATE, NULL, 0, "is quantised by bitsandbytes, which is read only with" },       /* its codes alone are bytes of no known format */
        { STATE, TEXT("{"), "has no readable quant_state" },
        { STATE, TEXT(JSON("fp4", "64", "256", "[320, 64]", ", \"nested_offset\": 0.1")), "is not of quant_type nf4" },
        { STATE, TEXT(JSON("nf4", "128", "256", "[320, 64]", ", \"nested_offset\": 0.1")), "does not have blocks of 64" },
        { STATE, TEXT(JSON("nf4", "64", "256", "[64, 320]", ", \"nested_offset\": 0.1")), "does not have the shape of its parameter" },
        { STATE, TEXT(JSON("nf4", "64", "256", "7", ", \"nested_offset\": 0.1")), "does not have the shape of its parameter" },
        { STATE, TEXT(JSON("nf4", "64", "64", "[320, 64]", ", \"nested_offset\": 0.1")), "does not have nested blocks of 256" },
        { STATE, TEXT(JSON("nf4", "64", "256", "[320, 64]", "")), "has no nested_offset" },
        { STATE, TEXT(JSON("nf4", "64", "256", "[320, 64]", ", \"nested_offset\": \"1\"")), "has no nested_offset" },
        { "", "xyz", 3, "does not have one code for each element" },
        { ".absmax", NULL, 0, "does not have one absmax for each block" },
        { ".absmax", "x", 1, "does not have one absmax for each block" },
        { ".quant_map", NULL, 0, "does not have the quant_map of NF4" },
        { ".quant_map", NULL, -1, "does not have the quant_map of NF4" },
        { ".nested_absmax", "\0\0\0", 4, "does not have one nested_absmax for 256 blocks" },
        { ".nested_quant_map", NULL, 0, "does not have bitsandbytes' nested_quant_map" },
        { ".nested_quant_map", NULL, -1, "does not have bitsandbytes' nested_quant_map" },
    };
    char says[256];

    (void)state;
    for (int i = 0; i < RP_COUNT(wrong); i++) {
        rp_model *m = NULL;
        damage(wrong[i].end, wrong[i].text, wrong[i].bytes);
        assert_true(load_stored(ctx, &(storing){ true, RP_F32, temp_dir }, &m) != RP_OK);
        snprintf(says, sizeof says, "tensor 'model.layers.0.mlp.gate_proj.weight'%s %s", i ? " of bitsandbytes" : "", wrong[i].says);
        if (!strstr(rp_error(ctx), says)) fail_msg("%d: '%s' is missing in '%s'", i, says, rp_error(ctx));
    }
}

/* ---- quantising ---- */

static void all_matrices_of_the_blocks_are_quantised_and_nf4_leaves_the_embedding(void **state)
{
    static const struct { rp_dtype dtype; const char *path; bool quantised; } cases[] = {
        { RP_Q8_0, "tok_embeddings.weight", true }, { RP_Q4_0, "output.weight", true },  { RP_NF4, "tok_embeddings.weight", false },
        { RP_NF4, "output.weight", false },         { RP_NF4, "layers.0.attn.k.weight", true }, { RP_Q4_0, "layers.1.mlp.down.weight", true },
        { RP_Q8_0, "norm.weight", false },          { RP_Q8_0, "layers.0.attn_norm.weight", false },
    };
    static const char config[] = "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128, \"num_hidden_layers\": 2,"
        " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 61, \"tie_word_embeddings\": false, \"bos_token_id\": 1,"
        " \"eos_token_id\": 0}";
    rp_model_config made = { .family = NULL };
    rp_report report;
    rp_model *m;

    (void)state;
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__file_write(ctx, temp_path("config.json"), config, sizeof config - 1));
    assert_ok(ctx, rp__model_config_load(ctx, temp_dir, NULL, &report, &made));
    assert_ok(ctx, rp__model_build(ctx, &made, RP_BF16, &m));
    rp__model_init(m, 3);
    assert_ok(ctx, rp__model_export(m, temp_dir));
    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_model *q       = stored(false, cases[i].dtype, temp_dir);
        const rp_param *p = rp__model_find_param(q, cases[i].path), *plain = rp__model_find_param(m, cases[i].path);
        assert_int_equal(p->whole.dtype, cases[i].quantised ? cases[i].dtype : RP_F32);
        for (int64_t e = 0; e < rp_meta_elems(&p->whole); e++) {
            double x = rp_elem_get(p->tensor, e), y = rp_elem_get(plain->tensor, e);
            if (fabs(x - y) > (cases[i].quantised ? 0.02 : 0)) fail_msg("%s: element %d is %g, not %g", cases[i].path, (int)e, x, y);
        }
        rp__model_free(q);
    }
    rp_tensor *norm = rp__model_find_param(m, "layers.1.mlp.up.weight")->tensor;
    rp_elem_put(norm, 77, INFINITY);
    assert_ok(ctx, rp__model_export(m, temp_dir));
    rp__model_free(m);
    assert_int_equal(load_stored(ctx, &(storing){ false, RP_NF4, temp_dir }, &m), RP_ERR_UNSUPPORTED);
    assert_string_equal(rp_error(ctx), "tensor 'model.layers.1.mlp.up_proj.weight' has the element inf, which cannot be quantised");
    rp__report_close(&report);
}

/* ---- stand-ins ---- */

/* Builds the model of a config without data, all of whose matrices are frozen. */
static rp_model *shapes_of(rp_model_config *config)
{
    rp_model *m = NULL;

    config->quant.all_frozen = true;
    assert_ok(ctx, rp__model_build(ctx, config, RP_BF16, &m));
    return m;
}

static rp_status make_stand_in(const char *path, rp_model_config *of_files, json_t **out)
{
    rp_model_files *files = NULL;
    rp_report report;

    rp__report_open(&report, ctx);
    rp_status status = rp__model_files_open(ctx, path, NULL, &report, &files);
    if (status == RP_OK) status = rp__model_files_quantise(files, true, RP_F32);
    if (status == RP_OK) status = rp__model_files_map(files);
    if (status == RP_OK) status = rp__model_files_config(files, of_files);
    if (status == RP_OK) status = rp__stand_in_config(ctx, of_files, out);
    rp__model_files_close(files);
    rp__report_close(&report);
    return status;
}

static rp_status read_stand_in(const json_t *json, rp_model_config *out)
{
    rp_report report;

    rp__report_open(&report, ctx);
    rp_status status = rp__model_config_parse(ctx, "stand-in", json, NULL, &report, out);
    if (status == RP_OK) status = rp__stand_in_take(ctx, out, true, true);
    rp__report_close(&report);
    return status;
}

/* mapped: weights that can stay in the files. */
static const struct { const char *path; int globs, paths, mapped; } stand_ins[] = {
    { "gguf/grouped.gguf", 3, 1, 3 }, { "gguf/gpt2.gguf", 2, 2, 5 }, { "nf4", 7, 0, 0 }, { "gguf/qwen3.gguf", 0, 0, 0 },
};

static void a_stand_in_stores_weights_as_the_files_do(void **state)
{
    char path[RP_GOLDEN_PATH];
    const char *key;
    json_t *type;

    (void)state;
    for (int i = 0; i < RP_COUNT(stand_ins); i++) {
        rp_model_config files = { .family = NULL }, stand_in = { .family = NULL };
        json_t *json          = NULL;
        int globs = 0, paths = 0, mapped = 0;
        assert_ok(ctx, make_stand_in(golden_path(path, stand_ins[i].path), &files, &json));
        json_object_foreach(json_object_get(json_object_get(json, "quantization_config"), "types"), key, type) (*(strchr(key, '*') ? &globs : &paths))++;
        assert_int_equal(globs, stand_ins[i].globs);
        assert_int_equal(paths, stand_ins[i].paths);
        assert_ok(ctx, read_stand_in(json, &stand_in));
        assert_non_null(stand_in.quant.types);
        rp_model *a = shapes_of(&files), *b = shapes_of(&stand_in);
        assert_int_equal(rp__model_n_params(a), rp__model_n_params(b));
        for (int k = 0; k < rp__model_n_params(a); k++) {
            const rp_param *x = rp__model_param(a, k), *y = rp__model_param(b, k);
            if (x->whole.dtype != y->whole.dtype || x->mapped != y->mapped) fail_msg("%s: %s", path, x->path);
            mapped += x->mapped;
        }
        assert_int_equal(mapped, stand_ins[i].mapped);
        rp__model_free(a);
        rp__model_free(b);
        rp__model_config_drop(&files);
        rp__model_config_drop(&stand_in);
        json_decref(json);
    }
}

static void types_that_do_not_exist_are_refused(void **state)
{
    static const char *const wrong[] = {
        "{\"quant_method\": \"reprise\"}", "{\"quant_method\": \"reprise\", \"types\": {\"output.weight\": \"q9_0\"}}",
        "{\"quant_method\": \"reprise\", \"types\": {\"output.weight\": 8}}", "{\"quant_method\": \"reprise\", \"types\": [\"q8_0\"]}",
        "{\"quant_method\": \"gguf\", \"types\": {\"output.weight\": \"q8_0\"}}", "{\"quant_method\": \"reprise\", \"types\": {\"output.weight\": \"bf16\"}}",
        "{\"quant_method\": \"reprise\", \"types\": {}, \"mapped\": {\"output.weight\": \"q9_0\"}}",
        "{\"quant_method\": \"reprise\", \"types\": {}, \"mapped\": [\"q8_0\"]}", "{\"quant_method\": \"reprise\", \"mapped\": {}}",
    };
    char path[RP_GOLDEN_PATH];
    int64_t size;
    char *text   = whole(ctx, golden_path(path, "models/llama2/config.json"), &size);
    json_t *json = json_loadb(text, (size_t)size, 0, NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(wrong); i++) {
        rp_model_config config = { .family = NULL };
        json_object_set_new(json, "quantization_config", json_loads(wrong[i], 0, NULL));
        assert_int_equal(read_stand_in(json, &config), RP_ERR_UNSUPPORTED);
        assert_non_null(strstr(rp_error(ctx), "; only null, the nf4 of bitsandbytes and types by 'reprise inspect' are honoured"));
        rp__model_config_drop(&config);
    }
    json_decref(json);
    rp__release(text);
}

/* ---- missing memory ---- */

static rp_status write_and_read_a_stand_in(const char *path)
{
    rp_model_config files = { .family = NULL }, stand_in = { .family = NULL };
    json_t *json          = NULL;

    rp_status status = make_stand_in(path, &files, &json);
    if (status == RP_OK) status = read_stand_in(json, &stand_in);
    rp__model_config_drop(&files);
    rp__model_config_drop(&stand_in);
    json_decref(json);
    return status;
}

/* jansson's allocations fail, too. */
static rp_status use_a_stand_in(rp_ctx *own, void *path)
{
    (void)own;
    return write_and_read_a_stand_in(path);
}

static void every_allocation_of_a_stand_in_may_fail(void **state)
{
    char path[RP_GOLDEN_PATH];

    (void)state;
    every_allocation_fails_once(ctx, &(heap_sweep){ .least = 20 }, use_a_stand_in, (void *)golden_path(path, "gguf/grouped.gguf"));
}

static rp_status load_and_export(const storing *how)
{
    rp_model *m      = NULL;
    rp_status status = load_stored(ctx, how, &m);

    if (status == RP_OK) status = rp__model_export(m, temp_path("out"));
    rp__model_free(m);
    return status;
}

static void every_allocation_of_loading_and_writing_may_fail(void **state)
{
    char path[RP_GOLDEN_PATH];
    storing ways[] = { { true, RP_F32, golden_path(path, "nf4") }, { false, RP_NF4, temp_path("out") } };
    rp_mem m;

    (void)state;
    assert_int_equal(mkdir(temp_path("out"), 0777), 0);
    for (int i = 0; i < 2; i++)
        until_no_fault_fires(ctx, load_and_export(&ways[i]), (rp_mem_read(ctx, 0, false, &m), assert_int_equal(m.live_bytes, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(weights_of_bitsandbytes_are_read_bit_for_bit),
        TEST(weights_are_quantised_as_by_bitsandbytes),
        TEST(without_the_key_such_weights_are_refused_by_its_name),
        TEST(what_is_wrong_with_a_weight_of_bitsandbytes_is_said),
        TEST(all_matrices_of_the_blocks_are_quantised_and_nf4_leaves_the_embedding),
        TEST(a_stand_in_stores_weights_as_the_files_do), TEST(types_that_do_not_exist_are_refused),
        TEST(every_allocation_of_loading_and_writing_may_fail), TEST(every_allocation_of_a_stand_in_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
