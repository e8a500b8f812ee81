/* models/gguf/adapter.c -- writes an adapter alone as llama.cpp reads it.
 *
 *   general.architecture   that of the base model        adapter.lora.alpha   the product is scaled by alpha / rank
 *   general.type           "adapter"                     adapter.type         "lora"
 *
 *   blk.0.attn_q.weight.lora_a [r, in]   .lora_b [out, r]; rows of lora_b are in the order of the weight's rows
 */
#include "models/gguf/plan.h"

#include <math.h>
#include <string.h>

static rp_status check_adapter(const rp_gguf_exporter *x)
{
    const rp_adapter_config *a = &x->m.config->adapter;

    RP_CHECK(x->ctx, x->m.adapter, RP_ERR_CONFIG, "'%s' is a model without an adapter", x->m.files.path);
    RP_CHECK(x->ctx, x->options->type, RP_ERR_CONFIG, "an adapter has no types of GGUF to keep; name one");
    RP_CHECK(x->ctx, !a->lora.dora, RP_ERR_UNSUPPORTED, "llama.cpp's adapter files hold no magnitudes (DoRA); leave out --adapter to merge them");
    RP_CHECK(x->ctx, !a->n_whole, RP_ERR_UNSUPPORTED, "'%s' is trained whole, and llama.cpp's adapter files hold only adapters; leave out "
             "--adapter to merge it", a->whole[0]);
    RP_CHECK(x->ctx, a->lora.alpha != 0, RP_ERR_UNSUPPORTED, "alpha is 0, which llama.cpp reads as a scale of 1");
    return RP_OK;
}

static void plan_half(rp_gguf_exporter *x, const rp_module *layer, const rp_param *part, const char *end)
{
    rp_gguf_planned *p = &x->planned[x->n++];
    char name[RP_WEIGHT_NAME_CHARS];

    *p = (rp_gguf_planned){ .ndim = 2, .dim = { part->whole.dim[0], part->whole.dim[1] }, .from = { .param = part, .module = layer } };
    RP_BUG_IF(!rp__gguf_name(x->m.config->family, layer->param[0].path, name));
    RP_BUG_IF(snprintf(p->made, sizeof p->made, "%s%s", name, end) >= (int)sizeof p->made);
    p->name = p->made;
}

static rp_status plan_adapter(rp_gguf_exporter *x)
{
    rp_module *root = rp__model_root(x->m.model);
    rp_lora_parts parts;

    x->planned = rp__host_alloc(x->ctx, (rp__model_n_params(x->m.model) + 1) * (int64_t)sizeof *x->planned);
    if (!x->planned) return RP_ERR_MEMORY;
    for (rp_module *m = root; m; m = rp__module_next(root, m)) {
        if (!rp__lora_parts(m, &parts)) continue;
        plan_half(x, m, parts.a, ".lora_a");
        plan_half(x, m, parts.b, ".lora_b");
    }
    return RP_OK;
}

static rp_status add_metadata(rp_gguf_exporter *x)
{
    const rp_lora *l = &x->m.config->adapter.lora;
    double alpha     = l->rslora ? l->alpha * sqrt((double)l->rank) : l->alpha;
    rp_gguf_writer *w = x->writer;

    RP_TRY(rp__gguf_add_text(w, "general.architecture", rp__gguf_text(x->m.config->family->gguf_architecture)));
    RP_TRY(rp__gguf_add_text(w, "general.type", rp__gguf_text("adapter")));
    if (x->options->name) RP_TRY(rp__gguf_add_text(w, "general.name", rp__gguf_text(x->options->name)));
    RP_TRY(rp__gguf_add_text(w, "adapter.type", rp__gguf_text("lora")));
    return rp__gguf_add_f32(w, "adapter.lora.alpha", (float)alpha);
}

static rp_status put_half(rp_gguf_exporter *x, const rp_gguf_planned *p)
{
    const char *weight = p->from.module->param[0].path;
    int64_t rows = p->dim[0], width = p->dim[1];
    bool second      = rp__ends_with(p->name, ".lora_b");
    float *part      = NULL;
    rp_status status = rp__gguf_adapter_part(&x->m, p->from.param, &part);

    x->current = p;
    for (int64_t i = 0; i < rows && status == RP_OK; i++)
        status = rp__gguf_put_rows(x, part + (second ? rp__gguf_our_row(&x->m, weight, i) : i) * width, 1, width);
    rp__release(part);
    return status;
}

static rp_status export_all(rp_gguf_exporter *x, rp_model_files *files, const char *path)
{
    (void)files;
    RP_TRY(check_adapter(x));
    RP_TRY(plan_adapter(x));
    RP_TRY(rp__gguf_create(x->ctx, path, &x->writer));
    RP_TRY(add_metadata(x));
    RP_TRY(rp__gguf_declare_all(x));
    for (int64_t i = 0; i < x->n; i++) RP_TRY(put_half(x, &x->planned[i]));
    return rp__gguf_finish(x);
}

rp_status rp__gguf_export_adapter(rp_model *model, rp_model_files *files, const rp_gguf_options *options, const char *path, rp_report *report,
                                  rp_gguf_outcome *out)
{
    rp_gguf_exporter x = { .options = options, .report = report, .outcome = out };

    return rp__gguf_export_by(export_all, &x, model, files, path);
}
