/* base/quant.h -- quantised types of tensors. Elements are stored in blocks that share scales; a row of a matrix is a whole number of blocks.
 *
 *   file's bytes ─▶ tensor of the type ─▶ rp__quant_read, or a kernel's own copy of the decoder ─▶ fp32
 *   fp32 ─▶ rp__quant_put … rp__quant_end ─▶ tensor of the type, or a slice of its bytes
 *
 * quant.def lists the types, quant_decode.h decodes them, quantise.c encodes some of them.
 */
#ifndef RP_BASE_QUANT_H
#define RP_BASE_QUANT_H

#include "base/base.h"

enum { RP_QUANT_MOST = 256 };           /* most elements of a block */

/* Decodes n blocks of a tensor, from number `block` on. */
typedef void rp_quant_decode(const uint8_t *base, int64_t block, int64_t n, float *to);

typedef struct {
    rp_dtype dtype;
    const char *name;                   /* "q4_0" */
    int64_t block_elems, block_bytes;
    int64_t group, head_bytes;          /* each `group` blocks follow head_bytes of their own; 1 and 0: none do */
    rp_quant_decode *decode;
} rp_quant_type;

/* NULL if the dtype is not quantised. */
const rp_quant_type *rp__quant_type(rp_dtype dtype);
static inline bool rp__is_quant(rp_dtype dtype) { return dtype >= RP_Q4_0 && dtype < RP_DTYPES; }
/* The type of this name in capitals or small letters ("Q4_K", "nf4"); NULL: none. */
const rp_quant_type *rp__quant_find(const char *name);
/* Bytes of a tensor of `elems` elements, which are whole blocks. */
int64_t rp__quant_bytes(const rp_quant_type *type, int64_t elems);
/* The first byte of a block. */
int64_t rp__quant_block_at(const rp_quant_type *type, int64_t block);
/* Elements of a group, which is decoded from its own bytes alone. */
static inline int64_t rp__quant_group(const rp_quant_type *type) { return type->group * type->block_elems; }
/* Read elements [at, at + n) of a tensor, which need not be whole blocks. */
void rp__quant_read(const rp_quant_type *type, const void *base, int64_t at, int64_t n, float *to);

/* ---- slices: bytes [first, first + count) of a tensor, stored at `base`; they may begin and end within a block ---- */

typedef struct { uint8_t *base; int64_t first, count; } rp_quant_slice;

/* Blocks [*from, *to) have all bytes of the slice that belong to blocks; the outermost may have none. Empty if the slice is. */
void rp__quant_slice_blocks(const rp_quant_type *type, const rp_quant_slice *slice, int64_t *from, int64_t *to);
/* Copies bytes [at, at + n) of a tensor into the slice; those outside it are ignored. */
void rp__quant_slice_put(const rp_quant_slice *to, int64_t at, const void *from, int64_t n);

/* ---- encoding: quantise.c ---- */

/* Quantises the elements of a tensor in parts of whole blocks, in any order, into a slice of it. A type with scales needs all elements of the tensor, the
 * others those of the slice's blocks. scales: rp__quant_scales(type, elems) floats, yours. */
typedef struct {
    const rp_quant_type *type;
    rp_quant_slice to;
    int64_t elems;                      /* of the tensor */
    float *scales;
} rp_quantiser;

/* Whether elements can be quantised to this type: q4_0, q4_1, q5_0, q5_1, q8_0, nf4. */
bool rp__quant_writes(const rp_quant_type *type);
int64_t rp__quant_scales(const rp_quant_type *type, int64_t elems);
void rp__quant_put(const rp_quantiser *q, int64_t at, int64_t n, const float *from);
/* After all elements. */
void rp__quant_end(const rp_quantiser *q);

/* n elements in whole blocks, with exactly the bytes of gguf-py. */
void rp__quantise_f32(const float *from, int64_t n, uint8_t *to);
void rp__quantise_f16(const float *from, int64_t n, uint8_t *to);
void rp__quantise_bf16(const float *from, int64_t n, uint8_t *to);
void rp__quantise_q4_0(const float *from, int64_t n, uint8_t *to);
void rp__quantise_q4_1(const float *from, int64_t n, uint8_t *to);
void rp__quantise_q5_0(const float *from, int64_t n, uint8_t *to);
void rp__quantise_q5_1(const float *from, int64_t n, uint8_t *to);
void rp__quantise_q8_0(const float *from, int64_t n, uint8_t *to);

/* ---- NF4 of bitsandbytes ---- */

enum { RP_NF4_ELEMS = 64, RP_NF4_GROUP = 256, RP_NF4_HEAD = 8, RP_NF4_BLOCK = 33 };

/* The 16 values of a code, and the 256 values of a scale's code (bitsandbytes' create_dynamic_map()). */
extern const float rp__nf4_value[16];
float rp__nf4_scale_value(uint8_t code);
/* The scale of a block of an RP_NF4 tensor, with the two roundings of bitsandbytes. */
float rp__nf4_scale(const uint8_t *base, int64_t block);
/* The bytes of a block: one for its scale, then 32 of codes. */
static inline uint8_t *rp__nf4_block(uint8_t *base, int64_t block)
{
    return base + (block / RP_NF4_GROUP + 1) * RP_NF4_HEAD + block * RP_NF4_BLOCK;
}
/* Sets the head of a group: the factor of its scales, and the offset that is added to them. */
void rp__nf4_head(const rp_quant_slice *to, int64_t group, float factor, float offset);

#endif
