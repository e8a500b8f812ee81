/* safetensors/safetensors.h -- reads and writes .safetensors files, single or as a Hugging Face folder; tensors are found by name.
 *
 *   8 bytes n | n bytes of JSON {"__metadata__": {…}, "name": {"dtype", "shape", "data_offsets"}, …} | data
 *
 *   folder    model.safetensors; else model.safetensors.index.json and the shards it names; else every *.safetensors in it
 *   reading   by pread, through at most RP_FILE_WINDOW_BYTES of memory. A file that is cut short meanwhile is an error, not a SIGBUS. The
 *             files are also mapped, for callers of rp__safetensors_bytes; rp__safetensors_drop frees the pages that such reads made
 *             resident
 *   checking  on opening: the header, every offset, and that the data has no gap, no overlap and no trailing bytes. A malformed file is
 *             RP_ERR_FORMAT with a message of one sentence, never a crash
 *   writing   declare all tensors, then put their bytes in the same order in chunks of any size. Commit gives the files their names, the
 *             index last. Several files cannot appear in a folder at once: for an atomic save, write a new folder and rename it
 */
#ifndef RP_SAFETENSORS_H
#define RP_SAFETENSORS_H

#include "base/file.h"

#define RP_SAFETENSORS_MAX_DIM 8

typedef enum {
    RP_ST_BOOL, RP_ST_U8, RP_ST_I8, RP_ST_F8_E5M2, RP_ST_F8_E4M3, RP_ST_I16, RP_ST_U16, RP_ST_F16, RP_ST_BF16, RP_ST_I32,
    RP_ST_U32, RP_ST_F32, RP_ST_F64, RP_ST_I64, RP_ST_U64, RP_ST_DTYPES
} rp_safetensors_dtype;

const char *rp__safetensors_dtype_name(rp_safetensors_dtype dtype);     /* such as "BF16" */
int64_t rp__safetensors_dtype_bytes(rp_safetensors_dtype dtype);
rp_safetensors_dtype rp__safetensors_dtype_of(rp_dtype dtype);

typedef struct {
    const char *name;               /* zero-terminated, UTF-8 */
    rp_safetensors_dtype dtype;
    int ndim;
    int64_t dim[RP_SAFETENSORS_MAX_DIM];
    int64_t elems, bytes;           /* set by the reader; the writer computes its own */
    int file;                       /* index of the file in the set */
    int64_t offset;                 /* offset in that file where the data begins */
} rp_safetensor;

/* ---- reading ---- */

typedef struct rp_safetensors rp_safetensors;

/* Open a file or a folder.
 * owner   yours: rp__safetensors_close. The tensors, names and bytes that the set returns live until then
 * errors  RP_ERR_IO absent or unreadable · RP_ERR_MATCH a folder without .safetensors files · RP_ERR_FORMAT malformed · RP_ERR_UNSUPPORTED
 *         an unknown dtype, too many dimensions, or PyTorch pickles · RP_ERR_MEMORY */
rp_status rp__safetensors_open(rp_ctx *ctx, const char *path, rp_safetensors **out);
/* As rp__safetensors_open, for the bytes of a single file. The caller keeps `data` until close. `label` names it in messages. */
rp_status rp__safetensors_open_bytes(rp_ctx *ctx, const char *label, const void *data, int64_t bytes, rp_safetensors **out);
void rp__safetensors_close(rp_safetensors *set);

/* Is `name` a PyTorch pickle (.bin, .pth, .pt, .ckpt)? / Set the error message for one and return RP_ERR_UNSUPPORTED. folder NULL: `name`
 * is the path. */
bool rp__safetensors_is_pickle(const char *name);
rp_status rp__safetensors_refuse_pickle(rp_ctx *ctx, const char *folder, const char *name);

int64_t rp__safetensors_n_tensors(const rp_safetensors *set);
/* The i-th tensor in bytewise order of names. / The tensor of that name. */
const rp_safetensor *rp__safetensors_at(const rp_safetensors *set, int64_t i);
const rp_safetensor *rp__safetensors_find(const rp_safetensors *set, const char *name);     /* NULL if absent */
const char *rp__safetensors_file_name(const rp_safetensors *set, int file);
/* The value of "__metadata__" in the first file that has the key, or NULL. */
const char *rp__safetensors_metadata(const rp_safetensors *set, const char *key);

/* Read elements [start, start + count) in row-major order as fp32. F8 elements are converted as they are stored: the scales of a quantised
 * model are separate tensors.
 * errors  RP_ERR_ARG outside the tensor · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__safetensors_read(const rp_safetensors *set, const rp_safetensor *tensor, int64_t start, int64_t count, float *out);
/* Copy bytes [start, start + bytes) of the tensor's data, as stored, to `to`. They must be within it. errors RP_ERR_IO */
rp_status rp__safetensors_get(const rp_safetensors *set, const rp_safetensor *tensor, int64_t start, int64_t bytes, void *to);
/* The tensor's bytes as stored: little endian, any alignment. */
const uint8_t *rp__safetensors_bytes(const rp_safetensors *set, const rp_safetensor *tensor);
rp_file_place rp__safetensors_place(const rp_safetensors *set, const rp_safetensor *tensor);
/* Drop the tensor's pages from resident memory. Its bytes can be read again later. */
void rp__safetensors_drop(const rp_safetensors *set, const rp_safetensor *tensor);

/* ---- writing ---- */

typedef struct rp_safetensors_writer rp_safetensors_writer;
typedef struct rp_safetensors_pair { const char *key, *value; } rp_safetensors_pair;

#define RP_SHARD_BYTES INT64_C(5000000000)      /* the size that transformers calls 5GB */

/* Create one file. Name, dtype and dims of each declaration are read and copied; metadata {"format": "pt"} is added to `pairs`. The data is
 * laid out by decreasing element size, so that every tensor is aligned to its element size. If names are declared in bytewise order and
 * dtypes differ in size, the file equals byte for byte the one that the Python library writes.
 * owner   yours until commit or discard
 * errors  RP_ERR_ARG a duplicate, non-UTF-8 or reserved name, a bad dtype or shape, metadata that is not UTF-8 · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__safetensors_create(rp_ctx *ctx, const char *path, int64_t n_tensors, const rp_safetensor *declared, int n_pairs,
                                 const rp_safetensors_pair *pairs, rp_safetensors_writer **out);
/* Create files in an existing folder: model.safetensors, or, if the data exceeds max_shard_bytes (0: RP_SHARD_BYTES),
 * model-00001-of-0000N.safetensors … and model.safetensors.index.json. A tensor is never split: one larger than a shard gets its own file.
 * Commit removes the model.safetensors or index of an earlier save in the other form, so that readers find the new one.
 * errors  as rp__safetensors_create, or RP_ERR_ARG max_shard_bytes is negative */
rp_status rp__safetensors_create_folder(rp_ctx *ctx, const char *folder, int64_t max_shard_bytes, int64_t n_tensors,
                                        const rp_safetensor *declared, int n_pairs, const rp_safetensors_pair *pairs,
                                        rp_safetensors_writer **out);
/* Append bytes in the order of declaration, little endian; a chunk may end anywhere. errors RP_ERR_ARG more than declared · RP_ERR_IO ·
 * RP_ERR_MEMORY */
rp_status rp__safetensors_put(rp_safetensors_writer *writer, const void *data, int64_t bytes);
/* Give the files their names. The writer is freed whatever the status. errors RP_ERR_STATE bytes are missing; no file is left · RP_ERR_IO ·
 * RP_ERR_MEMORY */
rp_status rp__safetensors_commit(rp_safetensors_writer *writer);
void rp__safetensors_discard(rp_safetensors_writer *writer);     /* NULL is allowed */

/* Number of files in the set / the mark of one of them (base/file_mark.h). errors RP_ERR_IO · RP_ERR_MEMORY */
int rp__safetensors_n_files(const rp_safetensors *set);
rp_status rp__safetensors_mark(const rp_safetensors *set, int file, uint64_t *mark);

#endif
