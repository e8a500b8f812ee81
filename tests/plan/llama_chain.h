/* llama_chain.h -- a chain like that of a step of Llama 3 8B: embedding, blocks, head with loss; for tests and for the bench.
 *
 * A block has 13 values that its backward reads besides its input. Each subset of them that may be saved is simulated: the other
 * values that are needed are recomputed just in time and freed after their last reader. Times are a roofline of 400 TFLOP/s and 2 TB/s. A subset is an
 * option if no other one is better in bytes and in seconds. Gradients are allocated in the first micro-batch (kind 0) and exist in later ones
 * (kind 1).
 */
#ifndef LLAMA_CHAIN_H
#define LLAMA_CHAIN_H

#include <math.h>

#include "solve/chain.h"

enum { NORM1, RSTD1, QUERY, KEY, VALUE, ATTN, LSE, AFTER, NORM2, RSTD2, GATE, UP, ACT, BLOCK_VALUES, BLOCK_INPUT = BLOCK_VALUES };
enum { LLAMA_CLASSES = 3, LLAMA_MOST_OPTIONS = 1024, LLAMA_MOST_SEGMENTS = 512 };

typedef struct {
    rp_chain chain;
    rp_chain_class class_of[LLAMA_CLASSES];
    rp_chain_option block[LLAMA_MOST_OPTIONS], ends[2];
    int segment[LLAMA_MOST_SEGMENTS];
    int64_t forward[RP_CHAIN_KINDS][LLAMA_MOST_SEGMENTS], backward[RP_CHAIN_KINDS][LLAMA_MOST_SEGMENTS];
    double step_seconds;            /* of a step that recomputes nothing */
} llama_chain;

typedef struct { int64_t tokens, width, kv, inner; } llama_shape;

#define BIT(v) (1u << (v))

typedef struct { unsigned makes, reads; double seconds; } llama_op;
typedef struct { unsigned reads; int64_t made, gone; } llama_backward;      /* bytes of gradients */

typedef struct {
    int64_t bytes[BLOCK_VALUES];
    llama_op op[10];
    llama_backward back[8];
    int64_t output;
    double seconds;
} llama_block;

static inline double llama_seconds(double flops, double bytes) { return fmax(flops / 400e12, bytes / 2e12); }

static inline llama_block llama_block_of(const llama_shape *s)
{
    int64_t x = s->tokens * s->width * 2, kv = s->tokens * s->kv * 2, f = s->tokens * s->inner * 2, row = s->tokens * 4, lse = row * 32;
    double t = (double)s->tokens, d = (double)s->width, k = (double)s->kv, w = (double)s->inner;
    llama_block b = { .bytes = { x, row, x, kv, kv, x, lse, x, x, row, f, f, f }, .output = x };
    llama_op op[] = {
        { BIT(NORM1) | BIT(RSTD1), BIT(BLOCK_INPUT), llama_seconds(0, 2.0 * (double)x) },
        { BIT(QUERY), BIT(NORM1), llama_seconds(2 * t * d * d, 2.0 * (double)x) },
        { BIT(KEY), BIT(NORM1), llama_seconds(2 * t * d * k, (double)(x + kv)) },
        { BIT(VALUE), BIT(NORM1), llama_seconds(2 * t * d * k, (double)(x + kv)) },
        { BIT(ATTN) | BIT(LSE), BIT(QUERY) | BIT(KEY) | BIT(VALUE), llama_seconds(2 * t * t * d, 4.0 * (double)x) },
        { BIT(AFTER), BIT(ATTN) | BIT(BLOCK_INPUT), llama_seconds(2 * t * d * d, 3.0 * (double)x) },
        { BIT(NORM2) | BIT(RSTD2), BIT(AFTER), llama_seconds(0, 2.0 * (double)x) },
        { BIT(GATE), BIT(NORM2), llama_seconds(2 * t * d * w, (double)(x + f)) },
        { BIT(UP), BIT(NORM2), llama_seconds(2 * t * d * w, (double)(x + f)) },
        { BIT(ACT), BIT(GATE) | BIT(UP), llama_seconds(0, 3.0 * (double)f) },
    };
    llama_backward back[] = {
        { BIT(ACT), f, 0 }, { BIT(GATE) | BIT(UP), 2 * f, f }, { BIT(NORM2), x, 2 * f }, { BIT(AFTER) | BIT(RSTD2), 0, x },
        { BIT(ATTN), x, 0 }, { BIT(QUERY) | BIT(KEY) | BIT(VALUE) | BIT(ATTN) | BIT(LSE), x + 2 * kv, x }, { BIT(NORM1), x, x + 2 * kv },
        { BIT(RSTD1), 0, x },
    };

    memcpy(b.op, op, sizeof op);
    memcpy(b.back, back, sizeof back);
    b.seconds = llama_seconds(2 * t * d * w, (double)(x + f));      /* the product behind ACT, never recomputed for its own output */
    for (int i = 0; i < RP_COUNT(op); i++) b.seconds += op[i].seconds;
    return b;
}

static inline int64_t llama_bytes(const llama_block *b, unsigned set)
{
    int64_t sum = 0;

    for (int v = 0; v < BLOCK_VALUES; v++) sum += set & BIT(v) ? b->bytes[v] : 0;
    return sum;
}

/* What must run so that `want` is there. */
static inline unsigned llama_again(const llama_block *b, unsigned have, unsigned want)
{
    unsigned make = want & ~have;

    for (int i = RP_COUNT(b->op) - 1; i >= 0; i--)
        if (b->op[i].makes & make) make |= (b->op[i].makes | b->op[i].reads) & ~have;
    return make & ~BIT(BLOCK_INPUT);
}

static inline rp_chain_option llama_play(const llama_block *b, unsigned saved)
{
    rp_chain_option o  = { .saved = llama_bytes(b, saved) + b->output };
    unsigned have      = saved | BIT(BLOCK_INPUT), made = 0;
    int64_t gradients  = 0, peak = 0, live = 0, most = 0;

    for (int i = 0; i < RP_COUNT(b->back); i++) {
        unsigned recompute = llama_again(b, have, b->back[i].reads), later = 0;
        for (int p = 0; p < RP_COUNT(b->op); p++) o.seconds += b->op[p].makes & recompute & ~made ? b->op[p].seconds : 0;
        made |= recompute;
        have |= recompute;
        gradients += b->back[i].made;
        live = llama_bytes(b, have) + gradients + b->output;
        peak = live > peak ? live : peak;
        gradients -= b->back[i].gone;
        for (int j = i + 1; j < RP_COUNT(b->back); j++) later |= b->back[j].reads;
        have &= later | llama_again(b, have & later, later) | BIT(BLOCK_INPUT);
    }
    for (int i = 0; i < RP_COUNT(b->op); i++) {
        unsigned before = 0, after = 0;
        for (int j = 0; j <= i; j++) before |= b->op[j].makes;
        for (int j = i; j < RP_COUNT(b->op); j++) after |= b->op[j].reads | (j == i ? b->op[j].makes : 0);
        live = llama_bytes(b, before & (saved | after)) + b->output;
        most = live > most ? live : most;
    }
    o.forward = o.recompute = o.last = most > o.saved ? most : o.saved;
    for (int k = 0; k < RP_CHAIN_KINDS; k++) o.backward[k] = o.last_backward[k] = peak;
    o.recompute_seconds = o.last_seconds = b->seconds;
    return o;
}

static inline bool llama_no_worse(const rp_chain_option *a, const rp_chain_option *b)
{
    return a->saved <= b->saved && a->forward <= b->forward && a->backward[1] <= b->backward[1] && a->seconds <= b->seconds;
}

static inline int llama_options(const llama_block *b, rp_chain_option *out)
{
    int n = 0;

    for (unsigned set = 0; set < BIT(BLOCK_VALUES); set++) {
        rp_chain_option o = llama_play(b, set);
        bool worse        = false;
        int kept          = 0;
        for (int i = 0; i < n && !worse; i++) worse = llama_no_worse(&out[i], &o);
        if (worse) continue;
        for (int i = 0; i < n; i++)
            if (!llama_no_worse(&o, &out[i])) out[kept++] = out[i];
        n = kept;
        RP_BUG_IF(n == LLAMA_MOST_OPTIONS);
        out[n++] = o;
    }
    return n;
}

/* Weights of 16 bits and fp32 states lie there; a block's gradients take as much as its weights. */
static inline void llama_fixed(llama_chain *c, const llama_shape *s)
{
    int64_t weights = (2 * s->width * s->width + 2 * s->width * s->kv + 3 * s->width * s->inner) * 2;
    int n           = c->chain.n;

    for (int i = 0; i < n; i++) {
        c->forward[0][i]  = n * weights * 5;
        c->forward[1][i]  = n * weights * 6;
        c->backward[0][i] = n * weights * 5 + (n - 1 - i) * weights + s->tokens * s->width * 2;
        c->backward[1][i] = n * weights * 6 + s->tokens * s->width * 2;
    }
    for (int i = 0; i < c->class_of[1].n_options; i++) c->block[i].backward[0] = c->block[i].last_backward[0] += weights;
    for (int i = 0; i < 2; i++) c->ends[i].backward[0] = c->ends[i].last_backward[0] += weights;
    for (int k = 0; k < RP_CHAIN_KINDS; k++) {
        c->chain.fixed_forward[k]  = c->forward[k];
        c->chain.fixed_backward[k] = c->backward[k];
    }
}

/* The input is there throughout. */
static inline rp_chain_class llama_class(const rp_chain_option *option, int n_options, int64_t x, int64_t bare, double seconds)
{
    return (rp_chain_class){ .option = option, .n_options = n_options, .output = x, .bare = { bare, x + bare, x + bare }, .bare_recompute = { bare, x + bare },
                             .bare_seconds = seconds };
}

static inline void llama_chain_make(llama_chain *c, int blocks, const llama_shape *s)
{
    llama_block b = llama_block_of(s);
    int64_t x     = b.output;

    *c         = (llama_chain){ 0 };
    c->chain   = (rp_chain){ .class_of = c->class_of, .n_classes = 3, .n = blocks + 2, .n_kinds = 2, .segment = c->segment };
    c->ends[0] = (rp_chain_option){ .saved = x, .forward = x, .recompute = x, .last = x, .backward = { x, x }, .last_backward = { x, x },
                                    .recompute_seconds = llama_seconds(0, 2.0 * (double)x) };
    c->ends[1] = (rp_chain_option){ .saved = x, .forward = 5 * x, .recompute = 5 * x, .last = 5 * x, .backward = { 8 * x, 8 * x },
                                    .last_backward = { 8 * x, 8 * x } };
    c->ends[0].last_seconds = c->ends[0].recompute_seconds;
    c->class_of[0] = llama_class(c->ends, 1, x, x, c->ends[0].recompute_seconds);
    c->class_of[1] = llama_class(c->block, llama_options(&b, c->block), x, llama_play(&b, 0).forward, b.seconds);
    c->class_of[2] = llama_class(c->ends + 1, 1, x, 5 * x, 0);
    for (int i = 0; i < c->chain.n; i++) c->segment[i] = i == 0 ? 0 : i <= blocks ? 1 : 2;
    llama_fixed(c, s);
    c->step_seconds = 3 * blocks * b.seconds;
}

static const llama_shape llama_8b = { 8192, 4096, 1024, 14336 };

#endif
