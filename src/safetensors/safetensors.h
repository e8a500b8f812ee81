/* safetensors/safetensors.h -- tensors by name in .safetensors files: read one file or a Hugging Face folder, write either.
 *
 *   8 bytes n | n bytes of JSON {"__metadata__": {…}, "name": {"dtype", "shape", "data_offsets"}, …} | data
 *
 *   folder    model.safetensors, else model.safetensors.index.json and the shards it names, else every *.safetensors there
 *   reading   by pread, through RP_FILE_WINDOW_BYTES of memory at most: a file that is cut meanwhile is an error, no SIGBUS. They are mapped,
 *             too, for who asks for rp__safetensors_bytes; rp__safetensors_drop lets go of what that has made resident
 *   checking  everything is checked on opening: the header, every offset, that the data has no gap, overlap or rest. What is
 *             malformed is RP_ERR_FORMAT with one sentence, never a crash
 *   writing   all tensors are declared, then their bytes come in that order in chunks of any size; the files get their names
 *             in commit, the index last. A folder of several files cannot appear at once: who needs that saves into a new
 *             folder and renames it
 */
#ifndef RP_SAFETENSORS_H
#define RP_SAFETENSORS_H

#include "base/base.h"

#define RP_SAFETENSORS_MAX_DIM 8

typedef enum {
    RP_ST_BOOL, RP_ST_U8, RP_ST_I8, RP_ST_F8_E5M2, RP_ST_F8_E4M3, RP_ST_I16, RP_ST_U16, RP_ST_F16, RP_ST_BF16, RP_ST_I32,
    RP_ST_U32, RP_ST_F32, RP_ST_F64, RP_ST_I64, RP_ST_U64, RP_ST_DTYPES
} rp_safetensors_dtype;

const char *rp__safetensors_dtype_name(rp_safetensors_dtype dtype);     /* "BF16" */
int64_t rp__safetensors_dtype_bytes(rp_safetensors_dtype dtype);
rp_safetensors_dtype rp__safetensors_dtype_of(rp_dtype dtype);

typedef struct {
    const char *name;               /* terminated, UTF-8 */
    rp_safetensors_dtype dtype;
    int ndim;
    int64_t dim[RP_SAFETENSORS_MAX_DIM];
    int64_t elems, bytes;           /* filled by the reader; the writer works them out itself */
    int file;                       /* which file of the set … */
    int64_t offset;                 /* … and the byte of it where the data begins */
} rp_safetensor;

/* ---- reading ---- */

typedef struct rp_safetensors rp_safetensors;

/* `path` is a file or a folder.
 * owner   yours; the tensors, names and bytes it returns live until close
 * errors  RP_ERR_IO absent or unreadable · RP_ERR_MATCH a folder without any · RP_ERR_FORMAT malformed · RP_ERR_UNSUPPORTED a dtype or rank not known
 *         here, a folder or file of PyTorch's pickles */
rp_status rp__safetensors_open(rp_ctx *ctx, const char *path, rp_safetensors **out);
/* As open, over the bytes of a single file, which the caller keeps until close. `label` names them in messages. */
rp_status rp__safetensors_open_bytes(rp_ctx *ctx, const char *label, const void *data, int64_t bytes, rp_safetensors **out);
void rp__safetensors_close(rp_safetensors *set);

/* PyTorch's own files, by their names / the sentence about one of them, RP_ERR_UNSUPPORTED; folder NULL: `name` is the path. */
bool rp__safetensors_is_pickle(const char *name);
rp_status rp__safetensors_refuse_pickle(rp_ctx *ctx, const char *folder, const char *name);

int64_t rp__safetensors_n_tensors(const rp_safetensors *set);
/* In bytewise order of names. */
const rp_safetensor *rp__safetensors_at(const rp_safetensors *set, int64_t i);
const rp_safetensor *rp__safetensors_find(const rp_safetensors *set, const char *name);     /* NULL where absent */
const char *rp__safetensors_file_name(const rp_safetensors *set, int file);
/* A value of "__metadata__" in the first file that has the key, or NULL. */
const char *rp__safetensors_metadata(const rp_safetensors *set, const char *key);

/* Elements [start, start + count) in row-major order as fp32.
 * F8 are the codes' own values: what scales them, where a model is quantised, is another tensor. errors RP_ERR_ARG outside */
rp_status rp__safetensors_read(const rp_safetensors *set, const rp_safetensor *tensor, int64_t start, int64_t count, float *out);
/* The tensor's bytes as the file has them, little endian, at any alignment. */
const uint8_t *rp__safetensors_bytes(const rp_safetensors *set, const rp_safetensor *tensor);
/* What was read of this tensor no longer counts as resident memory; it can be read again. */
void rp__safetensors_drop(const rp_safetensors *set, const rp_safetensor *tensor);

/* ---- writing ---- */

typedef struct rp_safetensors_writer rp_safetensors_writer;
typedef struct { const char *key, *value; } rp_safetensors_pair;

#define RP_SHARD_BYTES INT64_C(5000000000)      /* what transformers calls 5GB */

/* One file. Of each declaration name, dtype and dims are read (and copied); metadata {"format": "pt"} is added to `pairs`.
 * The data is laid out by falling element size, so every tensor is aligned to its own; with names declared in bytewise order
 * and dtypes of different sizes the file is, byte for byte, what the Python library writes.
 * owner   yours until commit or discard
 * errors  RP_ERR_ARG a name twice, not UTF-8 or reserved, a bad shape · RP_ERR_IO */
rp_status rp__safetensors_create(rp_ctx *ctx, const char *path, int64_t n_tensors, const rp_safetensor *declared, int n_pairs,
                                 const rp_safetensors_pair *pairs, rp_safetensors_writer **out);
/* In a folder that exists: model.safetensors, or above max_shard_bytes of data (0: RP_SHARD_BYTES)
 * model-00001-of-0000N.safetensors … and model.safetensors.index.json. A tensor is never split: one larger than a shard has its
 * own. Commit removes the model.safetensors or index of an earlier save in the other form, so that readers see the new one. */
rp_status rp__safetensors_create_folder(rp_ctx *ctx, const char *folder, int64_t max_shard_bytes, int64_t n_tensors,
                                        const rp_safetensor *declared, int n_pairs, const rp_safetensors_pair *pairs,
                                        rp_safetensors_writer **out);
/* The next bytes, in the order of declaration, little endian; a chunk may end anywhere. errors RP_ERR_ARG more than declared */
rp_status rp__safetensors_put(rp_safetensors_writer *writer, const void *data, int64_t bytes);
/* The writer is gone afterwards, whatever the status. errors RP_ERR_STATE not all bytes were put; nothing is left behind */
rp_status rp__safetensors_commit(rp_safetensors_writer *writer);
void rp__safetensors_discard(rp_safetensors_writer *writer);     /* NULL is fine */

/* Number of files in the set, and the mark of one of them (base/file_mark.h). errors RP_ERR_IO · RP_ERR_MEMORY */
int rp__safetensors_n_files(const rp_safetensors *set);
rp_status rp__safetensors_mark(const rp_safetensors *set, int file, uint64_t *mark);

#endif
