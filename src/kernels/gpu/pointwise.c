/* kernels/gpu/pointwise.c -- launches the kernels of pointwise.k. */
#include "kernels/gpu/host.h"

typedef struct { rp_dtype dtype, to_dtype; const void *x, *y; void *to; float factor; bool adds; int64_t n; } flat;

static void flat_launch(const rp_on *on, const rp_gpu_kernel *kernel, const flat *f)
{
    flat_args args = { .x = gpu_address(f->x), .y = gpu_address(f->y), .to = gpu_address(f->to), .n = f->n, .factor = f->factor,
                       .dtype = (int)f->dtype, .to_dtype = (int)f->to_dtype, .adds = f->adds, .packed = gpu_packed(0, f->x, f->y, f->to, NULL) };

    gpu_line(on, kernel, gpu_blocks(f->n, FLAT_THREADS * PACK), &args);
}

#define UNARY(name) \
    void rp__gpu_op_##name##_forward(rp_dtype dtype, const void *x, void *y, int64_t n, const rp_on *on) \
    { \
        flat_launch(on, &rp__gpu_##name##_forward, &(flat){ .dtype = dtype, .to_dtype = dtype, .x = x, .to = y, .n = n }); \
    } \
    void rp__gpu_op_##name##_backward(rp_dtype dtype, const void *x, const void *dy, void *dx, rp_dtype dx_dtype, bool adds, int64_t n, \
                                      const rp_on *on) \
    { \
        flat_launch(on, &rp__gpu_##name##_backward, \
                    &(flat){ .dtype = dtype, .to_dtype = dx_dtype, .x = x, .y = dy, .to = dx, .adds = adds, .n = n }); \
    }

UNARY(gelu_tanh)
UNARY(gelu_erf)
UNARY(silu)
UNARY(relu)
UNARY(relu2)

void rp__gpu_op_add(rp_dtype dtype, const void *a, const void *b, void *to, int64_t n, const rp_on *on)
{
    flat_launch(on, &rp__gpu_add, &(flat){ .dtype = dtype, .to_dtype = dtype, .x = a, .y = b, .to = to, .n = n });
}

void rp__gpu_op_mul(rp_dtype dtype, const void *a, const void *b, void *to, rp_dtype to_dtype, bool adds, int64_t n, const rp_on *on)
{
    flat_launch(on, &rp__gpu_mul, &(flat){ .dtype = dtype, .to_dtype = to_dtype, .x = a, .y = b, .to = to, .adds = adds, .n = n });
}

void rp__gpu_op_scale(rp_dtype dtype, const void *x, float factor, void *to, rp_dtype to_dtype, bool adds, int64_t n, const rp_on *on)
{
    flat_launch(on, &rp__gpu_scale, &(flat){ .dtype = dtype, .to_dtype = to_dtype, .x = x, .to = to, .factor = factor, .adds = adds, .n = n });
}

void rp__gpu_op_softcap_forward(rp_dtype dtype, const void *x, float cap, void *y, int64_t n, const rp_on *on)
{
    flat_launch(on, &rp__gpu_softcap_forward, &(flat){ .dtype = dtype, .to_dtype = dtype, .x = x, .to = y, .factor = cap, .n = n });
}

void rp__gpu_op_softcap_backward(rp_dtype dtype, const void *x, float cap, const void *dy, void *dx, rp_dtype dx_dtype, bool adds, int64_t n,
                                 const rp_on *on)
{
    flat_launch(on, &rp__gpu_softcap_backward,
                &(flat){ .dtype = dtype, .to_dtype = dx_dtype, .x = x, .y = dy, .to = dx, .factor = cap, .adds = adds, .n = n });
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

void rp__gpu_op_dropout(rp_dtype dtype, const void *x, void *to, rp_dtype to_dtype, bool adds, rp_stream stream, float p, int64_t rows, int64_t n,
                        const rp_on *on)
{
    dropout_args args = { .x = gpu_address(x), .to = gpu_address(to), .rows = rows, .n = n, .key = stream.key,
                          .stream = gpu_stream(on, stream), .p = p, .kept = p < 1 ? 1.0f / (1.0f - p) : 0.0f, .dtype = (int)dtype,
                          .to_dtype = (int)to_dtype, .adds = adds, .packed = gpu_packed(n, x, to, NULL, NULL) };

    gpu_line(on, &rp__gpu_dropout, gpu_pack_blocks(rows, n), &args);
}
