/* ops/linear_cross_entropy.h -- shared by both implementations of the loss: inputs, sizes, and the reference, one row at a time in double.
 *
 *   linear_cross_entropy.c             shape, cost, and the kernels, one block of classes at a time
 *   linear_cross_entropy_reference.c   the reference for tests: all logits of a row, a sliced w gathered whole
 */
#ifndef RP_OPS_LINEAR_CROSS_ENTROPY_H
#define RP_OPS_LINEAR_CROSS_ENTROPY_H

#include "ops/common.h"

enum { X, W, LABELS, BIAS };
enum { LOSS };
enum { LSE, LOGITS };

static inline bool is_sliced(const rp_op_meta *m) { return ((const rp_attr_cross_entropy *)m->attr)->classes > 0; }
static inline int64_t classes_of(const rp_op_meta *m) { return is_sliced(m) ? ((const rp_attr_cross_entropy *)m->attr)->classes : m->in[W].dim[0]; }
static inline int64_t width_of(const rp_op_meta *m) { return rp_meta_dim(&m->in[X], -1); }
/* The whole w, of which a slice of a quantised one has bytes. */
static inline rp_meta whole_of(const rp_op_meta *m)
{
    bool bytes = is_sliced(m) && m->in[W].dtype == RP_U8;

    return rp_meta_2d(bytes ? (rp_dtype)((const rp_attr_cross_entropy *)m->attr)->dtype : m->in[W].dtype, classes_of(m), rp_meta_dim(&m->in[X], -1));
}
/* Elements of the whole w. */
static inline int64_t elems_of(const rp_op_meta *m) { return classes_of(m) * width_of(m); }
static inline int64_t rows_of(const rp_op_meta *m) { return rp_meta_rows(&m->in[X]); }
static inline bool has_bias(const rp_op_meta *m) { return m->n_in > BIAS; }
static inline double softcap_of(const rp_op_meta *m) { return ((const rp_attr_cross_entropy *)m->attr)->softcap; }

/* Classes per block on the context's device, for this many rows and bytes per element; chunks: the attribute. */
int64_t rp__head_block(const rp_ctx *ctx, int64_t rows, int64_t classes, int64_t bytes, int64_t chunks);

/* For shape: bytes of scratch. */
int64_t rp__reference_loss_scratch(const rp_op_meta *m, bool backward);
/* The sum over rows, without the weight; fills lse if it is wanted. */
double rp__reference_loss(const rp_op_call *c);
/* factor: the weight times the loss's own gradient. */
void rp__reference_loss_gradients(const rp_op_call *c, double factor);

#endif
