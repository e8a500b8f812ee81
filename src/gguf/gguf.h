/* gguf/gguf.h -- read GGUF v2/v3 files: metadata and tensors.
 *
 *   magic "GGUF" · version · counts | metadata key-values | tensor infos | padding | tensor data
 *
 *   x-00001-of-00003.gguf   a model split over files: named by the first, read as one
 *
 * The file is mapped while open; everything returned is borrowed and lives until close. Every offset, length and count is
 * checked against the file before use: a malformed file is RP_ERR_FORMAT with one sentence, never a crash. Read are F64 F32
 * F16 BF16 I64 I32 I16 I8 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4 NVFP4, with exactly
 * the values of gguf-py; tensors of the other types that ggml has are listed only.
 */
#ifndef RP_GGUF_H
#define RP_GGUF_H

#include "base/base.h"

typedef struct rp_gguf rp_gguf;

typedef enum { RP_GGUF_INT, RP_GGUF_UINT, RP_GGUF_FLOAT, RP_GGUF_BOOL, RP_GGUF_STRING, RP_GGUF_ARRAY } rp_gguf_kind;

typedef struct { const char *text; int64_t bytes; } rp_gguf_string;     /* not terminated */

typedef struct {
    const char *key;                /* terminated */
    rp_gguf_kind kind, element;     /* element: of an array */
    int64_t i;                      /* INT, UINT (INT64_MAX beyond it), BOOL as 0 or 1 */
    double f;                       /* FLOAT; INT, UINT and BOOL too */
    rp_gguf_string s;
    int64_t count;                  /* of an array */
} rp_gguf_value;

typedef struct {
    const char *name;               /* terminated */
    const char *type;               /* "F32", "Q4_1", … */
    int ndim;
    int64_t dim[4];                 /* row-major as everywhere here: slowest first (GGUF stores them reversed) */
    int64_t elems, bytes;
} rp_gguf_tensor;

/* errors  RP_ERR_IO absent or unreadable · RP_ERR_FORMAT malformed, parts of a split model that do not belong together, or not the
 *         first of them · RP_ERR_UNSUPPORTED version 1, big endian, arrays of
 *         arrays (llama.cpp reads none either), a tensor type that is not known here */
rp_status rp__gguf_open(rp_ctx *ctx, const char *path, rp_gguf **out);
/* As open, over the bytes of one file, which the caller keeps until close. `label` names them in messages. */
rp_status rp__gguf_open_bytes(rp_ctx *ctx, const char *label, const void *data, int64_t bytes, rp_gguf **out);
void rp__gguf_close(rp_gguf *file);

int64_t rp__gguf_n_values(const rp_gguf *file);
const rp_gguf_value *rp__gguf_value_at(const rp_gguf *file, int64_t i);
/* NULL where the key is absent. */
const rp_gguf_value *rp__gguf_get(const rp_gguf *file, const char *key);
/* Element i of an array of strings / of numbers or booleans. Zero values past the end or of another kind. */
rp_gguf_string rp__gguf_array_string(const rp_gguf *file, const rp_gguf_value *array, int64_t i);
double rp__gguf_array_number(const rp_gguf *file, const rp_gguf_value *array, int64_t i);

int64_t rp__gguf_n_tensors(const rp_gguf *file);
const rp_gguf_tensor *rp__gguf_tensor_at(const rp_gguf *file, int64_t i);
const rp_gguf_tensor *rp__gguf_find(const rp_gguf *file, const char *name);
/* Elements [start, start + count) of a tensor, dequantised to fp32. start and count are whole rows of the last dimension.
 * They come by pread, through 8 MiB of memory at most: a file that is cut meanwhile is an error. rp__gguf_drop lets go of pages of the tensor.
 * errors  RP_ERR_UNSUPPORTED the type is not one that is read (the message lists those that are) · RP_ERR_ARG outside · RP_ERR_IO */
rp_status rp__gguf_read(rp_gguf *file, const rp_gguf_tensor *tensor, int64_t start, int64_t count, float *out);
/* Two tensors of one type and shape that hold the same bytes; two that cannot be read do not. */
bool rp__gguf_same_bytes(rp_gguf *file, const rp_gguf_tensor *a, const rp_gguf_tensor *b);
void rp__gguf_drop(rp_gguf *file, const rp_gguf_tensor *tensor);

/* Number of files of the model, all parts of a split one; the name of a part, and its mark (base/file_mark.h). errors RP_ERR_IO · RP_ERR_MEMORY */
int rp__gguf_n_files(const rp_gguf *file);
const char *rp__gguf_file_name(const rp_gguf *file, int part);
rp_status rp__gguf_mark(const rp_gguf *file, int part, uint64_t *mark);

#endif
