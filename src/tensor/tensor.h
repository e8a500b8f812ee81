/* tensor/tensor.h -- tensors are views of reference-counted storages, which own the bytes.
 *
 *   tensor { shape, strides, start } ---> storage { bytes at an offset of the device's pool, class, version }
 *   view   { shape, strides, start } --/   reference-counted; the last reference returns the bytes to the ledger
 *
 * Every write increments the storage's version and records the writer's name. So a reader that remembers a version can report
 * who changed the tensor.
 */
#ifndef RP_TENSOR_H
#define RP_TENSOR_H

#include "base/base.h"
#include "reprise/op.h"

/* Opens a further device with its own memory space; a second call returns the same one. It stays open until the context is freed. Tensors are
 * created on device 0 only. errors RP_ERR_ARG no such device, or too many · RP_ERR_MEMORY */
rp_status rp__device_open(rp_ctx *ctx, const char *name, int *index);
/* Bytes of memory that a device has left; NULL: the host. -1: it cannot be used on this machine. */
int64_t rp__device_left(const char *name);

/* The last elements of a storage that passed rp__check_ints, and their version. */
typedef struct { uint64_t version; int64_t start, count, limit, other; } rp_checked;

/* The range of int32 elements that rp_tensor_write_i32 wrote, and the version after it. `next_low` is the least value above `low`, `next_high` the
 * largest below `high`; if there is none, they equal those. */
typedef struct { uint64_t version; int64_t start, count; int32_t low, next_low, next_high, high; } rp_int_range;

typedef struct rp_storage {
    rp_ctx *ctx;
    int refs, device;
    rp_mem_class mem_class;
    int64_t bytes, offset;
    bool imported;                  /* `data` belongs to the program: offset is -1, and the ledger does not count it */
    uint8_t *data;                  /* NULL in a shapes-only context */
    uint8_t *inside;                /* rp__mem_inside(data) during the ctx->turn `turn` */
    uint64_t turn;
    uint64_t version;
    rp_checked checked;
    rp_int_range range;
    const char *writer;             /* the op or function that wrote last; static text */
    bool mapped;                    /* its bytes are in a file's pages, not in the ledger; the host may only read them */
    struct rp_file_pages *pages;    /* counted; NULL until rp__tensor_map */
    struct rp_storage *next, **link;   /* list of movable storages; link NULL: not movable */
} rp_storage;

/* The part of tensor/ in a context. */
typedef struct {
    rp_storage *movable;            /* head of the list of movable storages */
    bool in_op;                     /* the code of an op is running */
} rp_tensor_ctx;
static inline rp_tensor_ctx *rp__tensor_ctx(const rp_ctx *ctx) { return ctx->part[RP_PART_TENSOR]; }

struct rp_tensor {
    rp_ctx *ctx;
    int refs;
    rp_meta m;
    int64_t stride[RP_MAX_DIM], start;      /* in elements */
    rp_storage *storage;
    const char *name;                       /* borrowed, for messages; may be NULL */
    char *own_name;                         /* the copy that `name` points to, if a program named the tensor; else NULL. Views borrow it */
    bool requires_grad;                     /* a leaf whose gradient is wanted */
    rp_tensor *grad;                        /* of a leaf */
    rp_tensor *carried;                     /* of a leaf: the gradient of the collective's output, on its way to the next pass (tape/grad.c) */
    uint64_t tape_id;                       /* the tape that `value` belongs to */
    int value;                              /* index on that tape */
    rp_tensor *base;                        /* of a view: the tensor it was first taken from, counted; else NULL */
};

/* Gives the host access to elements [first, first + count) of a dense tensor. Outside the code of an op, the host must read and write elements only
 * through it. `data` is the tensor's memory if the host can address it, else a copy. The copy is read from the device if access includes
 * RP_HOST_READ, and written back by rp__tensor_host_end if it includes RP_HOST_WRITE. With RP_HOST_WRITE alone the caller must write all elements.
 * For a tensor without data, `data` is NULL. errors RP_ERR_MEMORY */
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
void rp__tensor_host_end(rp_host *h);       /* once per rp__tensor_host; does nothing after RP_ERR_MEMORY */

/* The range of all elements of a dense int32 tensor, if the host wrote them last; else NULL. Nothing waits. */
const rp_int_range *rp__tensor_int_range(const rp_tensor *t);
/* Are all values in [0, limit) or equal to *other? other NULL: none may be. */
bool rp__int_range_within(const rp_int_range *r, int64_t limit, const int32_t *other);

/* rp_tensor_new with a `label` that names the tensor's use in messages. errors RP_ERR_SHAPE · RP_ERR_DTYPE · RP_ERR_MEMORY */
rp_status rp__tensor_new_named(rp_ctx *ctx, const rp_meta *meta, rp_mem_class c, const char *label, rp_tensor **out);
/* Creates a tensor whose bytes stay in a file. It has none until rp__tensor_map, which takes a share of `pages`; the file has them at `offset`, aligned to an
 * element. errors RP_ERR_SHAPE · RP_ERR_DTYPE · RP_ERR_MEMORY */
rp_status rp__tensor_new_mapped(rp_ctx *ctx, const rp_meta *meta, rp_tensor **out);
void rp__tensor_map(rp_tensor *t, struct rp_file_pages *pages, int64_t offset);
/* A tensor on host memory that belongs to the caller; NULL in a shapes-only context. errors RP_ERR_MEMORY */
rp_status rp__tensor_import(rp_ctx *ctx, const rp_meta *meta, void *memory, rp_tensor **out);
/* The end of a function that made `t`: *out is `t` if status is RP_OK, otherwise `t` is released. Returns status. */
rp_status rp__tensor_give(rp_status status, rp_tensor *t, rp_tensor **out);
/* The tensor from which a view was first taken, which collects the view's gradient; t itself if it is no view. */
static inline rp_tensor *rp__tensor_whole(rp_tensor *t) { return t->base ? t->base : t; }
/* Creates a second tensor with the same storage and shape. errors RP_ERR_MEMORY */
rp_status rp__tensor_alias(rp_tensor *t, rp_tensor **out);
void rp__tensor_reclass(rp_tensor *t, rp_mem_class c);
/* While a tensor is movable, every allocation may change the address of its bytes, so do not keep an address. */
void rp__tensor_movable(rp_tensor *t, bool movable);
/* The address of element 0 on its device, for kernels and copies. The host must not read or write there. NULL in a shapes-only context. */
void *rp__tensor_data(const rp_tensor *t);
void rp__tensor_wrote(rp_tensor *t, const char *writer);
void rp__tensor_zero(rp_tensor *t);         /* dense or strided; does nothing in a shapes-only context */
/* Checks that the tensor has data. errors RP_ERR_META, with `call` in the message */
rp_status rp__tensor_needs_data(const rp_tensor *t, const char *call);
/* Copies all elements between tensors of the same shape and any strides, converting dtypes. */
void rp__tensor_copy(rp_tensor *to, const rp_tensor *from);
/* to += from, same shape, summed in fp32 (fp64 in fp64). */
void rp__tensor_add(rp_tensor *to, const rp_tensor *from);
/* Checks that the dtype is known, no extent is negative, and the size is at most 2^56 bytes (extents of 0 count as 1).
 * errors RP_ERR_DTYPE · RP_ERR_SHAPE */
rp_status rp__meta_check(rp_ctx *ctx, const rp_meta *m);
/* Ranks cut a tensor into slices of its elements, or a quantised one into slices of its bytes (comm/comm.h). Their number, and the bytes of one. */
int64_t rp__sliced_elems(const rp_meta *m);
int64_t rp__sliced_bytes(rp_dtype dtype);
/* Fills a dense tensor with data, between rp__mem_enter and rp__mem_leave: `times` a normal number of deviation 1, or a uniform one in [-1, 1), or
 * with one value. The tensor holds elements [first, first + count) of a whole. Numbers are a function of key and element. fp32, bf16 or fp64. */
typedef enum { RP_DRAW_NORMAL, RP_DRAW_UNIFORM } rp_draw;
void rp__tensor_draw(rp_tensor *t, int64_t first, int64_t count, uint64_t key, rp_draw how, double times);
void rp__tensor_fill(rp_tensor *t, int64_t count, double value);
/* The key of a tensor's random numbers: a hash of the seed and its name. */
uint64_t rp__draw_key(uint64_t seed, const char *name);
/* Hash of dtype and shape. */
uint64_t rp__meta_hash(const rp_meta *m, uint64_t seed);
static inline bool rp__tensor_real(const rp_tensor *t) { return t->storage->data != NULL || t->storage->bytes == 0; }

#endif
