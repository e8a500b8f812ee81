/* ops/common.h -- helpers for ops: checks with uniform messages, the cost that follows from declarations, element loops for
 * references. */
#ifndef RP_OPS_COMMON_H
#define RP_OPS_COMMON_H

#include "base/quant.h"
#include "ops/op_internal.h"

/* Checks that every input is floating and has the dtype of input 0. errors RP_ERR_DTYPE */
rp_status rp__check_one_dtype(const rp_op_meta *m);
/* The same, and that all inputs have its shape. errors RP_ERR_DTYPE · RP_ERR_SHAPE */
rp_status rp__check_one_shape(const rp_op_meta *m);
/* The shape function of ops whose inputs and one output have one floating dtype and shape. errors RP_ERR_DTYPE · RP_ERR_SHAPE */
rp_status rp__same_shape(rp_op_meta *m);
/* For shape: checks a size that an attribute or several inputs describe, before other sizes are computed from it. `name` is for the message.
 * errors RP_ERR_SHAPE negative or too large */
rp_status rp__check_size(const rp_op_meta *m, const char *name, const rp_meta *size);
/* For shape of ops with a weight, input `w`, that may be quantised: whether its dtype is x's floating dtype, or quantised. */
bool rp__weight_fits(const rp_op_meta *m, int x, int w);
/* Refuses the gradient of a quantised weight. errors RP_ERR_DTYPE */
rp_status rp__check_weight_grad(const rp_op_meta *m, int w);
/* For references: element of such a weight, rounded to x's dtype as kernels round it. */
double rp__weight_get(const rp_op_call *c, int x, int w, int64_t element);
/* For kernels: the product's B is this input, from element `first` on; returns the address to pass as B. */
const void *rp__weight_at(const rp_op_call *c, int w, int64_t first, rp_gemm *g);

/* Checks that input `in` is int32; `name` is for the message. errors RP_ERR_DTYPE */
rp_status rp__check_int32(const rp_op_meta *m, int in, const char *name);
/* Converts a dimension counted from either end to one counted from the front. errors RP_ERR_SHAPE no such dimension */
rp_status rp__check_dim(const rp_op_meta *m, int given, int *dim);

/* Cost with the given flops and the bytes that the call declares. Forward reads its inputs and writes outputs and slots. Backward reads the tensors
 * in `needs` and the outputs' gradients, and writes the wanted gradients. */
rp_cost rp__cost(const rp_op_meta *m, rp_pass pass, int64_t flops);

/* Cost of y = x w, with in[x] and in[w]; flops are those of forward. Backward reads each operand once, for the gradient of the other. */
rp_cost rp__product_cost(const rp_op_meta *m, rp_pass pass, int x, int w, int64_t flops);

/* Grows y's shape so that `in` broadcasts to it by numpy's rules. False and y unchanged if it cannot. */
bool rp__broadcast(rp_meta *y, const rp_meta *in);
/* How operands, which may be NULL, broadcast to y. */
rp_spread rp__spread(const rp_meta *y, const rp_meta *a, const rp_meta *b, const rp_meta *c);

/* A tensor as [outer, n, inner], where n is one dimension. */
typedef struct { int64_t outer, n, inner; } rp_around;
rp_around rp__around(const rp_meta *m, int dim);

/* A part of a tensor: strips of `width` elements, `stride` apart, the first at `start`. A range of one dimension is such a part. */
typedef struct { int64_t strips, width, start, stride; } rp_strips;
static inline int64_t rp__strip_at(rp_strips p, int64_t e) { return p.start + e / p.width * p.stride + e % p.width; }
/* Address of an element of a dense tensor; of a quantised one, of the tensor. */
void *rp__data_at(const rp_tensor *t, int64_t element);

/* Assigns or adds one element of a gradient, as grad_adds says. Each element must be written only once. */
void rp__elem_grad(const rp_op_call *c, int in, int64_t element, double value);

/* Checks that each element of an int32 input is in [0, limit), or equals *other if `other` is given. An unchanged tensor is read once, not at each call.
 * The message: "embedding: token id 7 at position 3 is outside [0, 5)", with the name "token id" and the place "at position". errors RP_ERR_ARG */
rp_status rp__check_ints(const rp_op_call *c, int in, int64_t limit, const int32_t *other, const char *name, const char *place);
/* For forward: states that all elements of this int32 output are in [0, limit), so that rp__check_ints need not read them. */
void rp__ints_within(const rp_op_call *c, int out, int64_t limit);
/* For references: replaces x [n] by softmax(x). */
void rp__row_softmax(double *x, int64_t n);
/* For references: replaces x [n] by softmax(x) - onehot(label); returns -log softmax(x)[label]. */
double rp__row_cross_entropy(double *x, int64_t n, int32_t label);

static inline rp_dtype rp__grad_dtype(const rp_op_call *c, int in) { return c->grad_in[in] ? c->grad_in[in]->m.dtype : RP_F32; }
static inline bool rp__op_has_kernels(const rp_op_call *c) { return rp__op_kernels(c) != rp__kernels_none(); }
static inline rp_stream rp__stream(const rp_op_call *c)
{
    return (rp_stream){ c->stream.key, c->stream.step, c->stream.sample_base };
}

#endif
