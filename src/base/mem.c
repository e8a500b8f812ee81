/* base/mem.c -- the ledger of base/mem.h, and the memory behind its pool. */
#include "base/base.h"
#include "base/pool.h"
#include "base/shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef RP_ASAN
#include <sanitizer/lsan_interface.h>
#endif

enum { POISON_BYTE = 0xff };        /* a NaN in every float format */
enum { LEAST_BYTES = 1 << 21 };     /* size of a pool after rp__mem_yield */

struct rp_mem_space {
    const rp_memory *memory;
    const rp_on *on;                /* the context's */
    uint8_t *base;                  /* NULL: shapes only */
    rp_shadow *shadow;              /* NULL: the host has access */
    int64_t mapped_bytes, grown_bytes;      /* addresses; those with physical memory, if the device needs that beforehand */
    bool open;                      /* not sealed */
    rp_pool pool;                   /* its top is reserved_bytes */
    int n_live;
    rp_mem ledger;
    const rp_mem_place *place;      /* of the next n_place allocations */
    int n_place;
    rp_mem_pressure pressure;
    void *pressure_user;
    void (*observer)(void *user, const rp_mem_event *event);
    void *observer_user;
};

static const char *const class_names[RP_MEM_CLASSES] = { "param", "grad", "optim", "saved", "temp", "comm" };

const char *rp_mem_class_name(rp_mem_class c) { return (unsigned)c < RP_MEM_CLASSES ? class_names[c] : "unknown"; }

static void unmap(rp_mem_space *s)
{
    rp__shadow_free(s->shadow);
    if (s->base) s->memory->release(s->base, s->mapped_bytes);
    s->shadow      = NULL;
    s->base        = NULL;
    s->grown_bytes = 0;
}

static rp_status map(rp_ctx *ctx, rp_mem_space *s, int64_t limit)
{
    s->base = s->memory->reserve(limit, &s->mapped_bytes);
    RP_CHECK(ctx, s->base, RP_ERR_MEMORY, "cannot reserve address space for the pool");
    return s->memory->far ? rp__shadow_new(ctx, s->memory, s->base, s->mapped_bytes, &s->shadow) : RP_OK;
}

rp_status rp__mem_space_new(rp_ctx *ctx, const rp_memory *memory, int64_t limit_bytes, bool shapes_only, rp_mem_space **out)
{
    rp_mem_space *s = rp__host_alloc(ctx, sizeof *s);

    if (!s) return RP_ERR_MEMORY;
    s->memory             = memory;
    s->on                 = &ctx->on;
    s->ledger.limit_bytes = limit_bytes;
    s->mapped_bytes       = INT64_MAX;
    rp_status status      = shapes_only ? RP_OK : map(ctx, s, limit_bytes);
    if (status != RP_OK) {
        rp__mem_space_free(s);
        return status;
    }
    s->pool.most = limit_bytes && limit_bytes < s->mapped_bytes ? limit_bytes : s->mapped_bytes;
    *out         = s;
    return RP_OK;
}

void rp__mem_space_free(rp_mem_space *s)
{
    if (!s) return;
    unmap(s);
    RP_RELEASE(s->pool.free, s);
}

/* ---- access ---- */

static void set_open(rp_ctx *ctx, bool open)
{
    for (int i = 0; i < ctx->n_devices; i++) {
        rp_mem_space *s = ctx->space[i];
        if (!s->base || !s->memory->seal || s->open == open) continue;
        s->memory->seal(s->base, s->mapped_bytes, !open);
        s->open = open;
    }
}

/* Host code that acts as a kernel runs after everything in the queue. */
static void begin_kernel(const rp_ctx *ctx)
{
    if (ctx->on.queue && ctx->space[0]->memory->begin) ctx->space[0]->memory->begin(&ctx->on);
}

void rp__mem_enter(rp_ctx *ctx)
{
    if (!ctx->inside++) ctx->turn++;
    set_open(ctx, true);
    begin_kernel(ctx);
}

static void close_unused(rp_ctx *ctx)
{
    if (!ctx->inside && !ctx->held) set_open(ctx, false);
}

void rp__mem_leave(rp_ctx *ctx)
{
    ctx->inside--;
    if (!ctx->inside && ctx->space[0]->shadow) rp__shadow_return(ctx->space[0]->shadow, &ctx->on);
    close_unused(ctx);
}

uint8_t *rp__mem_inside(const rp_ctx *ctx, uint8_t *block, int64_t bytes)
{
    return ctx->space[0]->shadow && ctx->inside ? rp__shadow_use(ctx->space[0]->shadow, block, bytes, &ctx->on) : block;
}

void *rp__mem_scratch(const rp_ctx *ctx, void *block) { return ctx->space[0]->shadow && ctx->inside ? rp__shadow_at(ctx->space[0]->shadow, block) : block; }

void rp__mem_hold(rp_ctx *ctx)
{
    ctx->held++;
    set_open(ctx, true);
}

void rp__mem_unhold(rp_ctx *ctx)
{
    ctx->held--;
    close_unused(ctx);
}

bool rp__mem_on_host(const rp_mem_space *s) { return s->memory->on_host; }
bool rp__mem_is_far(const rp_mem_space *s) { return s->memory->far; }

/* The space that contains `at`; NULL: other host memory. */
static rp_mem_space *space_of(const rp_ctx *ctx, const void *at)
{
    for (int i = 0; i < ctx->n_devices; i++) {
        rp_mem_space *s = ctx->space[i];
        if (s->base && (const uint8_t *)at >= s->base && (const uint8_t *)at < s->base + s->mapped_bytes) return s;
    }
    return NULL;
}

bool rp__mem_at_far(const rp_ctx *ctx, const void *at)
{
    const rp_mem_space *s = space_of(ctx, at);

    return s && s->memory->far;
}

static int64_t rounded_up(const rp_mem_space *s, int64_t bytes) { return (bytes + s->memory->align - 1) & -s->memory->align; }

int64_t rp__mem_rounded(const rp_ctx *ctx, int64_t bytes) { return rounded_up(ctx->space[0], bytes); }

static int64_t shift(const rp_mem_space *s) { return s ? s->memory->copies_at : 0; }

/* Device 0 copies and fills, in its queue. If it is the host, another device does, at once. */
static const rp_memory *memory_for(const rp_ctx *ctx, const rp_mem_space *a, const rp_mem_space *b)
{
    const rp_memory *first = ctx->space[0]->memory;

    if (!first->on_host) return first;
    return a && !a->memory->on_host ? a->memory : b && !b->memory->on_host ? b->memory : first;
}

static const rp_memory *start_copy(const rp_ctx *ctx, const rp_on *on, void *to, const void *from, int64_t bytes)
{
    const rp_mem_space *a = space_of(ctx, to), *b = space_of(ctx, from);
    const rp_memory *memory = memory_for(ctx, a, b);

    if (bytes) memory->copy((uint8_t *)to + shift(a), (const uint8_t *)from + shift(b), bytes, on);
    return memory;
}

/* Host code that acts as a kernel continues after its copies and fills, as the kernels of an op do. */
static void end_in_kernel(const rp_ctx *ctx)
{
    if (ctx->inside) begin_kernel(ctx);
}

void rp__mem_copy(const rp_ctx *ctx, void *to, const void *from, int64_t bytes)
{
    start_copy(ctx, &ctx->on, to, from, bytes);
    end_in_kernel(ctx);
}

void rp__mem_fill(const rp_ctx *ctx, void *at, int byte, int64_t bytes)
{
    const rp_mem_space *s = space_of(ctx, at);

    if (bytes) memory_for(ctx, s, NULL)->fill((uint8_t *)at + shift(s), byte, bytes, &ctx->on);
    end_in_kernel(ctx);
}

void rp__mem_put(const rp_ctx *ctx, void *to, const void *from, int64_t bytes)
{
    const rp_memory *memory = ctx->space[0]->memory;

    if (memory->put && ctx->on.queue && bytes) {
        memory->put(to, from, bytes, &ctx->on);
        return;
    }
    rp__mem_copy(ctx, to, from, bytes);
    rp__mem_sync(ctx);
}

void rp__mem_sync(const rp_ctx *ctx) { ctx->space[0]->memory->sync(&ctx->on); }

uint64_t rp__mem_mark(const rp_ctx *ctx)
{
    const rp_memory *memory = ctx->space[0]->memory;

    return memory->mark ? memory->mark(&ctx->on) : 0;
}

double rp__mem_reach(const rp_ctx *ctx, uint64_t mark)
{
    const rp_memory *memory = ctx->space[0]->memory;

    if (memory->reach) return memory->reach(&ctx->on, mark);
    memory->sync(&ctx->on);
    return 0;
}

/* ---- the lane of device 0 ---- */

bool rp__mem_has_lane(const rp_ctx *ctx) { return ctx->space[0]->memory->lane && ctx->on.queue; }

static bool pinned(const rp_ctx *ctx, const rp_mem_space *s, const void *at, int64_t bytes)
{
    const uint8_t *p = at;
    bool inside      = p >= s->base && p + bytes <= s->base + s->mapped_bytes;

    return inside && ctx->space[0]->memory->lane->pin(s->base, p + bytes - s->base, s->mapped_bytes, &ctx->on);
}

void rp__mem_lane_out(const rp_ctx *ctx, const rp_mem_space *to, int64_t offset, const void *from, int64_t bytes)
{
    void *at = rp__mem_at(to, offset);

    if (!rp__mem_has_lane(ctx) || !to->memory->on_host) rp__mem_copy(ctx, at, from, bytes);
    else if (bytes) ctx->space[0]->memory->lane->out(at, from, bytes, pinned(ctx, to, at, bytes), &ctx->on);
}

void rp__mem_lane_back(const rp_ctx *ctx, void *to, const rp_mem_space *from, int64_t offset, int64_t bytes)
{
    const void *at = rp__mem_at(from, offset);

    if (!rp__mem_has_lane(ctx) || !from->memory->on_host) rp__mem_copy(ctx, to, at, bytes);
    else if (bytes) ctx->space[0]->memory->lane->back(to, at, bytes, pinned(ctx, from, at, bytes), &ctx->on);
}

void rp__mem_lane_await(const rp_ctx *ctx, const void *at, int64_t bytes)
{
    if (rp__mem_has_lane(ctx)) ctx->space[0]->memory->lane->await(at, bytes, &ctx->on);
}

rp_status rp__mem_check(rp_ctx *ctx, const char *call)
{
    const rp_memory *memory = ctx->space[0]->memory;
    const char *error       = memory->failed && ctx->on.queue ? memory->failed(&ctx->on) : NULL;

    RP_CHECK(ctx, !error, RP_ERR_BACKEND, "device '%s' failed at or before %s: %s", ctx->device[0]->name, call, error);
    return RP_OK;
}

rp_status rp__mem_queue_open(rp_ctx *ctx, rp_on *on)
{
    const rp_mem_space *s = ctx->space[0];

    on->queue = NULL;
    if (!s->base || !s->memory->open) return RP_OK;
    on->queue = rp__fault_fires(ctx) ? NULL : s->memory->open();
    RP_CHECK(ctx, on->queue, RP_ERR_MEMORY, "cannot open a queue of device '%s'", ctx->device[0]->name);
    return RP_OK;
}

const char *rp__mem_card(const rp_ctx *ctx)
{
    const rp_mem_space *s = ctx->space[0];

    return s->base && s->memory->card ? s->memory->card() : NULL;
}

const char *rp__mem_about(const rp_ctx *ctx)
{
    const rp_mem_space *s = ctx->space[0];

    return s->base && s->memory->about ? s->memory->about() : NULL;
}

void rp__mem_queue_close(const rp_ctx *ctx, rp_on *on)
{
    if (on->queue) ctx->space[0]->memory->close(on->queue);
    on->queue = NULL;
}

bool rp__mem_copy_in(const rp_ctx *ctx, const rp_on *on, void *to, const void *from, int64_t bytes)
{
    const rp_memory *memory = start_copy(ctx, on, to, from, bytes);

    memory->sync(on);
    return !memory->failed || !on->queue || !memory->failed(on);
}

/* ---- a block's memory ---- */

/* Before these bytes are written: a copy of the lane may still read or write them. */
static void claim(const rp_mem_space *s, int64_t offset, int64_t bytes)
{
    if (s->base && s->memory->lane && bytes) s->memory->lane->await(s->base + offset, bytes, s->on);
}

#ifdef RP_ASAN
/* Under AddressSanitizer each block is a separate heap allocation between red zones, so an access beyond either end is detected to the byte, even
 * where two blocks touch. Offsets are the pool's. The pool's memory stores each block's address at the block's offset. */
static uint8_t **address_of(const rp_mem_space *s, int64_t offset) { return (uint8_t **)(s->base + offset); }
static bool has_heap(const rp_mem_space *s) { return s->base && !s->memory->far; }

/* LeakSanitizer does not search the pool's memory, which may hold the only pointer to the block. The ledger counts the block instead. */
static void block_begins(const rp_mem_space *s, int64_t offset, int64_t bytes)
{
    void *p = NULL;

    if (!has_heap(s) || !bytes) return;
    RP_BUG_IF(posix_memalign(&p, (size_t)s->memory->align, (size_t)bytes));
    __lsan_ignore_object(p);
    *address_of(s, offset) = p;
}

static void block_ends(const rp_mem_space *s, int64_t offset, int64_t bytes)
{
    if (!has_heap(s) || !bytes) return;
    s->memory->sync(s->on);
    rp__release(*address_of(s, offset));
    *address_of(s, offset) = NULL;
}

static void block_moves(const rp_mem_space *s, int64_t from, int64_t to, int64_t bytes)
{
    if (!s->base || !bytes) return;
    if (!has_heap(s)) {
        s->memory->copy(s->base + to, s->base + from, bytes, s->on);
        return;
    }
    s->memory->sync(s->on);
    const uint8_t *old = *address_of(s, from);
    *address_of(s, from) = NULL;
    block_begins(s, to, bytes);
    memcpy(*address_of(s, to), old, (size_t)bytes);
    rp__release((void *)old);
}

static void note_unused(const rp_mem_space *s, int64_t offset, int64_t bytes) { (void)s, (void)offset, (void)bytes; }

/* A block of no bytes has no heap allocation: it gets the address in the pool. */
void *rp__mem_at(const rp_mem_space *s, int64_t offset)
{
    if (!s->base) return NULL;
    uint8_t *at = has_heap(s) && offset < s->pool.top ? *address_of(s, offset) : NULL;
    return at ? at : s->base + offset;
}
#else
#ifdef RP_POISON
/* The host's memory beside a GPU: the lane copies from and to it after it was given back. */
static bool may_be_copied(const rp_mem_space *s) { return s->memory->on_host && s->on->queue; }
#endif

/* Marks memory outside all blocks: under RP_POISON a read of it gives NaN. */
static void note_unused(const rp_mem_space *s, int64_t offset, int64_t bytes)
{
#ifdef RP_POISON
    if (may_be_copied(s)) return;
    if (s->memory->grow && offset + bytes > s->grown_bytes) bytes = s->grown_bytes - offset;
    if (bytes > 0) claim(s, offset, bytes);
    if (s->base && bytes > 0) s->memory->fill(s->base + shift(s) + offset, POISON_BYTE, bytes, s->on);
#else
    (void)s, (void)offset, (void)bytes;
#endif
}

/* Checks that nothing wrote between the end of a block and its rounded end. */
static void check_guard(const rp_mem_space *s, int64_t offset, int64_t bytes)
{
#ifdef RP_POISON
    if (!s->base || s->memory->far || may_be_copied(s)) return;
    s->memory->sync(s->on);
    for (int64_t i = bytes; i < rounded_up(s, bytes); i++) RP_BUG_IF(s->base[shift(s) + offset + i] != POISON_BYTE);
#else
    (void)s, (void)offset, (void)bytes;
#endif
}

static void block_begins(const rp_mem_space *s, int64_t offset, int64_t bytes) { (void)s, (void)offset, (void)bytes; }

static void block_ends(const rp_mem_space *s, int64_t offset, int64_t bytes)
{
    check_guard(s, offset, bytes);
    note_unused(s, offset, rounded_up(s, bytes));
}

static void block_moves(const rp_mem_space *s, int64_t from, int64_t to, int64_t bytes)
{
    check_guard(s, from, bytes);
    if (!s->base) return;
    s->memory->copy(s->base + shift(s) + to, s->base + shift(s) + from, bytes, s->on);
    note_unused(s, to + bytes, from + rounded_up(s, bytes) - to - bytes);
}

void *rp__mem_at(const rp_mem_space *s, int64_t offset) { return s->base ? s->base + offset : NULL; }
#endif

/* ---- the ledger ---- */

static void mem_note(rp_mem_space *s, rp_mem_event event)
{
    event.taken = rounded_up(s, event.bytes);
    if (s->observer) s->observer(s->observer_user, &event);
}

/* Updates the ledger after the pool grew from `top`. The new bytes belong to no block. */
static void note_top(rp_mem_space *s, int64_t top)
{
    s->ledger.reserved_bytes = s->pool.top;
    note_unused(s, top, s->pool.top - top);
}

static int64_t find_place(rp_mem_space *s, int64_t need)
{
    int64_t top = s->pool.top, place = rp__pool_take(&s->pool, need);

    note_top(s, top);
    return place;
}

/* RP_POOL_IN_USE if the step has not released the same blocks as the planned one. */
static int64_t take_place(rp_mem_space *s, int64_t need)
{
    int64_t top = s->pool.top, place = rp__pool_take_at(&s->pool, s->place->offset, need);

    note_top(s, top);
    if (place < 0) return place;
    s->place++;
    s->n_place--;
    return place;
}

void rp__mem_follow(rp_mem_space *s, const rp_mem_place *place, int n)
{
    s->place   = place;
    s->n_place = n;
}

void rp__mem_used(const rp_mem_space *s, void (*visit)(void *, int64_t, int64_t), void *user) { rp__pool_used(&s->pool, visit, user); }

static int64_t place_under_pressure(rp_mem_space *s, int64_t need, int64_t *droppable)
{
    int64_t place = find_place(s, need);

    while (place < 0 && s->pressure && s->pressure(s->pressure_user, need, droppable)) place = find_place(s, need);
    return place;
}

static void count(rp_mem_space *s, rp_mem_class c, int64_t bytes, int64_t rounded)
{
    rp_mem *l = &s->ledger;

    l->live_bytes += bytes;
    l->live_at[c] += bytes;
    l->live_alloc_bytes += rounded;
    RP_BUG_IF(l->live_at[c] < 0 || l->live_bytes < 0);
    if (l->live_bytes > l->peak_bytes) {
        l->peak_bytes = l->live_bytes;
        memcpy(l->peak_at, l->live_at, sizeof l->peak_at);
    }
    if (l->live_alloc_bytes > l->peak_alloc_bytes) l->peak_alloc_bytes = l->live_alloc_bytes;
}

static rp_status no_place(rp_ctx *ctx, const rp_mem_space *s, int64_t bytes, const char *label, int64_t droppable)
{
    char need[RP_SIZE_CHARS], live[RP_SIZE_CHARS], limit[RP_SIZE_CHARS], more[RP_SIZE_CHARS], could[128] = "";

    if (s->pressure)
        snprintf(could, sizeof could, "; %s could be dropped%s", rp__size_text(more, droppable), droppable ? ", but not as one contiguous range" : "");
    return rp_fail(ctx, RP_ERR_MEMORY, "%s needs %s; %s are live and the memory limit is %s%s", label, rp__size_text(need, bytes),
                   rp__size_text(live, s->ledger.live_bytes),
                   rp__size_text(limit, s->ledger.limit_bytes ? s->ledger.limit_bytes : s->mapped_bytes), could);
}

/* Physical memory for the first `end` bytes of the pool. */
static rp_status grow_to(rp_ctx *ctx, rp_mem_space *s, int64_t end, const char *label)
{
    char more[RP_SIZE_CHARS], free[RP_SIZE_CHARS], others[RP_SIZE_CHARS];
    rp_memory_left left;

    if (!s->base || !s->memory->grow || end <= s->grown_bytes) return RP_OK;
    RP_CHECK(ctx, s->memory->grow(s->base, end, &left), RP_ERR_MEMORY,
             "%s: the pool needs %s more; the device has %s left, the driver and other programs hold %s", label,
             rp__size_text(more, end - s->grown_bytes), rp__size_text(free, left.free), rp__size_text(others, left.others));
    s->grown_bytes = end;
    return RP_OK;
}

rp_status rp__mem_take(rp_ctx *ctx, rp_mem_space *s, rp_mem_class c, int64_t bytes, const char *label, int64_t *offset)
{
    char need[RP_SIZE_CHARS];

    RP_BUG_IF(bytes < 0);
    if (rp__fault_fires(ctx))
        return rp_fail(ctx, RP_ERR_MEMORY, "%s needs %s: refused by fault injection", label, rp__size_text(need, bytes));
    RP_CHECK(ctx, bytes < INT64_MAX / 2, RP_ERR_MEMORY, "%s needs %s: more than any machine has", label,
             rp__size_text(need, bytes));
    if (!rp__pool_prepare(ctx, &s->pool, s->n_live)) return RP_ERR_MEMORY;
    RP_CHECK(ctx, !s->n_place || s->place->bytes == bytes, RP_ERR_STATE, "%s needs %s, but the planned step takes %" PRId64, label,
             rp__size_text(need, bytes), s->place->bytes);
    int64_t rounded = rounded_up(s, bytes), droppable = 0;
    int64_t place   = s->n_place ? take_place(s, rounded) : place_under_pressure(s, rounded, &droppable);
    RP_CHECK(ctx, place != RP_POOL_IN_USE, RP_ERR_STATE, "%s needs %s at an offset that is in use: the step differs from the planned one", label,
             rp__size_text(need, bytes));
    if (place < 0) return no_place(ctx, s, bytes, label, droppable);
    if (grow_to(ctx, s, place + rounded, label) != RP_OK) {
        rp__pool_give(&s->pool, place, rounded);
        return RP_ERR_MEMORY;
    }
    s->n_live++;
    claim(s, place, rounded);
    block_begins(s, place, bytes);
    count(s, c, bytes, rounded);
    mem_note(s, (rp_mem_event){ .take = true, .mem_class = c, .bytes = bytes, .offset = place, .label = label });
    *offset = place;
    return RP_OK;
}

void rp__mem_give(rp_mem_space *s, rp_mem_class c, int64_t bytes, int64_t offset)
{
    int64_t rounded = rounded_up(s, bytes);

    count(s, c, -bytes, -rounded);
    s->n_live--;
    mem_note(s, (rp_mem_event){ .mem_class = c, .bytes = bytes, .offset = offset });
    if (rounded == 0) return;
    block_ends(s, offset, bytes);
    rp__pool_give(&s->pool, offset, rounded);
}

void rp__mem_reclass(rp_mem_space *s, rp_mem_class from, rp_mem_class to, int64_t bytes, int64_t offset)
{
    s->ledger.live_at[from] -= bytes;
    s->ledger.live_at[to] += bytes;
    RP_BUG_IF(s->ledger.live_at[from] < 0);
    mem_note(s, (rp_mem_event){ .mem_class = to, .bytes = bytes, .offset = offset, .reclass = true });
}

void rp__mem_read(const rp_mem_space *s, rp_mem *out) { *out = s->ledger; }

void rp__mem_reset_peak(rp_mem_space *s)
{
    rp_mem *l = &s->ledger;

    l->peak_bytes       = l->live_bytes;
    l->peak_alloc_bytes = l->live_alloc_bytes;
    memcpy(l->peak_at, l->live_at, sizeof l->peak_at);
}

rp_status rp__mem_reserve(rp_ctx *ctx, rp_mem_space *s, int64_t bytes)
{
    char need[RP_SIZE_CHARS], limit[RP_SIZE_CHARS];

    if (bytes <= s->pool.top) return RP_OK;
    RP_CHECK(ctx, !s->ledger.limit_bytes || bytes <= s->ledger.limit_bytes, RP_ERR_MEMORY,
             "the step reserves %s; the memory limit is %s", rp__size_text(need, bytes),
             rp__size_text(limit, s->ledger.limit_bytes));
    RP_CHECK(ctx, bytes <= s->mapped_bytes, RP_ERR_MEMORY, "the step reserves %s: more than can be mapped",
             rp__size_text(need, bytes));
    if (!rp__pool_prepare(ctx, &s->pool, s->n_live)) return RP_ERR_MEMORY;
    RP_TRY(grow_to(ctx, s, bytes, "the step"));
    int64_t top = s->pool.top;
    rp__pool_extend(&s->pool, bytes);
    note_top(s, top);
    return RP_OK;
}

void rp__mem_trim(rp_mem_space *s)
{
    rp__pool_trim(&s->pool);
    note_top(s, s->pool.top);
    rp__mem_reset_peak(s);
}

static rp_status remap(rp_ctx *ctx, rp_mem_space *s, int64_t bytes)
{
    if (s->base && !s->pool.top) {
        s->memory->sync(s->on);
        unmap(s);
        s->open = false;
        RP_TRY(map(ctx, s, bytes));
    }
    int64_t limit = s->ledger.limit_bytes;
    s->pool.most  = limit && limit < s->mapped_bytes ? limit : s->mapped_bytes;
    return RP_OK;
}

rp_status rp__mem_yield(rp_ctx *ctx, rp_mem_space *s) { return remap(ctx, s, LEAST_BYTES); }

rp_status rp__mem_limit(rp_ctx *ctx, rp_mem_space *s, int64_t bytes)
{
    if (!s->ledger.limit_bytes || bytes < s->ledger.limit_bytes) s->ledger.limit_bytes = bytes;
    return remap(ctx, s, s->ledger.limit_bytes);
}

void rp__mem_populate(const rp_ctx *ctx, const rp_mem_space *s)
{
    if (s->base) s->memory->commit(s->base + shift(s), s->pool.top, &ctx->on);
}

int64_t rp__mem_mapped(const rp_mem_space *s) { return s->base ? s->mapped_bytes : 0; }

void rp__mem_observe(rp_mem_space *s, void (*observer)(void *, const rp_mem_event *), void *user)
{
    s->observer      = observer;
    s->observer_user = user;
}

void rp__mem_on_pressure(rp_mem_space *s, rp_mem_pressure hook, void *user)
{
    s->pressure      = hook;
    s->pressure_user = user;
}

int rp__mem_n_holes(const rp_mem_space *s) { return rp__pool_n_holes(&s->pool); }

void rp__mem_hole(const rp_mem_space *s, int i, int64_t *offset, int64_t *bytes)
{
    rp_extent hole = rp__pool_hole(&s->pool, i);

    *offset = hole.offset;
    *bytes  = hole.bytes;
}

int64_t rp__mem_slide(rp_mem_space *s, rp_mem_class c, int64_t bytes, int64_t offset)
{
    int64_t rounded = rounded_up(s, bytes), to = rp__pool_slide(&s->pool, offset, rounded);

    claim(s, to, rounded);
    block_moves(s, offset, to, bytes);
    mem_note(s, (rp_mem_event){ .mem_class = c, .bytes = bytes, .offset = offset });
    mem_note(s, (rp_mem_event){ .take = true, .mem_class = c, .bytes = bytes, .offset = to, .label = "moved" });
    return to;
}
