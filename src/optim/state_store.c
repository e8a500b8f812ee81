/* optim/state_store.c -- reads and writes windows of states on disk; see state_store.h for the guarantees. */
#include "optim/state_store.h"

#include "base/disk_queue.h"

enum { NONE = -1, BLOCK = 4096, LENT = 2, BUFFERS };     /* buffers 0 and 1 are of the host, LENT of device 0 */

typedef struct {
    rp_state_store_group shape;
    int64_t ticket;                     /* index of the ticket of window 0, part 0; each window has RP_STATE_STORE_PARTS tickets */
    int next;                           /* the group that was taken after it */
} group;

typedef struct { int group; unsigned parts; int64_t window; } place;      /* group NONE: none */

struct rp_state_store {
    rp_ctx *ctx;
    rp_disk_queue *queue;
    group *group;
    int n_groups, last;                 /* last: the group whose window 0 was taken last */
    int64_t *ticket;                    /* NONE: fresh */
    int64_t n_tickets, n_kept, buffer_bytes, bytes;      /* n_kept: most tickets that can be in use */
    int64_t taken_at[BUFFERS];
    int n_taken, here;                  /* here: index of the current buffer */
    place prefetch;                        /* the window being read, or already read, into the other buffer */
};

static int64_t n_windows(const rp_state_store_group *g) { return (g->n + RP_STATE_STORE_WINDOW - 1) / RP_STATE_STORE_WINDOW; }

static int64_t at_most_a_window(int64_t n) { return n < RP_STATE_STORE_WINDOW ? n : RP_STATE_STORE_WINDOW; }
static int64_t window_elems(const rp_state_store_group *g, int64_t window) { return at_most_a_window(g->n - window * RP_STATE_STORE_WINDOW); }

/* Bytes of part k for n elements from the start of a window on. */
static int64_t part_bytes(const rp_state_store_group *g, int k, int64_t n)
{
    int64_t each = g->each[k] ? g->each[k] : 1;

    return (n + each - 1) / each * g->elem_bytes[k];
}

static unsigned parts_of(const rp_state_store_group *g)
{
    unsigned parts = 0;

    for (int k = 0; k < RP_STATE_STORE_PARTS; k++) parts |= g->elem_bytes[k] ? 1u << k : 0;
    return parts;
}

static int64_t *ticket_of(const rp_state_store *s, int g, int64_t window, int part)
{
    return &s->ticket[s->group[g].ticket + window * RP_STATE_STORE_PARTS + part];
}

/* ---- opening and closing ---- */

static void measure(rp_state_store *s, const rp_state_store_group *g)
{
    int64_t bytes = 0, elems = at_most_a_window(g->room > g->n ? g->room : g->n);

    for (int k = 0; k < RP_STATE_STORE_PARTS; k++) {
        s->bytes += part_bytes(g, k, g->n);
        s->n_kept += g->elem_bytes[k] ? n_windows(g) : 0;
        bytes += rp__mem_rounded(s->ctx, part_bytes(g, k, elems));
    }
    if (bytes > s->buffer_bytes) s->buffer_bytes = bytes;
    s->n_tickets += n_windows(g) * RP_STATE_STORE_PARTS;
}

static rp_status copy_groups(rp_state_store *s, const rp_state_store_group *groups, int n)
{
    s->group = rp__host_alloc(s->ctx, n * (int64_t)sizeof *s->group);
    if (!s->group) return RP_ERR_MEMORY;
    s->n_groups = n;
    for (int g = 0; g < n; g++) {
        s->group[g] = (group){ .shape = groups[g], .ticket = s->n_tickets, .next = g + 1 < n ? g + 1 : 0 };
        measure(s, &groups[g]);
    }
    s->ticket = rp__host_alloc(s->ctx, s->n_tickets * (int64_t)sizeof *s->ticket);
    if (!s->ticket) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < s->n_tickets; i++) s->ticket[i] = NONE;
    return RP_OK;
}

static rp_mem_space *space_of(const rp_state_store *s, int buffer) { return s->ctx->space[buffer == LENT ? 0 : s->ctx->host]; }

/* The chunks hold one window being written and one being read. With space reserved for all tickets, no write allocates memory. */
static rp_status state_store_fill(rp_state_store *s, const char *folder, const rp_state_store_group *groups, int n)
{
    RP_TRY(copy_groups(s, groups, n));
    for (; s->n_taken < (s->ctx->device[0]->runs ? BUFFERS : LENT); s->n_taken++)
        RP_TRY(rp__mem_take(s->ctx, space_of(s, s->n_taken), RP_MEM_OPTIM, s->buffer_bytes, "a window of optimizer states", &s->taken_at[s->n_taken]));
    RP_TRY(rp__disk_queue_open_for(s->ctx, folder, 2 * s->buffer_bytes + 2 * BLOCK, "optimizer states", RP_MEM_OPTIM, &s->queue));
    return rp__disk_queue_reserve(s->queue, s->n_kept);
}

rp_status rp__state_store_open(rp_ctx *ctx, const char *folder, const rp_state_store_group *groups, int n_groups, rp_state_store **out)
{
    rp_state_store *s = rp__host_alloc(ctx, sizeof *s);

    if (!s) return RP_ERR_MEMORY;
    *s               = (rp_state_store){ .ctx = ctx, .last = NONE, .prefetch.group = NONE };
    rp_status status = state_store_fill(s, folder, groups, n_groups);
    if (status == RP_OK) *out = s;
    else rp__state_store_close(s);
    return status;
}

void rp__state_store_close(rp_state_store *s)
{
    if (!s) return;
    rp__disk_queue_close(s->queue);          /* first: its worker may be reading into a buffer */
    for (int i = 0; i < s->n_taken; i++) rp__mem_give(space_of(s, i), RP_MEM_OPTIM, s->buffer_bytes, s->taken_at[i]);
    RP_RELEASE(s->ticket, s->group, s);
}

/* ---- reading ---- */

static rp_state_store_view view_of(const rp_state_store *s, place at, int buffer)
{
    const rp_state_store_group *g = &s->group[at.group].shape;
    uint8_t *memory         = rp__mem_at(space_of(s, buffer), s->taken_at[buffer]);
    rp_state_store_view v = { .group = at.group, .parts = at.parts, .first = at.window * RP_STATE_STORE_WINDOW, .count = window_elems(g, at.window) };

    for (int k = 0; k < RP_STATE_STORE_PARTS; k++) {
        if (!(at.parts >> k & 1)) continue;
        v.part[k] = memory;
        memory += rp__mem_rounded(s->ctx, part_bytes(g, k, v.count));
        if (*ticket_of(s, at.group, at.window, k) == NONE) v.fresh |= 1u << k;
    }
    return v;
}

static rp_status begin_read(rp_state_store *s, place at, int buffer)
{
    rp_state_store_view v  = view_of(s, at, buffer);
    rp_status status = RP_OK;

    for (int k = 0; k < RP_STATE_STORE_PARTS && status == RP_OK; k++)
        if ((v.parts & ~v.fresh) >> k & 1) status = rp__disk_queue_read(s->queue, *ticket_of(s, at.group, at.window, k), v.part[k]);
    return status;
}

/* Waits for all parts even after an error, so that the worker no longer uses the buffer. */
static rp_status end_read(rp_state_store *s, place at)
{
    rp_status status = RP_OK, one;

    for (int k = 0; k < RP_STATE_STORE_PARTS; k++) {
        int64_t ticket = at.parts >> k & 1 ? *ticket_of(s, at.group, at.window, k) : NONE;
        if (ticket != NONE && (one = rp__disk_queue_wait(s->queue, ticket)) != RP_OK) status = one;
    }
    return status;
}

static bool same(place a, place b) { return a.group == b.group && a.window == b.window && a.parts == b.parts; }

/* Makes `at` the current window: uses the prefetched one if it is the same, else reads it. */
static rp_status bring(rp_state_store *s, place at)
{
    place prefetch = s->prefetch;

    s->prefetch.group = NONE;
    if (prefetch.group != NONE) RP_TRY(end_read(s, prefetch));
    s->here ^= 1;
    if (same(prefetch, at)) return RP_OK;
    rp_status begun = begin_read(s, at, s->here), ended = end_read(s, at);
    return begun == RP_OK ? ended : begun;
}

/* Whole groups follow each other in the order of the last step. A single part is read from its first window to its last. The current window is
 * not prefetched, because it may be kept with new contents. */
static place expected(const rp_state_store *s, place at)
{
    const group *g    = &s->group[at.group];
    const place none  = { .group = NONE }, first = { g->next, parts_of(&s->group[g->next].shape), 0 };

    if (at.window + 1 < n_windows(&g->shape)) return (place){ at.group, at.parts, at.window + 1 };
    if (at.parts != parts_of(&g->shape) || same(first, at) || !s->group[first.group].shape.n) return none;
    return first;
}

static void note_order(rp_state_store *s, place at)
{
    if (at.window || at.parts != parts_of(&s->group[at.group].shape)) return;
    if (s->last != NONE) s->group[s->last].next = at.group;
    s->last = at.group;
}

rp_status rp__state_store_take(rp_state_store *s, int g, unsigned parts, int64_t at, rp_state_store_view *out)
{
    place here = { g, parts & parts_of(&s->group[g].shape), at / RP_STATE_STORE_WINDOW };

    RP_BUG_IF(at < 0 || at >= s->group[g].shape.n);
    note_order(s, here);
    RP_TRY(bring(s, here));
    s->prefetch = expected(s, here);
    if (s->prefetch.group != NONE) RP_TRY(begin_read(s, s->prefetch, s->here ^ 1));
    *out = view_of(s, here, s->here);
    return RP_OK;
}

int64_t rp__state_store_view_bytes(const rp_state_store *s, const rp_state_store_view *v, int part)
{
    return part_bytes(&s->group[v->group].shape, part, v->count);
}

/* ---- on device 0 ---- */

rp_state_store_view rp__state_store_lend(rp_state_store *s, const rp_state_store_view *v)
{
    rp_state_store_view lent = view_of(s, (place){ v->group, v->parts, v->first / RP_STATE_STORE_WINDOW }, LENT);

    for (int k = 0; k < RP_STATE_STORE_PARTS; k++)
        if (v->part[k]) rp__mem_put(s->ctx, lent.part[k], v->part[k], rp__state_store_view_bytes(s, v, k));
    return lent;
}

void rp__state_store_fetch(rp_state_store *s, const rp_state_store_view *v, const rp_state_store_view *lent)
{
    for (int k = 0; k < RP_STATE_STORE_PARTS; k++)
        if (v->part[k]) rp__mem_copy(s->ctx, v->part[k], lent->part[k], rp__state_store_view_bytes(s, v, k));
    rp__mem_sync(s->ctx);
}

/* ---- writing ---- */

rp_status rp__state_store_keep(rp_state_store *s, const rp_state_store_view *v)
{
    for (int k = 0; k < RP_STATE_STORE_PARTS; k++) {
        if (!v->part[k]) continue;
        int64_t *ticket = ticket_of(s, v->group, v->first / RP_STATE_STORE_WINDOW, k), old = *ticket;
        *ticket = NONE;
        if (old != NONE) rp__disk_queue_drop(s->queue, old);
        RP_TRY(rp__disk_queue_write(s->queue, v->part[k], rp__state_store_view_bytes(s, v, k), ticket));
    }
    return RP_OK;
}

/* The prefetched window may contain the part, so it is discarded. */
void rp__state_store_forget(rp_state_store *s, int part)
{
    if (s->prefetch.group != NONE) end_read(s, s->prefetch);
    s->prefetch.group = NONE;
    for (int64_t i = part; i < s->n_tickets; i += RP_STATE_STORE_PARTS) {
        if (s->ticket[i] != NONE) rp__disk_queue_drop(s->queue, s->ticket[i]);
        s->ticket[i] = NONE;
    }
}

rp_status rp__state_store_flush(rp_state_store *s) { return rp__disk_queue_flush(s->queue); }
int64_t rp__state_store_bytes(const rp_state_store *s) { return s->bytes; }
struct rp_disk_queue *rp__state_store_disk_queue(rp_state_store *s) { return s->queue; }
