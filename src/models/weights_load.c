/* models/weights_load.c -- fills a model's parameters from safetensors or GGUF.
 *
 *   pair with parameters (weights_pair.c) ─▶ check all ─▶ read window by window ─▶ convert ─▶ release the pages of the file
 *
 * Nothing is written before all tensors are checked. All mismatches are found; the first is printed and the others are counted.
 * At most one window of fp32 is held besides the parameters. If they are sharded, a rank reads only windows that contain its slices. */
#include "models/weights_pair.h"

#include <string.h>

#include "base/quant.h"
#include "models/adapter.h"
#include "models/quant.h"
#include "tensor/tensor.h"

enum { WINDOW_ELEMS = 1 << 18 };        /* 1 MiB of fp32; a longer row is read whole */

typedef rp_weight_loader loader;
typedef rp_weight_part part;
typedef rp_file_tensor file_tensor;
typedef rp_elem_range elem_range;

#define FAIL RP_LOADER_FAIL

static rp_status read_elems(loader *l, file_tensor t, int64_t start, int64_t count, float *out)
{
    return t.st ? rp__safetensors_read(l->st, t.st, start, count, out) : rp__gguf_read(l->gguf, t.gguf, start, count, out);
}

static void weights_load_drop(loader *l, file_tensor t)
{
    if (t.st) rp__safetensors_drop(l->st, t.st);
    else rp__gguf_drop(l->gguf, t.gguf);
}

/* Writes "[96,32]" to out. Returns out. */
static const char *show_dims(int ndim, const int64_t *dim, char out[128])
{
    size_t used = (size_t)snprintf(out, 128, "[");

    for (int i = 0; i < ndim && used < 100; i++) used += (size_t)snprintf(out + used, 128 - used, "%s%" PRId64, i ? "," : "", dim[i]);
    snprintf(out + used, 128 - used, "]");
    return out;
}

/* ---- checking ---- */

/* Whether rows of the file are columns of the parameter. A quantised one is stored as GGUF stores it. */
static bool is_turned(const loader *l, const rp_param *p)
{
    bool differs = p->whole.ndim == 2 && globs_match(l->config->family->gguf_turned, p->path);

    return differs && (l->gguf != NULL) != rp__is_quant(p->whole.dtype);
}

static void check_shape(loader *l, const part *p, file_tensor t)
{
    const rp_meta *m = &p->m;
    char have[128], want[128];
    int64_t dim[RP_MAX_DIM] = { 0 };

    if (rp__quant_is_nf4(t)) return;        /* a row of codes */
    for (int i = 0; i < m->ndim; i++) dim[i] = m->dim[is_turned(l, p->param) ? m->ndim - 1 - i : i];
    if (m->ndim == ndim_of(t) && !memcmp(dim, dim_of(t), (size_t)m->ndim * sizeof dim[0])) return;
    FAIL(l, RP_ERR_SHAPE, "tensor '%.200s' is %s where '%s' is %s", name_of(t), show_dims(ndim_of(t), dim_of(t), have), p->param->path,
         show_dims(m->ndim, dim, want));
}

/* Integer tensors are codes of a quantisation, not weights. */
static rp_status check_readable(loader *l, const part *p, file_tensor t)
{
    rp_safetensors_dtype d = t.st ? t.st->dtype : RP_ST_F32;
    bool is_f8             = d == RP_ST_F8_E4M3 || d == RP_ST_F8_E5M2;
    bool is_float          = d == RP_ST_F64 || d == RP_ST_F32 || d == RP_ST_F16 || d == RP_ST_BF16 || is_f8;

    if (rp__quant_is_nf4(t)) return rp__quant_check(l, p);
    if (t.st && !is_float)
        FAIL(l, RP_ERR_UNSUPPORTED, "tensor '%.200s' is of dtype '%s'; these are read: F64, F32, F16, BF16, F8_E4M3, F8_E5M2", t.st->name,
             rp__safetensors_dtype_name(d));
    else if (t.gguf && rp__gguf_read(l->gguf, t.gguf, 0, 0, NULL) != RP_OK) FAIL(l, RP_ERR_UNSUPPORTED, "%s", rp_error(l->ctx));
    return RP_OK;
}

static rp_status check_part(loader *l, const part *p)
{
    char name[RP_WEIGHT_NAME_CHARS], want[128];
    bool is_head = !strcmp(p->param->path, "output.weight");

    if (is_some(p->from)) {
        check_shape(l, p, p->from);
        return check_readable(l, p, p->from);
    }
    FAIL(l, RP_ERR_FORMAT, "tensor '%s' is missing, '%s' %s%s", rp__weight_part_name(l, p, name), p->param->path,
         show_dims(p->m.ndim, p->m.dim, want), is_head ? "; if it shares the embedding, set 'tie_word_embeddings' to true" : "");
    return RP_OK;
}

static bool is_rotated(const loader *l, const rp_param *p) { return l->gguf && globs_match(l->config->family->gguf_rotated, p->path); }

/* Elements of the parameter that this rank reads. */
static elem_range wanted_of(const part *p)
{
    const rp_slice *s = &p->param->slice;

    return rp__is_quant(p->param->whole.dtype) ? rp__quant_wanted(p) : (elem_range){ s->first, s->first + s->count };
}

/* Range of elements in the file that contains those of a slice: whole rows, and whole heads if rows are permuted within heads. */
static elem_range range_of(const loader *l, const part *p, file_tensor t)
{
    const rp_param *of = p->param;
    int64_t elems = elems_of(t), whole = is_rotated(l, of) && ndim_of(t) > 1 ? row_of(t) * l->config->head_dim : row_of(t);
    elem_range r = wanted_of(p);

    r.from = r.from > p->first ? r.from - p->first : 0;
    r.to   = r.to - p->first < elems ? r.to - p->first : elems;
    if (r.from >= r.to) return (elem_range){ 0, 0 };
    if (is_turned(l, of)) return (elem_range){ 0, elems };
    r = (elem_range){ r.from / whole * whole, (r.to + whole - 1) / whole * whole };
    if (r.to > elems) r.to = elems;
    return r;
}

/* It is an error if the file has two different matrices but the config ties them: neither may replace the other. A rank compares the part that
 * it reads. */
static rp_status check_head(loader *l)
{
    const part *embedding = rp__weight_part_find(l, "tok_embeddings.weight", 0);
    file_tensor e = embedding ? embedding->from : (file_tensor){ .st = NULL };
    bool same     = true;
    int64_t row, step;

    if (!is_some(l->head) || !is_some(e) || elems_of(e) == 0) return RP_OK;
    check_shape(l, embedding, l->head);
    RP_TRY(check_readable(l, embedding, l->head));
    if (l->status != RP_OK) return RP_OK;
    row          = row_of(e);
    step         = l->window_elems / 2 / row * row;
    elem_range r = range_of(l, embedding, e);
    for (int64_t at = r.from; at < r.to && same; at += step) {
        int64_t n = r.to - at < step ? r.to - at : step;
        RP_TRY(read_elems(l, e, at, n, l->window));
        RP_TRY(read_elems(l, l->head, at, n, l->window + n));
        same = !memcmp(l->window, l->window + n, (size_t)n * sizeof(float));
    }
    weights_load_drop(l, l->head);
    if (!same) FAIL(l, RP_ERR_FORMAT, "tensors '%.200s' and '%.200s' differ although the config ties them; set 'tie_word_embeddings' to "
                    "false to read both", name_of(e), name_of(l->head));
    return RP_OK;
}

/* ---- reading ---- */

static rp_status store_rotated(const loader *l, const rp_param *p, int64_t at, int64_t n, int64_t unit)
{
    for (int64_t i = 0; i < n; i += unit) RP_TRY(rp__param_store(p, rp__unrotated((at + i) / unit, l->config->head_dim) * unit, l->window + i, unit));
    return RP_OK;
}

/* Stores rows of the file, from at / row on, as columns of the parameter. Each column is gathered after the rows in the window. */
static rp_status store_turned(const loader *l, const rp_param *p, int64_t at, int64_t n, int64_t row)
{
    int64_t first = at / row, rows = n / row, columns = p->whole.dim[1];
    float *column = l->window + n;

    for (int64_t c = 0; c < row; c++) {
        for (int64_t r = 0; r < rows; r++) column[r] = l->window[r * row + c];
        RP_TRY(rp__param_store(p, c * columns + first, column, rows));
    }
    return RP_OK;
}

/* GGUF stores Gemma's norm weights as applied, safetensors stores them minus 1. */
static void subtract_plus(const loader *l, const rp_param *p, int64_t n)
{
    float plus = (float)l->config->norm_plus;

    if (!l->gguf || p->whole.ndim != 1 || strcmp(p->name, "weight") || plus == 0) return;
    for (int64_t i = 0; i < n; i++) l->window[i] -= plus;
}

static rp_status read_elements(loader *l, const part *p, elem_range r)
{
    const rp_param *to = p->param;
    file_tensor t      = p->from;
    int64_t row = row_of(t), room = is_turned(l, to) ? l->window_elems / 2 : l->window_elems, step = row ? room / row * row : 0;

    for (int64_t at = r.from; at < r.to; at += step) {
        int64_t n = r.to - at < step ? r.to - at : step;
        RP_TRY(read_elems(l, t, at, n, l->window));
        subtract_plus(l, to, n);
        if (is_turned(l, to)) RP_TRY(store_turned(l, to, at, n, row));
        else if (is_rotated(l, to)) RP_TRY(store_rotated(l, to, at, n, ndim_of(t) > 1 ? row : 1));
        else RP_TRY(rp__param_store(to, p->first + at, l->window, n));
    }
    return RP_OK;
}

static rp_status read_part(loader *l, const part *p)
{
    const rp_param *to = p->param;

    if (to->mapped) return rp__mapped_load(l, p);
    const rp_quant_load how = { is_turned(l, to), is_rotated(l, to), range_of(l, p, p->from) };
    RP_TRY(rp__is_quant(to->whole.dtype) ? rp__quant_load(l, p, &how) : read_elements(l, p, how.range));
    weights_load_drop(l, p->from);
    if (p->piece + 1 < p->pieces) return RP_OK;
    rp__param_pad(to);
    rp__tensor_wrote(to->tensor, "rp__model_load");
    return RP_OK;
}

/* ---- the whole ---- */

static rp_status take_window(loader *l)
{
    int64_t most = 2;

    for (int i = 0; i < l->n_parts; i++) {
        const rp_meta *m = &l->part[i].m;
        int64_t row = rp_meta_dim(m, is_turned(l, l->part[i].param) ? 0 : -1), elems = rp_meta_elems(m);
        bool whole   = is_turned(l, l->part[i].param) && rp__is_quant(m->dtype);        /* rows are quantised, and a file has columns */
        int64_t need = whole || elems < WINDOW_ELEMS ? elems : WINDOW_ELEMS;
        if (need < row) need = row;
        if (need > most) most = need;
    }
    l->window_elems = 2 * most;         /* check_head uses two halves */
    l->window       = rp__host_alloc(l->ctx, l->window_elems * (int64_t)sizeof *l->window);
    return l->window ? RP_OK : RP_ERR_MEMORY;
}

rp_status rp__weights_check(loader *l)
{
    RP_TRY(rp__weights_pair(l));
    RP_TRY(take_window(l));
    for (int i = 0; i < l->n_parts; i++)
        if (!rp__weight_is_fresh(l, l->part[i].param)) RP_TRY(check_part(l, &l->part[i]));
    if (l->status == RP_OK) RP_TRY(check_head(l));
    return rp__report_status(&l->report, l->status);
}

static rp_status weights_load_all(loader *l)
{
    RP_TRY(rp__weights_check(l));
    for (int i = 0; i < l->n_parts; i++)
        if (!rp__weight_is_fresh(l, l->part[i].param)) RP_TRY(read_part(l, &l->part[i]));
    for (int i = 0; i < rp__model_n_params(l->model); i++)
        if (rp__weight_is_fresh(l, rp__model_param(l->model, i))) rp__model_init_one(l->model, i, l->ctx->seed);
    return RP_OK;
}

rp_status rp__model_load(rp_model *model, rp_model_files *files)
{
    rp_ctx *ctx = rp__model_ctx(model);
    loader l    = { .ctx = ctx, .model = model, .config = rp__model_config(model), .path = files->path };

    if (ctx->options.shapes_only) return RP_OK;
    rp__report_open(&l.report, ctx);
    rp_status status = files->is_gguf ? rp__gguf_open(ctx, files->path, &l.gguf) : rp__safetensors_open(ctx, files->path, &l.st);
    if (status == RP_OK) status = weights_load_all(&l);
    files->fresh    = l.fresh;
    files->left_out = l.left_out;
    rp__safetensors_close(l.st);
    rp__gguf_close(l.gguf);
    RP_RELEASE(l.scales, l.window, l.part);
    rp__report_close(&l.report);
    if (status == RP_OK && files->adapter) return rp__adapter_files_load(files->adapter, model);
    if (status == RP_OK) rp__adapters_init(model, ctx->seed);
    return status;
}
