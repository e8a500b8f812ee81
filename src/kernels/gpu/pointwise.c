/* kernels/gpu/pointwise.c -- launches the kernels of pointwise.k. */
#include "kernels/gpu/host.h"

typedef struct { rp_dtype dtype, to_dtype; const void *x, *y; void *to; float factor; bool adds; int64_t n; } flat;

static void flat_launch(const rp_on *on, const rp_gpu_kernel *kernel, const flat *f)
{
    flat_args args = { .x = gpu_address(f->x), .y = gpu_address(f->y), .to = gpu_address(f->to), .n = f->n, .factor = f->factor,
                       .dtype = (int)f->dtype, .to_dtype = (int)f->to_dtype, .adds = f->adds, .packed = gpu_packed(0, f->x, f->y, f->to, NULL) };

    gpu_line(on, kernel, gpu_blocks(f->n, FLAT_THREADS * PACK), &args);
}

static const rp_gpu_kernel *const forward_of[] = {
#define RP_UNARY(NAME, name) [RP_UNARY_##NAME] = &rp__gpu_##name##_forward,
#include "kernels/pointwise.def"
};

static const rp_gpu_kernel *const backward_of[] = {
#define RP_UNARY(NAME, name) [RP_UNARY_##NAME] = &rp__gpu_##name##_backward,
#include "kernels/pointwise.def"
};

void rp__gpu_op_unary_forward(rp_unary f, rp_dtype dtype, const void *x, float parameter, void *y, int64_t n, const rp_on *on)
{
    flat_launch(on, forward_of[f], &(flat){ .dtype = dtype, .to_dtype = dtype, .x = x, .to = y, .factor = parameter, .n = n });
}

void rp__gpu_op_unary_backward(rp_unary f, rp_dtype dtype, const void *of, float parameter, const void *dy, void *dx, rp_dtype dx_dtype, bool adds,
                               int64_t n, const rp_on *on)
{
    flat_launch(on, backward_of[f],
                &(flat){ .dtype = dtype, .to_dtype = dx_dtype, .x = of, .y = dy, .to = dx, .factor = parameter, .adds = adds, .n = n });
}

void rp__gpu_op_swiglu_forward(rp_dtype dtype, const void *gate, const void *up, void *y, int64_t n, const rp_on *on)
{
    flat_launch(on, &rp__gpu_swiglu_forward, &(flat){ .dtype = dtype, .to_dtype = dtype, .x = gate, .y = up, .to = y, .n = n });
}

void rp__gpu_op_swiglu_backward(rp_dtype dtype, const void *gate, const void *up, const void *dy, void *dgate, rp_dtype dgate_dtype,
                                bool dgate_adds, void *dup, rp_dtype dup_dtype, bool dup_adds, int64_t n, const rp_on *on)
{
    swiglu_args args = { gpu_address(gate), gpu_address(up), gpu_address(dy), gpu_address(dgate), gpu_address(dup), n, (int)dtype,
                         (int)dgate_dtype, (int)dup_dtype, dgate_adds, dup_adds,
                         gpu_packed(0, gate, up, dy, NULL) && gpu_packed(0, dgate, dup, NULL, NULL) };

    gpu_line(on, &rp__gpu_swiglu_backward, gpu_blocks(n, FLAT_THREADS * PACK), &args);
}

/* ---- operands that broadcast ---- */

#define RP_BINARY(NAME, name) [RP_BINARY_##NAME] = { &rp__gpu_##name##_forward, &rp__gpu_##name##_da, &rp__gpu_##name##_db },
static const rp_gpu_kernel *const binary_of[][3] = {
#include "kernels/pointwise.def"
};

_Static_assert(sizeof((spread_args){ 0 }.dim) == RP_MAX_DIM * sizeof(int64_t), "spread_args has all dimensions");

typedef struct { rp_dtype dtype, to_dtype; const void *dy, *a, *b; const int32_t *mask; void *to; bool adds; } binary_call;

/* kept: the extents of `to`. */
static void spread_launch(const rp_on *on, const rp_gpu_kernel *kernel, const rp_spread *s, uint32_t kept, const binary_call *c)
{
    uint32_t all     = (1u << s->ndim) - 1;
    spread_args args = { .dy = gpu_address(c->dy), .a = gpu_address(c->a), .b = gpu_address(c->b), .mask = gpu_address(c->mask), .to = gpu_address(c->to),
                         .n = rp__spread_count(s, all), .elems = rp__spread_count(s, kept), .terms = rp__spread_count(s, all & ~kept), .ndim = s->ndim,
                         .has_a = s->has[0], .has_b = s->has[1], .has_mask = s->has[2], .kept = kept, .dtype = (int)c->dtype,
                         .to_dtype = (int)c->to_dtype, .adds = c->adds, .sums = kept != all,
                         .flat = s->ndim == 1 && (!c->a || s->has[0]) && (!c->b || s->has[1]),
                         .packed = gpu_packed(0, c->dy, c->to, NULL, NULL) && gpu_packed(0, c->a, c->b, NULL, NULL) };

    for (int d = 0; d < s->ndim; d++) args.dim[d] = s->dim[d];
    if (kept >> (s->ndim - 1) & 1) args.lanes = args.terms < 8 ? FLAT_THREADS : 32;
    else args.lanes = args.terms < 64 ? 32 : 1;
    gpu_line(on, kernel, args.sums ? gpu_blocks(args.elems, args.lanes) : gpu_blocks(args.n, FLAT_THREADS * PACK), &args);
}

void rp__gpu_op_binary_forward(rp_binary f, rp_dtype dtype, const rp_spread *s, const void *a, const void *b, const int32_t *mask, void *y,
                               const rp_on *on)
{
    spread_launch(on, binary_of[f][0], s, (1u << s->ndim) - 1, &(binary_call){ .dtype = dtype, .to_dtype = dtype, .a = a, .b = b, .mask = mask, .to = y });
}

void rp__gpu_op_binary_backward(rp_binary f, int of, rp_dtype dtype, const rp_spread *s, const void *dy, const void *a, const void *b,
                                const int32_t *mask, void *d, rp_dtype d_dtype, bool adds, const rp_on *on)
{
    spread_launch(on, binary_of[f][1 + of], s, s->has[of],
                  &(binary_call){ .dtype = dtype, .to_dtype = d_dtype, .dy = dy, .a = a, .b = b, .mask = mask, .to = d, .adds = adds });
}

void rp__gpu_op_dropout(rp_dtype dtype, const void *x, void *to, rp_dtype to_dtype, bool adds, rp_stream stream, float p, int64_t rows, int64_t n,
                        const rp_on *on)
{
    dropout_args args = { .x = gpu_address(x), .to = gpu_address(to), .rows = rows, .n = n, .key = stream.key,
                          .stream = gpu_stream(on, stream), .p = p, .kept = p < 1 ? 1.0f / (1.0f - p) : 0.0f, .dtype = (int)dtype,
                          .to_dtype = (int)to_dtype, .adds = adds, .packed = gpu_packed(n, x, to, NULL, NULL) };

    gpu_line(on, &rp__gpu_dropout, gpu_pack_blocks(rows, n), &args);
}
