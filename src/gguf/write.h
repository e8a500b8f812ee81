/* gguf/write.h -- writes GGUF files, version 3, laid out as the gguf Python package writes them.
 *
 *   add metadata ─▶ add tensors ─▶ put their bytes in the same order, in chunks of any size ─▶ commit
 *
 * The metadata is held in memory; tensors are written as they come. The file appears under its name with commit, complete (base/file.h).
 */
#ifndef RP_GGUF_WRITE_H
#define RP_GGUF_WRITE_H

#include <string.h>

#include "gguf/gguf.h"
#include "text/bytes.h"

typedef struct rp_gguf_writer rp_gguf_writer;

/* Begin a file; nothing is on the disk before the first put. owner yours until commit or discard. errors RP_ERR_MEMORY */
rp_status rp__gguf_create(rp_ctx *ctx, const char *path, rp_gguf_writer **out);

/* ---- metadata, in the order of the calls. A key may be added once. errors RP_ERR_MEMORY ---- */

rp_status rp__gguf_add_u32(rp_gguf_writer *writer, const char *key, uint32_t value);
rp_status rp__gguf_add_f32(rp_gguf_writer *writer, const char *key, float value);
rp_status rp__gguf_add_bool(rp_gguf_writer *writer, const char *key, bool value);
rp_status rp__gguf_add_text(rp_gguf_writer *writer, const char *key, rp_gguf_string value);
static inline rp_gguf_string rp__gguf_text(const char *text) { return (rp_gguf_string){ text, (int64_t)strlen(text) }; }
/* Arrays. begin_texts announces n texts; each add_item adds one of them. */
rp_status rp__gguf_add_i32s(rp_gguf_writer *writer, const char *key, const int32_t *value, int64_t n);
rp_status rp__gguf_add_f32s(rp_gguf_writer *writer, const char *key, const float *value, int64_t n);
rp_status rp__gguf_begin_texts(rp_gguf_writer *writer, const char *key, int64_t n);
rp_status rp__gguf_add_item(rp_gguf_writer *writer, rp_gguf_string text);
/* Copy a value of another file, with its type. A copied general.alignment is the alignment of this file, too. */
rp_status rp__gguf_add_copy(rp_gguf_writer *writer, const rp_gguf_value *value);

/* Open the metadata added so far, as a reader of the file will see it, without tensors. Close *out, then rp__release(held->at).
 * errors as rp__gguf_open_bytes */
rp_status rp__gguf_peek(rp_gguf_writer *writer, rp_bytes *held, rp_gguf **out);

/* ---- tensors ---- */

/* Type names that can be written: F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0. */
bool rp__gguf_can_write(const char *type);
/* The value of general.file_type for a file whose matrices have this type. */
uint32_t rp__gguf_file_type(const char *type);
/* Elements of a block of this type: rows must be a multiple. / Bytes of `elems` elements in whole blocks. */
int64_t rp__gguf_block_elems(const char *type);
int64_t rp__gguf_bytes_of(const char *type, int64_t elems);
/* Convert elements, in whole blocks, to a type that can be written. False: an element is not finite, or beyond the type's range. */
bool rp__gguf_quantise(const char *type, const float *from, int64_t elems, void *to);

/* Declare a tensor; dimensions are row-major, slowest first. Any known type may be declared, so that bytes can be copied. The name is copied.
 * errors RP_ERR_MEMORY */
rp_status rp__gguf_add_tensor(rp_gguf_writer *writer, const char *name, const char *type, int ndim, const int64_t *dim);
/* Append bytes of the tensors in the order of declaration. The first call creates the file; n 0 is allowed.
 * errors  RP_ERR_ARG more than declared · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__gguf_put(rp_gguf_writer *writer, const void *data, int64_t bytes);
/* Give the file its name. Frees the writer, even on an error. errors RP_ERR_STATE bytes are missing; no file is left · RP_ERR_IO ·
 * RP_ERR_MEMORY */
rp_status rp__gguf_commit(rp_gguf_writer *writer);
void rp__gguf_discard(rp_gguf_writer *writer);      /* NULL is allowed */

#endif
