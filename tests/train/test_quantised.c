/* Claims about training beside quantised weights: a step has the bits of the same step on the weights dequantised into the run's dtype, for every type,
 * family and way to checkpoint, and the weights take the bytes of their blocks. A GPU computes every op of it. Weights that stay in their
 * files (model.mapped) change no bit either, and a file that changes under a run ends it. */
/* ctest: no-emulator slow-emulated thread-free cost=20 */
#include "loop_test.h"

#include <sys/stat.h>
#include <sys/time.h>

#include "base/file.h"
#include "gguf/write.h"
#include "models/gguf/export.h"
#include "models/weights.h"
#include "quant_test.h"
#include "rehearse/forecast.h"
#include "train/internal.h"

typedef struct { const char *name, *config; } family;

#define SIZES "\"hidden_size\": 256, \"intermediate_size\": 512, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 61," \
              " \"max_position_embeddings\": 64, \"bos_token_id\": 1, \"eos_token_id\": 0, \"num_key_value_heads\": 2"

static const family families[] = {
    { "llama", "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"tie_word_embeddings\": false, " SIZES "}" },
    { "qwen3", "{\"model_type\": \"qwen3\", \"architectures\": [\"Qwen3ForCausalLM\"], \"tie_word_embeddings\": true, \"head_dim\": 64, " SIZES "}" },
    { "gpt2", "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 256, \"n_layer\": 2, \"n_head\": 4, \"n_inner\": 512,"
              " \"n_positions\": 64, \"vocab_size\": 61, \"bos_token_id\": 0, \"eos_token_id\": 0}" },
    { "mixtral", "{\"model_type\": \"mixtral\", \"architectures\": [\"MixtralForCausalLM\"], \"tie_word_embeddings\": false, \"num_local_experts\": 4,"
                 " \"num_experts_per_tok\": 2, " SIZES "}" },
};

/* ---- files ---- */

static const char *at(const char *name) { return temp_path(&dir, name); }

static void drop(const char *name) { assert_int_equal(nftw(at(name), temp_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0); }

/* A folder with the family's model, in fp32, and NAME-f32.gguf. */
static void make_model(const family *f)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 }), *shapes = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    rp_model_config config = { .family = NULL };
    rp_gguf_outcome outcome;
    rp_model_files *files;
    rp_report report;
    rp_model *model;
    char json[64], gguf[64];

    snprintf(json, sizeof json, "%s.json", f->name);
    snprintf(gguf, sizeof gguf, "%s-f32.gguf", f->name);
    temp_text(&dir, json, f->config);
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__model_config_load(ctx, at(json), NULL, &report, &config));
    assert_ok(ctx, rp__model_build(ctx, &config, RP_F32, &model));
    rp__model_init(model, 7);
    assert_int_equal(mkdir(at(f->name), 0777), 0);
    assert_ok(ctx, rp__model_export(model, at(f->name)));
    rp__model_free(model);
    assert_ok(shapes, rp__model_files_open(shapes, at(f->name), NULL, &report, &files));
    assert_ok(shapes, rp__model_files_config(files, &config));
    assert_ok(shapes, rp__model_build(shapes, &config, RP_F32, &model));
    assert_ok(shapes, rp__gguf_export(model, files, &(rp_gguf_options){ .type = "F32" }, at(gguf), &report, &outcome));
    rp__model_free(model);
    rp__model_files_close(files);
    rp__report_close(&report);
    test_ctx_free(shapes);
    test_ctx_free(ctx);
}

static bool is_matrix(const rp_gguf_tensor *t) { return t->ndim >= 2 && t->dim[t->ndim - 1] % RP_QUANT_MOST == 0; }

static void upper(const char *from, char *to)
{
    while ((*to++ = (char)(*from >= 'a' && *from <= 'z' ? *from - 32 : *from))) from++;
}

/* The same model with random blocks of a type in place of all matrices. */
static void make_gguf(const family *f, const rp_quant_type *type, const char *name)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    char source[64], theirs[32];
    rp_gguf_writer *w;
    rp_gguf *from;

    snprintf(source, sizeof source, "%s-f32.gguf", f->name);
    upper(type->name, theirs);
    assert_ok(ctx, rp__gguf_open(ctx, at(source), &from));
    assert_ok(ctx, rp__gguf_create(ctx, at(name), &w));
    for (int64_t i = 0; i < rp__gguf_n_values(from); i++) assert_ok(ctx, rp__gguf_add_copy(w, rp__gguf_value_at(from, i)));
    for (int64_t i = 0; i < rp__gguf_n_tensors(from); i++) {
        const rp_gguf_tensor *t = rp__gguf_tensor_at(from, i);
        assert_ok(ctx, rp__gguf_add_tensor(w, t->name, is_matrix(t) ? theirs : t->type, t->ndim, t->dim));
    }
    for (int64_t i = 0; i < rp__gguf_n_tensors(from); i++) {
        const rp_gguf_tensor *t = rp__gguf_tensor_at(from, i);
        int64_t bytes  = is_matrix(t) ? rp__quant_bytes(type, t->elems) : t->bytes;
        uint8_t *block = rp__host_alloc(ctx, bytes);
        if (is_matrix(t)) quant_fill(type, t->elems, block, (unsigned)i + 1);
        else assert_ok(ctx, rp__gguf_read_bytes(from, t, 0, bytes, block));
        assert_ok(ctx, rp__gguf_put(w, block, bytes));
        rp__release(block);
    }
    assert_ok(ctx, rp__gguf_commit(w));
    rp__gguf_close(from);
    test_ctx_free(ctx);
}

/* Writes what a folder's weights are after they have been quantised, in fp32. */
static void make_dequantised(const family *f, rp_dtype dtype, const char *to)
{
    rp_ctx *ctx     = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_model *model = quant_model(ctx, at(f->name), dtype, RP_F32);

    assert_int_equal(mkdir(at(to), 0777), 0);
    assert_ok(ctx, rp__model_export(model, at(to)));
    rp__model_free(model);
    test_ctx_free(ctx);
}

/* ---- runs ---- */

enum { MOST = 16 };
typedef struct { int n; char text[MOST][600]; } list;

static void add(list *s, const char *format, ...)
{
    va_list values;

    assert_true(s->n < MOST);
    va_start(values, format);
    vsnprintf(s->text[s->n], sizeof s->text[0], format, values);
    va_end(values);
    s->n++;
}

enum { QUANTIZE = 2, STEPS = 4, LORA = 6 };

static void change(list *s, int i, const char *text) { snprintf(s->text[i], sizeof s->text[i], "%s", text); }

static list settings_of(const char *path, const char *quantize, const char *dtype, const char *more)
{
    list s = { .n = 0 };

    add(&s, "model.config=null");
    add(&s, "model.path=%s", at(path));
    add(&s, "model.quantize=%s", quantize);
    add(&s, "dtype=%s", dtype);
    add(&s, "max_steps=2");
    add(&s, "tokenizer.path=null");
    add(&s, "lora={rank: 4, modules: [all-linear]}");
    add(&s, "%s", more);
    return s;
}

static bool is_quantised(const rp_trainer *t)
{
    for (int i = 0; i < rp__model_n_params(t->engine.model); i++)
        if (rp__is_quant(rp__model_param(t->engine.model, i)->whole.dtype)) return true;
    return false;
}

/* The parameters' share of the ledger is the bytes of the parameters, in blocks where they are quantised. */
static void check_ledger(const run *r, bool quantised)
{
    int64_t bytes = 0;
    rp_mem mem;

    for (int i = 0; i < rp__model_n_params(r->trainer->engine.model); i++) bytes += rp_meta_bytes(&rp__model_param(r->trainer->engine.model, i)->whole);
    rp_mem_read(r->ctx, 0, false, &mem);
    assert_int_equal(mem.live_at[RP_MEM_PARAM], bytes);
    assert_int_equal(is_quantised(r->trainer), quantised);
}

/* A GPU computes every op of a step. */
static void check_gpu(const rp_recipe *recipe)
{
    rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .device = "emu", .threads = 1, .shapes_only = true });
    rp_report report;
    rp_forecast f;

    rp__report_open(&report, shapes);
    assert_ok(shapes, rp__recipe_forecast(shapes, recipe, &(rp_forecast_options){ 0 }, &report, &f));
    assert_int_equal(f.explain.host_fallback_ops, 0);
    rp__forecast_close(&f);
    rp__report_close(&report);
    test_ctx_free(shapes);
}

static run open_list(const list *s, const char *out)
{
    const char *all[MOST + 1] = { 0 };

    for (int i = 0; i < s->n; i++) all[i] = s->text[i];
    return run_open(&dir, "llama", out, all);
}

static void run_list(const list *s, const char *out)
{
    run r          = open_list(s, out);
    bool quantised = strcmp(s->text[QUANTIZE], "model.quantize=null") != 0;

    assert_ok(r.ctx, r.status);
    check_ledger(&r, quantised);
    if (quantised) check_gpu(r.recipe);
    assert_ok(r.ctx, rp__trainer_run(r.trainer, NULL, NULL));
    run_close(&r);
}

static int64_t reserved(const char *out)
{
    metrics m = metrics_of(&dir, out);
    int64_t n = (int64_t)metric_number(m.line[0], "peak_memory_reserved");

    free(m.text);
    return n;
}

static void assert_same_run(const char *a, const char *b)
{
    char at_a[128], at_b[128];

    assert_same_losses(&dir, a, b);
    snprintf(at_a, sizeof at_a, "%s/final/adapter_model.safetensors", a);
    snprintf(at_b, sizeof at_b, "%s/final/adapter_model.safetensors", b);
    assert_same_file(&dir, at_a, at_b);
}

/* `plain` dequantised, against `path` stored as `quantize` says, under three ways to checkpoint. */
static void compare(const char *plain, const char *path, const char *quantize, const char *dtype, const char *more)
{
    static const char *const modes[] = { "none", "full" };
    list s = settings_of(plain, "null", dtype, more);
    char budget[64];

    run_list(&s, "plain");
    for (int m = 0; m < RP_COUNT(modes); m++) {
        s = settings_of(path, quantize, dtype, more);
        add(&s, "activation_checkpointing.mode=%s", modes[m]);
        run_list(&s, modes[m]);
        assert_same_run("plain", modes[m]);
    }
    s = settings_of(path, quantize, dtype, more);
    snprintf(budget, sizeof budget, "memory_budget=%" PRId64, (reserved("none") + reserved("full")) / 2);
    add(&s, "%s", budget);
    run_list(&s, "budget");
    assert_same_run("plain", "budget");
    assert_true(reserved("none") < reserved("plain"));
    for (int i = 0; i < 4; i++) drop((const char *const[]){ "plain", "none", "full", "budget" }[i]);
}

static const char *const more[] = { "seed=4", "lora.dora=true", "lora.whole=[norm]", "lora.dropout=0.1" };

static void every_type_of_gguf_trains_with_the_bits_of_dequantised_weights(void **state)
{
    (void)state;
    leave_out_references();
    for (int f = 0; f < RP_COUNT(families); f++) {
        make_model(&families[f]);
        for (rp_dtype t = RP_Q4_0; t < RP_NF4_FP32; t++) {
            if (test_takes_samples() && (int)t % RP_COUNT(families) != f) continue;
            make_gguf(&families[f], rp__quant_type(t), "model.gguf");
            for (int d = 0; d < 2; d++)
                if (!test_takes_samples() || d == (int)t / 4 % 2)
                    compare("model.gguf", "model.gguf", "keep", d ? "bf16" : "fp32", more[((int)t + d) % RP_COUNT(more)]);
        }
    }
}

static void models_that_are_quantised_while_they_are_read_train_with_the_bits_of_what_was_stored(void **state)
{
    static const struct { const char *name; rp_dtype dtype; } types[] = { { "nf4", RP_NF4 }, { "q8_0", RP_Q8_0 }, { "q4_0", RP_Q4_0 } };

    (void)state;
    leave_out_references();
    for (int f = 0; f < RP_COUNT(families); f++) {
        make_model(&families[f]);
        for (int t = 0; t < RP_COUNT(types); t++) {
            char name[64];
            if (test_takes_samples() && (f + t) % 2) continue;
            snprintf(name, sizeof name, "%s-%s", families[f].name, types[t].name);
            make_dequantised(&families[f], types[t].dtype, name);
            compare(name, families[f].name, types[t].name, (f + t) % 3 ? "bf16" : "fp32", more[f]);
        }
    }
}

/* ---- on a GPU ---- */

static void compare_on_gpu(const char *plain, const char *path, const char *quantize, const char *dtype, const char *way)
{
    list s = settings_of(plain, "null", dtype, way);

    add(&s, "device=emu");
    run_list(&s, "plain");
    s = settings_of(path, quantize, dtype, way);
    add(&s, "device=emu");
    run_list(&s, "quantised");
    assert_same_run("plain", "quantised");
    assert_true(reserved("quantised") < reserved("plain"));
    drop("plain");
    drop("quantised");
}

/* Each type with one family; `make check` takes one type for each family. */
static void a_gpu_trains_with_the_bits_of_dequantised_weights(void **state)
{
    (void)state;
    leave_out_references();
    for (int f = 0; f < RP_COUNT(families); f++) {
        make_model(&families[f]);
        for (rp_dtype t = RP_Q4_0; t < RP_NF4_FP32; t++) {
            if ((int)t % RP_COUNT(families) != f || (test_takes_samples() && (int)t / RP_COUNT(families) != 2)) continue;
            make_gguf(&families[f], rp__quant_type(t), "model.gguf");
            for (int d = 0; d < 2; d++)
                if (!test_takes_samples() || d == f % 2)
                    compare_on_gpu("model.gguf", "model.gguf", "keep", d ? "bf16" : "fp32", more[(f + 1) % RP_COUNT(more)]);
        }
    }
    make_dequantised(&families[0], RP_NF4, "dequantised");
    compare_on_gpu("dequantised", families[0].name, "nf4", "bf16", more[0]);
}

/* ---- final folders ---- */

static void a_merged_model_is_that_of_the_dequantised_weights(void **state)
{
    (void)state;
    leave_out_references();
    for (int f = 0; f < RP_COUNT(families); f++) {
        make_model(&families[f]);
        make_gguf(&families[f], rp__quant_type(f % 2 ? RP_Q4_K : RP_Q5_1), "model.gguf");
        for (int d = 0; d < 2; d++) {
            list s = settings_of("model.gguf", "null", d ? "bf16" : "fp32", f % 2 ? "lora.dora=true" : "seed=1");
            add(&s, "lora.merge=true");
            run_list(&s, "plain");
            s = settings_of("model.gguf", "keep", d ? "bf16" : "fp32", f % 2 ? "lora.dora=true" : "seed=1");
            add(&s, "lora.merge=true");
            run_list(&s, "kept");
            assert_same_final(&dir, "plain", "kept");
            assert_same_file(&dir, "plain/final/config.json", "kept/final/config.json");
            drop("plain");
            drop("kept");
        }
    }
}

/* ---- frozen layers without adapters, resumed runs ---- */

static void layers_that_are_frozen_without_adapters_are_quantised_and_the_others_trained(void **state)
{
    static const char *const modes[] = { "null", "keep" };

    (void)state;
    leave_out_references();
    make_model(&families[0]);
    make_gguf(&families[0], rp__quant_type(RP_Q8_0), "model.gguf");
    for (int m = 0; m < 2; m++) {
        list s = settings_of("model.gguf", modes[m], "bf16", "freeze=[tok_embeddings, layers.0]");
        change(&s, LORA, "lora.rank=null");
        run_list(&s, modes[m]);
    }
    assert_same_losses(&dir, "null", "keep");
    assert_same_final(&dir, "null", "keep");
}

static void a_run_resumes_beside_its_quantised_weights_and_refuses_others(void **state)
{
    (void)state;
    leave_out_references();
    make_model(&families[1]);
    make_gguf(&families[1], rp__quant_type(RP_Q6_K), "model.gguf");
    list s = settings_of("model.gguf", "keep", "bf16", "save_every_n_steps=1");
    run_list(&s, "whole");
    change(&s, STEPS, "max_steps=1");
    run_list(&s, "parts");
    change(&s, STEPS, "max_steps=2");
    add(&s, "resume=auto");
    run_list(&s, "parts");
    assert_same_run("whole", "parts");
    change(&s, STEPS, "max_steps=3");
    make_gguf(&families[1], rp__quant_type(RP_Q5_K), "model.gguf");
    run r = open_list(&s, "parts");
    assert_int_equal(r.status, RP_ERR_CONFIG);
    assert_non_null(strstr(rp_error(r.ctx), "the frozen weights of"));
    run_close(&r);
}

static void without_frozen_weights_the_key_is_refused(void **state)
{
    (void)state;
    leave_out_references();
    make_model(&families[0]);
    list s = settings_of("llama", "nf4", "bf16", "lora.rank=null");
    change(&s, LORA, "seed=1");
    run r = open_list(&s, "all");
    char line[1024];
    assert_int_equal(r.status, RP_ERR_CONFIG);
    assert_non_null(strstr(rp__report_line(r.report.first, line, sizeof line), "'model.quantize' is for frozen weights, but all weights are trained: set "
                                                                               "'lora.rank', 'model.adapter' or 'freeze'"));
    run_close(&r);
}

/* ---- weights that stay in their files ---- */

static bool is_mapped_here(const rp_trainer *t) { return rp__mem_on_host(t->ctx->space[0]); }

/* Free memory that `memory_budget: auto` measured is for mapped weights, too. */
static void check_auto(rp_ctx *shapes, const rp_recipe *recipe, int64_t mapped)
{
    const int64_t measured[] = { (int64_t)1 << 30, mapped };
    rp_recipe own            = *recipe;
    rp_report report;
    rp_forecast f;

    own.memory_budget.kind = RP_BUDGET_AUTO;
    for (int i = 0; i < 2 && measured[i]; i++) {
        shapes->options.memory_limit_bytes = measured[i];
        rp__report_open(&report, shapes);
        assert_ok(shapes, rp__recipe_forecast(shapes, &own, NULL, &report, &f));
        assert_int_equal(f.plan.budget, i ? 1 : measured[i] - mapped);
        assert_int_equal(f.feasible, !i);
        rp__forecast_close(&f);
        rp__report_close(&report);
    }
}

/* Parameters are in the ledger or mapped, and a forecast knows the bytes of both. Returns the bytes that are mapped. */
static int64_t check_mapped(const run *r)
{
    int64_t bytes = 0, mapped = rp__trainer_info(r->trainer)->mapped_bytes;
    rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    rp_report report;
    rp_forecast f;
    rp_mem mem;

    for (int i = 0; i < rp__model_n_params(r->trainer->engine.model); i++) bytes += rp_meta_bytes(&rp__model_param(r->trainer->engine.model, i)->whole);
    rp_mem_read(r->ctx, 0, false, &mem);
    assert_int_equal(mem.live_at[RP_MEM_PARAM] + mapped, bytes);
    rp__report_open(&report, shapes);
    assert_ok(shapes, rp__recipe_forecast(shapes, r->recipe, NULL, &report, &f));
    assert_int_equal(f.mapped_bytes, mapped);
    assert_int_equal(f.plan.found.memory.reserved_bytes, rp__trainer_info(r->trainer)->rehearsal.memory.reserved_bytes);
    rp__forecast_close(&f);
    rp__report_close(&report);
    check_auto(shapes, r->recipe, mapped);
    test_ctx_free(shapes);
    return mapped;
}

static void check_read_only(const run *r)
{
    for (int i = 0; i < rp__model_n_params(r->trainer->engine.model); i++) {
        const rp_param *p = rp__model_param(r->trainer->engine.model, i);
        if (!p->mapped || rp__is_quant(p->whole.dtype)) continue;
        assert_int_equal(rp_tensor_write_i32(p->tensor, NULL, 0), RP_ERR_STATE);
        assert_int_equal(rp_tensor_write(p->tensor, NULL, 0), RP_ERR_STATE);
        assert_non_null(strstr(rp_error(r->ctx), "stays in its file and cannot be written"));
    }
}

static int64_t run_mapped(list s, bool mapped, const char *out)
{
    if (mapped) add(&s, "model.mapped=true");
    run r = open_list(&s, out);

    assert_ok(r.ctx, r.status);
    int64_t bytes = check_mapped(&r);
    if (bytes) check_read_only(&r);
    assert_ok(r.ctx, rp__trainer_run(r.trainer, NULL, NULL));
    run_close(&r);
    return bytes;
}

/* Runs with and without the key. Returns the bytes that were mapped. */
static int64_t compare_mapped(list s)
{
    assert_int_equal(run_mapped(s, false, "loaded"), 0);
    int64_t bytes = run_mapped(s, true, "mapped");

    assert_same_losses(&dir, "loaded", "mapped");
    if (is_there(&dir, "loaded/final/model.safetensors")) assert_same_final(&dir, "loaded", "mapped");
    else assert_same_run("loaded", "mapped");
    assert_true(reserved("loaded") >= reserved("mapped") && reserved("loaded") - reserved("mapped") <= bytes + 64 * 1024);
    drop("loaded");
    drop("mapped");
    return bytes;
}

/* The device of a test variant may have memory that is not the host's. Nothing is mapped there. */
static void assert_mapped(int64_t bytes)
{
    rp_ctx *ctx = test_ctx(NULL);

    assert_true(rp__mem_on_host(ctx->space[0]) ? bytes > 0 : bytes == 0);
    test_ctx_free(ctx);
}

static void mapped_weights_train_with_the_bits_of_loaded_ones(void **state)
{
    static const char *const ways[] = { "lora.dora=true", "lora.whole=[norm]", "activation_checkpointing.mode=full", "lora.merge=true" };

    (void)state;
    leave_out_references();
    for (int f = 0; f < RP_COUNT(families); f++) {
        char gguf[64];
        make_model(&families[f]);
        make_gguf(&families[f], rp__quant_type(f % 2 ? RP_Q4_K : RP_Q4_1), "model.gguf");
        snprintf(gguf, sizeof gguf, "%s-f32.gguf", families[f].name);
        assert_mapped(compare_mapped(settings_of("model.gguf", "keep", f % 2 ? "bf16" : "fp32", ways[f])));
        assert_mapped(compare_mapped(settings_of(gguf, "null", "fp32", ways[(f + 1) % 4])));
        assert_mapped(compare_mapped(settings_of(families[f].name, "null", "fp32", ways[(f + 2) % 4])));
        assert_int_equal(compare_mapped(settings_of(families[f].name, "null", "bf16", ways[(f + 3) % 4])), 0);
    }
}

static void layers_that_are_frozen_without_adapters_are_mapped_and_a_run_resumes_with_or_without_them(void **state)
{
    (void)state;
    leave_out_references();
    make_model(&families[0]);
    list s = settings_of("llama", "null", "fp32", "freeze=[tok_embeddings, layers.0]");
    change(&s, LORA, "lora.rank=null");
    assert_mapped(compare_mapped(s));
    add(&s, "save_every_n_steps=1");
    run_mapped(s, false, "whole");
    change(&s, STEPS, "max_steps=1");
    run_mapped(s, true, "parts");
    change(&s, STEPS, "max_steps=2");
    add(&s, "resume=auto");
    run_mapped(s, false, "parts");
    assert_same_losses(&dir, "whole", "parts");
    assert_same_final(&dir, "whole", "parts");
}

/* ---- files that change under a run ---- */

static void cut(const char *path) { assert_int_equal(truncate(path, 4096), 0); }

/* A new file of the same bytes. */
static void put_another(const char *path)
{
    size_t bytes;
    char *all = file_bytes(&dir, "model.gguf", &bytes);

    temp_write(&dir, "other.gguf", all, bytes);
    free(all);
    assert_int_equal(rename(at("other.gguf"), path), 0);
}

static void write_into(const char *path)
{
    FILE *f = fopen(path, "r+b");

    assert_non_null(f);
    assert_true(fseek(f, 5000, SEEK_SET) == 0 && fputc(1, f) == 1 && fclose(f) == 0);
    assert_int_equal(utimes(path, (const struct timeval[2]){ { 1000, 0 }, { 1000, 0 } }), 0);
}

static void a_file_that_is_cut_replaced_or_written_ends_the_run_with_its_name(void **state)
{
    static const struct { void (*change)(const char *path); const char *words; } events[] = {
        { cut, "was cut or extended while its weights were in use: it had" },
        { put_another, "was replaced while its weights were in use" },
        { write_into, "was written while its weights were in use" },
    };

    (void)state;
    leave_out_references();
    make_model(&families[0]);
    for (int i = 0; i < RP_COUNT(events); i++) {
        make_gguf(&families[0], rp__quant_type(RP_Q4_1), "model.gguf");
        list s = settings_of("model.gguf", "keep", "bf16", "seed=4");
        add(&s, "model.mapped=true");
        change(&s, STEPS, "max_steps=3");
        rp_metrics line;
        run r = open_list(&s, "ends");
        assert_ok(r.ctx, r.status);
        assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
        events[i].change(at("model.gguf"));
        rp_status ended = rp__trainer_step(r.trainer, &line);
        if (is_mapped_here(r.trainer)) {
            assert_int_equal(ended, RP_ERR_IO);
            assert_int_equal(rp_status_exit_code(ended), 1);
            assert_non_null(strstr(rp_error(r.ctx), events[i].words));
            assert_non_null(strstr(rp_error(r.ctx), at("model.gguf")));
            assert_int_equal(rp__trainer_save(r.trainer), RP_ERR_IO);
            assert_int_equal(rp__trainer_finish(r.trainer), RP_ERR_IO);
            assert_false(is_there(&dir, "ends/final"));
        }
        run_close(&r);
        drop("ends");
    }
}

static void a_file_that_changes_after_its_header_was_read_is_refused(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });

    (void)state;
    make_model(&families[0]);
    make_gguf(&families[0], rp__quant_type(RP_Q4_0), "model.gguf");
    quant_opened o = quant_open(ctx, at("model.gguf"), RP_F32, RP_F32, true);
    make_gguf(&families[0], rp__quant_type(RP_Q5_0), "model.gguf");
    if (rp__mem_on_host(ctx->space[0])) {
        assert_int_equal(rp__model_load(o.model, o.files), RP_ERR_IO);
        assert_non_null(strstr(rp_error(ctx), "has changed since its header was read"));
    }
    rp__model_free(o.model);
    quant_close(&o);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_type_of_gguf_trains_with_the_bits_of_dequantised_weights),
        TEST(models_that_are_quantised_while_they_are_read_train_with_the_bits_of_what_was_stored),
        TEST(a_gpu_trains_with_the_bits_of_dequantised_weights),
        TEST(a_merged_model_is_that_of_the_dequantised_weights),
        TEST(layers_that_are_frozen_without_adapters_are_quantised_and_the_others_trained),
        TEST(without_frozen_weights_the_key_is_refused),
        TEST(a_run_resumes_beside_its_quantised_weights_and_refuses_others),
        TEST(mapped_weights_train_with_the_bits_of_loaded_ones),
        TEST(layers_that_are_frozen_without_adapters_are_mapped_and_a_run_resumes_with_or_without_them),
        TEST(a_file_that_is_cut_replaced_or_written_ends_the_run_with_its_name),
        TEST(a_file_that_changes_after_its_header_was_read_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
