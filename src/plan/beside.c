/* plan/beside.c -- two clocks, of computing and of talk: see beside.h. */
#include "plan/beside.h"

#include "base/list.h"

#include <math.h>

#define NOT -1.0

void rp__beside_note(rp_beside *b, rp_beside_event event)
{
    rp_status status = RP_GROW(b->ctx, b->at, b->room, b->n + 1);

    if (status == RP_OK) b->at[b->n++] = event;
    else b->status = status;
}

void rp__beside_close(rp_beside *b)
{
    rp__release(b->at);
    *b = (rp_beside){ 0 };
}

/* ---- a step ---- */

typedef struct {
    const rp_beside *b;
    bool again;
    double computing, talk;             /* until when */
    int next;                           /* the event from which on gathers are looked for to ask for ahead */
    int64_t in_use;                     /* of the buffer */
    double *done;                       /* of each event that was asked for ahead, or left to come: when it is there; NOT: it was neither */
    int oldest;                         /* no sum before it is under way */
    int64_t summing;                    /* of the sums' buffer, in use */
} clocks;

static bool counts(const clocks *c, int i) { return c->again || !c->b->at[i].again; }

/* In order, and of this pass alone. */
static void ask(clocks *c)
{
    for (; c->next < c->b->n; c->next++) {
        const rp_beside_event *e = &c->b->at[c->next];
        if (e->kind == RP_BESIDE_PASS) return;
        if (e->kind != RP_BESIDE_GATHER || !counts(c, c->next)) continue;
        if (c->in_use + e->bytes > c->b->buffer_bytes) return;
        c->in_use += e->bytes;
        c->talk          = fmax(c->talk, c->computing) + e->seconds;
        c->done[c->next] = c->talk;
    }
}

/* Computing stands still until it is over. */
static void talk(clocks *c, double seconds) { c->computing = c->talk = fmax(c->talk, c->computing) + seconds; }

static void take(clocks *c, int i)
{
    const rp_beside_event *e = &c->b->at[i];

    if (c->done[i] != NOT) {
        c->computing = fmax(c->computing, c->done[i]);
        c->in_use -= e->bytes;
    } else {
        talk(c, e->seconds);
        c->next = i + 1;
    }
    ask(c);
}

/* The oldest sum that is under way comes. */
static void settle_one(clocks *c)
{
    while (c->b->at[c->oldest].kind != RP_BESIDE_SUM || c->done[c->oldest] == NOT) c->oldest++;
    c->computing = fmax(c->computing, c->done[c->oldest]);
    c->summing -= c->b->at[c->oldest++].bytes;
}

static void sum(clocks *c, int i)
{
    const rp_beside_event *e = &c->b->at[i];

    if (e->bytes > c->b->sums_bytes) {
        talk(c, e->seconds);
        return;
    }
    while (c->summing + e->bytes > c->b->sums_bytes) settle_one(c);
    c->summing += e->bytes;
    c->talk    = fmax(c->talk, c->computing) + e->seconds;
    c->done[i] = c->talk;
}

static void run(clocks *c)
{
    for (int i = 0; i < c->b->n; i++) {
        const rp_beside_event *e = &c->b->at[i];
        if (!counts(c, i)) continue;
        if (e->kind == RP_BESIDE_COMPUTE) c->computing += e->seconds;
        else if (e->kind == RP_BESIDE_TALK) talk(c, e->seconds);
        else if (e->kind == RP_BESIDE_GATHER) take(c, i);
        else if (e->kind == RP_BESIDE_SUM) sum(c, i);
        else {
            while (c->summing) settle_one(c);
            c->next   = i + 1;
            c->in_use = 0;
            ask(c);
        }
    }
}

double rp__beside_seconds(const rp_beside *b, bool again)
{
    clocks c = { .b = b, .again = again, .done = rp__host_alloc(b->ctx, (b->n + 1) * (int64_t)sizeof *c.done) };

    if (!c.done) return NAN;
    for (int i = 0; i < b->n; i++) c.done[i] = NOT;
    run(&c);
    while (c.summing) settle_one(&c);
    rp__release(c.done);
    return c.computing;
}

rp_beside_base rp__beside_base(const rp_beside *b)
{
    double sum[5] = { 0 };

    for (int i = 0; i < b->n; i++)
        if (!b->at[i].again) sum[b->at[i].kind] += b->at[i].seconds;
    return (rp_beside_base){ true, sum[RP_BESIDE_COMPUTE] + sum[RP_BESIDE_TALK], sum[RP_BESIDE_GATHER] + sum[RP_BESIDE_SUM] + sum[RP_BESIDE_TALK],
                             rp__beside_seconds(b, false) };
}

double rp__beside_bound(const rp_beside_base *b, double again_seconds)
{
    if (!b->overlaps) return again_seconds;
    double level = (b->computing + b->talk + again_seconds) / 2;       /* where what is done again is shared out so that both take as long */

    return fmax(0, fmax(fmax(b->computing, b->talk), level) - b->seconds);
}
