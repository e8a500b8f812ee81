/* one_call.h -- one run of an op for the tests: inputs drawn by name, buffers between guards, forward, backward.
 *
 *   each tensor is a view into the middle of a larger block of 0xff bytes (a NaN in every float format):
 *   [ 64 bytes of guard | elements | 64 bytes of guard ]
 *   so a result that is never written is a NaN, a read past the end gives a NaN, and a write past the end changes a guard. Under
 *   AddressSanitizer there is no guard: a read past the end fails, whatever becomes of the value.
 */
#ifndef TESTS_ONE_CALL_H
#define TESTS_ONE_CALL_H

#include "rp_test.h"

#include "kernels/kernels.h"
#include "ops/call.h"

typedef struct {                    /* where and how an op runs */
    const char *name, *device;
    const rp_kernels *table;        /* NULL: as the device has it */
    int threads;
    bool strided;                   /* inputs and their gradients are transposed views */
} variant;

typedef enum { OTHERS_GIVEN, OTHERS_POISONED, OTHERS_NULL } others;

typedef struct {                    /* what a run asks for; all zero: every gradient, assigned, training as the case says */
    uint32_t without_grad;          /* bit i: no gradient of input i */
    bool adds;                      /* gradients are prefilled with prefill_value and added to */
    bool wide;                      /* gradients the op can widen are fp32 */
    others rest;                    /* what backward gets for what the call's `needs` does not list */
    uint32_t poisoned;              /* RP_IN, RP_OUT, RP_SLOT: NaN for backward, although `needs` lists them */
    uint32_t zero_grad_out, null_grad_out;      /* bit j: gradient of output j is zero; missing */
    bool flip_train, replaying;     /* replaying: the forward is one */
    rp_op_stream stream;
    int perturbed;                  /* 1 + index of the input of which … */
    int64_t element;
    double by;                      /* … this element is moved by so much */
    int row_start, row_count;       /* row_count > 0: only these rows of dimension 0, in every input that has the batch of input 0 */
} request;

enum { MAX_BLOCKS = 64 };

typedef struct {
    rp_ctx *ctx;
    const rp_op *op;
    const rp_op_case *test;
    const variant *where;
    rp_dtype dtype, round_to;       /* dtype of the run; dtype that drawn inputs are rounded to */
    request ask;
    int n_in;
    uint64_t key;                   /* what values are drawn with */
    rp_op_meta m;
    rp_tensor *in[RP_MAX_IN], *out[RP_MAX_OUT], *slot[RP_MAX_SLOT], *grad_out[RP_MAX_OUT], *grad_in[RP_MAX_IN];
    rp_tensor *block[MAX_BLOCKS];
    int n_block;
} one_call;

/* Fail the test with op, case, dtype and variant before the sentence. */
void fail_call(const one_call *c, const char *fmt, ...) RP_PRINTF(2, 3);

enum { EMPTY = -1 };                /* in the dimensions of a case, which 0 ends: an extent of 0 */

int case_inputs(const rp_op_case *test);
rp_meta case_meta(const rp_op_case *test, int in, rp_dtype dtype);
bool case_wants(const rp_op *op, const rp_op_case *test, int in);
bool case_trains(const rp_op_case *test, const request *ask);
/* Does this forward change input i? */
bool call_writes(const one_call *c, int in);
/* Sets the key from op and case; call_prepare does it for its own. */
void call_name(one_call *c);
double input_value(const one_call *c, int in, int64_t element);
double grad_out_value(const one_call *c, int out, int64_t element);
double prefill_value(int in, int64_t element);

/* Draw the inputs into ctx and run shape. */
rp_status call_prepare(one_call *c, rp_ctx *ctx, const rp_op *op, const rp_op_case *test, const variant *where, rp_dtype dtype,
                       rp_dtype round_to, const request *ask);
rp_status call_forward(one_call *c);
/* Poison what it made and run it once more, on the same inputs; a replay finds them as the first pass left them. */
rp_status call_forward_recompute(one_call *c);
rp_status call_backward(one_call *c);
void call_free(one_call *c);
/* All three, which must succeed. */
void call_run(one_call *c, rp_ctx *ctx, const rp_op *op, const rp_op_case *test, const variant *where, rp_dtype dtype, rp_dtype round_to,
              const request *ask);

/* The guards of every tensor are as they were, and so are the inputs but those that the op is to write. */
void check_guards(const one_call *c);
/* Equal bits. `what` is "output", "gradient", … */
void check_same(const one_call *c, const char *claim, const char *what, int index, const rp_tensor *got, const rp_tensor *expected);

#endif
