/* reprise.h -- train transformers inside a memory budget you name.
 *
 *   status   every call that can fail returns rp_status. On failure outputs are untouched and rp_error(ctx) holds
 *            one sentence, valid until the next failing call on that ctx.
 *   owner    *_new, *_load, *_build give you an owner; return it with the matching *_free (NULL is fine).
 *            rp_tensor alone is counted: rp_tensor_ref, rp_tensor_unref. Every other pointer returned is borrowed
 *            and lives as long as the object that returned it.
 *   units    are suffixes: _bytes _flops _ns _elems _tokens. All sizes are int64_t.
 *   order    self, inputs, options, outputs.     threads: one ctx, one thread at a time.
 */
#ifndef REPRISE_H
#define REPRISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reprise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RP_VERSION_MAJOR 0
#define RP_VERSION_MINOR 1
#define RP_VERSION_PATCH 0

typedef struct rp_ctx rp_ctx;         /* errors, ledger, random streams, devices */
typedef struct rp_tensor rp_tensor;   /* shape, dtype and a counted share of one storage */
typedef struct rp_module rp_module;   /* a tree of named parts: "layers.3.mlp.up" */

/* "0.1.0" */
RP_API const char *rp_version(void);

/* ---- context ---- */

typedef struct {
    int64_t memory_limit_bytes;   /* 0: no limit but the machine's. Bounds reserved bytes of every device */
    int threads;                  /* 0: all cores this process may use */
    bool shapes_only;             /* tensors get shapes and addresses but no memory; ops run their declarations alone */
    uint64_t seed;
    const char *device;           /* NULL or "cpu"; "sim" is the test device */
} rp_ctx_options;

/* A new context; NULL options are all zero.
 * errors  RP_ERR_ARG unknown device, negative numbers · RP_ERR_BACKEND the OpenMP team is smaller than `threads`
 *         (a message without a context goes nowhere, so the status tells all) · RP_ERR_MEMORY */
RP_API rp_status rp_ctx_new(const rp_ctx_options *options, rp_ctx **out);

/* Frees everything the context owns. Tensors and modules of it must be gone: a leak is a bug and aborts in debug builds. */
RP_API void rp_ctx_free(rp_ctx *ctx);

/* The sentence of the last failing call, "" if none failed. */
RP_API const char *rp_error(const rp_ctx *ctx);

/* ---- memory ---- */

typedef enum {
    RP_MEM_PARAM, RP_MEM_GRAD, RP_MEM_OPTIM, RP_MEM_SAVED, RP_MEM_TEMP, RP_MEM_COMM, RP_MEM_CLASSES
} rp_mem_class;

/* Bytes held on one device. live and peak count requested bytes; *_alloc_bytes the same rounded up to 64 each;
 * reserved_bytes is the pool's high water. peak_at[] splits the instant of the peak: its sum is peak_bytes exactly. */
typedef struct {
    int64_t live_bytes, peak_bytes, live_alloc_bytes, peak_alloc_bytes, reserved_bytes, limit_bytes;
    int64_t live_at[RP_MEM_CLASSES], peak_at[RP_MEM_CLASSES];
} rp_mem;

/* Read the ledger; when reset is true the peaks restart from the live bytes after reading. Cannot fail. */
RP_API void rp_mem_read(rp_ctx *ctx, int device, bool reset, rp_mem *out);

/* "param", "grad", … Never NULL. */
RP_API const char *rp_mem_class_name(rp_mem_class mem_class);

/* ---- tensors ---- */

typedef enum {
    RP_F32, RP_BF16, RP_I32,
    RP_F64,      /* for checking gradients: every op's reference runs in it, no fast kernel does */
    RP_DTYPES
} rp_dtype;

#define RP_MAX_DIM 5

/* A shape and its dtype: dense, last dimension fastest. */
typedef struct {
    rp_dtype dtype;
    int ndim;
    int64_t dim[RP_MAX_DIM];
} rp_meta;

RP_API const char *rp_dtype_name(rp_dtype dtype);      /* "fp32", "bf16", "int32", "fp64" */
RP_API int64_t rp_dtype_bytes(rp_dtype dtype);

/* A dense tensor on the context's device; contents are undefined until written.
 * owner   yours, with one reference · errors RP_ERR_SHAPE negative or overflowing dimensions · RP_ERR_MEMORY */
RP_API rp_status rp_tensor_new(rp_ctx *ctx, const rp_meta *meta, rp_mem_class mem_class, rp_tensor **out);
RP_API rp_tensor *rp_tensor_ref(rp_tensor *tensor);
RP_API void rp_tensor_unref(rp_tensor *tensor);

RP_API const rp_meta *rp_tensor_meta(const rp_tensor *tensor);

/* Copy in or out, converting to or from doubles / int32 / raw elements of the tensor's dtype. `count` must be all elements.
 * A write raises the storage's version.
 * errors  RP_ERR_META the context is shapes-only · RP_ERR_ARG wrong count */
RP_API rp_status rp_tensor_write(rp_tensor *tensor, const double *from, int64_t count);
RP_API rp_status rp_tensor_write_i32(rp_tensor *tensor, const int32_t *from, int64_t count);
RP_API rp_status rp_tensor_read(const rp_tensor *tensor, double *to, int64_t count);

/* Views share the storage. reshape: same number of elements, the tensor must be dense. slice: [start, start+length) of one
 * dimension (negative counts from the end). transpose: swap two dimensions. */
RP_API rp_status rp_tensor_reshape(rp_tensor *tensor, int ndim, const int64_t *dim, rp_tensor **out);
RP_API rp_status rp_tensor_slice(rp_tensor *tensor, int dim, int64_t start, int64_t length, rp_tensor **out);
RP_API rp_status rp_tensor_transpose(rp_tensor *tensor, int dim_a, int dim_b, rp_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
