/* kernels/gpu/moves.c -- launches the kernels of moves.k. */
#include "kernels/gpu/host.h"

void rp__gpu_op_copy_strips(rp_dtype from_dtype, const void *from, int64_t from_stride, rp_dtype to_dtype, void *to, int64_t to_stride, bool adds,
                            int64_t strips, int64_t width, const rp_on *on)
{
    bool packed = strips == 1 || (from_stride % PACK == 0 && to_stride % PACK == 0);
    strips_args args = { gpu_address(from), gpu_address(to), from_stride, to_stride, strips, width, (int)from_dtype, (int)to_dtype, adds,
                         packed && gpu_packed(0, from, to, NULL, NULL) };

    gpu_line(on, &rp__gpu_copy_strips, gpu_pack_blocks(strips, width), &args);
}

void rp__gpu_op_fill(rp_dtype dtype, void *to, float value, int64_t n, const rp_on *on)
{
    fill_args args = { .to = gpu_address(to), .n = n, .value = value, .dtype = (int)dtype };

    gpu_line(on, &rp__gpu_fill, gpu_blocks(n, FLAT_THREADS), &args);
}

void rp__gpu_op_parts_sum(rp_dtype dtype, const void *parts, int64_t stride, int64_t ranks, void *to, rp_dtype to_dtype, bool adds, int64_t n,
                          const rp_on *on)
{
    parts_args args = { gpu_address(parts), gpu_address(to), stride, ranks, n, (int)dtype, (int)to_dtype, adds,
                        stride % PACK == 0 && gpu_packed(0, parts, to, NULL, NULL) };

    gpu_line(on, &rp__gpu_parts_sum, gpu_pack_blocks(1, n), &args);
}

void rp__gpu_op_embedding_forward(rp_dtype dtype, const void *table, const int32_t *ids, void *y, int64_t count, int64_t n, const rp_on *on)
{
    bool quant          = rp__is_quant(dtype);
    embedding_args args = { gpu_address(table), gpu_address(ids), gpu_address(y), count, n, (int)dtype,
                            gpu_packed(n, quant ? NULL : table, y, NULL, NULL) };

    gpu_line(on, quant ? &rp__gpu_embedding_quant : &rp__gpu_embedding_forward, gpu_pack_blocks(count, n), &args);
}

void rp__gpu_op_embedding_backward(rp_dtype dtype, const void *dy, const int32_t *order, const int32_t *first, void *dtable, rp_dtype dtable_dtype,
                                   bool adds, int64_t vocab, int64_t n, const rp_on *on)
{
    embedding_backward_args args = { gpu_address(dy), gpu_address(order), gpu_address(first), gpu_address(dtable), vocab, n, (int)dtype,
                                     (int)dtable_dtype, adds, gpu_packed(n, dy, dtable, NULL, NULL) };

    gpu_line(on, &rp__gpu_embedding_backward, gpu_pack_blocks(vocab, n), &args);
}

static gather_args gather_of(const rp_gather_shape *g, rp_dtype dtype, const void *from, const int32_t *index, const void *to)
{
    gather_args args = { .from = gpu_address(from), .index = gpu_address(index), .to = gpu_address(to), .outer = g->outer, .m = g->m, .n = g->n,
                         .inner = g->inner, .has_index = g->index.has[0], .ndim = g->index.ndim, .dtype = (int)dtype, .shared = g->shared,
                         .packed = gpu_packed(g->inner, from, to, NULL, NULL) };

    for (int d = 0; d < g->index.ndim; d++) args.dim[d] = g->index.dim[d];
    return args;
}

void rp__gpu_op_gather_forward(rp_dtype dtype, const rp_gather_shape *g, const void *x, const int32_t *index, void *y, const rp_on *on)
{
    gather_args args = gather_of(g, dtype, x, index, y);

    gpu_line(on, &rp__gpu_gather_forward, gpu_pack_blocks(g->outer * g->m, g->inner), &args);
}

void rp__gpu_op_gather_backward(rp_dtype dtype, const rp_gather_shape *g, const void *dy, const int32_t *index, void *dx, rp_dtype dx_dtype, bool adds,
                                float *sums, const rp_on *on)
{
    bool wide        = dx_dtype == RP_BF16;
    int64_t n        = g->outer * g->n * g->inner;
    gather_args args = gather_of(g, dtype, dy, index, wide ? (void *)sums : dx);

    if (wide || !adds) rp__gpu_op_fill(RP_F32, wide ? (void *)sums : dx, 0, n, on);
    gpu_line(on, &rp__gpu_gather_sums, gpu_blocks(g->outer * g->inner, FLAT_THREADS), &args);
    if (wide) rp__gpu_op_copy_strips(RP_F32, sums, n, dx_dtype, dx, n, adds, 1, n, on);
}

void rp__gpu_op_rotary(rp_dtype dtype, const void *x, const int32_t *positions, const float *cosine, const float *sine, void *to, rp_dtype to_dtype,
                       bool adds, bool inverse, int64_t tokens, int64_t heads, int64_t d, int64_t angles, int64_t half, const rp_on *on)
{
    rotary_args args = { gpu_address(x), gpu_address(positions), gpu_address(cosine), gpu_address(sine), gpu_address(to), tokens, heads, d, angles, half,
                         inverse ? -1.0f : 1.0f, (int)dtype, (int)to_dtype, adds };

    gpu_line(on, &rp__gpu_rotary, gpu_blocks(tokens * heads * (d - half), FLAT_THREADS), &args);
}

/* ---- rows of experts ---- */

void rp__gpu_op_spread_rows(rp_dtype dtype, const void *from, const int32_t *place, const float *factor, void *to, rp_dtype to_dtype, bool adds,
                            int64_t tokens, int64_t k, int64_t n, const rp_on *on)
{
    places_args args = { .from = gpu_address(from), .place = gpu_address(place), .factor = gpu_address(factor), .to = gpu_address(to),
                         .tokens = tokens, .k = k, .n = n, .dtype = (int)dtype, .to_dtype = (int)to_dtype, .adds = adds,
                         .packed = gpu_packed(n, from, to, NULL, NULL) };

    gpu_line(on, &rp__gpu_spread_rows, gpu_pack_blocks(tokens * k, n), &args);
}

void rp__gpu_op_gather_rows(rp_dtype dtype, const void *from, const int32_t *place, const float *factor, void *to, rp_dtype to_dtype, bool adds,
                            int64_t tokens, int64_t k, int64_t n, const rp_on *on)
{
    places_args args = { .from = gpu_address(from), .place = gpu_address(place), .factor = gpu_address(factor), .to = gpu_address(to),
                         .tokens = tokens, .k = k, .n = n, .dtype = (int)dtype, .to_dtype = (int)to_dtype, .adds = adds,
                         .packed = gpu_packed(n, from, to, NULL, NULL) };

    gpu_line(on, &rp__gpu_gather_rows, gpu_pack_blocks(tokens, n), &args);
}

void rp__gpu_op_dot_rows(rp_dtype dtype, const void *a, const void *b, const int32_t *place, float *dots, bool adds, int64_t tokens, int64_t k,
                         int64_t n, const rp_on *on)
{
    places_args args = { .from = gpu_address(a), .other = gpu_address(b), .place = gpu_address(place), .to = gpu_address(dots), .tokens = tokens,
                         .k = k, .n = n, .dtype = (int)dtype, .adds = adds, .packed = gpu_packed(n, a, b, NULL, NULL), .team = gpu_team(n) };

    gpu_line(on, &rp__gpu_dot_rows, gpu_row_blocks(tokens * k, args.team), &args);
}
