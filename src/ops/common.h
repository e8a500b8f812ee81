/* ops/common.h -- what several ops share: checks that word their errors alike, the cost that follows from declarations, element
 * loops for references. */
#ifndef RP_OPS_COMMON_H
#define RP_OPS_COMMON_H

#include "ops/op_internal.h"

/* Every input is floating and has the dtype of input 0. */
rp_status rp__check_one_dtype(const rp_op_meta *m);
/* … and its shape too. */
rp_status rp__check_one_shape(const rp_op_meta *m);
/* For shape, of a tensor that an attribute or several inputs describe, before sizes are computed from it. errors RP_ERR_SHAPE it is too large */
rp_status rp__check_size(const rp_op_meta *m, const char *what, const rp_meta *size);
rp_status rp__check_int32(const rp_op_meta *m, int in, const char *what);
/* A dimension counted from either end, as one from the front. errors RP_ERR_SHAPE there is none */
rp_status rp__check_dim(const rp_op_meta *m, int given, int *dim);

/* flops as given; bytes from what the call declares: forward reads its inputs and writes outputs and slots, backward reads what
 * `needs` lists and the outputs' gradients and writes the wanted gradients. */
rp_cost rp__cost(const rp_op_meta *m, rp_pass pass, int64_t flops);

/* Of y = x w, in[x] and in[w], whose forward takes so many flops: each operand is read once, for the gradient of the other. */
rp_cost rp__product_cost(const rp_op_meta *m, rp_pass pass, int x, int w, int64_t flops);

/* A tensor seen as [outer, n, inner] around one dimension. */
typedef struct { int64_t outer, n, inner; } rp_around;
rp_around rp__around(const rp_meta *m, int dim);

/* A part of a tensor, as along one dimension: strips of `width` elements, `stride` apart, the first at `start`. */
typedef struct { int64_t strips, width, start, stride; } rp_strips;
static inline int64_t rp__strip_at(rp_strips p, int64_t e) { return p.start + e / p.width * p.stride + e % p.width; }
/* Address of an element of a dense tensor. */
void *rp__data_at(const rp_tensor *t, int64_t element);

/* Put or add one element of a gradient, as grad_adds says. For a gradient whose elements are each written once. */
void rp__elem_grad(const rp_op_call *c, int in, int64_t element, double value);

/* An op of one input, one output of its shape and no slot: y = f(x, parameter) and dx = dy * slope(of, parameter), where `of` is
 * the input or the output the op needs. By the kernel, or if there is none by the reference f or slope. */
rp_status rp__unary_shape(rp_op_meta *m);
void rp__unary_forward(const rp_op_call *c, rp_kernel_relu_forward *kernel, double (*f)(double x, double parameter), double parameter);
void rp__unary_backward(const rp_op_call *c, rp_kernel_relu_backward *kernel, const rp_tensor *of, double (*slope)(double x, double parameter),
                        double parameter);

/* Labels of in[labels] are in [0, classes) or `ignore`. errors RP_ERR_ARG names the first that is not */
rp_status rp__check_labels(const rp_op_call *c, int labels, int64_t classes, int32_t ignore);
/* For references: x [n] becomes softmax(x) - onehot(label); returns -log softmax(x)[label]. */
double rp__row_cross_entropy(double *x, int64_t n, int32_t label);

static inline rp_dtype rp__grad_dtype(const rp_op_call *c, int in) { return c->grad_in[in] ? c->grad_in[in]->m.dtype : RP_F32; }
static inline bool rp__op_has_kernels(const rp_op_call *c) { return rp__op_kernels(c) != rp__kernels_none(); }
static inline rp_stream rp__stream(const rp_op_call *c)
{
    return (rp_stream){ c->stream.key, c->stream.step, c->stream.sample_base };
}

#endif
