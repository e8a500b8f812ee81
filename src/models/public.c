/* models/public.c -- the public functions for models. */
#include "base/sized.h"
#include "models/weights.h"

static rp_status public_build(rp_ctx *ctx, rp_model_config *config, const rp_model_options *options, rp_model **out)
{
    rp_model_options o = options ? *options : (rp_model_options){ .dtype = RP_F32 };

    RP_CHECK(ctx, o.dtype == RP_F32 || o.dtype == RP_BF16, RP_ERR_DTYPE, "a model is fp32 or bf16, not %s", rp_dtype_name(o.dtype));
    RP_TRY(rp__model_build(ctx, config, o.dtype, out));
    if (o.checkpoint) rp_module_checkpoint(rp__model_root(*out), rp__module_is_type, "TransformerBlock");
    if (o.checkpoint_if) rp_module_checkpoint(rp__model_root(*out), o.checkpoint_if, o.checkpoint_user);
    return rp_module_policy(rp__model_root(*out), o.policy);
}

static rp_status public_open(rp_ctx *ctx, const char *path, const rp_model_options *options, bool loads, rp_model **out)
{
    rp_model_config config = { .source = NULL };
    rp_model_files *files  = NULL;
    rp_model *m            = NULL;
    rp_report report;
    rp_status status;

    rp__report_open(&report, ctx);
    RP_TRY_GOTO(loads ? rp__model_files_open(ctx, path, NULL, &report, &files) : rp__model_config_load(ctx, path, NULL, &report, &config));
    if (loads) RP_TRY_GOTO(rp__model_files_config(files, &config));
    RP_TRY_GOTO(public_build(ctx, &config, options, &m));
    if (loads) RP_TRY_GOTO(rp__model_load(m, files));
    else rp__model_init(m, ctx->seed);
    *out = m;
    m    = NULL;
done:
    rp__model_free(m);
    rp__model_config_drop(&config);
    rp__model_files_close(files);
    rp__report_log(&report);
    return status;
}

static rp_status open_sized(size_t size, rp_ctx *ctx, const char *path, const rp_model_options *options, bool load, rp_model **out)
{
    RP_GIVEN(ctx, ctx && path && out);
    rp_model_options own;

    RP_TAKE(ctx, own, options, size);
    RP_SAME_CTX(ctx, options && options->policy ? options->policy->ctx : NULL, "policy");
    return public_open(ctx, path, options, load, out);
}

rp_status rp_model_load_sized(size_t size, rp_ctx *ctx, const char *path, const rp_model_options *options, rp_model **out)
{
    return open_sized(size, ctx, path, options, true, out);
}

rp_status rp_model_new_sized(size_t size, rp_ctx *ctx, const char *path, const rp_model_options *options, rp_model **out)
{
    return open_sized(size, ctx, path, options, false, out);
}

rp_status (rp_model_load)(rp_ctx *ctx, const char *path, const rp_model_options *options, rp_model **out)
{
    return rp_model_load_sized(RP_FIRST_MODEL_OPTIONS, ctx, path, options, out);
}

rp_status (rp_model_new)(rp_ctx *ctx, const char *path, const rp_model_options *options, rp_model **out)
{
    return rp_model_new_sized(RP_FIRST_MODEL_OPTIONS, ctx, path, options, out);
}

void rp_model_free(rp_model *m) { rp__model_free(m); }
rp_module *rp_model_root(rp_model *m)
{
    if (!m) return NULL;
    return rp__model_root(m);
}

rp_tensor *rp_model_param(const rp_model *m, int i, const char **path)
{
    if (!m) return NULL;
    if (i < 0 || i >= rp__model_n_params(m)) return NULL;
    const rp_param *p = rp__model_param(m, i);
    if (path) *path = p->path;
    return p->tensor;
}

rp_status rp_model_logits(rp_model *m, rp_tensor *tokens, rp_tensor **logits)
{
    RP_GIVEN(m ? rp__model_root(m)->ctx : NULL, m && tokens && logits);
    RP_SAME_CTX(rp__model_root(m)->ctx, tokens->ctx, "tensor of tokens");
    return rp__model_logits(m, &(rp_model_batch){ .tokens = tokens }, logits);
}

rp_status rp_model_reserve(rp_model *m, int64_t length)
{
    RP_GIVEN(m ? rp__model_root(m)->ctx : NULL, m);
    return rp__model_reserve_length(m, length);
}

rp_status rp_model_loss(rp_model *m, rp_tensor *tokens, rp_tensor *labels, float weight, rp_tensor **loss)
{
    RP_GIVEN(m ? rp__model_root(m)->ctx : NULL, m && tokens && labels && loss);
    RP_SAME_CTX(rp__model_root(m)->ctx, tokens->ctx, "tensor of tokens");
    RP_SAME_CTX(rp__model_root(m)->ctx, labels->ctx, "tensor of labels");
    return rp__model_loss(m, &(rp_model_batch){ .tokens = tokens, .labels = labels }, &(rp_attr_cross_entropy){ .weight = weight, .ignore_index = -100 }, loss);
}

rp_status rp_model_save(rp_model *m, const char *directory)
{
    RP_GIVEN(m ? rp__model_root(m)->ctx : NULL, m && directory);
    return rp__model_export(m, directory);
}
