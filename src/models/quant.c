/* models/quant.c -- chooses the weights that are stored quantised, and fills them from files.
 *
 *   GGUF, the parameter's own type   blocks are copied, row by row if GGUF orders rows for another rotary layout
 *   safetensors of bitsandbytes      codes, scales of blocks, and scales of scales are arranged as the blocks of RP_NF4 (base/quant_decode.h)
 *   any other tensor                 rows of fp32 are quantised, a window at a time
 *
 * If ranks share the weight, each reads only the elements of its bytes. Scales of NF4 that are quantised depend on all elements, so each rank reads them all.
 *
 * bitsandbytes stores the weight P of a linear layer, [out, in], as P (codes, two a byte), P.absmax, P.quant_map and a JSON text,
 * P.quant_state.bitsandbytes__nf4. If scales are quantised, too, P.absmax are codes and P.nested_absmax and P.nested_quant_map decode them.
 */
#include "models/quant.h"

#include <math.h>
#include <string.h>

#include "base/json_text.h"
#include "base/quant.h"
#include "policy/names.h"
#include "tensor/tensor.h"

#define FAIL RP_LOADER_FAIL
#define STATE ".quant_state.bitsandbytes__nf4"

enum { STATE_MOST = 4096 };             /* bytes of the JSON text */

/* ---- which ---- */

static bool any_matches(const rp_module *m, const char *path, int n, const char *const *glob)
{
    for (int i = 0; i < n; i++)
        if (rp__module_called(m, path, glob[i], RP_CALLED_WITHIN)) return true;
    return false;
}

/* A tied weight is trained if either module is. */
bool rp__weight_is_frozen(const rp_model_config *c, const rp_module *m, const char *path)
{
    const rp_adapter_config *a = &c->adapter;
    bool tied                  = c->tied && !strcmp(path, "tok_embeddings.weight");

    if (!a->lora.rank) return c->quant.all_frozen || any_matches(m, path, c->quant.n_frozen, c->quant.frozen);
    return !any_matches(m, path, a->n_whole, a->whole) && !(tied && any_matches(m, "output.weight", a->n_whole, a->whole));
}

/* NF4 is for linear layers in the blocks, as in bitsandbytes. Tables of positions and types are small. */
static bool takes(const rp_model_config *c, const char *path)
{
    int64_t layer;

    if (rp_path_layer(path, &layer)) return true;
    return c->quant.dtype != RP_NF4 && (!strcmp(path, "tok_embeddings.weight") || !strcmp(path, "output.weight"));
}

const json_t *rp__type_listed(const rp_model_config *c, const json_t *types, const char *path)
{
    const json_t *type = json_object_get(types, path);
    const char *glob;
    json_t *other;

    json_object_foreach((json_t *)types, glob, other)
        if (c->by_glob && !type && rp__glob(glob, path)) type = other;
    return type;
}

static rp_dtype chosen(const rp_model_config *c, const char *path, rp_dtype otherwise)
{
    const json_t *type = rp__type_listed(c, c->quant.types, path);

    if (c->quant.types) return type ? (rp_dtype)json_integer_value(type) : otherwise;
    return rp__is_quant(c->quant.dtype) && takes(c, path) ? c->quant.dtype : otherwise;
}

rp_dtype rp__quant_stored(const rp_model_config *config, const rp_module *m, const char *name, const rp_meta *meta)
{
    char path[RP_WEIGHT_NAME_CHARS];
    int unused;

    if (!config->quant.types && !rp__is_quant(config->quant.dtype)) return meta->dtype;
    snprintf(path, sizeof path, "%s.%s", m->path, name);
    rp_dtype dtype            = chosen(config, path, meta->dtype);
    const rp_quant_type *type = rp__quant_type(dtype);
    bool whole                = type && rp_meta_dim(meta, -1) % type->block_elems == 0 && rp_meta_elems(meta) > 0;
    bool fresh                = config->family && globs_match(config->family->may_be_fresh, path);
    return whole && !fresh && rp__lora_part_of(path, &unused) == RP_LORA_NONE && rp__weight_is_frozen(config, m, path) ? dtype : meta->dtype;
}

/* ---- the types of files ---- */

static const rp_safetensor *part_of(const rp_weight_loader *l, const char *name, const char *end)
{
    char full[RP_WEIGHT_NAME_CHARS];

    return snprintf(full, sizeof full, "%s%s", name, end) < (int)sizeof full ? rp__safetensors_find(l->st, full) : NULL;
}

static const char *const part_ends[] = { ".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map", STATE };

bool rp__quant_is_part(const char *name)
{
    for (int i = 0; i < RP_COUNT(part_ends); i++)
        if (rp__ends_with(name, part_ends[i])) return true;
    return false;
}

static rp_dtype type_of(const rp_weight_loader *l, rp_file_tensor t)
{
    const rp_quant_type *type = t.gguf ? rp__quant_find(t.gguf->type) : NULL;

    if (type) return type->dtype;
    if (!t.st || t.st->dtype != RP_ST_U8 || !part_of(l, t.st->name, STATE)) return RP_F32;
    return part_of(l, t.st->name, ".nested_absmax") ? RP_NF4 : RP_NF4_FP32;
}

rp_status rp__weight_types(rp_weight_loader *l, rp_note_type *note, json_t **out)
{
    char path[RP_WEIGHT_NAME_CHARS];
    json_t *types    = json_object();
    rp_status status = types ? RP_OK : RP_ERR_MEMORY;

    for (int64_t i = 0; i < rp__weights_n_tensors(l) && status == RP_OK; i++) {
        rp_file_tensor t = rp__weights_tensor_at(l, i);
        if (rp__weights_path_of(l, name_of(t), path)) status = note(l, types, path, t);
    }
    if (status == RP_OK) *out = types;
    else json_decref(types);
    return status == RP_OK ? RP_OK : rp_fail(l->ctx, RP_ERR_MEMORY, "cannot allocate host memory for the types of '%s'", l->path);
}

/* If pieces of a parameter differ, it is not kept. The path may end with any bytes of the file. */
static rp_status note_type(const rp_weight_loader *l, json_t *types, const char *path, rp_file_tensor t)
{
    const json_t *before = json_object_get(types, path);
    rp_dtype dtype       = type_of(l, t);
    bool differs         = before && json_integer_value(before) != (json_int_t)dtype;

    return json_object_set_new_nocheck(types, path, json_integer(differs ? (json_int_t)RP_F32 : (json_int_t)dtype)) ? RP_ERR_MEMORY : RP_OK;
}

rp_status rp__quant_types(rp_weight_loader *l, json_t **out) { return rp__weight_types(l, note_type, out); }

/* ---- bitsandbytes ---- */

typedef struct {
    const rp_safetensor *codes, *scales, *factors;      /* factors: NULL if scales are fp32 */
    float offset;
    int64_t elems;
    rp_status status;                                   /* of reading them */
} nf4;

bool rp__quant_keeps(const rp_weight_part *p)
{
    const rp_quant_type *type = p->from.gguf ? rp__quant_find(p->from.gguf->type) : NULL;

    return rp__quant_is_nf4(p->from) || (type && type->dtype == p->param->whole.dtype);
}

/* Reads the JSON text. *out NULL: it is absent, too long, or not JSON. */
static rp_status read_state(const rp_weight_loader *l, const char *name, json_t **out)
{
    const rp_safetensor *t = part_of(l, name, STATE);
    float value[STATE_MOST];
    char text[STATE_MOST];
    json_error_t error;

    *out = NULL;
    if (!t || t->elems > STATE_MOST || t->dtype != RP_ST_U8) return RP_OK;
    RP_TRY(rp__safetensors_read(l->st, t, 0, t->elems, value));
    for (int64_t i = 0; i < t->elems; i++) text[i] = (char)(unsigned char)value[i];
    *out = rp__json_read(text, (size_t)t->elems, JSON_REJECT_DUPLICATES, &error);
    RP_CHECK(l->ctx, *out || json_error_code(&error) != json_error_out_of_memory, RP_ERR_MEMORY, "cannot allocate host memory for the fields of '%.200s'",
             t->name);
    return RP_OK;
}

/* Whether the tensor holds these values. */
static bool holds(const rp_weight_loader *l, nf4 *of, const rp_safetensor *t, int n, float (*value)(int))
{
    float have[256];

    if (!t || t->elems != n) return false;
    of->status = rp__safetensors_read(l->st, t, 0, n, have);
    for (int i = 0; i < n && of->status == RP_OK; i++)
        if (have[i] != value(i)) return false;
    return of->status == RP_OK;
}

static float code_value(int code) { return rp__nf4_value[code]; }
static float scale_value(int code) { return rp__nf4_scale_value((uint8_t)code); }

static bool has(const rp_safetensor *t, rp_safetensors_dtype dtype, int64_t elems) { return t && t->dtype == dtype && t->elems == elems; }

/* The element count of "shape", which must be [rows of the part, its width]. */
static bool has_shape(const json_t *state, const rp_meta *m)
{
    const json_t *shape = json_object_get(state, "shape");

    return json_array_size(shape) == 2 && json_integer_value(json_array_get(shape, 0)) == rp_meta_rows(m) &&
           json_integer_value(json_array_get(shape, 1)) == rp_meta_dim(m, -1);
}

static bool is_number(const json_t *state, const char *key, json_int_t value) { return json_integer_value(json_object_get(state, key)) == value; }

/* Finds the parts of a weight and checks them. Returns the error; NULL: there is none. Ignore it if out->status is an error. */
static const char *check_nf4(const rp_weight_loader *l, const rp_weight_part *p, const json_t *state, nf4 *out)
{
    const char *name = p->from.st->name, *kind = json_string_value(json_object_get(state, "quant_type"));
    int64_t elems = rp_meta_elems(&p->m), blocks = elems / RP_NF4_ELEMS, groups = (blocks + RP_NF4_GROUP - 1) / RP_NF4_GROUP;
    bool nested = p->param->whole.dtype == RP_NF4;

    *out = (nf4){ p->from.st, part_of(l, name, ".absmax"), nested ? part_of(l, name, ".nested_absmax") : NULL, 0, elems, RP_OK };
    if (!state) return "has no readable quant_state";
    if (!kind || strcmp(kind, "nf4")) return "is not of quant_type nf4";
    if (!is_number(state, "blocksize", RP_NF4_ELEMS)) return "does not have blocks of 64";
    if (!has_shape(state, &p->m)) return "does not have the shape of its parameter";
    if (!has(out->codes, RP_ST_U8, elems / 2)) return "does not have one code for each element";
    if (!has(out->scales, nested ? RP_ST_U8 : RP_ST_F32, blocks)) return "does not have one absmax for each block";
    if (!holds(l, out, part_of(l, name, ".quant_map"), 16, code_value)) return "does not have the quant_map of NF4";
    if (!nested) return NULL;
    out->offset = (float)json_number_value(json_object_get(state, "nested_offset"));
    if (!is_number(state, "nested_blocksize", RP_NF4_GROUP)) return "does not have nested blocks of 256";
    if (!json_is_number(json_object_get(state, "nested_offset")) || !isfinite(out->offset)) return "has no nested_offset";
    if (!has(out->factors, RP_ST_F32, groups)) return "does not have one nested_absmax for 256 blocks";
    if (!holds(l, out, part_of(l, name, ".nested_quant_map"), 256, scale_value)) return "does not have bitsandbytes' nested_quant_map";
    return p->first % (RP_NF4_GROUP * RP_NF4_ELEMS) ? "is an expert whose weight does not end with a group of 256 blocks" : NULL;
}

static rp_status open_nf4(const rp_weight_loader *l, const rp_weight_part *p, nf4 *out, const char **wrong)
{
    json_t *state;

    RP_TRY(read_state(l, p->from.st->name, &state));
    *wrong = check_nf4(l, p, state, out);
    json_decref(state);
    return out->status;
}

rp_status rp__quant_check(rp_weight_loader *l, const rp_weight_part *p)
{
    const char *wrong;
    nf4 parts;

    if (p->param->whole.dtype != RP_NF4 && p->param->whole.dtype != RP_NF4_FP32) {
        FAIL(l, RP_ERR_UNSUPPORTED, "tensor '%.200s' is quantised by bitsandbytes, which is read only with 'model.quantize: keep', and only if the "
             "weight is not trained", p->from.st->name);
        return RP_OK;
    }
    RP_TRY(open_nf4(l, p, &parts, &wrong));
    if (wrong) FAIL(l, RP_ERR_FORMAT, "tensor '%.200s' of bitsandbytes %s", p->from.st->name, wrong);
    return RP_OK;
}

/* ---- filling ---- */

/* The first byte of a block of the part, in the parameter. */
static int64_t block_at(const rp_weight_part *p, int64_t block)
{
    const rp_quant_type *type = rp__quant_type(p->param->whole.dtype);

    return rp__quant_block_at(type, p->first / type->block_elems + block);
}

/* The blocks of the part, which has n, that have bytes of the slice. */
static void blocks_in(const rp_weight_part *p, const rp_quant_slice *to, int64_t n, int64_t *from, int64_t *end)
{
    const rp_quant_type *type = rp__quant_type(p->param->whole.dtype);
    int64_t first             = p->first / type->block_elems;

    rp__quant_slice_blocks(type, to, from, end);
    *from = *from > first ? *from - first : 0;
    *end  = *end - first < n ? *end - first : n;
}

static rp_status load_codes(const rp_weight_loader *l, const rp_weight_part *p, const nf4 *from, const rp_quant_slice *to)
{
    enum { HALF = RP_NF4_ELEMS / 2 };
    int64_t step = l->window_elems / HALF, scale = from->factors ? 1 : (int64_t)sizeof(float), at, end, n;
    uint8_t codes[HALF];

    blocks_in(p, to, from->scales->elems, &at, &end);
    for (; at < end; at += n) {
        n = end - at < step ? end - at : step;
        RP_TRY(rp__safetensors_read(l->st, from->codes, at * HALF, n * HALF, l->window));
        for (int64_t i = 0; i < n; i++) {
            for (int k = 0; k < HALF; k++) codes[k] = (uint8_t)l->window[i * HALF + k];
            rp__quant_slice_put(to, block_at(p, at + i) + scale, codes, HALF);
        }
    }
    return RP_OK;
}

/* Scales are fp32, or codes of a byte. */
static rp_status load_scales(const rp_weight_loader *l, const rp_weight_part *p, const nf4 *from, const rp_quant_slice *to)
{
    int64_t first, at, end, n;

    blocks_in(p, to, from->scales->elems, &first, &end);
    for (at = first; at < end; at += n) {
        n = end - at < l->window_elems ? end - at : l->window_elems;
        RP_TRY(rp__safetensors_read(l->st, from->scales, at, n, l->window));
        for (int64_t i = 0; i < n; i++) {
            uint8_t code = from->factors ? (uint8_t)l->window[i] : 0;
            rp__quant_slice_put(to, block_at(p, at + i), from->factors ? (const void *)&code : &l->window[i], from->factors ? 1 : sizeof(float));
        }
    }
    for (int64_t g = first / RP_NF4_GROUP; from->factors && g * RP_NF4_GROUP < end; g++) {
        float factor;
        RP_TRY(rp__safetensors_read(l->st, from->factors, g, 1, &factor));
        rp__nf4_head(to, p->first / RP_NF4_ELEMS / RP_NF4_GROUP + g, factor, from->offset);
    }
    return RP_OK;
}

static rp_status load_nf4(rp_weight_loader *l, const rp_weight_part *p, const rp_quant_slice *to)
{
    const char *wrong;
    nf4 from;

    RP_TRY(open_nf4(l, p, &from, &wrong));
    RP_CHECK(l->ctx, !wrong, RP_ERR_FORMAT, "tensor '%.200s' of bitsandbytes %s", p->from.st->name, wrong);
    RP_TRY(load_codes(l, p, &from, to));
    return load_scales(l, p, &from, to);
}

/* Blocks in the order of the file; only bytes of the slice are read. */
static rp_status load_row_of_blocks(rp_weight_loader *l, const rp_weight_part *p, const rp_quant_slice *to)
{
    int64_t first = block_at(p, 0), end = first + p->from.gguf->bytes, slice_end = to->first + to->count;
    int64_t from = first > to->first ? first : to->first, n = (end < slice_end ? end : slice_end) - from;

    return n > 0 ? rp__gguf_read_bytes(l->gguf, p->from.gguf, from - first, n, to->base + (from - to->first)) : RP_OK;
}

/* Rows of the file that change places. */
static rp_status load_rotated(rp_weight_loader *l, const rp_weight_part *p, rp_elem_range r, const rp_quant_slice *to)
{
    int64_t row = row_of(p->from), row_bytes = rp__quant_bytes(rp__quant_type(p->param->whole.dtype), row);
    int64_t room = l->window_elems * (int64_t)sizeof(float) / row_bytes, n;

    for (int64_t at = r.from / row; at < r.to / row; at += n) {
        n = r.to / row - at < room ? r.to / row - at : room;
        RP_TRY(rp__gguf_read_bytes(l->gguf, p->from.gguf, at * row_bytes, n * row_bytes, l->window));
        for (int64_t i = 0; i < n; i++)
            rp__quant_slice_put(to, block_at(p, 0) + rp__unrotated(at + i, l->config->head_dim) * row_bytes, (const uint8_t *)l->window + i * row_bytes,
                                row_bytes);
    }
    return RP_OK;
}

/* ---- quantising ---- */

static rp_status check_elems(const rp_weight_loader *l, const rp_weight_part *p, const float *from, int64_t n)
{
    const float most = 65504;           /* the largest scale of ggml's blocks; weights are far smaller */

    for (int64_t i = 0; i < n; i++)
        RP_CHECK(l->ctx, fabsf(from[i]) <= most, RP_ERR_UNSUPPORTED, "tensor '%.200s' has the element %g, which cannot be quantised", name_of(p->from),
                 (double)from[i]);
    return RP_OK;
}

static rp_status read_elems(const rp_weight_loader *l, rp_file_tensor t, int64_t at, int64_t n)
{
    return t.st ? rp__safetensors_read(l->st, t.st, at, n, l->window) : rp__gguf_read(l->gguf, t.gguf, at, n, l->window);
}

static rp_status quantise_turned(rp_weight_loader *l, const rp_weight_part *p, const rp_quantiser *q)
{
    int64_t out = row_of(p->from), in = elems_of(p->from) / out;
    float *row = l->window + elems_of(p->from);

    RP_TRY(read_elems(l, p->from, 0, elems_of(p->from)));
    RP_TRY(check_elems(l, p, l->window, elems_of(p->from)));
    for (int64_t r = 0; r < out; r++) {
        for (int64_t k = 0; k < in; k++) row[k] = l->window[k * out + r];
        rp__quant_put(q, p->first + r * in, in, row);
    }
    return RP_OK;
}

static rp_status quantise_rows(rp_weight_loader *l, const rp_weight_part *p, rp_elem_range r, bool rotated, const rp_quantiser *q)
{
    int64_t row = row_of(p->from), step = l->window_elems / row * row, n;

    for (int64_t at = r.from; at < r.to; at += n) {
        n = r.to - at < step ? r.to - at : step;
        RP_TRY(read_elems(l, p->from, at, n));
        RP_TRY(check_elems(l, p, l->window, n));
        if (!rotated) rp__quant_put(q, p->first + at, n, l->window);
        for (int64_t i = 0; i < n && rotated; i += row)
            rp__quant_put(q, p->first + rp__unrotated((at + i) / row, l->config->head_dim) * row, row, l->window + i);
    }
    return RP_OK;
}

/* Scales of NF4 are quantised after the last part, so they are kept until then. */
static rp_status quantise(rp_weight_loader *l, const rp_weight_part *p, const rp_quant_load *how, const rp_quant_slice *to)
{
    const rp_meta *whole = &p->param->whole;
    rp_quantiser q = { rp__quant_type(whole->dtype), *to, rp_meta_elems(whole), l->scales };
    int64_t floats = rp__quant_scales(q.type, q.elems);

    if (!l->scales && floats && !(q.scales = l->scales = rp__host_alloc(l->ctx, floats * (int64_t)sizeof(float)))) return RP_ERR_MEMORY;
    if (how->range.from < how->range.to) RP_TRY(how->turned ? quantise_turned(l, p, &q) : quantise_rows(l, p, how->range, how->rotated, &q));
    if (p->piece + 1 < p->pieces) return RP_OK;
    rp__quant_end(&q);
    rp__release(l->scales);
    l->scales = NULL;
    return RP_OK;
}

rp_elem_range rp__quant_wanted(const rp_weight_part *p)
{
    const rp_quant_type *type  = rp__quant_type(p->param->whole.dtype);
    const rp_quant_slice slice = { NULL, p->param->slice.first, p->param->slice.count };
    int64_t elems = rp_meta_elems(&p->param->whole), from, to;

    if (!rp__quant_keeps(p) && rp__quant_scales(type, elems)) return (rp_elem_range){ 0, elems };
    rp__quant_slice_blocks(type, &slice, &from, &to);
    return (rp_elem_range){ from * type->block_elems, to * type->block_elems };
}

rp_status rp__quant_load(rp_weight_loader *l, const rp_weight_part *p, const rp_quant_load *how)
{
    rp_status status;
    rp_host h;

    RP_TRY(rp__tensor_host_all(p->param->tensor, RP_HOST_CHANGE, &h));
    const rp_quant_slice to = { h.data, p->param->slice.first, p->param->slice.count };
    if (rp__quant_is_nf4(p->from)) status = load_nf4(l, p, &to);
    else if (!rp__quant_keeps(p)) status = quantise(l, p, how, &to);
    else status = how->rotated ? load_rotated(l, p, how->range, &to) : load_row_of_blocks(l, p, &to);
    rp__tensor_host_end(&h);
    return status;
}
