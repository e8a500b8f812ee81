/* models/gguf/source.c -- reads the rows of a tensor as GGUF orders them, from the files of a model, with its adapter merged in.
 *
 *   safetensors   pieces one after the other; rows of q and k reordered (llama); GPT-2's matrices transposed; Gemma's norms plus 1
 *   GGUF          as they are
 *   adapter       w + scale · b a, in fp32, row by row (models/merge.h); or the adapter's own weight, trained whole
 *
 * Merging sees each matrix as GGUF stores it, [out, in], so the storage order of the layer does not matter. */
#include "models/gguf/internal.h"

#include "models/merge.h"

enum { WINDOW_ELEMS = 1 << 18 };        /* 1 MiB of fp32; a longer row, or a head, is read whole */

bool rp__gguf_name(const rp_family *f, const char *path, char out[RP_WEIGHT_NAME_CHARS])
{
    return rp__weight_name_theirs(f->gguf_name, f->n_gguf_names, path, out);
}

int64_t rp__gguf_our_row(const rp_gguf_model *m, const char *path, int64_t row)
{
    return globs_match(m->config->family->gguf_rotated, path) ? rp__unrotated(row, m->config->head_dim) : row;
}

/* ---- the files ---- */

rp_status rp__gguf_model_open(rp_model *model, rp_model_files *files, rp_gguf_model *m)
{
    rp_ctx *ctx = rp__model_ctx(model);

    *m = (rp_gguf_model){ .ctx = ctx, .model = model, .config = rp__model_config(model), .adapter_files = files->adapter };
    m->files = (rp_weight_loader){ .ctx = ctx, .model = model, .config = m->config, .path = files->path };
    rp__report_open(&m->files.report, ctx);
    RP_TRY(files->is_gguf ? rp__gguf_open(ctx, files->path, &m->files.gguf) : rp__safetensors_open(ctx, files->path, &m->files.st));
    RP_TRY(rp__weights_check(&m->files));
    return files->adapter ? rp__adapter_files_weights(files->adapter, &m->adapter) : RP_OK;
}

void rp__gguf_model_close(rp_gguf_model *m)
{
    rp__safetensors_close(m->adapter);
    rp__safetensors_close(m->files.st);
    rp__gguf_close(m->files.gguf);
    RP_RELEASE(m->files.window, m->files.part);
    rp__report_close(&m->files.report);
}

rp_status rp__gguf_find_change(const rp_gguf_model *m, rp_gguf_source *out)
{
    rp_lora_parts parts;

    out->adapted = m->adapter && out->param == &out->module->param[0] && rp__lora_parts(out->module, &parts);
    if (!m->adapter || !out->param->beside) return RP_OK;
    RP_CHECK(m->ctx, out->param->whole.ndim < 3, RP_ERR_UNSUPPORTED, "'%s' is trained whole; experts are not written to GGUF", out->param->path);
    return rp__adapter_files_find(m->adapter_files, m->adapter, m->config, out->param, &out->whole);
}

rp_status rp__gguf_adapter_part(const rp_gguf_model *m, const rp_param *part, float **out)
{
    const rp_safetensor *t = NULL;

    RP_TRY(rp__adapter_files_find(m->adapter_files, m->adapter, m->config, part, &t));
    float *made = rp__host_alloc(m->ctx, t->elems * (int64_t)sizeof *made);
    if (!made) return RP_ERR_MEMORY;
    rp_status status = rp__safetensors_read(m->adapter, t, 0, t->elems, made);
    if (status == RP_OK) *out = made;
    else rp__release(made);
    return status;
}

/* ---- rows ---- */

typedef struct {
    const rp_gguf_model *m;
    const rp_gguf_source *from;
    const rp_safetensors *set;          /* of the tensor in `st` */
    const rp_safetensor *st;            /* NULL: from->gguf */
    int64_t width, step;                /* elements of a row, rows of a window */
    bool rotated, turned;
    float plus;
    float *window, *other;              /* the rows; before they are reordered, or the whole matrix if it is transposed */
    rp_merge merge;                     /* merge.a NULL: nothing is merged */
    rp_gguf_rows *each;
    void *user;
} reader;

static int64_t our_row(const reader *r, int64_t row) { return r->rotated ? rp__unrotated(row, r->m->config->head_dim) : row; }

/* Rows [at, at + n) of a tensor in safetensors. A window begins and ends with a head if rows are reordered. */
static rp_status fill_from_st(reader *r, int64_t at, int64_t n)
{
    int64_t w = r->width, rows = r->st->elems / w;

    if (r->turned) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < w; k++) r->window[i * w + k] = r->other[k * rows + at + i];
        return RP_OK;
    }
    RP_TRY(rp__safetensors_read(r->set, r->st, at * w, n * w, r->rotated ? r->other : r->window));
    for (int64_t i = 0; i < n && r->rotated; i++) memcpy(r->window + i * w, r->other + (our_row(r, at + i) - at) * w, (size_t)w * sizeof(float));
    for (int64_t i = 0; i < n * w && r->plus != 0; i++) r->window[i] += r->plus;
    return RP_OK;
}

static rp_status fill(reader *r, int64_t at, int64_t n)
{
    return r->st ? fill_from_st(r, at, n) : rp__gguf_read(r->m->files.gguf, r->from->gguf, at * r->width, n * r->width, r->window);
}

typedef rp_status work(reader *r, int64_t at, int64_t n);

static rp_status each_window(reader *r, work *of)
{
    int64_t rows = (r->st ? r->st->elems : r->from->gguf->elems) / r->width;

    for (int64_t at = 0; at < rows; at += r->step) {
        int64_t n = rows - at < r->step ? rows - at : r->step;
        RP_TRY(fill(r, at, n));
        RP_TRY(of(r, at, n));
    }
    return RP_OK;
}

static rp_status measure(reader *r, int64_t at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) rp__merge_measure(&r->merge, RP_F32, our_row(r, at + i) * r->width, r->width, r->window + i * r->width);
    return RP_OK;
}

static rp_status deliver(reader *r, int64_t at, int64_t n)
{
    for (int64_t i = 0; i < n && r->merge.a; i++) {
        float *row = r->window + i * r->width;
        rp__merge_elems(&r->merge, RP_F32, our_row(r, at + i) * r->width, r->width, row, row);
    }
    return r->each(r->user, r->window, n, r->width);
}

/* ---- one tensor ---- */

static rp_status take_adapter(reader *r)
{
    rp_merge *g = &r->merge;
    rp_lora_parts parts;

    if (!r->from->adapted) return RP_OK;
    rp__lora_parts(r->from->module, &parts);
    const rp_meta *a = &parts.a->whole, *b = &parts.b->whole;
    *g = (rp_merge){ .rank = a->dim[0], .in = a->dim[1], .out = b->dim[0], .scale = rp__lora_scale(&parts.lora), .row = -1 };
    RP_TRY(rp__gguf_adapter_part(r->m, parts.a, &g->a));
    RP_TRY(rp__gguf_adapter_part(r->m, parts.b, &g->b));
    if (!(g->delta = rp__host_alloc(r->m->ctx, g->in * (int64_t)sizeof *g->delta))) return RP_ERR_MEMORY;
    if (!parts.magnitude) return RP_OK;
    float *magnitude = NULL;
    RP_TRY(rp__gguf_adapter_part(r->m, parts.magnitude, &magnitude));
    g->squares         = rp__host_alloc(r->m->ctx, g->out * (int64_t)sizeof *g->squares);
    rp_status status   = g->squares ? each_window(r, measure) : RP_ERR_MEMORY;
    g->magnitude       = magnitude;
    if (status == RP_OK) rp__merge_measured(g, RP_F32);
    return status;
}

/* Sizes of windows, for the tensor in `st` or the one of the GGUF file. */
static rp_status take_windows(reader *r)
{
    const rp_safetensor *t = r->st;
    int64_t elems = t ? t->elems : r->from->gguf->elems, ndim = t ? t->ndim : r->from->gguf->ndim;
    int64_t last = ndim ? (t ? t->dim : r->from->gguf->dim)[ndim - 1] : 1, unit = r->rotated ? r->m->config->head_dim : 1;

    r->width = r->turned ? t->dim[0] : r->rotated && ndim == 1 && t ? 1 : last ? last : 1;
    r->step  = WINDOW_ELEMS / r->width / unit * unit;
    if (r->step < unit) r->step = unit;
    r->window = rp__host_alloc(r->m->ctx, r->step * r->width * (int64_t)sizeof *r->window);
    int64_t more = r->turned ? elems : r->rotated && t ? r->step * r->width : 0;
    if (r->window && more) r->other = rp__host_alloc(r->m->ctx, more * (int64_t)sizeof *r->other);
    if (!r->window || (more && !r->other)) return RP_ERR_MEMORY;
    return r->turned ? rp__safetensors_read(r->set, t, 0, elems, r->other) : RP_OK;
}

static rp_status read_one(reader *r)
{
    rp_status status = take_windows(r);

    if (status == RP_OK) status = take_adapter(r);
    if (status == RP_OK) status = each_window(r, deliver);
    RP_RELEASE(r->merge.squares, r->merge.magnitude, r->merge.delta, r->merge.b, r->merge.a, r->other, r->window);
    return status;
}

rp_status rp__gguf_each_row(const rp_gguf_model *m, const rp_gguf_source *from, rp_gguf_rows *rows, void *user)
{
    const rp_param *p     = from->param;
    const rp_family *f    = m->config->family;
    bool st               = from->whole || !from->gguf;
    int64_t pieces        = from->whole || from->gguf ? 1 : from->pieces;
    const reader prepared = {
        .m = m, .from = from, .set = from->whole ? m->adapter : m->files.st, .each = rows, .user = user,
        .rotated = p && globs_match(f->gguf_rotated, p->path),
        .turned = st && p && p->whole.ndim == 2 && globs_match(f->gguf_turned, p->path),
        .plus = st && p && p->whole.ndim == 1 && !strcmp(p->name, "weight") ? (float)m->config->norm_plus : 0,
    };

    for (int64_t i = 0; i < pieces; i++) {
        reader r = prepared;
        r.st     = from->whole ? from->whole : from->gguf ? NULL : from->part[i].from.st;
        RP_TRY(read_one(&r));
    }
    return RP_OK;
}
