/* reprise/op.h -- the interface of ops, for their authors. An op is one file in src/ops and one line in src/ops/ops.def; docs/howto/op.md
 * explains each step. A program registers its own ops with rp_op_register.
 *
 *   shape      runs first, in rehearsals too. It checks the inputs and declares out[], slot[] and the scratch bytes, from shapes and attributes
 *              alone, never from contents. It refuses wrong inputs with rp_fail
 *   cost       FLOPs and bytes of one pass. NULL: one FLOP an element, each byte moved once
 *   needs      exactly the tensors that backward reads: RP_IN(i) | RP_OUT(i) | RP_SLOT(i). `shape` may clear bits of the call's copy if the wanted
 *              gradients read less. Tests catch a read of anything else
 *   forward, backward   can neither fail nor allocate. A gradient has the dtype of its tensor (that of a parameter may be wider). grad_in[i] is NULL
 *              if that gradient is not wanted. Whether to add or assign: rp_row_grad does the right one, c->grad_adds[i] says which
 *   empty      Extents may be 0, and a sum or product over nothing is 0. An op is not called to write nothing: forward is skipped if all outputs
 *              and slots are empty (and the op has no effect), and backward is asked for no gradient without elements
 */
#ifndef REPRISE_OP_H
#define REPRISE_OP_H

#include "reprise/reprise.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RP_MAX_IN 8
#define RP_MAX_OUT 8
#define RP_MAX_SLOT 4
#define RP_MAX_ATTR 80                      /* bytes */

#define RP_IN(i) (UINT32_C(1) << (i))
#define RP_OUT(i) (UINT32_C(1) << (8 + (i)))
#define RP_SLOT(i) (UINT32_C(1) << (16 + (i)))

enum {                                      /* flags */
    RP_OP_RANDOM     = 1,                   /* forward and backward draw from call->stream */
    RP_OP_EFFECT     = 2,                   /* changes something besides its outputs: never replayed, except with RP_OP_REPLAYS */
    RP_OP_COLLECTIVE = 4,                   /* communicates with other ranks: never replayed, except with RP_OP_REPLAYS. Its buffers are of class comm */
    RP_OP_VARIADIC   = 8,                   /* n_in is a maximum; each call has its own number of inputs */
    RP_OP_REPLAYS    = 32,                  /* may be replayed all the same: a replay omits the effect (c->replaying), or may repeat it */
    RP_OP_SUMS       = 64,                  /* collective whose backward is linear and reads only the output's gradient. With gradient
                                               accumulation a context may run it in the last pass only, on the sum of the gradients */
    RP_OP_DECIDES    = 128,                 /* its outputs decide how later calls are laid out: always kept, never recomputed, under any policy */
    RP_OP_GRAD_PASS  = 16                   /* for each input of the output's shape, the gradient is the output's gradient itself;
                                               backward is called for the other inputs only, and may be NULL */
};

typedef enum { RP_FORWARD, RP_BACKWARD } rp_pass;

typedef struct rp_op rp_op;

/* A call without data. `shape` fills out[], slot[] and the scratch bytes. */
typedef struct rp_op_meta {
    rp_ctx *ctx;
    const rp_op *op;
    const void *attr;
    int n_in, n_out, n_slot;                /* `shape` may lower n_out and n_slot */
    uint32_t needs;                         /* the op's needs, without the bits that `shape` clears */
    bool want_grad;                         /* a backward may follow. If false the call has no slots: n_slot becomes 0 */
    bool train;                             /* the module is in train mode (dropout is active) */
    bool fast, dense;                       /* kernels exist for this device and dtype; every input, hence every gradient, is dense */
    bool dense_rows;                        /* the same of the last dimension alone: its elements follow each other */
    bool in_grad[RP_MAX_IN];                /* which inputs require a gradient */
    int threads;                            /* nominal number of threads; results may depend on it */
    rp_meta in[RP_MAX_IN], out[RP_MAX_OUT], slot[RP_MAX_SLOT];
    int64_t scratch_bytes, scratch_backward_bytes;
} rp_op_meta;

/* The random numbers of an op may depend only on: key (a hash of the seed, the module path and the number of the random call under it), step, the
 * sample (sample_base + i for row i of the batch) and the element in the row. So a replay and another split of the batch draw the same numbers. */
typedef struct { uint64_t key; int64_t step, sample_base; } rp_op_stream;

/* A call with data. In backward, tensors that meta->needs does not list are NULL. In forward, slots are NULL if want_grad is false. */
typedef struct {
    rp_ctx *ctx;
    const rp_op_meta *meta;
    const void *attr;
    rp_tensor *in[RP_MAX_IN], *out[RP_MAX_OUT], *slot[RP_MAX_SLOT];
    rp_tensor *grad_out[RP_MAX_OUT];        /* NULL: no gradient reaches that output */
    rp_tensor *grad_in[RP_MAX_IN];          /* NULL: this gradient is not wanted */
    bool grad_adds[RP_MAX_IN];              /* true: add to the contents; false: the contents are undefined, assign */
    void *scratch;
    rp_op_stream stream;
    bool replaying;                         /* this forward is a replay */
} rp_op_call;

typedef struct { int64_t flops, read_bytes, write_bytes, comm_bytes; } rp_cost;      /* comm_bytes: sent by a rank to others */

/* One case of an op. tests/ops/run_cases.c runs every check on each case, in every dtype and with every kernel. */
typedef struct {
    const char *name;
    int64_t in[RP_MAX_IN][RP_MAX_DIM];      /* dimensions of each input, ended by 0; all 0: no such input */
    const void *attr;
    rp_status expect;                       /* RP_OK, or the error of `shape` or, if that succeeds, of forward */
    uint32_t int_inputs;                    /* bit i: input i is int32, … */
    int32_t int_low[RP_MAX_IN], int_high[RP_MAX_IN];   /* … drawn from [int_low, int_high] */
    uint32_t ascending;                     /* bit i: int input i is a row of document starts: non-decreasing, from int_low to the position */
    bool eval;                              /* run in evaluation mode, without gradients */
    bool frozen;                            /* run in evaluation mode, with gradients */
    double scale;                           /* of the random inputs. Default: 0 (means 1) */
    uint32_t stat_inputs;                   /* bit i: input i has the dtype of statistics (fp32 if the others are bf16), as tables do */
    int roundings;                          /* number of values between inputs and results that are rounded to bf16 */
    double shift;                           /* added to the random inputs, for functions of positive numbers */
} rp_op_case;

struct rp_op {
    const char *name;
    int n_in, n_out, n_slot;
    size_t attr_size;
    uint32_t needs, flags;
    uint32_t no_grad_in;                    /* bit i: input i never has a gradient (ids, positions) */
    uint32_t wide_grad_in;                  /* bit i: backward can write the gradient of bf16 input i in fp32, as a parameter may require */
    uint32_t writes_in;                     /* bit i: in train mode forward overwrites input i (running statistics). Requires RP_OP_EFFECT.
                                               No later call may read the old contents, so the input is not checked for changes */
    rp_status (*shape)(rp_op_meta *m);
    rp_cost (*cost)(const rp_op_meta *m, rp_pass pass);
    void (*forward)(const rp_op_call *c);
    void (*backward)(const rp_op_call *c);  /* NULL: no gradient flows through the op */
    const rp_op_case *cases;                /* for tests of the ops of the library; NULL for your own */
    int n_case;
};

/* Register an op of your own in the context. rp_apply finds it by its name, and it is recorded, replayed, rehearsed and counted like any other.
 * op      copied, but its name and everything else that it points to are borrowed until the context is freed
 * errors  RP_ERR_ARG a field is missing or out of range, or the name is taken · RP_ERR_UNSUPPORTED a field that this library does not have · RP_ERR_MEMORY */
RP_API rp_status rp_op_register(rp_ctx *ctx, const rp_op *op);
RP_API rp_status rp_op_register_sized(size_t size, rp_ctx *ctx, const rp_op *op);
#define rp_op_register(...) rp_op_register_sized(sizeof(rp_op), __VA_ARGS__)

/* ---- metas ---- */
RP_API int64_t rp_meta_dim(const rp_meta *m, int i);       /* extent of dimension i; negative: from the end; 1: no such dimension */
RP_API int64_t rp_meta_elems(const rp_meta *m);
RP_API int64_t rp_meta_rows(const rp_meta *m);             /* product of all dimensions but the last */
RP_API int64_t rp_meta_bytes(const rp_meta *m);
RP_API bool rp_meta_same(const rp_meta *a, const rp_meta *b);             /* same dtype and shape */
RP_API bool rp_meta_same_shape(const rp_meta *a, const rp_meta *b);
RP_API rp_meta rp_meta_make(rp_dtype dtype, int ndim, const int64_t *dim);
RP_API rp_meta rp_meta_1d(rp_dtype dtype, int64_t n);
RP_API rp_meta rp_meta_2d(rp_dtype dtype, int64_t rows, int64_t n);
/* "fp32 [2, 3]", in a buffer of the thread; the last 8 results stay valid. */
RP_API const char *rp_meta_str(const rp_meta *m);
/* The dtype of row statistics and other by-products: fp64 for fp64, else fp32. */
RP_API rp_dtype rp_meta_stat_dtype(const rp_meta *m);
/* Whether the dtype is fp32, bf16 or fp64. */
RP_API bool rp_meta_is_float(const rp_meta *m);

/* ---- data, for reference code: rows of the last dimension, in double, for any dtype and any strides. Outside the code of an op, rp_row_put and
 * rp_elem_put count as writes, like rp_tensor_write ---- */
RP_API void rp_row_get(const rp_tensor *t, int64_t row, double *to);
RP_API void rp_row_put(rp_tensor *t, int64_t row, const double *from);
/* Write a row of grad_in[in]: added or assigned as c->grad_adds[in] says; nothing if the gradient is not wanted. Each row must be written once. */
RP_API void rp_row_grad(const rp_op_call *c, int in, int64_t row, const double *from);
RP_API int32_t rp_int_get(const rp_tensor *t, int64_t element);     /* element in row-major order */
RP_API double rp_elem_get(const rp_tensor *t, int64_t element);
RP_API void rp_elem_put(rp_tensor *t, int64_t element, double value);

/* ---- data, for kernels: the address of element 0 (NULL without data) and the strides in elements. With a memory limit, taking memory may move the
 * values held by the tape and the gradients. So an address is valid until the next call that may take memory ---- */

/* The address, for reading and writing. Outside the code of an op each call counts as a write, so a backward that would read the old contents is
 * RP_ERR_MUTATED. Call it before each write. If you write through an address from an earlier call, call rp_tensor_touch afterwards: otherwise
 * gradients may be wrong without an error. */
RP_API void *rp_tensor_data(const rp_tensor *t);
/* The address, for reading only: does not count as a write. */
RP_API const void *rp_tensor_peek(const rp_tensor *t);
/* Count a write through an address from an earlier call. NULL is allowed. */
RP_API void rp_tensor_touch(rp_tensor *t);
RP_API const int64_t *rp_tensor_strides(const rp_tensor *t);
RP_API bool rp_tensor_is_dense(const rp_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
