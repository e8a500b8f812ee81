/* ops/streamed.h -- a matrix that an op reads in blocks of rows, in order, and whose gradient it writes in the same way. The matrix may be whole, or
 * sliced over ranks.
 *
 *   whole     a block is a position in it
 *   sliced    block   0      1      2      …      is fetched into one of two windows while the block before it is multiplied. A quantised matrix
 *                                                 is fetched as bytes, from the start of the block's first group on (base/quant.h)
 *             gradient   0      1      2   …      of a block is sent to the ranks that hold it while the next one is computed
 *
 * So a rank has two blocks of a sliced matrix at a time, two of its gradient, and the data received for one (collective.h).
 */
#ifndef RP_OPS_STREAMED_H
#define RP_OPS_STREAMED_H

#include "ops/collective.h"

typedef struct {
    const rp_op_call *c;
    int in;                             /* index of the input */
    rp_dtype dtype;                     /* of the matrix; the slice of a quantised one is uint8 */
    bool sliced;
    int64_t rows, width, block;         /* of the whole matrix; rows of a block, the last one may have fewer */
    uint8_t *window[2], *gradient[2], *received;    /* of a sliced matrix, in scratch: one block each, in the matrix's and in the gradient's dtype;
                                                       rp__window_room bytes. The last two only if a gradient is wanted */
    rp_comm_request coming[2], sent;
    bool begun;
    int64_t on_its_way;                 /* first row of the block whose gradient is in flight; -1: none */
} rp_streamed;

/* Sets *out to the block that begins with this row. It is valid until the block after next is requested. errors as rp__comm_gather */
rp_status rp__streamed_block(rp_streamed *s, int64_t row, const void **out);
/* The element at which the block begins there. Not 0 only for a quantised matrix, which is decoded from its start or from the start of a group. */
int64_t rp__streamed_first(const rp_streamed *s, int64_t row);
/* For shape: bytes of the window for a block of `elems` elements. */
int64_t rp__streamed_window(rp_dtype dtype, int64_t elems);
/* Where to write the gradient of that block: assign it if the matrix is sliced, else as grad_adds says. Then call rp__streamed_send.
 * errors as rp__comm_exchange */
void *rp__streamed_gradient(const rp_streamed *s, int64_t row);
rp_status rp__streamed_send(rp_streamed *s, int64_t row);
/* Waits until all gradients are summed into the slice. errors as rp__comm_exchange */
rp_status rp__streamed_end(rp_streamed *s);

#endif
