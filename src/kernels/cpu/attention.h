/* kernels/cpu/attention.h -- the interface between the attention driver (attention.c) and its implementations, and their common code: which rows
 * form a block and which keys they see (Dao et al., FlashAttention, 2022).
 *
 *   the queries of all heads that share one key head are rows: row = query * group + head of the group
 *
 *            keys ->                            A block of rows visits in order the tiles of keys that any of its rows sees.
 *   rows   +------+------+------+               A row sees the keys [low, high). Parts of a tile that no row sees are not computed;
 *    |     | tile | tile |      |  <- block     the rest is masked. No buffer has the size rows x keys.
 *    v     +------+------+------+
 *
 * attention_fp32.h computes in fp32 at every level; attention_bf16.h computes bf16 with AMX, vdpbf16ps or bfmmla.
 * scratch is aligned to 64 bytes, and all sizes in it are multiples of 64 bytes.
 */
#ifndef RP_KERNELS_CPU_ATTENTION_H
#define RP_KERNELS_CPU_ATTENTION_H

#include "kernels/cpu/cpu.h"

#if defined(__AVX512BF16__) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define RP_ATTENTION_BF16
#endif

enum { MOST_ROWS = 192 };               /* of a block, in every implementation */

typedef struct {
    int64_t rows, keys;                 /* rows of a block; the space for sums is a multiple of this many keys */
    int64_t (*scratch)(const rp_attention *a);      /* scratch of one thread, in floats */
    /* Fills the scratch that all blocks of a pair (batch, key head) share. NULL: there is none. */
    void (*pack)(const rp_attention *a, int64_t pair, float *scratch);
    /* Computes the rows from index * rows on: forward writes out; backward writes dq and adds to the sums dk and dv. */
    void (*block)(const rp_attention *a, int64_t pair, int64_t index, float *scratch, float *dk, float *dv);
    void (*begin)(void), (*end)(void);  /* called before and after each part that a thread computes; may be NULL */
    /* Backward: floats per key in each of the sums. The sums of 16 keys, from a multiple of 16 on, are contiguous. */
    int64_t (*width)(const rp_attention *a);
    /* Writes the sums of the pair's keys from … to - 1 to `part`, which is dk or dv. */
    void (*put_keys)(const rp_attention *a, const rp_attention_part *part, int64_t pair, const float *sums, int64_t from, int64_t to);
} attention_way;

extern const attention_way RP_AT_LEVEL(attention_fp32_forward), RP_AT_LEVEL(attention_fp32_backward);
extern const attention_way RP_AT_LEVEL(attention_bf16_forward), RP_AT_LEVEL(attention_bf16_backward);     /* only with RP_ATTENTION_BF16 */

typedef struct {
    const rp_attention *a;
    int64_t batch, kv_head, group;
    int64_t first, n, room;             /* index of the first row, number of rows, and number of rows including padding */
    int64_t key_low, key_high;          /* range of keys that any of the rows sees */
    int64_t all_low, all_high;          /* range of keys that all of the rows see; may be empty */
    int32_t low[MOST_ROWS], high[MOST_ROWS];    /* range of keys that each row sees; empty for padding rows */
} rows_block;

static inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
static inline int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t rows_of(const rp_attention *a) { return a->queries * (a->heads / a->kv_heads); }
static inline int64_t pairs_of(const rp_attention *a) { return a->batch * a->kv_heads; }

/* Returns the next `n` floats of a thread's scratch, 64-byte aligned. With base NULL it only counts. */
static inline float *carve(float *base, int64_t *used, int64_t n)
{
    float *at = base ? base + *used : NULL;

    *used += round_up(n, 16);
    return at;
}

static inline int64_t position_of(const rp_attention *a, int64_t query) { return a->keys - a->queries + query; }

static inline bool begins_document(const rows_block *r, int64_t query)
{
    const rp_attention *a = r->a;

    return a->doc_start[r->batch * a->doc_batch_step + query * a->doc_row_step] >= position_of(a, query);
}

/* End of the document of a query: the position at which the next document begins. */
static inline int64_t document_end(const rows_block *r, int64_t query)
{
    const rp_attention *a = r->a;

    for (int64_t q = query + 1; a->doc_start && q < a->queries; q++)
        if (begins_document(r, q)) return at_least(position_of(a, q), 0);
    return a->keys;
}

/* Sets the keys that a row sees. `end`: end of the row's document; used if attention is not causal. */
static inline void see(rows_block *r, int64_t row, int64_t end)
{
    const rp_attention *a = r->a;
    int64_t query = (r->first + row) / r->group, position = position_of(a, query);
    int64_t low = a->window ? at_least(position - a->window + 1, 0) : 0, high = a->causal ? at_least(position + 1, 0) : end;

    if (a->doc_start) low = at_least(low, a->doc_start[r->batch * a->doc_batch_step + query * a->doc_row_step]);
    if (low >= high) low = high = 0;
    r->low[row]  = (int32_t)low;
    r->high[row] = (int32_t)high;
}

static inline int64_t query_of(const rows_block *r, int64_t row) { return (r->first + row) / r->group; }

/* Sets the keys of all rows, from the last row to the first, because a document ends where the next one begins. */
static inline void see_all(rows_block *r)
{
    bool both_ways = !r->a->causal && r->a->doc_start;
    int64_t end    = both_ways ? document_end(r, query_of(r, r->n - 1)) : r->a->keys;

    for (int64_t i = r->n - 1; i >= 0; i--) {
        see(r, i, end);
        bool last_of_query = i == 0 || query_of(r, i - 1) != query_of(r, i);
        if (both_ways && last_of_query && begins_document(r, query_of(r, i))) end = at_least(position_of(r->a, query_of(r, i)), 0);
    }
}

/* Sets up block `index` of pair number `pair` (batch, key head), with `room` rows per block. */
static inline void rows_begin(rows_block *r, const rp_attention *a, int64_t pair, int64_t index, int64_t room)
{
    r->a        = a;
    r->batch    = pair / a->kv_heads;
    r->kv_head  = pair % a->kv_heads;
    r->group    = a->heads / a->kv_heads;
    r->first    = index * room;
    r->room     = room;
    r->n        = at_most(room, rows_of(a) - r->first);
    r->key_low  = a->keys;
    r->key_high = 0;
    r->all_low  = 0;
    r->all_high = a->keys;
    see_all(r);
    for (int64_t i = 0; i < r->n; i++) {
        r->all_low  = at_least(r->all_low, r->low[i]);
        r->all_high = at_most(r->all_high, r->high[i]);
        if (r->low[i] == r->high[i]) continue;
        r->key_low  = at_most(r->key_low, r->low[i]);
        r->key_high = at_least(r->key_high, r->high[i]);
    }
    for (int64_t i = r->n; i < room; i++) r->low[i] = r->high[i] = 0;
}

static inline int64_t head_of(const rows_block *r, int64_t row) { return r->kv_head * r->group + (r->first + row) % r->group; }

static inline int64_t row_at(const rows_block *r, const rp_attention_part *p, int64_t row)
{
    return r->batch * p->batch_step + query_of(r, row) * p->row_step + head_of(r, row) * p->head_step;
}

/* Offset of the pair's key 0 in a part that has one row per key. */
static inline int64_t pair_at(const rp_attention *a, const rp_attention_part *p, int64_t pair)
{
    return pair / a->kv_heads * p->batch_step + pair % a->kv_heads * p->head_step;
}

static inline int64_t key_at(const rows_block *r, const rp_attention_part *p, int64_t key)
{
    return r->batch * p->batch_step + key * p->row_step + r->kv_head * p->head_step;
}

static inline float *lse_of(const rows_block *r, int64_t row)
{
    return r->a->lse + (r->batch * r->a->heads + head_of(r, row)) * r->a->queries + query_of(r, row);
}

/* Element number of the row's probability for key 0 in the dropout stream: its index in [heads, queries, keys] of the sample. */
static inline int64_t first_element(const rows_block *r, int64_t row)
{
    return (head_of(r, row) * r->a->queries + query_of(r, row)) * r->a->keys;
}

#endif
