/* op.h -- for authors of ops. An op is one file in src/ops and one line in src/ops/ops.def; docs/howto/op.md walks through one.
 *
 *   shape      runs first, in rehearsals too: checks everything, fills out[], slot[], scratch bytes, from shapes and
 *              attributes alone, never from contents; what does not fit is rp_fail's to say
 *   cost       FLOPs and bytes of one pass; NULL: one FLOP an element, every byte once
 *   needs      exactly what backward reads: RP_IN(i) | RP_OUT(i) | RP_SLOT(i); shape may take bits away from the call's own, where
 *              the gradients that are wanted read less. Reading anything else is caught in tests
 *   forward, backward   cannot fail, cannot allocate. Gradients have their tensor's dtype (a parameter's may be wider);
 *              grad_in[i] is NULL where not wanted; rp_row_grad and c->grad_adds[i] say whether to add or to assign
 *   empty      an extent may be 0. An op is not called to write nothing: not forward, if all outputs and slots are empty (and the op has no
 *              effect), and not backward for a gradient without elements. A sum or product over nothing is 0
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
    RP_OP_EFFECT     = 2,                   /* changes something besides its outputs: never replayed … */
    RP_OP_COLLECTIVE = 4,                   /* talks to other ranks: never replayed, but with RP_OP_REPLAYS; what it makes and takes is of class comm */
    RP_OP_VARIADIC   = 8,                   /* n_in is a maximum; the call brings its own count */
    RP_OP_REPLAYS    = 32,                  /* … but this one leaves that out when c->replaying, or does it again as often as asked */
    RP_OP_SUMS       = 64,                  /* collective: its backward reads nothing but the output's gradient, and that of a sum of gradients is
                                               the sum of theirs: of several passes only the last runs it, where a context says so */
    RP_OP_DECIDES    = 128,                 /* what follows is laid out by what it made: kept, whatever a policy says, and never made again */
    RP_OP_GRAD_PASS  = 16                   /* the gradient of every input of the output's shape is the output's gradient itself;
                                               backward is only called for the others (may be NULL) */
};

typedef enum { RP_FORWARD, RP_BACKWARD } rp_pass;

typedef struct rp_op rp_op;

/* What is known of a call without data. */
typedef struct {
    rp_ctx *ctx;
    const rp_op *op;
    const void *attr;
    int n_in, n_out, n_slot;                /* shape may lower n_slot; variadic outputs set n_out */
    uint32_t needs;                         /* the op's, less what shape takes away */
    bool want_grad;                         /* a backward may follow. Where none does, the call has no slots: n_slot is 0 */
    bool train;                             /* the module's mode: dropout acts when true */
    bool fast, dense;                       /* kernels exist for this device and dtype; every input, hence every gradient, is dense */
    bool in_grad[RP_MAX_IN];                /* which inputs want a gradient */
    int threads;                            /* the nominal team */
    rp_meta in[RP_MAX_IN], out[RP_MAX_OUT], slot[RP_MAX_SLOT];
    int64_t scratch_bytes, scratch_backward_bytes;
} rp_op_meta;

/* What the numbers of a random op may depend on, and nothing else: key, of the seed, the module path and the call under it; step; the sample,
 * sample_base + i for row i of the batch; the element within the row. Then a replay, and another split of the batch, draw the same. */
typedef struct { uint64_t key; int64_t step, sample_base; } rp_op_stream;

/* A call with data. Tensors not listed in the meta's `needs` are NULL in backward; slots are NULL in a forward without one. */
typedef struct {
    rp_ctx *ctx;
    const rp_op_meta *meta;
    const void *attr;
    rp_tensor *in[RP_MAX_IN], *out[RP_MAX_OUT], *slot[RP_MAX_SLOT];
    rp_tensor *grad_out[RP_MAX_OUT];        /* NULL: that output has no gradient */
    rp_tensor *grad_in[RP_MAX_IN];          /* NULL: not wanted */
    bool grad_adds[RP_MAX_IN];              /* true: add to what is there; false: grad_in is undefined, assign */
    void *scratch;
    rp_op_stream stream;
    bool replaying;                         /* forward: a replay */
} rp_op_call;

typedef struct { int64_t flops, read_bytes, write_bytes, comm_bytes; } rp_cost;      /* comm_bytes: those a rank sends to others */

/* One line of a case table; tests/ops/run_cases.c runs every check on each, in every dtype and with every kernel. */
typedef struct {
    const char *name;
    int64_t in[RP_MAX_IN][RP_MAX_DIM];      /* 0 ends the dimensions of an input; all zero: no input */
    const void *attr;
    rp_status expect;                       /* RP_OK, or the status that shape, or else forward, must return */
    uint32_t int_inputs;                    /* bit i: input i is int32 … */
    int32_t int_low[RP_MAX_IN], int_high[RP_MAX_IN];   /* … drawn from [low, high] */
    uint32_t ascending;                     /* bit i: int input i is a non-decreasing doc-start row, int_low .. position */
    bool eval;                              /* run in evaluation mode, without gradients … */
    bool frozen;                            /* … or with them */
    double scale;                           /* of the random inputs; 0 means 1 */
    uint32_t stat_inputs;                   /* bit i: input i has the dtype of statistics (fp32 beside bf16), as tables have */
    int roundings;                          /* how many values between inputs and results are rounded to bf16 */
} rp_op_case;

struct rp_op {
    const char *name;
    int n_in, n_out, n_slot;
    size_t attr_size;
    uint32_t needs, flags;
    uint32_t no_grad_in;                    /* bit i: input i never has a gradient (ids, positions) */
    uint32_t wide_grad_in;                  /* bit i: backward can write the gradient of bf16 input i in fp32, as parameters may want */
    uint32_t writes_in;                     /* bit i: in train mode forward changes input i (running statistics), of RP_OP_EFFECT:
                                               what it held before is nobody's to read again, so it is not checked for changes */
    rp_status (*shape)(rp_op_meta *m);
    rp_cost (*cost)(const rp_op_meta *m, rp_pass pass);
    void (*forward)(const rp_op_call *c);
    void (*backward)(const rp_op_call *c);  /* NULL: no gradient flows */
    const rp_op_case *cases;                /* for the tests of ops in this tree; NULL elsewhere */
    int n_case;
};

/* Make an op of your own known to the context under its name; rp_apply finds it there, and it takes part in everything. The op is
 * copied; its name and what else it points to are borrowed for as long as the context lives.
 * errors  RP_ERR_ARG something is missing or out of range, or the name is taken · RP_ERR_MEMORY */
RP_API rp_status rp_op_register(rp_ctx *ctx, const rp_op *op);
RP_API rp_status rp_op_register_sized(size_t size, rp_ctx *ctx, const rp_op *op);
#define rp_op_register(...) rp_op_register_sized(sizeof(rp_op), __VA_ARGS__)

/* ---- metas ---- */
RP_API int64_t rp_meta_dim(const rp_meta *m, int i);       /* negative counts from the end; 1 where there is none */
RP_API int64_t rp_meta_elems(const rp_meta *m);
RP_API int64_t rp_meta_rows(const rp_meta *m);             /* elements / last dimension */
RP_API int64_t rp_meta_bytes(const rp_meta *m);
RP_API bool rp_meta_same(const rp_meta *a, const rp_meta *b);
RP_API bool rp_meta_same_shape(const rp_meta *a, const rp_meta *b);
RP_API rp_meta rp_meta_make(rp_dtype dtype, int ndim, const int64_t *dim);
RP_API rp_meta rp_meta_1d(rp_dtype dtype, int64_t n);
RP_API rp_meta rp_meta_2d(rp_dtype dtype, int64_t rows, int64_t n);
/* "fp32 [2, 3]"; a few may be live at once in one message. */
RP_API const char *rp_meta_str(const rp_meta *m);
/* dtype of row statistics and other by-products: fp32, or fp64 beside fp64. */
RP_API rp_dtype rp_meta_stat_dtype(const rp_meta *m);
/* fp32, bf16 or fp64? */
RP_API bool rp_meta_is_float(const rp_meta *m);

/* ---- data, for reference code: rows of the last dimension, in double, from any dtype and any strides. Outside the code of an op rp_row_put and
 * rp_elem_put count as writes, as rp_tensor_write does ---- */
RP_API void rp_row_get(const rp_tensor *t, int64_t row, double *to);
RP_API void rp_row_put(rp_tensor *t, int64_t row, const double *from);
/* Put or add, as c->grad_adds[i] says. For a gradient whose rows are each written once. */
RP_API void rp_row_grad(const rp_op_call *c, int in, int64_t row, const double *from);
RP_API int32_t rp_int_get(const rp_tensor *t, int64_t element);     /* element in row-major order */
RP_API double rp_elem_get(const rp_tensor *t, int64_t element);
RP_API void rp_elem_put(rp_tensor *t, int64_t element, double value);

/* ---- data, for kernels: the address of element 0 and the strides in elements. Under a memory limit what the tape holds and gradients may be
 * moved when memory is taken, so that an address is good until the next call of anything that takes some. NULL without data ---- */

/* For reading and writing. Outside the code of an op each call counts as a write, so that a backward that would read the old contents is
 * RP_ERR_MUTATED. Ask for the address again before each write. If you write through an address that you have kept, call rp_tensor_touch after it,
 * or gradients may be wrong without an error. */
RP_API void *rp_tensor_data(const rp_tensor *t);
/* For reading alone: it does not count as a write. */
RP_API const void *rp_tensor_peek(const rp_tensor *t);
/* The tensor was written through an address from an earlier call. NULL is fine. */
RP_API void rp_tensor_touch(rp_tensor *t);
RP_API const int64_t *rp_tensor_strides(const rp_tensor *t);
RP_API bool rp_tensor_is_dense(const rp_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
