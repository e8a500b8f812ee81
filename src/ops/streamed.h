/* ops/streamed.h -- a matrix that an op reads a block of rows at a time, in order, and whose gradient it makes so; whole, or in slices over ranks.
 *
 *   whole     a block is a place in it
 *   sliced    block   0      1      2      …      comes into one of two windows while the block before it is multiplied
 *             gradient   0      1      2   …      of a block goes to those who hold it while the next one's is made
 *
 * So of a sliced matrix two blocks are at a rank at once, and of its gradient two and what comes of one from the others (collective.h).
 */
#ifndef RP_OPS_STREAMED_H
#define RP_OPS_STREAMED_H

#include "ops/collective.h"

typedef struct {
    const rp_op_call *c;
    int in;                             /* which input it is */
    bool sliced;
    int64_t rows, width, block;         /* of the whole matrix; rows of a block, of the last one fewer */
    uint8_t *window[2], *gradient[2], *received;    /* of a sliced one, in scratch: a block each, in its dtype and in its gradient's;
                                                       rp__window_room bytes. The gradient's only where one is wanted */
    rp_comm_request coming[2], sent;
    bool begun;
    int64_t on_its_way;                 /* the first row of the block whose gradient is; -1: none */
} rp_streamed;

/* The block that begins with this row. It is good until the next but one is asked for. */
rp_status rp__streamed_block(rp_streamed *s, int64_t row, const void **out);
/* Where the gradient of that block is written: of a sliced matrix assigned, else as grad_adds says. Then it is sent. */
void *rp__streamed_gradient(const rp_streamed *s, int64_t row);
rp_status rp__streamed_send(rp_streamed *s, int64_t row);
/* All gradients are where they belong. */
rp_status rp__streamed_end(rp_streamed *s);

#endif
