/* rehearse/replay.c -- repeats recorded steps on a GPU.
 *
 *   first step of a plan    runs, and the launches of each micro-batch are noted
 *   second                  runs too. If its launches are those of the first, each micro-batch becomes a CUDA graph
 *   later                   inputs are copied to the places they had, the step block is renewed, and the graphs are launched
 *
 * A plan fixes the shapes, the fates and all addresses, and steps that follow it require the same live memory. Values that differ from step to step
 * are in the step block (kernels/step.h). So the launches are the same. If a value is not there that should be, two lists differ, and the step is never
 * repeated. A micro-batch whose list is that of the one before it shares its graph.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/device.h"
#include "plan/plan.h"
#include "rehearse/engine.h"
#include "tape/tape.h"

enum { MOST_REPLAYS = 16, MOST_TRIES = 4 };     /* plans whose steps are kept; recorded steps of a plan that differ before it is given up */

/* Micro-batch i uses the record of micro-batch `of`, which is i or an earlier one. */
typedef struct { struct rp_record *record; int64_t of; rp_batch_place place; } micro_replay;

typedef struct rp_replay {
    uint64_t plan;                              /* its id; 0: unused */
    int64_t n;                                  /* micro-batches */
    micro_replay *micro, *last;                 /* of this step, and of the recorded step before it; both are NULL if memory ran out */
    bool ready, complete;                       /* complete: every micro-batch of this step has been recorded */
    int tries;
    rp_step_result result;
} rp_replay;

typedef struct rp_replays { rp_replay replay[MOST_REPLAYS]; int next; } rp_replays;

static const rp_records *records_of(const rp_engine *e) { return e->ctx->device[0]->memory->records; }

/* ---- a plan's replay ---- */

static void forget_micros(const rp_engine *e, micro_replay *m, int64_t n)
{
    for (int64_t i = 0; m && i < n; i++) records_of(e)->free(m[i].record);
    if (m) memset(m, 0, (size_t)n * sizeof *m);
}

static void replay_forget(const rp_engine *e, rp_replay *r)
{
    forget_micros(e, r->micro, r->n);
    forget_micros(e, r->last, r->n);
    RP_RELEASE(r->micro, r->last);
    *r = (rp_replay){ 0 };
}

void rp__replays_free(rp_engine *e)
{
    for (int i = 0; e->replays && i < MOST_REPLAYS; i++) replay_forget(e, &e->replays->replay[i]);
    rp__release(e->replays);
    e->replays = NULL;
    e->replay  = NULL;
}

static uint64_t id_of(rp_plan *plan)
{
    static atomic_uint_fast64_t ids;

    if (!plan->id) plan->id = atomic_fetch_add(&ids, 1) + 1;
    return plan->id;
}

/* Missing memory is no error: the step then runs as usual. */
static rp_replay *replay_find(rp_engine *e, uint64_t plan)
{
    int64_t n = e->recipe->gradient_accumulation_steps;

    if (!e->replays) e->replays = calloc(1, sizeof *e->replays);
    if (!e->replays) return NULL;
    for (int i = 0; i < MOST_REPLAYS; i++)
        if (e->replays->replay[i].plan == plan) return &e->replays->replay[i];
    rp_replay *r = &e->replays->replay[e->replays->next];
    e->replays->next = (e->replays->next + 1) % MOST_REPLAYS;
    replay_forget(e, r);
    *r = (rp_replay){ .plan = plan, .n = n, .micro = calloc((size_t)n, sizeof *r->micro), .last = calloc((size_t)n, sizeof *r->last) };
    return r;
}

static bool is_off(void)
{
    const char *graphs = getenv("REPRISE_GRAPHS");

    return graphs && !strcmp(graphs, "off");
}

/* Does nothing on the host depend on the step's values? A profile needs the spans of a step that runs. */
static bool repeats(const rp_engine *e)
{
    return e->queued && records_of(e) && e->follow && e->follow->place && !e->ctx->watch && rp__tape_ctx(e->ctx)->verify == RP_TAPE_VERIFY_NEVER &&
           !rp__model_reads_positions(e->model) && !is_off();
}

bool rp__replay_open(rp_engine *e)
{
    e->replay    = repeats(e) ? replay_find(e, id_of(e->follow)) : NULL;
    rp_replay *r = e->replay;

    if (!r) return false;
    if (r->ready) return rp__step_stands(e->ctx) == e->follow->before;
    r->complete = r->micro && r->last;
    if (!r->complete || r->tries == MOST_TRIES) e->replay = NULL;
    return false;
}

/* ---- recording ---- */

void rp__replay_begin(rp_engine *e)
{
    if (e->replay && !e->replay->ready) records_of(e)->begin(&e->ctx->on);
}

void rp__replay_end(rp_engine *e, int64_t i, const rp_batch_place *place)
{
    rp_replay *r = e->replay;

    if (!r || r->ready) return;
    micro_replay *m = &r->micro[i];
    *m              = (micro_replay){ records_of(e)->end(&e->ctx->on), i, *place };
    r->complete     = r->complete && m->record;
    if (!i || !m->record) return;
    const struct rp_record *before = r->micro[m[-1].of].record;
    if (!before || !records_of(e)->same(before, m->record)) return;
    records_of(e)->free(m->record);
    *m = (micro_replay){ NULL, m[-1].of, *place };
}

static bool same_micro(const rp_engine *e, const micro_replay *a, const micro_replay *b)
{
    if (a->of != b->of || memcmp(&a->place, &b->place, sizeof a->place)) return false;
    return !a->record || records_of(e)->same(a->record, b->record);
}

/* Two steps in a row made the same launches. */
static bool is_settled(const rp_engine *e, const rp_replay *r)
{
    for (int64_t i = 0; i < r->n; i++)
        if (!same_micro(e, &r->micro[i], &r->last[i])) return false;
    return true;
}

static bool prepare(const rp_engine *e, const rp_replay *r)
{
    for (int64_t i = 0; i < r->n; i++)
        if (r->micro[i].record && !records_of(e)->prepare(r->micro[i].record, &e->ctx->on)) return false;
    return true;
}

/* This step's records become those of the step before. */
static void keep_for_next(const rp_engine *e, rp_replay *r)
{
    micro_replay *old = r->last;

    forget_micros(e, old, r->n);
    r->last  = r->micro;
    r->micro = old;
}

void rp__replay_close(rp_engine *e, const rp_step_result *result)
{
    rp_replay *r = e->replay;

    e->replay = NULL;
    if (!r || r->ready) return;
    records_of(e)->free(records_of(e)->end(&e->ctx->on));       /* of a step that failed in the middle */
    bool before = r->tries++;
    if (!result || !r->complete) {
        forget_micros(e, r->micro, r->n);
        return;
    }
    r->result = *result;
    if (!before || !is_settled(e, r)) keep_for_next(e, r);
    else if (prepare(e, r)) r->ready = true;
    else r->tries = MOST_TRIES;                 /* the driver refuses */
    if (r->ready || r->tries == MOST_TRIES) forget_micros(e, r->last, r->n);
}

/* ---- repeating ---- */

rp_status rp__replay_micro(rp_engine *e, int64_t i, const rp_data_batch *batch)
{
    const micro_replay *m = &e->replay->micro[i];

    RP_TRY(rp__batch_send(e, batch, &m->place));
    records_of(e)->repeat(e->replay->micro[m->of].record, &e->ctx->on);
    return RP_OK;
}

void rp__replay_usage(const rp_engine *e, rp_step_result *out)
{
    out->saved_bytes = e->replay->result.saved_bytes;
    out->memory      = e->replay->result.memory;
    out->work        = e->replay->result.work;
}
