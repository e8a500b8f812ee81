/* device/memory.c -- the memory functions of base/device.h over a driver.
 *
 * A space is one range of addresses. Physical memory is mapped from its start on, in pieces, as the pool grows:
 *
 *   base   [ piece 0 | piece 1 | piece 2 ][ addresses alone ................. ]
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "device/gpu.h"

enum { BOUNCE_BYTES = 1 << 21 };        /* a multiple of every granularity so far */

static int64_t rounded(int64_t bytes, int64_t step) { return (bytes + step - 1) / step * step; }

static rp_gpu_arena *arena_at(rp_gpu *gpu, uint64_t at)
{
    for (int i = 0; i < RP_GPU_ARENAS; i++) {
        rp_gpu_arena *a = &gpu->arena[i];
        if (a->base && at >= a->base && at < a->base + (uint64_t)a->bytes) return a;
    }
    return NULL;
}

/* Whether `at` is device memory. Other threads may open and close contexts meanwhile. */
static bool is_device(rp_gpu *gpu, uint64_t at)
{
    pthread_mutex_lock(&gpu->lock);
    bool found = arena_at(gpu, at) != NULL;
    pthread_mutex_unlock(&gpu->lock);
    return found;
}

static uint64_t address(const void *at) { return (uint64_t)(uintptr_t)at; }

/* ---- ranges ---- */

static rp_gpu_arena *free_entry(rp_gpu *gpu)
{
    for (int i = 0; i < RP_GPU_ARENAS; i++)
        if (!gpu->arena[i].base) return &gpu->arena[i];
    return NULL;
}

/* Without a limit, the addresses of as much memory as the device has. */
static int64_t range_bytes(const rp_gpu *gpu, int64_t limit)
{
    size_t available = 0, total = 0;

    gpu->call.cuMemGetInfo_v2(&available, &total);
    return rounded(limit && limit < (int64_t)total ? limit : (int64_t)total, gpu->granularity);
}

uint8_t *rp__gpu_reserve(rp_gpu *gpu, int64_t limit, int64_t *bytes)
{
    uint64_t base = 0;

    rp__gpu_enter(gpu);
    pthread_mutex_lock(&gpu->lock);
    rp_gpu_arena *a = free_entry(gpu);
    *bytes          = range_bytes(gpu, limit);
    if (a && !gpu->call.cuMemAddressReserve(&base, (size_t)*bytes, 0, 0, 0)) *a = (rp_gpu_arena){ .base = base, .bytes = *bytes };
    pthread_mutex_unlock(&gpu->lock);
    return (uint8_t *)(uintptr_t)base;
}

static void unmap_pieces(const rp_gpu *gpu, rp_gpu_arena *a)
{
    uint64_t at = a->base;

    for (int i = 0; i < a->n_pieces; i++) {
        gpu->call.cuMemUnmap(at, (size_t)a->piece[i].bytes);
        gpu->call.cuMemRelease(a->piece[i].handle);
        at += (uint64_t)a->piece[i].bytes;
    }
}

/* Nothing in a queue uses the range any more: its owner has waited. */
void rp__gpu_release(rp_gpu *gpu, const uint8_t *base)
{
    rp__gpu_enter(gpu);
    pthread_mutex_lock(&gpu->lock);
    rp_gpu_arena *a = arena_at(gpu, address(base));
    unmap_pieces(gpu, a);
    gpu->call.cuMemAddressFree(a->base, (size_t)a->bytes);
    *a = (rp_gpu_arena){ 0 };
    pthread_mutex_unlock(&gpu->lock);
}

/* Maps one more piece. */
static bool add_piece(const rp_gpu *gpu, rp_gpu_arena *a, int64_t bytes)
{
    rp_cuda_allocation kind = rp__gpu_allocation(gpu);
    rp_cuda_access access   = { kind.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    uint64_t handle, at = a->base + (uint64_t)a->mapped;

    if (a->n_pieces == RP_GPU_PIECES || gpu->call.cuMemCreate(&handle, (size_t)bytes, &kind, 0)) return false;
    if (gpu->call.cuMemMap(at, (size_t)bytes, 0, handle, 0)) {
        gpu->call.cuMemRelease(handle);
        return false;
    }
    a->piece[a->n_pieces++] = (rp_gpu_piece){ handle, bytes };
    a->mapped += bytes;
    return !gpu->call.cuMemSetAccess(at, (size_t)bytes, &access, 1);
}

/* A pool that grows by small blocks gets pieces that double, so that they stay few. If there is no memory for that, the piece is as small as possible. */
static bool grow_arena(const rp_gpu *gpu, rp_gpu_arena *a, int64_t bytes)
{
    int64_t least = rounded(bytes, gpu->granularity) - a->mapped, room = a->bytes - a->mapped;
    int64_t more  = least < a->mapped ? a->mapped : least;

    if (least <= 0) return true;
    if (more > room) more = room;
    return add_piece(gpu, a, more) || (more > least && add_piece(gpu, a, least));
}

static rp_memory_left what_is_left(const rp_gpu *gpu)
{
    size_t available = 0, total = 0;
    int64_t ours = 0;

    gpu->call.cuMemGetInfo_v2(&available, &total);
    for (int i = 0; i < RP_GPU_ARENAS; i++) ours += gpu->arena[i].mapped;
    return (rp_memory_left){ .free = (int64_t)available, .others = (int64_t)total - (int64_t)available - ours };
}

bool rp__gpu_grow(rp_gpu *gpu, const uint8_t *base, int64_t bytes, rp_memory_left *left)
{
    rp__gpu_enter(gpu);
    pthread_mutex_lock(&gpu->lock);
    bool grown = grow_arena(gpu, arena_at(gpu, address(base)), bytes);
    if (!grown) *left = what_is_left(gpu);
    pthread_mutex_unlock(&gpu->lock);
    return grown;
}

/* grow has mapped everything. */
static void gpu_commit(uint8_t *base, int64_t bytes, const rp_on *on) { (void)base, (void)bytes, (void)on; }

/* ---- copies ---- */

/* Device memory for slide, outside every arena. It stays until the process ends. */
static uint64_t bounce_of(rp_gpu *gpu)
{
    if (!gpu->bounce) {
        int64_t bytes;
        uint8_t *at = rp__gpu_reserve(gpu, BOUNCE_BYTES, &bytes);
        rp_memory_left left;
        if (at && rp__gpu_grow(gpu, at, BOUNCE_BYTES, &left)) gpu->bounce = address(at);
        else if (at) rp__gpu_release(gpu, at);
    }
    return gpu->bounce;
}

bool rp__gpu_prepare_slide(rp_gpu *gpu)
{
    pthread_mutex_lock(&gpu->slide);
    bool prepared = bounce_of(gpu) != 0;
    pthread_mutex_unlock(&gpu->slide);
    return prepared;
}

/* Ranges that overlap are copied through the bounce buffer, from the end that is written over last. All queues share the buffer, so this waits. */
static void slide(struct rp_queue *q, uint64_t to, uint64_t from, uint64_t bytes)
{
    rp__gpu_flush(q);
    pthread_mutex_lock(&q->gpu->slide);
    uint64_t bounce = bounce_of(q->gpu), done = 0;

    if (!bounce) rp__gpu_noted(q, CUDA_ERROR_OUT_OF_MEMORY, "a buffer for ranges that overlap");
    while (bounce && done < bytes) {
        uint64_t n  = bytes - done < BOUNCE_BYTES ? bytes - done : BOUNCE_BYTES;
        uint64_t at = to < from ? done : bytes - done - n;
        rp__gpu_noted(q, q->gpu->call.cuMemcpyAsync(bounce, from + at, n, q->stream), "cuMemcpyAsync");
        rp__gpu_noted(q, q->gpu->call.cuMemcpyAsync(to + at, bounce, n, q->stream), "cuMemcpyAsync");
        done += n;
    }
    rp__gpu_sync(&(rp_on){ .queue = q });
    pthread_mutex_unlock(&q->gpu->slide);
}

/* Other devices' memory functions are complete when they return, so without a queue a copy is in the GPU's own, and waits. */
static void copy_in(struct rp_queue *q, void *to, const void *from, int64_t bytes)
{
    uint64_t a = address(to), b = address(from), n = (uint64_t)bytes;

    rp__gpu_enter(q->gpu);
    bool to_device = is_device(q->gpu, a), from_device = is_device(q->gpu, b);
    if (!to_device && !from_device) {       /* both on the host */
        rp__gpu_sync(&(rp_on){ .queue = q });
        memmove(to, from, (size_t)bytes);
    } else if (a < b + n && b < a + n) {
        slide(q, a, b, n);
    } else {
        if (!to_device || !from_device) rp__gpu_needs_host(q);
        rp__gpu_copy_pieces(q, to, from, bytes, false);
    }
}

static void gpu_copy(rp_gpu *gpu, void *to, const void *from, int64_t bytes, const rp_on *on)
{
    struct rp_queue own = { .gpu = gpu, .stream = gpu->stream };

    copy_in(on->queue ? on->queue : &own, to, from, bytes);
    if (!on->queue) rp__gpu_sync(&(rp_on){ .queue = &own });
}

static void fill_in(struct rp_queue *q, void *at, int byte, int64_t bytes)
{
    rp__gpu_enter(q->gpu);
    if (is_device(q->gpu, address(at))) {
        rp__gpu_issue(q, &(rp_gpu_call){ .to = address(at), .bytes = (uint64_t)bytes, .byte = byte });
        return;
    }
    rp__gpu_sync(&(rp_on){ .queue = q });
    memset(at, byte, (size_t)bytes);
}

static void gpu_fill(rp_gpu *gpu, void *at, int byte, int64_t bytes, const rp_on *on)
{
    struct rp_queue own = { .gpu = gpu, .stream = gpu->stream };

    fill_in(on->queue ? on->queue : &own, at, byte, bytes);
    if (!on->queue) rp__gpu_sync(&(rp_on){ .queue = &own });
}

/* ---- the two tables ---- */

enum { GPU_ALIGN = 256 };

#define MEMORY(which) \
    static const char *which##_card(void) { return rp__gpu_##which.card; } \
    static const char *which##_about(void) { return rp__gpu_##which.about; } \
    static int64_t which##_left(void) { return rp__gpu_left(&rp__gpu_##which); } \
    static rp_status which##_ready(rp_ctx *ctx) { return rp__gpu_ready(&rp__gpu_##which, ctx); } \
    static uint8_t *which##_reserve(int64_t limit, int64_t *bytes) { return rp__gpu_reserve(&rp__gpu_##which, limit, bytes); } \
    static void which##_release(uint8_t *base, int64_t bytes) { (void)bytes, rp__gpu_release(&rp__gpu_##which, base); } \
    static bool which##_grow(uint8_t *base, int64_t bytes, rp_memory_left *left) \
    { \
        return rp__gpu_grow(&rp__gpu_##which, base, bytes, left); \
    } \
    static struct rp_queue *which##_open(void) { return rp__gpu_open(&rp__gpu_##which); } \
    static void which##_copy(void *to, const void *from, int64_t bytes, const rp_on *on) { gpu_copy(&rp__gpu_##which, to, from, bytes, on); } \
    static void which##_fill(void *at, int byte, int64_t bytes, const rp_on *on) { gpu_fill(&rp__gpu_##which, at, byte, bytes, on); } \
    const rp_memory rp__memory_##which = { .far = true, .align = GPU_ALIGN, .ready = which##_ready, .card = which##_card, \
                                           .about = which##_about, .left = which##_left, .reserve = which##_reserve, \
                                           .release = which##_release, .commit = gpu_commit, .grow = which##_grow, \
                                           .open = which##_open, .close = rp__gpu_close, .copy = which##_copy, .fill = which##_fill, .put = rp__gpu_put, \
                                           .sync = rp__gpu_sync, .mark = rp__gpu_mark, .reach = rp__gpu_reach, .failed = rp__gpu_failed, \
                                           .records = &rp__gpu_records, .lane = &rp__gpu_lane, .begin = rp__gpu_sync };
MEMORY(cuda)
MEMORY(emu)
