/* Claims about names: in every family a module is found by the path that its files give it, and by no other family's. */
/* ctest: device-free thread-free */
#include "golden_model.h"

#include "models/adapter.h"
#include "models/wrapper.h"
#include "policy/condition.h"
#include "policy/names.h"
#include "safetensors/safetensors.h"

static const char *const variants[] = { GOLDEN_VARIANTS(GOLDEN_VARIANT_NAME) };

/* The modules that a condition { path: glob } holds for, a blank between. */
static const char *held(rp_model *m, const char *glob, char out[4096])
{
    rp_ctx *ctx = rp__model_ctx(m);
    rp_condition *c;
    char text[RP_WEIGHT_NAME_CHARS + 16];

    snprintf(text, sizeof text, "{ path: '%s' }", glob);
    assert_ok(ctx, rp_condition_read(ctx, text, &c));
    out[0] = 0;
    for (rp_module *root = rp__model_root(m), *at = root; at; at = rp__module_next(root, at))
        if (rp_condition_holds(at->path, at, c)) snprintf(out + strlen(out), 4096 - strlen(out), "%s%s", *out ? " " : "", at->path);
    rp_condition_free(c);
    return out;
}

/* "model.layers.0.mlp.up_proj.weight" without its last part. */
static void drop_last(char *path) { *strrchr(path, '.') = 0; }

/* Ours of a tensor's module; false for buffers, heads that are not read and other parts than the text of a wrapper. */
static bool module_of(const rp_model_config *c, const char *tensor, char ours[RP_WEIGHT_NAME_CHARS])
{
    const rp_family *f = c->family;
    char full[RP_WEIGHT_NAME_CHARS], inside[RP_WEIGHT_NAME_CHARS];

    if (c->wrapper && !rp__wrapper_inside(c->wrapper, tensor, inside)) return false;
    if (c->wrapper) tensor = inside;
    snprintf(full, sizeof full, "%s%s", f->prefix, tensor);
    if (!rp__weight_name_ours(f->name, f->n_names, tensor, ours) && !rp__weight_name_ours(f->name, f->n_names, full, ours)) return false;
    drop_last(ours);
    return true;
}

static int check_tensors(rp_model *m, rp_safetensors *set)
{
    char ours[RP_WEIGHT_NAME_CHARS], theirs[RP_WEIGHT_NAME_CHARS], found[4096];
    const rp_family *f = rp__model_config(m)->family;
    int n = 0;

    for (int64_t i = 0; i < rp__safetensors_n_tensors(set); i++) {
        const char *name = rp__safetensors_at(set, i)->name;
        if (!module_of(rp__model_config(m), name, ours)) continue;
        snprintf(theirs, sizeof theirs, "%s", name);
        drop_last(theirs);
        if (strcmp(held(m, theirs, found), ours)) fail_msg("%s: '%s' holds for '%s', not for '%s' alone", f->model_type, theirs, found, ours);
        if (!rp__model_config(m)->wrapper && !strncmp(theirs, f->prefix, strlen(f->prefix)) && strcmp(held(m, theirs + strlen(f->prefix), found), ours) &&
            !rp_module_find(rp__model_root(m), theirs + strlen(f->prefix)))
            fail_msg("%s: '%s' without prefix holds for '%s'", f->model_type, theirs, found);
        snprintf(theirs + strlen(theirs), sizeof theirs - strlen(theirs), "x");
        assert_string_equal(held(m, theirs, found), "");
        n++;
    }
    return n;
}

static void every_module_is_found_by_the_path_its_files_give_it(void **state)
{
    (void)state;
    char path[RP_GOLDEN_PATH], name[128];

    for (int v = 0; v < RP_COUNT(variants); v++) {
        rp_ctx *ctx = test_ctx(NULL);
        rp_model *m = golden_model(ctx, variants[v], RP_F32);
        rp_safetensors *set;
        snprintf(name, sizeof name, "models/%s", variants[v]);
        assert_ok(ctx, rp__safetensors_open(ctx, golden_path(path, name), &set));
        assert_true(check_tensors(m, set) >= rp__model_n_params(m));
        rp__safetensors_close(set);
        rp__model_free(m);
        test_ctx_free(ctx);
    }
}

static void one_name_of_theirs_is_another_module_in_another_family(void **state)
{
    (void)state;
    static const struct { const char *variant, *glob, *held; } cases[] = {
        { "llama2", "model.layers.0.post_attention_layernorm", "layers.0.mlp_norm" },
        { "gemma2", "model.layers.0.post_attention_layernorm", "layers.0.post_attn_norm" },
        { "gemma3_text", "*.0.post_attention_layernorm", "layers.0.post_attn_norm" },
        { "olmo2", "layers.0.post_attention_layernorm", "layers.0.post_attn_norm" },
        { "gemma2", "*.1.pre_feedforward_layernorm", "layers.1.mlp_norm" },
        { "llama2", "*.pre_feedforward_layernorm", "" },
        { "llama2", "model.layers", "layers" },
        { "llama2", "model.layers.1", "layers.1" },
        { "llama2", "*.0.self_attn", "layers.0.attn" },
        { "llama2", "transformer.h", "" },
        { "llama2", "lm_head", "output" },
        { "gpt2", "transformer.h", "layers" },
        { "gpt2", "h.1", "layers.1" },
        { "gpt2", "transformer.h.0.mlp", "layers.0.mlp" },
        { "gpt2", "*.0.*.c_proj", "layers.0.attn.output layers.0.mlp.down" },
        { "gpt2", "*.self_attn", "" },
        { "bert", "bert.encoder.layer", "layers" },
        { "bert", "encoder.layer.1", "layers.1" },
        { "bert", "bert.encoder.layer.0.attention", "layers.0.attn" },
        { "bert", "*.0.attention.self.query", "layers.0.attn.q" },
        { "bert", "cls.predictions", "head" },
        { "qwen3_moe", "model.layers.0.mlp.gate", "layers.0.mlp.router" },
        { "qwen3_moe", "model.layers.0.mlp.experts.1.up_proj", "layers.0.mlp.experts.up" },
        { "qwen3_moe", "model.layers.0.mlp.experts", "layers.0.mlp.experts" },
        { "mixtral", "model.layers.1.block_sparse_moe", "layers.1.mlp" },
        { "mixtral", "*.1.block_sparse_moe.experts.*.w2", "layers.1.mlp.experts.down" },
        { "mixtral", "model.layers.1.block_sparse_moe.experts.99.w2", "" },
        { "gemma3", "model.language_model.layers.1.self_attn.q_proj", "layers.1.attn.q" },
        { "gemma3", "language_model.model.layers.1.self_attn.q_proj", "layers.1.attn.q" },
        { "gemma3", "model.layers.1.self_attn.q_proj", "layers.1.attn.q" },
        { "gemma3", "model.language_model.layers.0.post_attention_layernorm", "layers.0.post_attn_norm" },
        { "gemma3_text", "model.language_model.layers.1.self_attn.q_proj", "" },
        { "mistral3", "language_model.lm_head", "output" },
        { "idefics3", "model.text_model.layers", "layers" },
    };
    char found[4096];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_ctx *ctx = test_ctx(NULL);
        rp_model *m = golden_model(ctx, cases[i].variant, RP_F32);
        if (strcmp(held(m, cases[i].glob, found), cases[i].held))
            fail_msg("%s: '%s' holds for '%s', expected '%s'", cases[i].variant, cases[i].glob, found, cases[i].held);
        rp__model_free(m);
        test_ctx_free(ctx);
    }
}

/* Gated MLPs have a "gate" here, and Qwen's files call the router so: who writes ours means ours. */
static void a_glob_that_is_one_of_ours_is_meant_so(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *m = golden_model(ctx, "qwen3_moe_mixed", RP_F32);
    char found[4096];

    assert_non_null(strstr(held(m, "*.mlp.gate", found), "mlp.gate"));
    assert_null(strstr(found, "router"));
    assert_null(strstr(held(m, "*.gate", found), "router"));
    rp__model_free(m);
    test_ctx_free(ctx);
}

/* Of all that is not trained: parameters' names and what is above them, in theirs. */
static void what_is_frozen_by_their_names_is_what_they_name(void **state)
{
    (void)state;
    static const struct { const char *glob, *ours; } cases[] = {
        { "model.layers.0.post_attention_layernorm.weight", "layers.0.post_attn_norm.weight" },
        { "model.layers.0", "layers.0." },
        { "*.self_attn", ".attn." },
        { "model.embed_tokens", "tok_embeddings.weight" },
    };

    for (int k = 0; k < RP_COUNT(cases); k++) {
        rp_ctx *ctx = test_ctx(NULL);
        rp_model *m = golden_model(ctx, "gemma2", RP_F32);
        int frozen  = 0;
        assert_ok(ctx, rp__model_freeze(m, 1, &cases[k].glob));
        for (int i = 0; i < rp__model_n_params(m); i++) {
            const rp_param *p = rp__model_param(m, i);
            if (p->tensor->requires_grad == (strstr(p->path, cases[k].ours) != NULL)) fail_msg("'%s': '%s'", cases[k].glob, p->path);
            frozen += !p->tensor->requires_grad;
        }
        assert_true(frozen > 0);
        assert_int_equal(rp__model_freeze(m, 1, (const char *[]){ "model.layers.0.self_attn.w_proj" }), RP_ERR_MATCH);
        rp__model_free(m);
        test_ctx_free(ctx);
    }
}

static void adapters_are_asked_for_by_ends_of_their_names(void **state)
{
    (void)state;
    rp_ctx *ctx     = test_ctx(NULL);
    rp_model *m     = golden_model(ctx, "bert", RP_F32);
    rp_module *root = rp__model_root(m);

    assert_true(rp__adapter_names(root, "query", "layers.0.attn.q"));
    assert_true(rp__adapter_names(root, "self.query", "layers.0.attn.q"));
    assert_true(rp__adapter_names(root, "attn.q", "layers.0.attn.q"));
    assert_false(rp__adapter_names(root, "query", "layers.0.attn.k"));
    assert_false(rp__adapter_names(root, "q_proj", "layers.0.attn.q"));
    assert_true(rp__adapter_names(NULL, "q", "layers.0.attn.q"));
    assert_false(rp__adapter_names(NULL, "query", "layers.0.attn.q"));
    rp__model_free(m);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_module_is_found_by_the_path_its_files_give_it),
        cmocka_unit_test(one_name_of_theirs_is_another_module_in_another_family),
        cmocka_unit_test(a_glob_that_is_one_of_ours_is_meant_so),
        cmocka_unit_test(what_is_frozen_by_their_names_is_what_they_name),
        cmocka_unit_test(adapters_are_asked_for_by_ends_of_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
