/* gguf/types.h -- the tensor types of ggml: how many elements and bytes a block has, and how it becomes fp32. */
#ifndef RP_GGUF_TYPES_H
#define RP_GGUF_TYPES_H

#include "base/convert.h"

typedef struct {
    const char *name;
    int64_t block_elems, block_bytes;
    rp_convert convert;         /* of elements; of whole blocks, n counting elements, where block_elems > 1. NULL: not read */
} rp_gguf_type;

/* NULL where the number is not a type. */
const rp_gguf_type *rp__gguf_type(uint32_t id);

#endif
