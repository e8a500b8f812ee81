/* tensor/meta.c -- dtypes and shapes, without data. */
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

#include "base/quant.h"

static const struct { const char *name; int64_t bytes; } dtypes[RP_Q4_0] = {
    [RP_F32] = { "fp32", 4 }, [RP_BF16] = { "bf16", 2 }, [RP_I32] = { "int32", 4 }, [RP_F64] = { "fp64", 8 },
    [RP_U8] = { "uint8", 1 },
};

const char *rp_dtype_name(rp_dtype d)
{
    return rp__is_quant(d) ? rp__quant_type(d)->name : (unsigned)d < RP_Q4_0 ? dtypes[d].name : "unknown dtype";
}

int64_t rp_dtype_bytes(rp_dtype d) { return (unsigned)d < RP_Q4_0 ? dtypes[d].bytes : 0; }

int64_t rp_meta_dim(const rp_meta *m, int i)
{
    if (!m) return 1;
    if (i < 0) i += m->ndim;
    return i >= 0 && i < m->ndim ? m->dim[i] : 1;
}

int64_t rp_meta_elems(const rp_meta *m)
{
    if (!m) return 0;
    int64_t n = 1;

    for (int i = 0; i < m->ndim; i++) n *= m->dim[i];
    return n;
}

int64_t rp_meta_rows(const rp_meta *m)
{
    if (!m) return 0;
    int64_t n = 1;

    for (int i = 0; i < m->ndim - 1; i++) n *= m->dim[i];
    return n;
}

int64_t rp_meta_bytes(const rp_meta *m)
{
    if (!m) return 0;
    return rp__is_quant(m->dtype) ? rp__quant_bytes(rp__quant_type(m->dtype), rp_meta_elems(m)) : rp_meta_elems(m) * rp_dtype_bytes(m->dtype);
}

int64_t rp__sliced_elems(const rp_meta *m) { return rp__is_quant(m->dtype) ? rp_meta_bytes(m) : rp_meta_elems(m); }
int64_t rp__sliced_bytes(rp_dtype dtype) { return rp__is_quant(dtype) ? 1 : rp_dtype_bytes(dtype); }

bool rp_meta_same_shape(const rp_meta *a, const rp_meta *b)
{
    if (!a || !b) return false;
    return a->ndim == b->ndim && !memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof a->dim[0]);
}

bool rp_meta_same(const rp_meta *a, const rp_meta *b)
{
    if (!a || !b) return false;
    return a->dtype == b->dtype && rp_meta_same_shape(a, b);
}

uint64_t rp__meta_hash(const rp_meta *m, uint64_t seed)
{
    int64_t head[] = { (int64_t)m->dtype, m->ndim };

    return rp__hash(m->dim, (size_t)m->ndim * sizeof *m->dim, rp__hash(head, sizeof head, seed));
}

rp_meta rp_meta_make(rp_dtype dtype, int ndim, const int64_t *dim)
{
    rp_meta m = { .dtype = dtype, .ndim = ndim };

    for (int i = 0; dim && i < ndim && i < RP_MAX_DIM; i++) m.dim[i] = dim[i];
    return m;
}

rp_meta rp_meta_1d(rp_dtype dtype, int64_t n) { return (rp_meta){ dtype, 1, { n } }; }
rp_meta rp_meta_2d(rp_dtype dtype, int64_t rows, int64_t n) { return (rp_meta){ dtype, 2, { rows, n } }; }

const char *rp_meta_str(const rp_meta *m)
{
    if (!m) return "no shape";
    enum { RING = 8, CHARS = 224 };      /* of the longest: an unknown dtype, all extents, and the number of further ones */
    static _Thread_local char ring[RING][CHARS];
    static _Thread_local unsigned next;
    char *text = ring[next++ % RING];
    int used   = snprintf(text, CHARS, "%s [", rp_dtype_name(m->dtype));

    for (int i = 0; i < m->ndim && i < RP_MAX_DIM && used < CHARS; i++)
        used += snprintf(text + used, (size_t)(CHARS - used), "%s%" PRId64, i ? ", " : "", m->dim[i]);
    if (m->ndim > RP_MAX_DIM && used < CHARS) used += snprintf(text + used, (size_t)(CHARS - used), ", and %d more", m->ndim - RP_MAX_DIM);
    if (used < CHARS - 1) snprintf(text + used, (size_t)(CHARS - used), "]");
    return text;
}

rp_dtype rp_meta_stat_dtype(const rp_meta *m)
{
    if (!m) return RP_F32;
    return m->dtype == RP_F64 ? RP_F64 : RP_F32;
}

bool rp_meta_is_float(const rp_meta *m)
{
    if (!m) return false;
    return m->dtype == RP_F32 || m->dtype == RP_BF16 || m->dtype == RP_F64;
}

/* The limit on a tensor's bytes. An extent of 0 counts as 1, so that sizes of parts and strides do not overflow either. The limit is far below
 * int64_t's, so ops may multiply two extents of their inputs and add a few such products. */
static const int64_t most_bytes = INT64_C(1) << 56;

rp_status rp__meta_check(rp_ctx *ctx, const rp_meta *m)
{
    const rp_quant_type *quant = rp__quant_type(m->dtype);
    int64_t bytes              = quant ? 2 : rp_dtype_bytes(m->dtype);      /* 2: more than an element of any quantised type has */

    RP_CHECK(ctx, bytes > 0, RP_ERR_DTYPE, "dtype %d is unknown", (int)m->dtype);
    RP_CHECK(ctx, m->ndim >= 0 && m->ndim <= RP_MAX_DIM, RP_ERR_SHAPE, "a tensor has 0 to %d dimensions, not %d", RP_MAX_DIM,
             m->ndim);
    for (int i = 0; i < m->ndim; i++) {
        RP_CHECK(ctx, m->dim[i] >= 0, RP_ERR_SHAPE, "dimension %d is %" PRId64, i, m->dim[i]);
        int64_t extent = m->dim[i] ? m->dim[i] : 1;
        RP_CHECK(ctx, extent <= most_bytes / bytes, RP_ERR_SHAPE, "%s is too large", rp_meta_str(m));
        bytes *= extent;
    }
    RP_CHECK(ctx, !quant || rp_meta_dim(m, -1) % quant->block_elems == 0, RP_ERR_SHAPE, "rows of %s are not whole blocks of %" PRId64 " elements",
             rp_meta_str(m), quant->block_elems);
    return RP_OK;
}
