/* safetensors/internal.h -- shared by the safetensors reader and writer. */
#ifndef RP_SAFETENSORS_INTERNAL_H
#define RP_SAFETENSORS_INTERNAL_H

#include <jansson.h>

#include "base/convert.h"
#include "base/file.h"
#include "safetensors/safetensors.h"

#define ST_MAX_HEADER_BYTES INT64_C(100000000)      /* limit of the reference implementation */
#define ST_MAX_INDEX_BYTES INT64_C(100000000)
#define ST_INDEX_NAME "model.safetensors.index.json"
#define ST_SINGLE_NAME "model.safetensors"

typedef struct {
    char *name;                 /* as given by the caller, for messages */
    char *tensor_names;         /* one block with the names of all tensors of the file */
    rp_file_map map;
    json_t *metadata;           /* may be NULL */
} st_file;

struct rp_safetensors {
    rp_ctx *ctx;
    int n_files, room_files;
    st_file *file;
    int64_t n_tensors, room_tensors;
    rp_safetensor *tensor;      /* sorted by name once opened */
};

typedef struct { const char *name; int64_t bytes; rp_convert convert; } st_dtype;
extern const st_dtype rp__st_dtypes[RP_ST_DTYPES];

/* Parse a JSON text whose top level must be an object; duplicate keys are refused. Release *out with json_decref.
 * errors  RP_ERR_FORMAT · RP_ERR_MEMORY */
rp_status rp__st_json(rp_ctx *ctx, const char *label, const char *text, int64_t bytes, json_t **out);
/* Compute elems and bytes from dim and dtype; false if they overflow. */
bool rp__st_size(rp_safetensor *t);
/* Append a file to the set: map it (or take over `map` if it is not NULL), parse and check it. errors as rp__safetensors_open */
rp_status rp__st_add_file(rp_safetensors *set, const char *path, const rp_file_map *map);
/* Parse an index and check every entry of its object tensor name -> shard name. Release *weight_map with json_decref.
 * errors  RP_ERR_FORMAT · RP_ERR_MEMORY */
rp_status rp__st_index_parse(rp_ctx *ctx, const char *label, const char *text, int64_t bytes, json_t **weight_map);
rp_status rp__st_open_folder(rp_safetensors *set, const char *path);
/* Sort the tensors by name, then by file. */
void rp__st_sort(rp_safetensors *set);

#endif
