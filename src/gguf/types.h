/* gguf/types.h -- ggml's tensor types: elements and bytes of a block, and the conversion to fp32. */
#ifndef RP_GGUF_TYPES_H
#define RP_GGUF_TYPES_H

#include "base/convert.h"

typedef struct {
    const char *name;
    int64_t block_elems, block_bytes;
    rp_convert convert;         /* n counts elements, in whole blocks. NULL: the type cannot be read */
} rp_gguf_type;

/* NULL if `id` is not a type. */
const rp_gguf_type *rp__gguf_type(uint32_t id);

#endif
