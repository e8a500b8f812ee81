/* cost/overlap.c -- simulates two clocks, of computing and of communication: see overlap.h. */
#include "cost/overlap.h"

#include "base/list.h"

#include <math.h>

#define NOT -1.0

void rp__overlap_note(rp_overlap *b, rp_overlap_event event)
{
    rp_status status = RP_GROW(b->ctx, b->at, b->room, b->n + 1);

    if (status == RP_OK) b->at[b->n++] = event;
    else b->status = status;
}

void rp__overlap_close(rp_overlap *b)
{
    rp__release(b->at);
    *b = (rp_overlap){ 0 };
}

/* ---- a step ---- */

typedef struct {
    const rp_overlap *b;
    bool recompute;
    double computing, talk;             /* time reached by each clock */
    int next;                           /* gathers to prefetch are searched from this event on */
    int64_t in_use;                     /* bytes of the prefetch buffer */
    double *done;                       /* for each prefetched or asynchronous event: when it is complete; NOT: neither */
    int oldest;                         /* no earlier sum is pending */
    int64_t summing;                    /* bytes of the sums' buffer in use */
} clocks;

static bool counts(const clocks *c, int i) { return c->recompute || !c->b->at[i].recompute; }

/* Prefetch gathers in order, and only those of this pass. */
static void overlap_ask(clocks *c)
{
    for (; c->next < c->b->n; c->next++) {
        const rp_overlap_event *e = &c->b->at[c->next];
        if (e->kind == RP_OVERLAP_PASS) return;
        if (e->kind != RP_OVERLAP_GATHER || !counts(c, c->next)) continue;
        if (c->in_use + e->bytes > c->b->buffer_bytes) return;
        c->in_use += e->bytes;
        c->talk          = fmax(c->talk, c->computing) + e->seconds;
        c->done[c->next] = c->talk;
    }
}

/* Computing waits until the communication has ended. */
static void talk(clocks *c, double seconds) { c->computing = c->talk = fmax(c->talk, c->computing) + seconds; }

static void overlap_take(clocks *c, int i)
{
    const rp_overlap_event *e = &c->b->at[i];

    if (c->done[i] != NOT) {
        c->computing = fmax(c->computing, c->done[i]);
        c->in_use -= e->bytes;
    } else {
        talk(c, e->seconds);
        c->next = i + 1;
    }
    overlap_ask(c);
}

/* Wait for the oldest pending sum. */
static void settle_one(clocks *c)
{
    while (c->b->at[c->oldest].kind != RP_OVERLAP_SUM || c->done[c->oldest] == NOT) c->oldest++;
    c->computing = fmax(c->computing, c->done[c->oldest]);
    c->summing -= c->b->at[c->oldest++].bytes;
}

static void sum(clocks *c, int i)
{
    const rp_overlap_event *e = &c->b->at[i];

    if (e->bytes > c->b->sums_bytes) {
        talk(c, e->seconds);
        return;
    }
    while (c->summing + e->bytes > c->b->sums_bytes) settle_one(c);
    c->summing += e->bytes;
    c->talk    = fmax(c->talk, c->computing) + e->seconds;
    c->done[i] = c->talk;
}

static void overlap_run(clocks *c)
{
    for (int i = 0; i < c->b->n; i++) {
        const rp_overlap_event *e = &c->b->at[i];
        if (!counts(c, i)) continue;
        if (e->kind == RP_OVERLAP_COMPUTE) c->computing += e->seconds;
        else if (e->kind == RP_OVERLAP_TALK) talk(c, e->seconds);
        else if (e->kind == RP_OVERLAP_GATHER) overlap_take(c, i);
        else if (e->kind == RP_OVERLAP_SUM) sum(c, i);
        else {
            while (c->summing) settle_one(c);
            c->next   = i + 1;
            c->in_use = 0;
            overlap_ask(c);
        }
    }
}

double rp__overlap_seconds(const rp_overlap *b, bool recompute)
{
    clocks c = { .b = b, .recompute = recompute, .done = rp__host_alloc(b->ctx, (b->n + 1) * (int64_t)sizeof *c.done) };

    if (!c.done) return NAN;
    for (int i = 0; i < b->n; i++) c.done[i] = NOT;
    overlap_run(&c);
    while (c.summing) settle_one(&c);
    rp__release(c.done);
    return c.computing;
}

rp_overlap_base rp__overlap_base(const rp_overlap *b)
{
    double sum[5] = { 0 };

    for (int i = 0; i < b->n; i++)
        if (!b->at[i].recompute) sum[b->at[i].kind] += b->at[i].seconds;
    return (rp_overlap_base){ true, sum[RP_OVERLAP_COMPUTE] + sum[RP_OVERLAP_TALK], sum[RP_OVERLAP_GATHER] + sum[RP_OVERLAP_SUM] + sum[RP_OVERLAP_TALK],
                             rp__overlap_seconds(b, false) };
}

double rp__overlap_bound(const rp_overlap_base *b, double recompute_seconds)
{
    if (!b->overlaps) return recompute_seconds;
    double level = (b->computing + b->talk + recompute_seconds) / 2;       /* repeated work is divided so that both take equally long */

    return fmax(0, fmax(fmax(b->computing, b->talk), level) - b->seconds);
}
