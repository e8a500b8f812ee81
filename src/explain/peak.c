/* explain/peak.c -- observes the ledger: the live buffers, the peak, and the owners of the bytes at the peak.
 *
 * Before the step only the live buffers are recorded. During the step every event is logged. At its end the log is replayed up to the peak.
 */
#include "explain/internal.h"
#include "ops/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const phase_names[] = {
    [RP_TAPE_OTHER] = "other", [RP_TAPE_FORWARD] = "forward", [RP_TAPE_REPLAY] = "replay", [RP_TAPE_BACKWARD] = "backward",
};

/* ---- one event ---- */

/* Outputs and by-products of a call are taken before its scratch. */
static bool is_scratch(const rp_explain_watch *w, const rp_tape_work *now, const char *name)
{
    if (now->phase == RP_TAPE_BACKWARD) return !strcmp(name, now->call->op->name);
    return w->n_takes > now->call->n_out + now->call->n_slot;
}

static const char *of_call(rp_explain *e, const rp_tape_work *now, const char *name)
{
    const char *op = now->call->op->name, *role = "";
    char text[256];

    if (is_scratch(e->watch, now, name)) role = ": scratch";
    else if (now->phase == RP_TAPE_BACKWARD && !strcmp(name, "a gradient")) role = ": gradient";
    else if (now->phase == RP_TAPE_BACKWARD) return rp__explain_text(e, name);
    snprintf(text, sizeof text, "%.200s%s%s", op, role, now->phase == RP_TAPE_REPLAY ? ", replayed" : "");
    return rp__explain_text(e, text);
}

/* Names of parameters, of their gradients and of optimizer states already contain the owner. */
static void name_owner(rp_explain *e, const rp_mem_event *event, const rp_tape_work *now, rp_explain_event *out)
{
    static const char gradient[] = "the gradient of ";
    const rp_scope *scope        = rp__tape_ctx(e->watch->ctx)->scope;
    const char *name             = event->label;

    out->path = now->phase != RP_TAPE_OTHER ? now->path : scope ? scope->path : "";
    out->at   = rp__explain_text(e, out->path);
    out->op   = now->phase != RP_TAPE_OTHER ? rp__explain_text(e, now->call->op->name) : NULL;
    if (event->mem_class == RP_MEM_PARAM) {
        out->path = name;
        out->name = "parameters";
        rp__explain_module_of(e, name);         /* now, so that modules are listed in the order of the model */
    } else if (event->mem_class == RP_MEM_OPTIM) {
        out->path = name;
        out->name = "optimizer state";
    } else if (event->mem_class == RP_MEM_GRAD) {
        out->path = strncmp(name, gradient, sizeof gradient - 1) ? out->path : name + sizeof gradient - 1;
        out->name = "gradient";
    } else out->name = now->phase == RP_TAPE_OTHER ? rp__explain_text(e, name) : of_call(e, now, name);
    out->path = rp__explain_text(e, out->path);
}

static void count_replay(rp_explain *e, const rp_tape_work *now)
{
    rp_explain_module *m = rp__explain_module_of(e, now->path);

    if (m) rp__op_add_flops(&m->recompute_flops, now->call, RP_FORWARD);
}

static rp_explain_event event_of(rp_explain *e, const rp_mem_event *event)
{
    rp_explain_watch *w = e->watch;
    rp_tape_work now    = rp__tape_now(w->ctx);
    rp_explain_event out = { .take = event->take, .reclass = event->reclass, .mem_class = event->mem_class, .bytes = event->bytes,
                             .offset = event->offset, .phase = now.phase };

    if (!event->take) return out;
    if (now.serial != w->serial) {
        w->n_takes = 0;
        if (w->in_step && now.phase == RP_TAPE_REPLAY) count_replay(e, &now);
    }
    w->serial = now.serial;
    w->n_takes++;
    name_owner(e, event, &now, &out);
    return out;
}

/* ---- live buffers ---- */

static int find_live(const explain_list *live, int64_t offset)
{
    const rp_explain_event *at = live->at;
    int i                   = live->n - 1;

    while (i >= 0 && at[i].offset != offset) i--;
    return i;
}

/* Buffers of 0 bytes share their offset with others and have no owner. */
static bool apply(rp_ctx *ctx, explain_list *live, const rp_explain_event *event)
{
    rp_explain_event *at = live->at;

    if (!event->bytes) return true;
    if (event->take) {
        at = rp__explain_add(ctx, live, sizeof *at);
        if (at) *at = *event;
        return at != NULL;
    }
    int i = find_live(live, event->offset);
    if (i < 0) return false;
    if (event->reclass) at[i].mem_class = event->mem_class;
    else at[i] = at[--live->n];
    return true;
}

static void observe(void *user, const rp_mem_event *given)
{
    rp_explain *e          = user;
    rp_explain_watch *w    = e->watch;
    rp_explain_event event = event_of(e, given);

    if (w->lost) return;
    if (!event.reclass) w->live_bytes += event.take ? event.bytes : -event.bytes;
    if (!w->in_step) {
        w->lost = !apply(w->ctx, &w->live, &event);
        return;
    }
    rp_explain_event *logged = rp__explain_add(w->ctx, &w->log, sizeof *logged);
    if (!logged) {
        w->lost = true;
        return;
    }
    *logged = event;
    if (w->live_bytes <= w->most_bytes) return;
    w->most_bytes = w->live_bytes;
    w->most_at    = w->log.n;
}

rp_status rp__explain_watch_ctx(rp_explain *e, rp_ctx *of)
{
    e->watch = rp__host_alloc(of, sizeof *e->watch);
    if (!e->watch) return RP_ERR_MEMORY;
    *e->watch   = (rp_explain_watch){ .ctx = of, .home = e->bump.ctx };
    e->bump.ctx = of;
    rp__explain_resume(e);
    return RP_OK;
}

rp_status rp__explain_pause(rp_explain *e)
{
    if (!e->watch) return RP_OK;
    rp__mem_observe(e->watch->ctx->space[0], NULL, NULL);
    RP_CHECK(e->watch->ctx, !e->watch->lost, RP_ERR_MEMORY, "out of memory while recording live buffers");
    return RP_OK;
}

void rp__explain_resume(rp_explain *e)
{
    if (e->watch) rp__mem_observe(e->watch->ctx->space[0], observe, e);
}

void rp__explain_begin(rp_explain *e)
{
    rp__explain_resume(e);
    e->watch->in_step    = true;
    e->watch->most_bytes = e->watch->live_bytes;
    e->watch->most_at    = e->watch->log.n = 0;
}

/* ---- the peak ---- */

static int by_owner(const void *left, const void *right)
{
    const rp_explain_event *a = left, *b = right;
    int order                 = strcmp(a->path, b->path);

    if (!order) order = strcmp(a->name, b->name);
    return order ? order : (int)a->mem_class - (int)b->mem_class;
}

static int by_bytes(const void *left, const void *right)
{
    const rp_explain_owner *a = left, *b = right;

    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    int order = strcmp(a->path, b->path);
    if (!order) order = strcmp(a->name, b->name);
    return order ? order : (int)a->mem_class - (int)b->mem_class;
}

static rp_status list_owners(rp_explain *e, rp_explain_event *block, int n)
{
    e->owner = rp__bump_alloc(&e->bump, (n + 1) * (int64_t)sizeof *e->owner);
    if (!e->owner) return RP_ERR_MEMORY;
    qsort(block, (size_t)n, sizeof *block, by_owner);
    for (int i = 0; i < n; i++) {
        rp_explain_module *m = rp__explain_module_of(e, block[i].path);
        if (!m) return RP_ERR_MEMORY;
        m->peak_at[block[i].mem_class] += block[i].bytes;
        e->peak_at[block[i].mem_class] += block[i].bytes;
        if (i == 0 || by_owner(&block[i - 1], &block[i]))
            e->owner[e->n_owners++] = (rp_explain_owner){ block[i].path, block[i].name, block[i].mem_class, 0, 0 };
        e->owner[e->n_owners - 1].bytes += block[i].bytes;
        e->owner[e->n_owners - 1].n++;
    }
    qsort(e->owner, (size_t)e->n_owners, sizeof *e->owner, by_bytes);
    return RP_OK;
}

static rp_explain_event *copy_events(rp_explain *e, const explain_list *list)
{
    rp_explain_event *copy = rp__bump_alloc(&e->bump, (list->n + 1) * (int64_t)sizeof *copy);

    if (copy && list->n) memcpy(copy, list->at, (size_t)list->n * sizeof *copy);
    return copy;
}

static rp_status keep_events(rp_explain *e)
{
    if (!e->wants_events) return RP_OK;
    e->n_before = e->watch->live.n;
    e->n_events = e->watch->log.n;
    e->before   = copy_events(e, &e->watch->live);
    e->event    = copy_events(e, &e->watch->log);
    return e->before && e->event ? RP_OK : RP_ERR_MEMORY;
}

rp_status rp__explain_peak(rp_explain *e)
{
    rp_explain_watch *w         = e->watch;
    const rp_explain_event *log = w->log.at;

    RP_TRY(keep_events(e));
    for (int i = 0; i < w->most_at; i++)
        if (!apply(w->ctx, &w->live, &log[i])) return RP_ERR_MEMORY;
    e->peak_bytes = w->most_bytes;
    e->peak_event = w->most_at ? phase_names[log[w->most_at - 1].phase] : "other";
    e->peak_path  = w->most_at ? log[w->most_at - 1].at : "";
    e->peak_op    = !w->most_at ? "the step begins" : log[w->most_at - 1].op ? log[w->most_at - 1].op : log[w->most_at - 1].name;
    return list_owners(e, w->live.at, w->live.n);
}
