/* gguf/types.h -- ggml's tensor types: elements and bytes of a block, and the conversions from and to fp32. */
#ifndef RP_GGUF_TYPES_H
#define RP_GGUF_TYPES_H

#include "base/convert.h"
#include "base/quant.h"

typedef void (*rp_quantise)(const float *from, int64_t n, uint8_t *to);

typedef struct {
    const char *name;
    int64_t block_elems, block_bytes;
    rp_convert convert;         /* n counts elements, in whole blocks. NULL: the type cannot be read */
    rp_quantise quantise;       /* the same. NULL: the type cannot be written */
    float range;                /* largest element that can be written; 0: every finite one */
    int file_type;              /* general.file_type of a file whose matrices have this type; 0 also for types that cannot be written */
} rp_gguf_type;

/* NULL if `id` is not a type. */
const rp_gguf_type *rp__gguf_type(uint32_t id);
/* Id of a type by its name; -1 if there is none. */
int rp__gguf_type_id(const char *name);

#endif
