/* models/mapped.c -- frozen weights that stay in the pages of their files (model.mapped).
 *
 * A weight is mapped if its tensor has the bytes of the parameter, in one piece and aligned to an element. All others are loaded. Both follow from
 * the headers of the files, so a rehearsal on shapes knows the mapped weights, too.
 */
#include "models/quant.h"

#include <string.h>

#include "base/file.h"
#include "base/quant.h"
#include "tensor/tensor.h"

static rp_file_place mapped_place(const rp_weight_loader *l, rp_file_tensor t)
{
    return t.st ? rp__safetensors_place(l->st, t.st) : rp__gguf_place(t.gguf);
}

/* The dtype of the tensor's bytes; RP_I32: no parameter has it. */
static rp_dtype mapped_dtype(rp_file_tensor t)
{
    if (t.st) return t.st->dtype == RP_ST_F32 ? RP_F32 : t.st->dtype == RP_ST_BF16 ? RP_BF16 : RP_I32;
    const rp_quant_type *type = rp__quant_find(t.gguf->type);
    return type ? type->dtype : !strcmp(t.gguf->type, "F32") ? RP_F32 : !strcmp(t.gguf->type, "BF16") ? RP_BF16 : RP_I32;
}

/* Would the loader change the order or the values of the elements? */
static bool is_changed(const rp_weight_loader *l, const char *path, rp_file_tensor t, rp_dtype dtype)
{
    const rp_family *f = l->config->family;
    bool turned        = ndim_of(t) == 2 && globs_match(f->gguf_turned, path) && (l->gguf != NULL) != rp__is_quant(dtype);
    bool lowered       = l->gguf && ndim_of(t) == 1 && rp__ends_with(path, ".weight") && l->config->norm_plus != 0;

    return turned || lowered || (l->gguf && globs_match(f->gguf_rotated, path)) || rp__weight_in_pieces(l->name, l->n_names, path);
}

/* The dtype in which the tensor can be mapped as the parameter at `path`, or RP_I32. Blocks of codes are read byte by byte. */
static rp_dtype mappable(const rp_weight_loader *l, const char *path, rp_file_tensor t)
{
    rp_dtype dtype      = mapped_dtype(t);
    rp_file_place place = mapped_place(l, t);
    bool aligned        = dtype == RP_I32 || rp__is_quant(dtype) || place.offset % rp_dtype_bytes(dtype) == 0;

    return place.map->mapped && aligned && !is_changed(l, path, t, dtype) ? dtype : RP_I32;
}

static rp_status note_mappable(const rp_weight_loader *l, json_t *types, const char *path, rp_file_tensor t)
{
    return json_object_set_new_nocheck(types, path, json_integer((json_int_t)mappable(l, path, t))) ? RP_ERR_MEMORY : RP_OK;
}

rp_status rp__mapped_types(rp_weight_loader *l, json_t **out) { return rp__weight_types(l, note_mappable, out); }

bool rp__weight_is_mapped(const rp_model_config *config, const rp_module *m, const char *name, const rp_meta *meta)
{
    char path[RP_WEIGHT_NAME_CHARS];

    if (!config->mapped || !rp__mem_on_host(m->ctx->space[0]) || !rp_meta_elems(meta)) return false;
    snprintf(path, sizeof path, "%s.%s", m->path, name);
    const json_t *type = rp__type_listed(config, config->mapped, path);
    return type && (rp_dtype)json_integer_value(type) == meta->dtype && rp__weight_is_frozen(config, m, path);
}

rp_status rp__mapped_load(const rp_weight_loader *l, const rp_weight_part *p)
{
    rp_file_place place = mapped_place(l, p->from);
    rp_file_pages *pages;

    RP_CHECK(l->ctx, mappable(l, p->param->path, p->from) == p->param->whole.dtype, RP_ERR_IO, "'%s' has changed since its header was read", place.path);
    RP_TRY(rp__file_pages_open(l->ctx, place.path, place.map, &pages));
    rp__tensor_map(p->param->tensor, pages, place.offset);
    rp__file_pages_unref(pages);
    return RP_OK;
}

int64_t rp__model_mapped_bytes(const rp_model *model)
{
    int64_t bytes = 0;

    for (int i = 0; i < rp__model_n_params(model); i++)
        if (rp__model_param(model, i)->mapped) bytes += rp_meta_bytes(&rp__model_param(model, i)->whole);
    return bytes;
}
