/* tensor/tensor.h -- storages own bytes, tensors share them, devices say where the bytes are.
 *
 *   tensor { shape, strides, start } ---> storage { bytes at an offset of the device's pool, class, version }
 *   view   { shape, strides, start } --/   counted; the last share gives the bytes back to the ledger
 *
 * Every write raises the storage's version and leaves the writer's name, so a reader that remembers a version can say
 * who changed what.
 */
#ifndef RP_TENSOR_H
#define RP_TENSOR_H

#include "base/base.h"
#include "reprise/op.h"

/* A further device with a memory space of its own, the same one when asked again; it stays until the context goes. Tensors are made on
 * device 0 alone. errors RP_ERR_ARG no such device · RP_ERR_MEMORY */
rp_status rp__device_open(rp_ctx *ctx, const char *name, int *index);

typedef struct rp_storage {
    rp_ctx *ctx;
    int refs, device;
    rp_mem_class mem_class;
    int64_t bytes, offset;
    uint8_t *data;                  /* NULL in a shapes-only context */
    uint64_t version;
    const char *writer;             /* op or function that wrote last; static text */
    struct rp_storage *next, **link;   /* among those that may be moved; link NULL: it may not */
} rp_storage;

/* What tensor/ keeps in a context. */
typedef struct {
    rp_storage *movable;            /* first of those whose bytes may be moved */
    bool in_op;                     /* the code of an op runs */
} rp_tensor_ctx;
static inline rp_tensor_ctx *rp__tensor_ctx(const rp_ctx *ctx) { return ctx->part[RP_PART_TENSOR]; }

struct rp_tensor {
    rp_ctx *ctx;
    int refs;
    rp_meta m;
    int64_t stride[RP_MAX_DIM], start;      /* in elements */
    rp_storage *storage;
    const char *name;                       /* borrowed, for messages; may be NULL */
    bool requires_grad;                     /* a leaf whose gradient is wanted */
    rp_tensor *grad;                        /* of a leaf */
    rp_tensor *carried;                     /* of a leaf: the gradient of what a collective makes of it, on its way to the next pass (tape/grad.c) */
    uint64_t tape_id;                       /* which tape `value` belongs to */
    int value;                              /* index on that tape */
    rp_tensor *base;                        /* of a view: the tensor it was first taken of, counted; NULL for that tensor */
};

/* The host's window on elements [first, first + count) of a dense tensor: the only way for the host to read or write them outside the code of an
 * op. Where the host reaches the device's memory, it is that memory; else a copy, brought to the host if it is to be read and taken back by
 * rp__tensor_host_end if it is written. RP_HOST_WRITE alone: all of it will be written. A tensor without data has the window NULL.
 * errors RP_ERR_MEMORY */
typedef enum { RP_HOST_READ = 1, RP_HOST_WRITE = 2, RP_HOST_CHANGE = 3 } rp_host_access;
typedef struct {
    void *data;                             /* of element `first` */
    rp_ctx *ctx;
    uint8_t *device;
    int64_t bytes;
    rp_host_access access;
} rp_host;
rp_status rp__tensor_host(const rp_tensor *t, int64_t first, int64_t count, rp_host_access access, rp_host *out);
rp_status rp__tensor_host_all(const rp_tensor *t, rp_host_access access, rp_host *out);
void rp__tensor_host_end(rp_host *h);       /* once for each window; after RP_ERR_MEMORY it does nothing */

rp_status rp__tensor_new_named(rp_ctx *ctx, const rp_meta *meta, rp_mem_class c, const char *what, rp_tensor **out);
/* The tensor that a view was first taken of, where its gradient is collected; or t itself. */
static inline rp_tensor *rp__tensor_whole(rp_tensor *t) { return t->base ? t->base : t; }
/* A second handle on the same storage with the same shape. */
rp_status rp__tensor_alias(rp_tensor *t, rp_tensor **out);
void rp__tensor_reclass(rp_tensor *t, rp_mem_class c);
/* While it is, its bytes may get another address whenever memory is taken: nobody keeps the one it has. */
void rp__tensor_movable(rp_tensor *t, bool movable);
/* The address of element 0 on its device, for kernels and copies: the host must not read or write there. NULL in a shapes-only context. */
void *rp__tensor_data(const rp_tensor *t);
void rp__tensor_wrote(rp_tensor *t, const char *writer);
void rp__tensor_zero(rp_tensor *t);         /* dense or strided; nothing in a shapes-only context */
/* RP_ERR_META naming `call` when there is no data. */
rp_status rp__tensor_needs_data(const rp_tensor *t, const char *call);
/* Copy all elements between tensors of one shape, converting dtypes; strides as they are. */
void rp__tensor_copy(rp_tensor *to, const rp_tensor *from);
/* to += from, same shape, summed in fp32 (fp64 in fp64). */
void rp__tensor_add(rp_tensor *to, const rp_tensor *from);
/* A known dtype, no extent below 0, and at most 2^56 bytes, extents of 0 counted as 1. errors RP_ERR_DTYPE · RP_ERR_SHAPE */
rp_status rp__meta_check(rp_ctx *ctx, const rp_meta *m);
/* Of dtype and shape. */
uint64_t rp__meta_hash(const rp_meta *m, uint64_t seed);
static inline bool rp__tensor_real(const rp_tensor *t) { return t->storage->data != NULL || t->storage->bytes == 0; }

#endif
