/* kernels/pointwise.h -- the functions of pointwise.def, and how operands broadcast. */
#ifndef RP_POINTWISE_H
#define RP_POINTWISE_H

#include "base/base.h"

typedef enum {
#define RP_UNARY(NAME, name) RP_UNARY_##NAME,
#include "kernels/pointwise.def"
} rp_unary;

/* The functions of two numbers and a mask. */
typedef enum {
#define RP_BINARY(NAME, name) RP_BINARY_##NAME,
#include "kernels/pointwise.def"
} rp_binary;

/* How three dense operands broadcast to a dense y. dim: the extents of y without those of 1; neighbours that all operands have or lack alike are one.
 * Bit d of has[k]: operand k has extent d; without it, each of its elements stands for all of the extent. An operand that is not there has none. */
enum { RP_SPREAD_OPERANDS = 3 };
typedef struct { int ndim; uint32_t has[RP_SPREAD_OPERANDS]; int64_t dim[RP_MAX_DIM]; } rp_spread;
#define RP_SPREAD_ALL UINT32_MAX

/* The number of elements of the extents in the set `over` (bit d: extent d). */
static inline int64_t rp__spread_count(const rp_spread *s, uint32_t over)
{
    int64_t n = 1;

    for (int d = 0; d < s->ndim; d++) n *= over >> d & 1 ? s->dim[d] : 1;
    return n;
}

typedef struct { int64_t y, of[RP_SPREAD_OPERANDS]; } rp_spread_place;

/* The elements of y and of the operands that belong to element i, in row-major order, of the extents in `over`. Other indices are 0. */
static inline rp_spread_place rp__spread_at(const rp_spread *s, uint32_t over, int64_t i)
{
    rp_spread_place p   = { 0 };
    int64_t step = 1, of[RP_SPREAD_OPERANDS] = { 1, 1, 1 };

    for (int d = s->ndim - 1; d >= 0; d--) {
        int64_t index = over >> d & 1 ? i % s->dim[d] : 0;
        if (over >> d & 1) i /= s->dim[d];
        p.y += index * step;
        step *= s->dim[d];
        for (int k = 0; k < RP_SPREAD_OPERANDS; k++) {
            if (!(s->has[k] >> d & 1)) continue;
            p.of[k] += index * of[k];
            of[k] *= s->dim[d];
        }
    }
    return p;
}

/* Elements of x [outer, n, inner] by index: y [outer, m, inner]. index: how the index broadcasts to y, as operand 0. shared: an index holds for all
 * of inner. */
typedef struct { int64_t outer, m, n, inner; bool shared; rp_spread index; } rp_gather_shape;

enum { RP_MSE_BLOCK = 4096 };   /* elements of a squared error that are summed in fp32 */

#endif
