/* fates.c -- see fates.h. */
#include "tape/fates.h"

/* ---- deciders ---- */

static uint32_t mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

static rp_status decide(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict)
{
    static const unsigned char drawn[] = { RP_KEEP, RP_RECOMPUTE, RP_OFFLOAD, RP_RECOMPUTE, RP_NO_FATE };
    fates *f = self;

    (void)scope;
    f->n_asked++;
    for (int i = 0; i < meta->n_out + meta->n_slot; i++) {
        uint32_t h = mix(f->seed * 7919u + (uint32_t)at * 31u + (uint32_t)i);
        if (f->seed) verdict[i] = (rp_verdict){ .fate = drawn[h % RP_COUNT(drawn)], .must = h >> 8 & 1, .by = "drawn" };
        for (int k = 0; !f->seed && k < RP_COUNT(f->op) && f->op[k]; k++) {
            if (strcmp(f->op[k], "*") && strcmp(f->op[k], meta->op->name)) continue;
            verdict[i] = (rp_verdict){ .fate = (unsigned char)(f->fate[k] & 63u), .must = f->fate[k] & FATE_MUST,
                                         .allow_mutation = f->fate[k] & FATE_MAY_CHANGE, .by = "the table" };
            break;
        }
    }
    return RP_OK;
}

void fates_use(rp_ctx *ctx, fates *f)
{
    rp__tape_ctx(ctx)->decider = f ? (rp_decider){ decide, f } : (rp_decider){ 0 };
}

/* ---- counts ---- */

enum { MOST_OPS = 64 };
static rp_op counted[MOST_OPS];
static const rp_op *original[MOST_OPS];
static op_count count[MOST_OPS];
static int n_counted;

static void count_forward(const rp_op_call *c)
{
    int i = (int)(c->meta->op - counted);

    if (c->replaying) count[i].recompute++;
    else count[i].first++;
    original[i]->forward(c);
}

const rp_op *counted_op(const char *name)
{
    for (int i = 0; i < n_counted; i++)
        if (!strcmp(counted[i].name, name)) return &counted[i];
    assert_true(n_counted < MOST_OPS);
    original[n_counted]        = rp__op_find(name);
    counted[n_counted]         = *original[n_counted];
    counted[n_counted].forward = count_forward;
    return &counted[n_counted++];
}

void counts_reset(void) { memset(count, 0, sizeof count); }

op_count counts_of(const char *op) { return count[counted_op(op) - counted]; }

op_count counts_total(void)
{
    op_count sum = { 0 };

    for (int i = 0; i < n_counted; i++) {
        sum.first += count[i].first;
        sum.recompute += count[i].recompute;
    }
    return sum;
}
