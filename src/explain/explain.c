/* explain/explain.c -- records the slots of a step with the reasons for their fates, and sums them up by module. */
#include "base/list.h"
#include "explain/internal.h"
#include "ops/call.h"

#include <stdlib.h>
#include <string.h>

/* ---- lists and texts ---- */

void *rp__explain_add(rp_ctx *ctx, explain_list *list, int64_t size)
{
    if (list->n == list->room && rp__list_grow(ctx, &list->at, size, &list->room, sizeof list->room, list->n + 1) != RP_OK) return NULL;
    return (char *)list->at + list->n++ * size;
}

/* Open addressing over known.at, which has twice as many places as texts. */
static const char **find_text(const explain_list *known, const char *text)
{
    const char **at = known->at;

    for (uint64_t i = rp__hash(text, strlen(text), RP_HASH_START);; i++) {
        const char **place = &at[i & (uint64_t)(known->room - 1)];
        if (!*place || !strcmp(*place, text)) return place;
    }
}

static bool grow_known(rp_explain_watch *w)
{
    explain_list larger = { .n = w->known.n, .room = w->known.room ? w->known.room * 2 : 256 };
    const char **at     = w->known.at;

    if (w->known.n * 2 < w->known.room) return true;
    larger.at = rp__host_alloc(w->ctx, larger.room * (int64_t)sizeof *at);
    if (!larger.at) return false;
    for (int i = 0; i < w->known.room; i++)
        if (at[i]) *find_text(&larger, at[i]) = at[i];
    rp__release(w->known.at);
    w->known = larger;
    return true;
}

const char *rp__explain_text(rp_explain *e, const char *text)
{
    rp_explain_watch *w = e->watch;

    const char **place = grow_known(w) ? find_text(&w->known, text) : NULL;
    if (place && *place) return *place;
    const char *copy = place ? rp__bump_text(&e->bump, text, (int64_t)strlen(text)) : NULL;
    if (!copy) {
        w->lost = true;
        return NULL;
    }
    w->known.n++;
    *place = copy;
    return copy;
}

/* ---- modules ---- */

/* The length of "layers.3" in "layers.3.mlp.up"; of the first part if there is no number. */
static size_t module_chars(const char *path)
{
    size_t first = strcspn(path, "."), next = first;

    for (const char *part = path; *part;) {
        size_t n = strcspn(part, ".");
        next     = (size_t)(part - path) + n;
        if (strspn(part, "0123456789") == n) return next;
        part += part[n] ? n + 1 : n;
    }
    return first;
}

rp_explain_module *rp__explain_module_of(rp_explain *e, const char *path)
{
    explain_list *list    = &e->watch->module;
    rp_explain_module *at = list->at;
    size_t n              = module_chars(path);
    char name[512];

    for (int i = 0; i < list->n; i++)
        if (!strncmp(at[i].path, path, n) && !at[i].path[n]) return &at[i];
    snprintf(name, sizeof name, "%.*s", (int)n, path);
    const char *kept     = rp__explain_text(e, name);
    rp_explain_module *m = kept ? rp__explain_add(e->watch->ctx, list, sizeof *m) : NULL;
    if (m) *m = (rp_explain_module){ .path = kept };
    else e->watch->lost = true;
    return m;
}

/* ---- slots ---- */

static const char *reason(rp_explain *e, const rp_tape_slot *s)
{
    if (s->by && s->overruled) return rp__bump_format(&e->bump, "%s, but read outside %s", s->by, s->region ? s->region : s->path);
    if (s->by) return rp__explain_text(e, s->by);
    if (s->call->op->flags & RP_OP_DECIDES) return rp__explain_text(e, "kept: a decision");
    if (s->overruled) return rp__bump_format(&e->bump, "kept: read outside %s", s->region);
    if (s->region && s->fate == RP_RECOMPUTE) return rp__bump_format(&e->bump, "region %s", s->region);
    if (s->region && !rp__op_replays(s->call->op)) return rp__explain_text(e, "kept: never replayed");
    return rp__explain_text(e, s->backward_reads ? "kept: no region" : "kept: a replay reads it");
}

static void add_slot(void *user, const rp_tape_slot *s)
{
    rp_explain *e         = user;
    rp_explain_slot *slot = &e->slot[e->n_slots];
    int64_t flops         = s->call->op->cost ? s->call->op->cost(s->call, RP_FORWARD).flops : 0;
    bool gathered         = s->call->op->flags & RP_OP_COLLECTIVE;

    *slot = (rp_explain_slot){
        .path = rp__explain_text(e, s->path), .op = rp__explain_text(e, s->op), .call = s->nth, .output = s->output,
        .by_product = s->by_product, .saved = s->saved && !s->offload && !gathered, .offload = s->offload, .gathered = s->saved && gathered,
        .reads = s->backward_reads, .fate = s->fate,
        .by = reason(e, s), .region = s->region ? rp__explain_text(e, s->region) : NULL, .meta = s->meta,
        .bytes = rp_meta_bytes(&s->meta), .flops = flops, .seconds = e->costs ? rp__cost_seconds(e->costs, s->call, RP_FORWARD) : 0,
    };
    if (!slot->by) e->watch->lost = true;
    if (!e->watch->lost) e->n_slots++;
}

static void count_slot(void *user, const rp_tape_slot *s)
{
    (void)s;
    ++*(int *)user;
}

rp_status rp__explain_slots(rp_explain *e)
{
    int n = 0;

    RP_TRY(rp__tape_slots(e->watch->ctx, count_slot, &n));
    e->n_slots = 0;
    e->slot    = rp__bump_alloc(&e->bump, (n + 1) * (int64_t)sizeof *e->slot);
    return e->slot ? rp__tape_slots(e->watch->ctx, add_slot, e) : RP_ERR_MEMORY;
}

static bool first_of_region(const rp_explain *e, int i)
{
    for (int j = 0; j < i; j++)
        if (e->slot[j].region == e->slot[i].region) return false;
    return e->slot[i].region != NULL;
}

static rp_status total_slots(rp_explain *e)
{
    for (int i = 0; i < e->n_slots; i++) {
        const rp_explain_slot *s = &e->slot[i];
        rp_explain_module *m     = rp__explain_module_of(e, s->path);
        if (!m) return RP_ERR_MEMORY;
        if (!s->gathered) *(s->saved ? &m->saved_bytes : s->offload ? &m->offload_bytes : &m->recomputed_bytes) += s->bytes;
        m->n_slots++;
        e->saved_bytes += s->saved ? s->bytes : 0;
        e->offload_bytes += s->offload ? s->bytes : 0;
        e->n_regions += first_of_region(e, i);
    }
    return RP_OK;
}

/* ---- life ---- */

void rp__explain_open(rp_explain *e, rp_ctx *ctx) { *e = (rp_explain){ .bump = { .ctx = ctx } }; }

static void watch_close(rp_explain *e)
{
    rp_explain_watch *w = e->watch;

    if (!w) return;
    rp__mem_observe(w->ctx->space[0], NULL, NULL);
    e->bump.ctx = w->home;
    RP_RELEASE(w->live.at, w->log.at, w->module.at, w->known.at, w);
    e->watch = NULL;
}

static rp_status explain_finish(rp_explain *e)
{
    RP_CHECK(e->watch->ctx, !e->watch->lost, RP_ERR_MEMORY, "out of memory while recording a step");
    RP_TRY(total_slots(e));
    RP_TRY(rp__explain_peak(e));
    const explain_list *list = &e->watch->module;
    e->module                = rp__bump_alloc(&e->bump, (list->n + 1) * (int64_t)sizeof *e->module);
    if (!e->module) return RP_ERR_MEMORY;
    if (list->n) memcpy(e->module, list->at, (size_t)list->n * sizeof *e->module);
    e->n_modules = list->n;
    return RP_OK;
}

rp_status rp__explain_end(rp_explain *e, const rp_tape_stats *work)
{
    e->step_flops        = work->step_flops;
    e->recompute_flops   = work->recompute_flops;
    e->host_fallback_ops = work->host_fallback_ops;
    rp_status status     = explain_finish(e);
    watch_close(e);
    return status;
}

void rp__explain_close(rp_explain *e)
{
    watch_close(e);
    rp__bump_free(&e->bump);
    *e = (rp_explain){ 0 };
}

/* ---- rows ---- */

/* Replaces numbered parts of a path by '*', also within a longer text. The line number of a file stays. */
const char *rp__explain_pattern(rp_bump *bump, const char *text)
{
    char *out = rp__bump_text(bump, text, (int64_t)strlen(text)), *to = out;

    for (const char *p = text; out && *p; p++) {
        size_t n = p > text && p[-1] == '.' ? strspn(p, "0123456789") : 0;
        bool part = n && (!p[n] || p[n] == '.');
        *to++     = part ? '*' : *p;
        p += part ? n - 1 : 0;
    }
    if (out) *to = 0;
    return out;
}

static bool same_line(const rp_explain_row *a, const rp_explain_row *b)
{
    const rp_explain_slot *x = a->slot, *y = b->slot;

    return !strcmp(a->path, b->path) && x->op == y->op && x->call == y->call && x->output == y->output && x->by_product == y->by_product &&
           x->fate == y->fate && x->saved == y->saved && x->offload == y->offload && x->flops == y->flops && rp_meta_same(&x->meta, &y->meta) &&
           !strcmp(a->by, b->by);
}

/* A rule is named by its place. Numbers in a place are not block numbers. */
static bool make_row(rp_explain *e, const rp_explain_slot *slot, rp_explain_row *out)
{
    bool by_region = !strncmp(slot->by, "region ", 7) || !strncmp(slot->by, "kept: ", 6);

    *out = (rp_explain_row){ .path = rp__explain_pattern(&e->bump, slot->path),
                             .by   = by_region ? rp__explain_pattern(&e->bump, slot->by) : slot->by, .slot = slot, .n = 1 };
    return out->path && out->by;
}

static int in_order(const void *left, const void *right)
{
    static const int rank[] = { [RP_KEEP] = 0, [RP_OFFLOAD] = 1, [RP_RECOMPUTE] = 2 };
    const rp_explain_row *a = left, *b = right;
    int64_t x = a->slot->bytes * a->n, y = b->slot->bytes * b->n;

    if (a->slot->fate != b->slot->fate) return rank[a->slot->fate] - rank[b->slot->fate];
    if (x != y) return x < y ? 1 : -1;
    return a->slot < b->slot ? -1 : a->slot > b->slot;
}

rp_status rp__explain_rows(rp_explain *e, rp_explain_row **rows, int *n_rows)
{
    rp_explain_row *row = rp__bump_alloc(&e->bump, (e->n_slots + 1) * (int64_t)sizeof *row);
    int n               = 0;

    if (!row) return RP_ERR_MEMORY;
    for (int i = 0; i < e->n_slots; i++) {
        int at = 0;
        if (!make_row(e, &e->slot[i], &row[n])) return RP_ERR_MEMORY;
        while (at < n && !same_line(&row[at], &row[n])) at++;
        if (at < n) row[at].n++;
        else n++;
    }
    for (int i = 0; i < n; i++) {
        if (row[i].n > 1) continue;
        row[i].path = row[i].slot->path;
        row[i].by   = row[i].slot->by;
    }
    qsort(row, (size_t)n, sizeof *row, in_order);
    *rows   = row;
    *n_rows = n;
    return RP_OK;
}
