/* kernels/cpu/attention.c -- divides attention over the threads of the team, for every implementation.
 *
 *   forward    a part is a block of rows, which only this part writes; blocks that see the most keys run first
 *   backward   a part is one pair (batch, key head): it owns the pair's dk and dv, so threads never add to the same sum. If there are too few
 *              pairs for the team, each is cut into chunks of row blocks with separate sums, which are added in the order of the chunks
 *
 *   scratch    [ of each thread: number of the packed pair | the implementation's own ]  [ dk and dv of each thread, or of each chunk ]
 *              Fewer rows never need more scratch: a plan for batches of full length has room for shorter ones.
 */
#include "kernels/cpu/attention.h"

#include "base/team.h"

/* Keys whose sums are contiguous in every implementation; floats reserved for the number of the packed pair. */
enum { TOGETHER = 16, HEAD = 16 };

typedef struct {
    const rp_attention *a;
    const attention_way *way;
    int64_t blocks, chunks;             /* of a pair */
    int64_t thread_size, sums_size;     /* in floats: scratch of a thread; dk, or dv, of a pair or chunk */
    int64_t n_sums;
} cut;

/* The smallest number of chunks per pair that leaves at most an eighth of the team idle. */
static int64_t chunks_of(const rp_attention *a, int64_t blocks)
{
    int64_t most = at_most(blocks, a->on.threads), chunks = 1;

    while (chunks < most) {
        int64_t tasks = pairs_of(a) * chunks, rounds = (tasks + a->on.threads - 1) / a->on.threads;
        if (rounds * a->on.threads * 8 <= tasks * 9) break;
        chunks++;
    }
    return chunks;
}

static cut cut_for(const rp_attention *a, const attention_way *way)
{
    cut c = { .a = a, .way = way, .blocks = (rows_of(a) + way->rows - 1) / way->rows, .chunks = 1 };

    c.thread_size = (way->pack ? HEAD : 0) + way->scratch(a);
    if (!way->put_keys) return c;
    c.chunks    = chunks_of(a, c.blocks);
    c.sums_size = round_up(a->keys, way->keys) * way->width(a);
    c.n_sums    = c.chunks > 1 && pairs_of(a) * c.chunks > a->on.threads ? pairs_of(a) * c.chunks : a->on.threads;
    return c;
}

/* ---- choice of the implementation ---- */

#ifdef RP_ATTENTION_BF16
enum { FEW_ROWS = 16 };

/* For few rows, padding to whole tiles would cost more than tiles save. */
static bool in_bf16(const rp_attention *a) { return a->q.dtype == RP_BF16 && rows_of(a) >= FEW_ROWS; }
#endif

static cut cut_forward(const rp_attention *a)
{
#ifdef RP_ATTENTION_BF16
    if (in_bf16(a)) return cut_for(a, &RP_AT_LEVEL(attention_bf16_forward));
#endif
    return cut_for(a, &RP_AT_LEVEL(attention_fp32_forward));
}

static cut cut_backward(const rp_attention *a)
{
#ifdef RP_ATTENTION_BF16
    if (in_bf16(a)) return cut_for(a, &RP_AT_LEVEL(attention_bf16_backward));
#endif
    return cut_for(a, &RP_AT_LEVEL(attention_fp32_backward));
}

static int64_t attention_bytes_of(const cut *c)
{
    return (c->thread_size * c->a->on.threads + 2 * c->sums_size * c->n_sums) * (int64_t)sizeof(float);
}

/* Bytes for this call, and for a call with fewer rows that uses the other implementation. */
static int64_t bytes_for(const rp_attention *a, const cut *c, const attention_way *other)
{
    int64_t bytes = attention_bytes_of(c), few = 0;

#ifdef RP_ATTENTION_BF16
    few = in_bf16(a) ? (FEW_ROWS - 1) / (a->heads / a->kv_heads) : 0;
#endif
    if (!few) return bytes;
    rp_attention shorter = *a;
    shorter.queries      = shorter.keys = few;
    cut instead          = cut_for(&shorter, other);
    return attention_bytes_of(&instead) > bytes ? attention_bytes_of(&instead) : bytes;
}

/* ---- one part on a thread ---- */

static float *scratch_of(const cut *c, int thread) { return (float *)c->a->scratch + thread * c->thread_size; }
static float *sums_of(const cut *c, int64_t number) { return scratch_of(c, c->a->on.threads) + number * 2 * c->sums_size; }

/* When a call begins, scratch holds no packed pair. */
static void forget_pairs(const cut *c)
{
    for (int t = 0; t < c->a->on.threads && c->way->pack; t++) *(int64_t *)scratch_of(c, t) = -1;
}

/* Returns the implementation's scratch with the pair's keys and values packed in it. Consecutive parts of a pair pack only once. */
static float *turn_begin(const cut *c, int64_t pair, int thread)
{
    float *scratch  = scratch_of(c, thread);
    int64_t *packed = (int64_t *)scratch;

    if (c->way->begin) c->way->begin();
    if (!c->way->pack) return scratch;
    if (*packed != pair) c->way->pack(c->a, pair, scratch + HEAD);
    *packed = pair;
    return scratch + HEAD;
}

static void turn_end(const cut *c)
{
    if (c->way->end) c->way->end();
}

/* ---- forward ---- */

static void run_block(void *arg, int64_t part, int thread)
{
    const cut *c   = arg;
    int64_t pair   = part / c->blocks;
    float *scratch = turn_begin(c, pair, thread);

    c->way->block(c->a, pair, c->blocks - 1 - part % c->blocks, scratch, NULL, NULL);
    turn_end(c);
}

void RP_AT_LEVEL(attention_forward_scratch)(const rp_attention *a, int64_t *bytes)
{
    cut c = cut_forward(a);

    *bytes = bytes_for(a, &c, &RP_AT_LEVEL(attention_fp32_forward));
}

void RP_AT_LEVEL(attention_forward)(const rp_attention *a)
{
    cut c = cut_forward(a);

    forget_pairs(&c);
    rp__team_run(a->on.threads, pairs_of(a) * c.blocks, run_block, &c);
}

/* ---- backward ---- */

/* Blocks see more and more keys; the order 0 1 2 2 1 0 0 1 2 … of chunks gives each of `n` chunks about the same work. */
static int64_t snake(int64_t i, int64_t n) { return i % (2 * n) < n ? i % (2 * n) : 2 * n - 1 - i % (2 * n); }

static void add_chunks(float *sums, int64_t apart, int64_t chunks, int64_t n)
{
    for (int64_t c = 1; c < chunks; c++)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) sums[i] += sums[c * apart + i];
}

/* Writes dk and dv of the pair's keys from … to - 1: the sum over its chunks, in order. Overwrites the sums of the first chunk. */
static void put_keys(const cut *c, int64_t pair, float *sums, int64_t from, int64_t to)
{
    const rp_attention_part *parts[2] = { &c->a->dk, &c->a->dv };
    int64_t width                     = c->way->width(c->a);

    for (int which = 0; which < 2; which++, sums += c->sums_size) {
        if (!parts[which]->data) continue;
        add_chunks(sums + from * width, 2 * c->sums_size, c->chunks, (round_up(to, TOGETHER) - from) * width);
        c->way->put_keys(c->a, parts[which], pair, sums, from, to);
    }
}

static void run_chunk(void *arg, int64_t part, int thread)
{
    const cut *c = arg;
    int64_t pair = part / c->chunks, chunk = part % c->chunks;
    float *sums    = sums_of(c, c->chunks > 1 ? part : thread);
    float *scratch = turn_begin(c, pair, thread);

    memset(sums, 0, (size_t)(2 * c->sums_size) * sizeof *sums);
    for (int64_t i = 0; i < c->blocks; i++)
        if (snake(i, c->chunks) == chunk) c->way->block(c->a, pair, i, scratch, sums, sums + c->sums_size);
    turn_end(c);
    if (c->chunks == 1) put_keys(c, pair, sums, 0, c->a->keys);
}

/* A part is a share of a pair's keys. */
static void run_sums(void *arg, int64_t part, int thread)
{
    const cut *c = arg;
    int64_t n = c->a->keys, shares = c->a->on.threads, pair = part / shares, share = part % shares;

    (void)thread;
    put_keys(c, pair, sums_of(c, pair * c->chunks), rp__part_from(n, TOGETHER, shares, share), rp__part_from(n, TOGETHER, shares, share + 1));
}

void RP_AT_LEVEL(attention_backward_scratch)(const rp_attention *a, int64_t *bytes)
{
    cut c = cut_backward(a);

    *bytes = bytes_for(a, &c, &RP_AT_LEVEL(attention_fp32_backward));
}

void RP_AT_LEVEL(attention_backward)(const rp_attention *a)
{
    cut c = cut_backward(a);

    forget_pairs(&c);
    rp__team_run(a->on.threads, pairs_of(a) * c.chunks, run_chunk, &c);
    if (c.chunks > 1) rp__team_run(a->on.threads, pairs_of(a) * a->on.threads, run_sums, &c);
}
