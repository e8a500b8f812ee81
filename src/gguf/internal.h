/* gguf/internal.h -- shared by the files of the GGUF reader and writer.
 *
 *   gguf.c    one file: parses header, metadata and tensor infos and checks them against its bytes
 *   split.c   a model in several files: the metadata of the first, the tensors of all
 *   read.c    access: values, tensors and their elements
 *   write.c   the writer (write.h)
 */
#ifndef RP_GGUF_INTERNAL_H
#define RP_GGUF_INTERNAL_H

#include "base/file.h"
#include "gguf/gguf.h"
#include "gguf/types.h"

#define DEFAULT_ALIGNMENT 32
#define NAME "%.200s"           /* names in messages are cut: they come from a file and may be very long */

enum { GU8, GI8, GU16, GI16, GU32, GI32, GF32, GBOOL, GSTRING, GARRAY, GU64, GI64, GF64, GTYPES };

typedef struct { rp_gguf_kind kind; int64_t bytes; } gguf_value_type;
extern const gguf_value_type rp__gguf_value_types[GTYPES];

typedef struct {                /* `v` is the first member: a pointer to it is a pointer to the entry */
    rp_gguf_value v;
    char *key;
    uint32_t type, element_type;
    const uint8_t *raw;         /* the value as it is in the file, after its type … */
    int64_t raw_bytes;
    const uint8_t *data;        /* of an array of numbers */
    rp_gguf_string *strings;    /* of an array of strings */
} gguf_value_entry;

typedef struct {
    rp_gguf_tensor t;
    char *name;
    const rp_gguf_type *type;
    const rp_gguf *file;        /* the file that contains it */
    int64_t offset;             /* within the data while parsing; then within the file */
} gguf_tensor_entry;

struct rp_gguf {
    rp_ctx *ctx;
    char *label;
    rp_file_map map;
    int64_t at;                 /* the cursor */
    int64_t n_values, n_tensors, room_values, room_tensors;
    gguf_value_entry *value;
    gguf_tensor_entry *tensor;  /* the tensors of this file */
    gguf_value_entry **by_key;
    int64_t n_listed;           /* number of tensors of this file and its other parts … */
    gguf_tensor_entry **listed, **by_name;     /* … in the order of the files, and sorted by name */
    int n_parts;
    rp_gguf **part;             /* the other files of a split model; they have no parts of their own */
};

/* Open one file: map `label`, or use `map` if it is not NULL. Other parts are not opened. errors as rp__gguf_open */
rp_status rp__gguf_open_one(rp_ctx *ctx, const char *label, const rp_file_map *map, rp_gguf **out);
/* Rebuild `listed` and `by_name` from the file and its parts. errors RP_ERR_FORMAT a duplicate name · RP_ERR_MEMORY */
rp_status rp__gguf_list_tensors(rp_gguf *file);
/* If the metadata says that the model is split, open the other parts. errors as rp__gguf_open */
rp_status rp__gguf_join(rp_gguf *file);
/* Decode the number of `type` at p into v->i and v->f. */
void rp__gguf_number_at(uint32_t type, const uint8_t *p, rp_gguf_value *v);

#endif
