/* ops/linear_cross_entropy.h -- what the two ways to the loss have in common: places, sizes, and the reference, a row at a time in double.
 *
 *   linear_cross_entropy.c             shape, cost, and the kernels, a block of classes at a time
 *   linear_cross_entropy_reference.c   what these are held against: all logits of a row, a sliced w gathered whole
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
/* Of the whole w. */
static inline int64_t elems_of(const rp_op_meta *m) { return classes_of(m) * width_of(m); }
static inline int64_t rows_of(const rp_op_meta *m) { return rp_meta_rows(&m->in[X]); }
static inline bool has_bias(const rp_op_meta *m) { return m->n_in > BIAS; }
static inline double softcap_of(const rp_op_meta *m) { return ((const rp_attr_cross_entropy *)m->attr)->softcap; }

/* Classes of a block, of so many rows and bytes an element; chunks: the attribute. */
int64_t rp__head_block(int64_t rows, int64_t classes, int64_t bytes, int64_t chunks);

/* For shape. */
int64_t rp__reference_loss_scratch(const rp_op_meta *m, bool backward);
/* The sum over rows, before the weight; fills lse where it is wanted. */
double rp__reference_loss(const rp_op_call *c);
/* factor: of the weight and the loss's own gradient. */
void rp__reference_loss_gradients(const rp_op_call *c, double factor);

#endif
