/* device/queue.c -- a queue: a stream of the driver, its first error, and bytes on their way to and from the host.
 *
 *   kernels ──▶ room (device) ──copy──▶ pinned (host) ──wait──▶ the addresses that the callers gave
 *   the caller's bytes ──▶ stage (pinned) ──copy──▶ device
 *   lane      a second stream, for values that leave the device for a while; events order its copies and the queue's calls
 *
 * A copy to or from ordinary host memory would make the host wait. So results go to pinned memory first, and a wait moves them on. Bytes for
 * the device are copied to pinned memory, which stays as it is until a wait. The host may wait for a mark and not for later calls, so there is pinned
 * memory for the calls before the last mark and for those after it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "device/gpu.h"
#include "device/launch.h"

enum { STAGE_BYTES = 1 << 16, ALIGNMENT = 16 };
/* Device memory of a queue: the room, the step block and the sums. */
enum { AT_BLOCK = RP_GPU_ROOM_BYTES, AT_SUMS = AT_BLOCK + RP_GPU_BLOCK_BYTES, OWN_BYTES = AT_SUMS + RP_GPU_SUMS * (int)sizeof(double) };

static bool open_stretch(const rp_cuda *call, rp_gpu_stretch *s)
{
    void *pinned = NULL;

    if (call->cuEventCreate(&s->event, 0) || call->cuMemHostAlloc(&pinned, RP_GPU_PINNED_BYTES, 0)) return false;
    s->pinned = pinned;
    return true;
}

static bool open_stream(struct rp_queue *q)
{
    const rp_gpu *gpu = q->gpu;
    int64_t bytes;
    rp_memory_left left;

    if (!rp__gpu_prepare_slide(q->gpu) || gpu->call.cuStreamCreate(&q->stream, CU_STREAM_NON_BLOCKING)) return false;
    q->room = rp__gpu_reserve(q->gpu, OWN_BYTES, &bytes);
    if (!q->room || !rp__gpu_grow(q->gpu, q->room, OWN_BYTES, &left)) return false;
    if (gpu->call.cuMemsetD8Async((uint64_t)(uintptr_t)q->room + AT_BLOCK, 0, RP_GPU_BLOCK_BYTES, q->stream)) return false;
    return open_stretch(&gpu->call, &q->stretch[0]) && open_stretch(&gpu->call, &q->stretch[1]);
}

static void close_stretch(const rp_cuda *call, const rp_gpu_stretch *s)
{
    for (int i = 0; i < s->n_stages; i++) call->cuMemFreeHost(s->stage[i].at);
    if (s->pinned) call->cuMemFreeHost(s->pinned);
    if (s->event) call->cuEventDestroy_v2(s->event);
}

/* Those in a range of host memory. */
static void drop_pins(rp_gpu *gpu, const uint8_t *first, int64_t bytes)
{
    pthread_mutex_lock(&gpu->lock);
    for (int i = gpu->n_pins - 1; i >= 0; i--) {
        uint64_t at = gpu->pin[i].at;
        if (at - (uint64_t)(uintptr_t)first >= (uint64_t)bytes) continue;
        gpu->call.cuMemHostUnregister((void *)(uintptr_t)at);
        gpu->pin[i] = gpu->pin[--gpu->n_pins];
    }
    pthread_mutex_unlock(&gpu->lock);
}

static void close_lane(rp_gpu *gpu, const rp_gpu_lane *lane)
{
    const rp_cuda *call = &gpu->call;

    drop_pins(gpu, lane->pinned, lane->pinned_bytes);
    for (int i = 0; i < RP_GPU_TRIPS && lane->event[i]; i++) call->cuEventDestroy_v2(lane->event[i]);
    if (lane->fork) call->cuEventDestroy_v2(lane->fork);
    if (lane->stream) call->cuStreamDestroy_v2(lane->stream);
}

static void release(struct rp_queue *q)
{
    rp__gpu_records.free(q->record);
    free(q->window);
    close_lane(q->gpu, &q->lane);
    for (int i = 0; i < 2; i++) close_stretch(&q->gpu->call, &q->stretch[i]);
    if (q->room) rp__gpu_release(q->gpu, q->room);
    if (q->stream) q->gpu->call.cuStreamDestroy_v2(q->stream);
    free(q);
}

struct rp_queue *rp__gpu_open(rp_gpu *gpu)
{
    struct rp_queue *q = calloc(1, sizeof *q);

    if (!q) return NULL;
    q->gpu    = gpu;
    q->window = rp__gpu_window();
    rp__gpu_enter(gpu);
    if (open_stream(q)) return q;
    release(q);
    return NULL;
}

/* ---- waits ---- */

static rp_gpu_stretch *stretch_of(struct rp_queue *q, uint64_t mark) { return &q->stretch[mark % 2]; }

/* Keeps the largest stage only, so that later puts find all their room in one. */
static void clear_stages(const rp_cuda *call, rp_gpu_stretch *s)
{
    if (!s->n_stages) return;
    for (int i = 0; i < s->n_stages - 1; i++) call->cuMemFreeHost(s->stage[i].at);
    s->stage[0]      = s->stage[s->n_stages - 1];
    s->stage[0].used = 0;
    s->n_stages      = 1;
}

/* Its calls are complete. */
static void clear_stretch(const rp_cuda *call, rp_gpu_stretch *s)
{
    for (int i = 0; i < s->n_results; i++) memcpy(s->result[i].to, s->pinned + s->result[i].at, (size_t)s->result[i].bytes);
    s->n_results   = 0;
    s->pinned_used = 0;
    s->marked      = false;
    clear_stages(call, s);
}

void rp__gpu_sync(const rp_on *on)
{
    struct rp_queue *q = on->queue;

    if (!q) return;
    rp__gpu_join(q);
    rp__gpu_flush(q);
    rp__gpu_needs_host(q);
    rp__gpu_enter(q->gpu);
    rp__gpu_noted(q, q->gpu->call.cuStreamSynchronize(q->stream), "cuStreamSynchronize");
    clear_stretch(&q->gpu->call, stretch_of(q, q->n_marks + 1));
    clear_stretch(&q->gpu->call, stretch_of(q, q->n_marks));
}

/* The last mark was reached. */
static double seconds_of_last(const struct rp_queue *q)
{
    float milliseconds = 0;

    if (q->n_marks < 2) return 0;
    const rp_gpu_stretch *from = &q->stretch[q->n_marks % 2], *to = &q->stretch[(q->n_marks - 1) % 2];
    return q->gpu->call.cuEventElapsedTime(&milliseconds, from->event, to->event) ? 0 : (double)milliseconds * 1e-3;
}

/* Waits for the calls before the last mark. */
static void reach_last(struct rp_queue *q)
{
    rp_gpu_stretch *s = stretch_of(q, q->n_marks - 1);

    if (!s->marked) return;
    rp__gpu_needs_host(q);
    rp__gpu_enter(q->gpu);
    rp__gpu_noted(q, q->gpu->call.cuEventSynchronize(s->event), "cuEventSynchronize");
    q->seconds = seconds_of_last(q);
    clear_stretch(&q->gpu->call, s);
}

uint64_t rp__gpu_mark(const rp_on *on)
{
    struct rp_queue *q = on->queue;

    if (!q) return 0;
    rp__gpu_flush(q);
    if (q->n_marks) reach_last(q);
    rp_gpu_stretch *s = stretch_of(q, q->n_marks);
    rp__gpu_needs_host(q);
    rp__gpu_enter(q->gpu);
    rp__gpu_noted(q, q->gpu->call.cuEventRecord(s->event, q->stream), "cuEventRecord");
    s->marked = true;
    return ++q->n_marks;
}

/* Older marks were reached before the last one was made. */
double rp__gpu_reach(const rp_on *on, uint64_t mark)
{
    if (!on->queue || !mark) return 0;
    if (mark == on->queue->n_marks) reach_last(on->queue);
    return on->queue->seconds;
}

void rp__gpu_close(struct rp_queue *q)
{
    rp__gpu_sync(&(rp_on){ .queue = q });
    release(q);
}

const char *rp__gpu_failed(const rp_on *on) { return on->queue ? on->queue->error : NULL; }

/* Launches that do not wait run in their order, so they may use the same memory. */
void *rp__gpu_room(const rp_on *on, int64_t bytes)
{
    struct rp_queue *q = on->queue;

    bytes = (bytes + ALIGNMENT - 1) & -ALIGNMENT;
    RP_BUG_IF(bytes > RP_GPU_ROOM_BYTES);
    if (!rp__gpu_has_waiting(q) || q->room_used + bytes > RP_GPU_ROOM_BYTES) q->room_used = 0;
    q->room_used += bytes;
    return q->room + q->room_used - bytes;
}

void rp__gpu_copy_to_host(const rp_on *on, void *to, const void *from, int64_t bytes)
{
    struct rp_queue *q = on->queue;
    rp_gpu_stretch *s  = stretch_of(q, q->n_marks);

    RP_BUG_IF(bytes > RP_GPU_PINNED_BYTES);
    rp__gpu_flush(q);
    rp__gpu_needs_host(q);
    if (s->n_results == RP_GPU_RESULTS || s->pinned_used + bytes > RP_GPU_PINNED_BYTES) rp__gpu_sync(on);
    uint8_t *at = s->pinned + s->pinned_used;
    rp__gpu_noted(q, q->gpu->call.cuMemcpyAsync((uint64_t)(uintptr_t)at, (uint64_t)(uintptr_t)from, (size_t)bytes, q->stream), "cuMemcpyAsync");
    s->result[s->n_results++] = (rp_gpu_result){ to, s->pinned_used, bytes };
    s->pinned_used += bytes;
}

/* ---- copies from or to pinned memory ---- */

/* How many of these bytes come before the next border of a piece of pinned memory. */
static uint64_t to_border(rp_gpu *gpu, uint64_t at, uint64_t bytes)
{
    pthread_mutex_lock(&gpu->lock);
    for (int i = 0; i < gpu->n_pins; i++) {
        uint64_t first = gpu->pin[i].at, end = first + gpu->pin[i].bytes, border = at < first ? first : end;
        if (at < border && border - at < bytes) bytes = border - at;
    }
    pthread_mutex_unlock(&gpu->lock);
    return bytes;
}

void rp__gpu_copy_pieces(struct rp_queue *q, const void *to, const void *from, int64_t bytes, bool aside)
{
    uint64_t a = (uint64_t)(uintptr_t)to, b = (uint64_t)(uintptr_t)from, end = a + (uint64_t)bytes;

    for (uint64_t n; a < end; a += n, b += n) {
        n = to_border(q->gpu, b, to_border(q->gpu, a, end - a));
        rp__gpu_issue(q, &(rp_gpu_call){ .to = a, .from = b, .bytes = n, .aside = aside });
    }
}

/* ---- to the device ---- */

static bool add_stage(const rp_cuda *call, rp_gpu_stretch *s, int64_t bytes)
{
    int64_t doubled = s->n_stages ? 2 * s->stage[s->n_stages - 1].bytes : STAGE_BYTES;
    void *at        = NULL;

    while (doubled < bytes) doubled *= 2;
    if (s->n_stages == RP_GPU_STAGES || call->cuMemHostAlloc(&at, (size_t)doubled, 0)) return false;
    s->stage[s->n_stages++] = (rp_gpu_stage){ .at = at, .bytes = doubled };
    return true;
}

/* Pinned memory until the next mark is reached; NULL: there is none. */
static uint8_t *stage_room(struct rp_queue *q, int64_t bytes)
{
    rp_gpu_stretch *of = stretch_of(q, q->n_marks);
    int64_t rounded    = (bytes + ALIGNMENT - 1) & -ALIGNMENT;
    rp_gpu_stage *s    = of->n_stages ? &of->stage[of->n_stages - 1] : NULL;

    if (!s || s->used + rounded > s->bytes) {
        if (!add_stage(&q->gpu->call, of, rounded)) return NULL;
        s = &of->stage[of->n_stages - 1];
    }
    s->used += rounded;
    return s->at + s->used - rounded;
}

/* Without pinned memory the copy is made from the caller's, and the host waits. */
void rp__gpu_put(void *to, const void *from, int64_t bytes, const rp_on *on)
{
    struct rp_queue *q = on->queue;

    rp__gpu_flush(q);
    rp__gpu_needs_host(q);
    rp__gpu_enter(q->gpu);
    uint8_t *stage = stage_room(q, bytes);
    if (stage) memcpy(stage, from, (size_t)bytes);
    rp__gpu_copy_pieces(q, to, stage ? stage : from, bytes, false);
    if (!stage) rp__gpu_sync(on);
}

/* ---- the lane ---- */

enum { PIN_BYTES = 1 << 21, MOST_PIN_BYTES = 1 << 30 };

static bool open_lane(struct rp_queue *q)
{
    const rp_cuda *call = &q->gpu->call;
    rp_gpu_lane *lane   = &q->lane;

    if (lane->stream) return true;
    for (int i = 0; i < RP_GPU_TRIPS; i++)
        if (!lane->event[i] && call->cuEventCreate(&lane->event[i], CU_EVENT_DISABLE_TIMING)) return false;
    if (!lane->fork && call->cuEventCreate(&lane->fork, CU_EVENT_DISABLE_TIMING)) return false;
    return !call->cuStreamCreate(&lane->stream, CU_STREAM_NON_BLOCKING);
}

static bool add_pin(rp_gpu *gpu, void *at, int64_t bytes)
{
    pthread_mutex_lock(&gpu->lock);
    bool added = gpu->n_pins < RP_GPU_PINS && !gpu->call.cuMemHostRegister_v2(at, (size_t)bytes, 0);
    if (added) gpu->pin[gpu->n_pins++] = (rp_gpu_pin){ (uint64_t)(uintptr_t)at, (uint64_t)bytes };
    pthread_mutex_unlock(&gpu->lock);
    return added;
}

/* Pieces double, so that they stay few. */
static bool lane_pin(void *base, int64_t bytes, int64_t most, const rp_on *on)
{
    struct rp_queue *q = on->queue;
    rp_gpu_lane *lane  = &q->lane;
    int64_t have       = lane->pinned_bytes, least = (bytes + PIN_BYTES - 1) / PIN_BYTES * PIN_BYTES - have;
    int64_t more       = have < MOST_PIN_BYTES ? have : MOST_PIN_BYTES;

    if (lane->pinned && lane->pinned != base) return false;
    if (bytes <= have) return true;
    if (more < least) more = least;
    if (more > most - have) more = most - have;
    rp__gpu_enter(q->gpu);
    if (!add_pin(q->gpu, (uint8_t *)base + have, more)) return false;
    lane->pinned = base;
    lane->pinned_bytes += more;
    return true;
}

static void note_event(struct rp_queue *q, void *event, bool aside) { rp__gpu_issue(q, &(rp_gpu_call){ .event = event, .aside = aside }); }

static void await_event(struct rp_queue *q, void *event, bool aside)
{
    rp__gpu_issue(q, &(rp_gpu_call){ .event = event, .aside = aside, .waits = true });
}

/* The queue waits for the first n trips. */
static void await_trips(struct rp_queue *q, int n)
{
    rp_gpu_lane *lane = &q->lane;

    rp__gpu_enter(q->gpu);
    await_event(q, lane->event[lane->trip[n - 1].event], false);
    lane->n_trips -= n;
    memmove(lane->trip, lane->trip + n, (size_t)lane->n_trips * sizeof *lane->trip);
    if (!lane->n_trips) lane->next = 0;
}

void rp__gpu_join(struct rp_queue *q)
{
    if (q->lane.n_trips) await_trips(q, q->lane.n_trips);
}

static void lane_copy(struct rp_queue *q, const void *to, const void *from, int64_t bytes, const void *on_device)
{
    rp_gpu_lane *lane = &q->lane;

    rp__gpu_enter(q->gpu);
    if (!open_lane(q)) {
        rp__gpu_noted(q, CUDA_ERROR_OUT_OF_MEMORY, "a stream for copies");
        return;
    }
    if (lane->n_trips == RP_GPU_TRIPS) await_trips(q, RP_GPU_TRIPS / 2);
    note_event(q, lane->fork, false);
    await_event(q, lane->fork, true);
    rp__gpu_copy_pieces(q, to, from, bytes, true);
    note_event(q, lane->event[lane->next], true);
    lane->trip[lane->n_trips++] = (rp_gpu_trip){ (uint64_t)(uintptr_t)on_device, (uint64_t)bytes, lane->next };
    lane->next                  = (lane->next + 1) % RP_GPU_TRIPS;
}

static void lane_out(void *to, const void *from, int64_t bytes, bool pinned, const rp_on *on)
{
    if (!pinned) rp__gpu_needs_host(on->queue);
    lane_copy(on->queue, to, from, bytes, from);
}

static void lane_back(void *to, const void *from, int64_t bytes, bool pinned, const rp_on *on)
{
    if (!pinned) rp__gpu_needs_host(on->queue);
    lane_copy(on->queue, to, from, bytes, to);
}

static void lane_await(const void *at, int64_t bytes, const rp_on *on)
{
    uint64_t from = (uint64_t)(uintptr_t)at, to = from + (uint64_t)bytes;
    const rp_gpu_lane *lane = on->queue ? &on->queue->lane : NULL;
    int n = lane ? lane->n_trips : 0;

    while (n && (lane->trip[n - 1].at >= to || lane->trip[n - 1].at + lane->trip[n - 1].bytes <= from)) n--;
    if (n) await_trips(on->queue, n);
}

const rp_lane rp__gpu_lane = { lane_pin, lane_out, lane_back, lane_await };

/* ---- the step block ---- */

uint64_t rp__gpu_block(const rp_on *on) { return (uint64_t)(uintptr_t)on->queue->room + AT_BLOCK; }
double *rp__gpu_sums(const rp_on *on) { return (double *)(void *)(on->queue->room + AT_SUMS); }

uint64_t rp__gpu_renew(const rp_on *on, int64_t at, const void *values, int64_t bytes)
{
    struct rp_queue *q = on->queue;

    RP_BUG_IF(at + bytes > RP_GPU_BLOCK_BYTES);
    memcpy(q->block + at, values, (size_t)bytes);
    rp__gpu_put(q->room + AT_BLOCK + at, values, bytes, on);
    return rp__gpu_block(on) + (uint64_t)at;
}

uint64_t rp__gpu_now(const rp_on *on, int64_t at, const void *values, int64_t bytes)
{
    RP_BUG_IF(at + bytes > RP_GPU_BLOCK_BYTES);
    return memcmp(on->queue->block + at, values, (size_t)bytes) ? rp__gpu_renew(on, at, values, bytes) : rp__gpu_block(on) + (uint64_t)at;
}
