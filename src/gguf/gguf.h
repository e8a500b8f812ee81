/* gguf/gguf.h -- reads metadata and tensors of GGUF files, versions 2 and 3. gguf/write.h writes them.
 *
 *   magic "GGUF" · version · counts | metadata key-values | tensor infos | padding | tensor data
 *
 *   x-00001-of-00003.gguf   a model split into several files: opened by the name of the first, read as one
 *
 * The file stays mapped while it is open. Returned objects are borrowed and live until close. Every offset, length and count is checked
 * against the file before use: a malformed file is RP_ERR_FORMAT with a message of one sentence, never a crash.
 *
 * Types that can be read, with exactly the values of gguf-py: F64 F32 F16 BF16 I64 I32 I16 I8 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K
 * Q6_K IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4 NVFP4. Tensors of ggml's other types are listed but cannot be read.
 */
#ifndef RP_GGUF_H
#define RP_GGUF_H

#include "base/file.h"

typedef struct rp_gguf rp_gguf;

typedef enum { RP_GGUF_INT, RP_GGUF_UINT, RP_GGUF_FLOAT, RP_GGUF_BOOL, RP_GGUF_STRING, RP_GGUF_ARRAY } rp_gguf_kind;

typedef struct { const char *text; int64_t bytes; } rp_gguf_string;     /* not terminated */

typedef struct {
    const char *key;                /* zero-terminated */
    rp_gguf_kind kind, element;     /* element: of an array */
    int64_t i;                      /* INT; UINT (INT64_MAX if it is larger); BOOL as 0 or 1 */
    double f;                       /* FLOAT; also INT, UINT and BOOL */
    rp_gguf_string s;
    int64_t count;                  /* of an array */
} rp_gguf_value;

typedef struct {
    const char *name;               /* zero-terminated */
    const char *type;               /* "F32", "Q4_1", … */
    int ndim;
    int64_t dim[4];                 /* row-major, slowest first (GGUF stores dimensions in reverse order) */
    int64_t elems, bytes;
} rp_gguf_tensor;

/* Open a file, and the other parts of a split model.
 * owner   yours: rp__gguf_close
 * errors  RP_ERR_IO absent or unreadable · RP_ERR_FORMAT malformed, not the first file of a split model, or parts that do not belong
 *         together · RP_ERR_UNSUPPORTED version 1, big endian, arrays of arrays (llama.cpp does not read them either), or an unknown tensor
 *         type · RP_ERR_MEMORY */
rp_status rp__gguf_open(rp_ctx *ctx, const char *path, rp_gguf **out);
/* As rp__gguf_open, for the bytes of one file; other parts are not opened. The caller keeps `data` until close. `label` names it in
 * messages. */
rp_status rp__gguf_open_bytes(rp_ctx *ctx, const char *label, const void *data, int64_t bytes, rp_gguf **out);
void rp__gguf_close(rp_gguf *file);

int64_t rp__gguf_n_values(const rp_gguf *file);
const rp_gguf_value *rp__gguf_value_at(const rp_gguf *file, int64_t i);
/* NULL if the key is absent. */
const rp_gguf_value *rp__gguf_get(const rp_gguf *file, const char *key);
/* Element i of an array of strings / of an array of numbers or booleans. Past the end, or for another kind of array, the result is zero. */
rp_gguf_string rp__gguf_array_string(const rp_gguf *file, const rp_gguf_value *array, int64_t i);
double rp__gguf_array_number(const rp_gguf *file, const rp_gguf_value *array, int64_t i);

int64_t rp__gguf_n_tensors(const rp_gguf *file);
const rp_gguf_tensor *rp__gguf_tensor_at(const rp_gguf *file, int64_t i);
const rp_gguf_tensor *rp__gguf_find(const rp_gguf *file, const char *name);
/* Read elements [start, start + count) of a tensor, dequantised to fp32. start and count must be whole rows of the last dimension. The
 * bytes are read by pread through at most RP_FILE_WINDOW_BYTES of memory, so a file that is cut short meanwhile is an error.
 * errors  RP_ERR_UNSUPPORTED the type cannot be read (the message lists those that can) · RP_ERR_ARG outside the tensor, or not whole rows
 *         · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__gguf_read(rp_gguf *file, const rp_gguf_tensor *tensor, int64_t start, int64_t count, float *out);
/* Read bytes [start, start + bytes) of a tensor as the file has them. errors RP_ERR_ARG outside the tensor · RP_ERR_IO */
rp_status rp__gguf_read_bytes(rp_gguf *file, const rp_gguf_tensor *tensor, int64_t start, int64_t bytes, void *out);
/* Where the tensor's bytes are. */
rp_file_place rp__gguf_place(const rp_gguf_tensor *tensor);
/* Do two tensors have the same type, shape and bytes? False if either cannot be read. / Drop the tensor's pages from resident memory. */
bool rp__gguf_same_bytes(rp_gguf *file, const rp_gguf_tensor *a, const rp_gguf_tensor *b);
void rp__gguf_drop(rp_gguf *file, const rp_gguf_tensor *tensor);

/* Number of files of the model (more than 1 if it is split) / the name of one / its mark (base/file_mark.h). errors RP_ERR_IO ·
 * RP_ERR_MEMORY */
int rp__gguf_n_files(const rp_gguf *file);
const char *rp__gguf_file_name(const rp_gguf *file, int part);
rp_status rp__gguf_mark(const rp_gguf *file, int part, uint64_t *mark);

#endif
