/* reprise/train.h -- training a network of your own: parameters and their first values.
 *
 *   rp_param_new        a tensor with a name, random first values and a gradient
 *   your forward        rp_apply, or modules; then rp_backward
 *
 * The conventions are those of reprise/reprise.h.
 */
#ifndef REPRISE_TRAIN_H
#define REPRISE_TRAIN_H

#include "reprise/reprise.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- names and first values ---- */

/* Name a tensor. Messages, optimizers and files use the name. A view shares the name of the tensor that it views.
 * name    copied; 1 to 512 bytes. Names may be equal, but those of an optimizer or a file must differ
 * errors  RP_ERR_STATE the tensor has a name already, such as a parameter of a model */
RP_API rp_status rp_tensor_set_name(rp_tensor *tensor, const char *name);
/* The name; "" if the tensor has none. Borrowed from the tensor, or from the tensor that it views. */
RP_API const char *rp_tensor_name(const rp_tensor *tensor);

/* Distributions of first values. Here `in` and `out` are the extents of a weight: y = x w has x [..., in] and y [..., out]. */
typedef enum {
    RP_INIT_ZEROS, RP_INIT_ONES,
    RP_INIT_NORMAL,               /* mean 0, standard deviation `scale` */
    RP_INIT_UNIFORM,              /* in [-scale, scale) */
    RP_INIT_KAIMING_NORMAL,       /* mean 0, standard deviation scale * sqrt(1 / in). scale: default sqrt(2), for ReLU */
    RP_INIT_KAIMING_UNIFORM,      /* in [-b, b), b = scale * sqrt(3 / in). scale: default sqrt(2) */
    RP_INIT_XAVIER_NORMAL,        /* mean 0, standard deviation scale * sqrt(2 / (in + out)) */
    RP_INIT_XAVIER_UNIFORM        /* in [-b, b), b = scale * sqrt(6 / (in + out)) */
} rp_init_kind;

typedef struct {
    rp_init_kind kind;            /* default: RP_INIT_ZEROS */
    double scale;                 /* default: 0 (means 1; sqrt(2) for Kaiming) */
    bool out_in;                  /* the last two dimensions are [out, in], as with transpose_w of matmul. Default: false ([in, out]) */
} rp_init;

/* Write first values. A random value depends only on the seed of the context, the name of the tensor and the place of the element: not on threads,
 * other tensors or the dtype. On a shapes-only context nothing is computed.
 * init    NULL: zeros
 * errors  RP_ERR_STATE random values for a tensor without a name · RP_ERR_DTYPE neither fp32, bf16 nor fp64 · RP_ERR_SHAPE a view that is not dense; Kaiming
 *         or Xavier for fewer than 2 dimensions · RP_ERR_ARG unknown kind, scale that is negative or not finite */
RP_API rp_status rp_tensor_init(rp_tensor *tensor, const rp_init *init);
RP_API rp_status rp_tensor_init_sized(size_t size, rp_tensor *tensor, const rp_init *init);
#define rp_tensor_init(...) rp_tensor_init_sized(sizeof(rp_init), __VA_ARGS__)

/* Create a parameter: rp_tensor_new with the class RP_MEM_PARAM, rp_tensor_set_name, rp_tensor_init and rp_tensor_require_grad in one call.
 * owner   you, with one reference
 * errors  those of these functions */
RP_API rp_status rp_param_new(rp_ctx *ctx, const char *name, const rp_meta *meta, const rp_init *init, rp_tensor **out);
RP_API rp_status rp_param_new_sized(size_t size, rp_ctx *ctx, const char *name, const rp_meta *meta, const rp_init *init, rp_tensor **out);
#define rp_param_new(...) rp_param_new_sized(sizeof(rp_init), __VA_ARGS__)

/* ---- raw bytes ---- */

/* Copy all elements in or out as they are stored, in row-major order and in the byte order of the machine. A quantised tensor is read as its
 * blocks. A write increments the version of the storage; on a shapes-only context it does nothing else.
 * bytes   must be the size of the tensor
 * errors  RP_ERR_ARG wrong size · RP_ERR_SHAPE a view that is not dense · RP_ERR_META a read on a shapes-only context · RP_ERR_DTYPE a write to a
 *         quantised tensor */
RP_API rp_status rp_tensor_write_raw(rp_tensor *tensor, const void *from, int64_t bytes);
RP_API rp_status rp_tensor_read_raw(const rp_tensor *tensor, void *to, int64_t bytes);

/* Create a tensor on existing host memory, without a copy. The ledger does not count the memory. A shapes-only context ignores it. After writing to it call
 * rp_tensor_touch (reprise/op.h): otherwise gradients may be wrong without an error.
 * memory  `bytes` bytes in row-major order, at an address that is a multiple of RP_IMPORT_ALIGNMENT. It stays yours, and must outlive the tensor, its views
 *         and each record that uses it. It may be read-only if no call writes to the tensor
 * owner   you, with one reference; the memory is never freed
 * errors  RP_ERR_ARG wrong size or alignment · RP_ERR_UNSUPPORTED the device of the context does not compute in host memory · those of rp_tensor_new */
#define RP_IMPORT_ALIGNMENT 64
RP_API rp_status rp_tensor_import(rp_ctx *ctx, const rp_meta *meta, void *memory, int64_t bytes, rp_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
