/* tape/offload.c -- the two places of tape/offload.h, one function table each: a disk queue of files, and another device's memory. */
#include "tape/offload.h"

#include <string.h>

#include "base/disk_queue.h"
#include "base/list.h"
#include "base/watch.h"

enum { NO_BLOCK = -1 };
static const int64_t usual_buffer_bytes = INT64_C(16) << 20;

typedef struct {                /* a block of a device's memory; next: link in the list of spare blocks */
    bool live;
    int64_t offset, bytes, next;
    void *into;                 /* of the last fetch */
} block;

typedef struct {
    rp_status (*put)(rp_offload *offload, const void *data, int64_t bytes, int64_t *ticket);
    rp_status (*fetch)(rp_offload *offload, int64_t ticket, void *into, int64_t bytes);
    rp_status (*wait)(rp_offload *offload, int64_t ticket);
    void (*drop)(rp_offload *offload, int64_t ticket);
    void (*close)(rp_offload *offload);
} place;

struct rp_offload {
    rp_ctx *ctx;
    const place *place;
    int64_t n_tickets, put_bytes;
    rp_disk_queue *queue;            /* for files */
    int64_t buffer_bytes;
    int device;                 /* for memory */
    block *block;
    int64_t n_blocks, room, spare;
};

/* ---- files ---- */

static rp_status file_put(rp_offload *a, const void *data, int64_t bytes, int64_t *ticket)
{
    return rp__disk_queue_write(a->queue, data, bytes, ticket);
}

static rp_status file_fetch(rp_offload *a, int64_t ticket, void *into, int64_t bytes)
{
    RP_BUG_IF(bytes != rp__disk_queue_bytes(a->queue, ticket));
    return rp__disk_queue_read(a->queue, ticket, into);
}

static rp_status file_wait(rp_offload *a, int64_t ticket) { return rp__disk_queue_wait(a->queue, ticket); }
static void file_drop(rp_offload *a, int64_t ticket) { rp__disk_queue_drop(a->queue, ticket); }
static void file_close(rp_offload *a) { rp__disk_queue_close(a->queue); }

static const place files = { file_put, file_fetch, file_wait, file_drop, file_close };

/* ---- the memory of another device ---- */

static rp_mem_space *space_of(const rp_offload *a) { return a->ctx->space[a->device]; }

static rp_status offload_make_room(rp_offload *a)
{
    return a->spare == NO_BLOCK ? RP_GROW(a->ctx, a->block, a->room, a->n_blocks + 1) : RP_OK;
}

static rp_status memory_put(rp_offload *a, const void *data, int64_t bytes, int64_t *ticket)
{
    int64_t offset;

    RP_TRY(offload_make_room(a));
    RP_TRY(rp__mem_take(a->ctx, space_of(a), RP_MEM_SAVED, bytes, "an offloaded slot", &offset));
    if (rp__mem_at(space_of(a), offset)) rp__mem_lane_out(a->ctx, space_of(a), offset, data, bytes);
    int64_t i = a->spare;
    if (i == NO_BLOCK) i = a->n_blocks++;
    else a->spare = a->block[i].next;
    a->block[i] = (block){ .live = true, .offset = offset, .bytes = bytes };
    *ticket     = i;
    return RP_OK;
}

static block *block_of(const rp_offload *a, int64_t ticket)
{
    RP_BUG_IF(ticket < 0 || ticket >= a->n_blocks || !a->block[ticket].live);
    return &a->block[ticket];
}

static rp_status memory_fetch(rp_offload *a, int64_t ticket, void *into, int64_t bytes)
{
    block *b = block_of(a, ticket);

    RP_BUG_IF(bytes != b->bytes);
    b->into = into;
    if (rp__mem_at(space_of(a), b->offset)) rp__mem_lane_back(a->ctx, into, space_of(a), b->offset, bytes);
    return RP_OK;
}

static rp_status memory_wait(rp_offload *a, int64_t ticket)
{
    const block *b = block_of(a, ticket);

    rp__mem_lane_await(a->ctx, b->into, b->bytes);
    return RP_OK;
}

/* Copies of a lane run in their order. Without one, the block may become the host's, so its copies must be complete. */
static void memory_drop(rp_offload *a, int64_t ticket)
{
    block *b = block_of(a, ticket);

    if (!rp__mem_has_lane(a->ctx) || !a->ctx->device[a->device]->memory->on_host) rp__mem_sync(a->ctx);
    rp__mem_give(space_of(a), RP_MEM_SAVED, b->bytes, b->offset);
    *b       = (block){ .next = a->spare };
    a->spare = ticket;
}

static void memory_close(rp_offload *a)
{
    for (int64_t i = 0; i < a->n_blocks; i++)
        if (a->block[i].live) memory_drop(a, i);
    rp__release(a->block);
}

static const place memory = { memory_put, memory_fetch, memory_wait, memory_drop, memory_close };

/* ---- both places ---- */

static rp_status open_place(rp_offload *a, const rp_offload_options *o)
{
    RP_CHECK(a->ctx, !o->folder || !o->device, RP_ERR_ARG, "offloading goes to a folder or to a device: '%s' and '%s' are given", o->folder,
             o->device);
    RP_CHECK(a->ctx, o->folder || o->device, RP_ERR_ARG, "offloading needs a folder or a device");
    a->place = o->folder ? &files : &memory;
    if (o->device) return rp__device_open(a->ctx, o->device, &a->device);
    a->buffer_bytes = o->buffer_bytes ? o->buffer_bytes : usual_buffer_bytes;
    return rp__disk_queue_open(a->ctx, o->folder, a->buffer_bytes, &a->queue);
}

rp_status rp__offload_open(rp_ctx *ctx, const rp_offload_options *options, rp_offload **out)
{
    rp_offload *a = rp__host_alloc(ctx, sizeof *a);

    if (!a) return RP_ERR_MEMORY;
    *a               = (rp_offload){ .ctx = ctx, .spare = NO_BLOCK };
    rp_status status = open_place(a, options);
    if (status == RP_OK) *out = a;
    else rp__release(a);
    return status;
}

rp_offload_options rp__offload_options(const rp_offload *a)
{
    if (a->place == &memory) return (rp_offload_options){ .device = a->ctx->device[a->device]->name };
    return (rp_offload_options){ .folder = "/", .buffer_bytes = a->buffer_bytes };
}

bool rp__offload_in_memory(const rp_offload *a) { return a && a->place == &memory; }

void rp__offload_close(rp_offload *a)
{
    if (!a) return;
    a->place->close(a);
    rp__release(a);
}

static void moved(const rp_offload *a, const char *how, int64_t bytes, double began)
{
    rp__watch_end(a->ctx, (rp_span){ .doing = RP_DOING_OFFLOAD, .name = how, .bytes = bytes, .began = began });
}

rp_status rp__offload_put(rp_offload *a, const rp_tensor *t, int64_t *ticket)
{
    int64_t bytes = rp_meta_bytes(&t->m);

    RP_BUG_IF(t->start || !rp_tensor_is_dense(t));
    double began     = rp__watch_begin(a->ctx);
    rp_status status = a->place->put(a, t->storage->data, bytes, ticket);
    moved(a, "put", bytes, began);
    RP_TRY(status);
    a->put_bytes += bytes;
    a->n_tickets++;
    return RP_OK;
}

rp_status rp__offload_fetch(rp_offload *a, int64_t ticket, rp_tensor *into)
{
    RP_BUG_IF(into->start || !rp_tensor_is_dense(into));
    int64_t bytes    = rp_meta_bytes(&into->m);
    double began     = rp__watch_begin(a->ctx);
    rp_status status = a->place->fetch(a, ticket, into->storage->data, bytes);
    moved(a, "fetch", bytes, began);
    return status;
}

rp_status rp__offload_wait(rp_offload *a, int64_t ticket)
{
    double began     = rp__watch_begin(a->ctx);
    rp_status status = a->place->wait(a, ticket);

    moved(a, "wait", 0, began);
    return status;
}

void rp__offload_drop(rp_offload *a, int64_t ticket)
{
    a->place->drop(a, ticket);
    a->n_tickets--;
}

int64_t rp__offload_bytes(const rp_offload *a) { return a->put_bytes; }
int64_t rp__offload_tickets(const rp_offload *a) { return a->n_tickets; }

rp_disk_queue *rp__offload_disk_queue(rp_offload *a) { return a->queue; }
