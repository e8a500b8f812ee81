/* device/queue.c -- a queue: a stream of the driver, its first error, and results on their way to host memory.
 *
 *   kernels ──▶ room (device) ──copy──▶ pinned (host) ──sync──▶ the addresses that the callers gave
 *
 * A copy to ordinary host memory would make the host wait. So results go to pinned memory first, and rp__gpu_sync moves them on.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "device/gpu.h"
#include "device/launch.h"

static bool open_stream(struct rp_queue *q)
{
    const rp_gpu *gpu = q->gpu;
    int64_t bytes, left;
    void *pinned = NULL;

    if (gpu->call.cuStreamCreate(&q->stream, CU_STREAM_NON_BLOCKING)) return false;
    q->room = rp__gpu_reserve(q->gpu, RP_GPU_ROOM_BYTES, &bytes);
    if (!q->room || !rp__gpu_grow(q->gpu, q->room, RP_GPU_ROOM_BYTES, &left)) return false;
    if (gpu->call.cuMemHostAlloc(&pinned, RP_GPU_PINNED_BYTES, 0)) return false;
    q->pinned = pinned;
    return true;
}

static void release(struct rp_queue *q)
{
    if (q->pinned) q->gpu->call.cuMemFreeHost(q->pinned);
    if (q->room) rp__gpu_release(q->gpu, q->room);
    if (q->stream) q->gpu->call.cuStreamDestroy_v2(q->stream);
    free(q);
}

struct rp_queue *rp__gpu_open(rp_gpu *gpu)
{
    struct rp_queue *q = calloc(1, sizeof *q);

    if (!q) return NULL;
    q->gpu = gpu;
    rp__gpu_enter(gpu);
    if (open_stream(q)) return q;
    release(q);
    return NULL;
}

void rp__gpu_sync(const rp_on *on)
{
    struct rp_queue *q = on->queue;

    if (!q) return;
    rp__gpu_enter(q->gpu);
    rp__gpu_noted(q, q->gpu->call.cuStreamSynchronize(q->stream), "cuStreamSynchronize");
    for (int i = 0; i < q->n_results; i++) memcpy(q->result[i].to, q->pinned + q->result[i].at, (size_t)q->result[i].bytes);
    q->n_results = 0;
    q->pinned_used = 0;
}

void rp__gpu_close(struct rp_queue *q)
{
    rp__gpu_sync(&(rp_on){ .queue = q });
    release(q);
}

const char *rp__gpu_failed(const rp_on *on) { return on->queue ? on->queue->error : NULL; }

void *rp__gpu_room(const rp_on *on) { return on->queue->room; }

void rp__gpu_copy_to_host(const rp_on *on, void *to, const void *from, int64_t bytes)
{
    struct rp_queue *q = on->queue;

    RP_BUG_IF(bytes > RP_GPU_PINNED_BYTES);
    if (q->n_results == RP_GPU_RESULTS || q->pinned_used + bytes > RP_GPU_PINNED_BYTES) rp__gpu_sync(on);
    uint8_t *at = q->pinned + q->pinned_used;
    rp__gpu_noted(q, q->gpu->call.cuMemcpyAsync((uint64_t)(uintptr_t)at, (uint64_t)(uintptr_t)from, (size_t)bytes, q->stream), "cuMemcpyAsync");
    q->result[q->n_results++] = (rp_gpu_result){ to, q->pinned_used, bytes };
    q->pinned_used += bytes;
}
