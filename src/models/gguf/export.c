/* models/gguf/export.c -- writes a whole model as a GGUF file.
 *
 *   plan      each tensor's name, shape, type and source, in the order of the model or of its GGUF file
 *   metadata  from the config and the tokenizer, or copied
 *   tensors   rows (source.c), converted; or bytes, copied
 */
#include "models/gguf/plan.h"

#include <string.h>

#include "tokenizer/to_gguf.h"

enum { COPY_BYTES = 1 << 20, QUANTISATION_VERSION = 2 };

/* ---- the plan ---- */

static rp_status take_planned(rp_gguf_exporter *x, int64_t n)
{
    x->planned = rp__host_alloc(x->ctx, (n + 2) * (int64_t)sizeof *x->planned);
    return x->planned ? RP_OK : RP_ERR_MEMORY;
}

/* Shape in the file: pieces stacked, matrices of GPT-2 turned. */
static void set_shape(const rp_gguf_exporter *x, rp_gguf_planned *p)
{
    const rp_meta *m = &p->from.param->whole;
    bool turned      = m->ndim == 2 && globs_match(x->m.config->family->gguf_turned, p->from.param->path);

    p->ndim = m->ndim;
    for (int i = 0; i < m->ndim; i++) p->dim[i] = m->dim[turned ? m->ndim - 1 - i : i];
}

static rp_status plan_param(rp_gguf_exporter *x, const rp_module *module, const rp_param *param, const char *name)
{
    rp_gguf_planned *p         = &x->planned[x->n++];
    const rp_weight_part *part = rp__weight_part_find(&x->m.files, param->path, 0);

    *p = (rp_gguf_planned){ .from = { .param = param, .module = module, .part = part, .pieces = part->pieces } };
    RP_BUG_IF(!name && !rp__gguf_name(x->m.config->family, param->path, p->made));
    p->name = name ? name : p->made;
    set_shape(x, p);
    return rp__gguf_find_change(&x->m, &p->from);
}

/* llama.cpp's code of this architecture reads an output even if the model shares its embedding. */
static bool needs_output(const rp_model_config *c) { return c->tied && !strcmp(c->family->gguf_architecture, "olmo2"); }

static rp_status plan_model(rp_gguf_exporter *x)
{
    const rp_model_config *c = x->m.config;
    rp_module *root          = rp__model_root(x->m.model);
    int unused;

    RP_TRY(take_planned(x, rp__model_n_params(x->m.model)));
    if (c->rope.kind == RP_ROPE_LLAMA3)
        x->planned[x->n++] = (rp_gguf_planned){ .name = "rope_freqs.weight", .ndim = 1, .dim = { c->head_dim / 2 }, .divisors = true };
    for (rp_module *m = root; m; m = rp__module_next(root, m))
        for (int i = 0; i < m->n_params; i++) {
            const rp_param *p = &m->param[i];
            if (p->owner || rp__lora_part_of(p->path, &unused) != RP_LORA_NONE) continue;
            RP_TRY(plan_param(x, m, p, NULL));
            if (m != root->first_child || !needs_output(c)) continue;
            RP_TRY(plan_param(x, m, p, "output.weight"));
        }
    return RP_OK;
}

/* The parameter that a tensor of a GGUF file fills, if an adapter may change it. */
static rp_status find_param(const rp_gguf_exporter *x, rp_gguf_planned *p)
{
    const rp_weight_loader *l = &x->m.files;
    const rp_weight_part *of  = p->copy == l->head.gguf ? rp__weight_part_find(l, "tok_embeddings.weight", 0) : NULL;
    rp_module *root           = rp__model_root(x->m.model);

    for (int i = 0; i < l->n_parts && !of; i++)
        if (l->part[i].from.gguf == p->copy) of = &l->part[i];
    for (rp_module *m = root; m && of; m = rp__module_next(root, m))
        for (int i = 0; i < m->n_params; i++)
            if (of->param == &m->param[i]) p->from = (rp_gguf_source){ .param = of->param, .module = m, .gguf = p->copy, .pieces = 1 };
    return p->from.param ? rp__gguf_find_change(&x->m, &p->from) : RP_OK;
}

static rp_status plan_copy(rp_gguf_exporter *x)
{
    const rp_gguf *file = x->m.files.gguf;

    RP_TRY(take_planned(x, rp__gguf_n_tensors(file)));
    for (int64_t i = 0; i < rp__gguf_n_tensors(file); i++) {
        const rp_gguf_tensor *t = rp__gguf_tensor_at(file, i);
        rp_gguf_planned *p      = &x->planned[x->n++];
        *p = (rp_gguf_planned){ .name = t->name, .copy = t, .ndim = t->ndim, .from = { .gguf = t, .pieces = 1 } };
        memcpy(p->dim, t->dim, sizeof p->dim);
        if (x->m.adapter) RP_TRY(find_param(x, p));
    }
    return RP_OK;
}

/* ---- metadata ---- */

/* Without a tokenizer, the ids of the config. */
static rp_status add_ids(rp_gguf_exporter *x)
{
    const rp_model_config *c = x->m.config;

    RP_TRY(rp__gguf_add_text(x->writer, "tokenizer.ggml.model", rp__gguf_text("none")));
    if (c->bos >= 0) RP_TRY(rp__gguf_add_u32(x->writer, "tokenizer.ggml.bos_token_id", (uint32_t)c->bos));
    return c->eos >= 0 ? rp__gguf_add_u32(x->writer, "tokenizer.ggml.eos_token_id", (uint32_t)c->eos) : RP_OK;
}

static rp_status add_metadata(rp_gguf_exporter *x)
{
    const rp_gguf_options *o = x->options;
    rp_gguf_writer *w        = x->writer;

    RP_TRY(rp__gguf_add_text(w, "general.architecture", rp__gguf_text(x->m.config->family->gguf_architecture)));
    RP_TRY(rp__gguf_add_text(w, "general.type", rp__gguf_text("model")));
    if (o->name) RP_TRY(rp__gguf_add_text(w, "general.name", rp__gguf_text(o->name)));
    RP_TRY(rp__gguf_add_config(w, x->m.config, x->report));
    RP_TRY(rp__gguf_add_u32(w, "general.file_type", rp__gguf_file_type(o->type)));
    RP_TRY(rp__gguf_add_u32(w, "general.quantization_version", QUANTISATION_VERSION));
    if (!o->tokenizer) return add_ids(x);
    RP_TRY(rp__tokenizer_to_gguf(o->tokenizer, x->m.config->vocab, w, x->report));
    return o->chat ? rp__gguf_add_text(w, "tokenizer.chat_template", (rp_gguf_string){ o->chat, o->chat_bytes }) : RP_OK;
}

/* Values that are not copied: the new one, if there is one; else *mine is false. */
static rp_status add_own(rp_gguf_exporter *x, const char *key, bool *mine)
{
    const rp_gguf_options *o = x->options;

    *mine = true;
    if (o->type && !strcmp(key, "general.file_type")) return rp__gguf_add_u32(x->writer, key, rp__gguf_file_type(o->type));
    if (o->type && !strcmp(key, "general.quantization_version")) return rp__gguf_add_u32(x->writer, key, QUANTISATION_VERSION);
    if (o->name && !strcmp(key, "general.name")) return rp__gguf_add_text(x->writer, key, rp__gguf_text(o->name));
    *mine = false;
    return RP_OK;
}

/* A model in several files becomes one. */
static rp_status copy_metadata(rp_gguf_exporter *x)
{
    static const char *const added[] = { "general.name", "general.file_type", "general.quantization_version" };
    const rp_gguf *file              = x->m.files.gguf;
    bool mine;

    for (int64_t i = 0; i < rp__gguf_n_values(file); i++) {
        const rp_gguf_value *v = rp__gguf_value_at(file, i);
        if (!strncmp(v->key, "split.", 6)) continue;
        RP_TRY(add_own(x, v->key, &mine));
        if (!mine) RP_TRY(rp__gguf_add_copy(x->writer, v));
    }
    for (int i = 0; i < RP_COUNT(added); i++)
        if (!rp__gguf_get(file, added[i])) RP_TRY(add_own(x, added[i], &mine));
    return RP_OK;
}

/* ---- tensors ---- */

static rp_status copy_bytes(rp_gguf_exporter *x, const rp_gguf_tensor *t)
{
    RP_TRY(rp__gguf_take_room(x, t->bytes < COPY_BYTES ? t->bytes : COPY_BYTES));
    for (int64_t at = 0, n; at < t->bytes; at += n) {
        n = t->bytes - at < COPY_BYTES ? t->bytes - at : COPY_BYTES;
        RP_TRY(rp__gguf_read_bytes(x->m.files.gguf, t, at, n, x->room));
        RP_TRY(rp__gguf_put(x->writer, x->room, n));
    }
    rp__gguf_drop(x->m.files.gguf, t);
    return RP_OK;
}

static rp_status put_divisors(rp_gguf_exporter *x, const rp_gguf_planned *p)
{
    RP_TRY(rp__gguf_take_room(x, p->dim[0] * (int64_t)sizeof(float)));
    for (int64_t i = 0; i < p->dim[0]; i++) ((float *)x->room)[i] = (float)rp__gguf_llama3_divisor(&x->m.config->rope, i, p->dim[0]);
    return rp__gguf_put(x->writer, x->room, p->dim[0] * (int64_t)sizeof(float));
}

static bool is_changed(const rp_gguf_planned *p) { return p->from.whole || p->from.adapted; }

static rp_status put_tensor(rp_gguf_exporter *x, rp_gguf_planned *p)
{
    x->current = p;
    if (p->divisors) return put_divisors(x, p);
    if (p->copy && !is_changed(p) && !strcmp(p->type, p->copy->type)) {
        x->outcome->copied++;
        return copy_bytes(x, p->copy);
    }
    return rp__gguf_each_row(&x->m, &p->from, rp__gguf_put_rows, x);
}

/* ---- the whole ---- */

static rp_status export_all(rp_gguf_exporter *x, rp_model_files *files, const char *path)
{
    RP_CHECK(x->ctx, x->options->type || files->is_gguf, RP_ERR_UNSUPPORTED, "'%s' is no GGUF file, so its tensors have no types to keep", files->path);
    RP_TRY(files->is_gguf ? plan_copy(x) : plan_model(x));
    RP_TRY(rp__gguf_create(x->ctx, path, &x->writer));
    RP_TRY(files->is_gguf ? copy_metadata(x) : add_metadata(x));
    RP_TRY(rp__gguf_declare_all(x));
    for (int64_t i = 0; i < x->n; i++) RP_TRY(put_tensor(x, &x->planned[i]));
    return rp__gguf_finish(x);
}

rp_status rp__gguf_export(rp_model *model, rp_model_files *files, const rp_gguf_options *options, const char *path, rp_report *report,
                          rp_gguf_outcome *out)
{
    rp_gguf_exporter x = { .options = options, .report = report, .outcome = out };

    return rp__gguf_export_by(export_all, &x, model, files, path);
}
