/* base/disk_queue.c -- the caller's side of a disk queue: tickets, extents of the file, copies into chunks. disk_queue.h has the contract. */
#include "base/disk_queue_internal.h"

#include <string.h>

#include "base/list.h"

enum { MOST_CHUNKS = 8 };
static const int64_t least_buffer_bytes = 2 * RP_DISK_QUEUE_BLOCK, most_buffer_bytes = INT64_C(1) << 34;

/* ---- holes of the file ---- */

static int64_t take_extent(rp_disk_queue *s, int64_t bytes)
{
    for (int64_t i = 0; bytes && i < s->n_holes; i++) {
        rp_disk_queue_hole *h = &s->hole[i];
        if (h->bytes < bytes) continue;
        int64_t offset = h->offset;
        *h = (rp_disk_queue_hole){ h->offset + bytes, h->bytes - bytes };
        if (!h->bytes) memmove(h, h + 1, (size_t)(--s->n_holes - i) * sizeof *h);
        return offset;
    }
    s->top += bytes;
    if (s->top > s->counts.file_bytes) s->counts.file_bytes = s->top;
    return s->top - bytes;
}

static void join_with_next(rp_disk_queue *s, int64_t i)
{
    if (i < 0 || i + 1 >= s->n_holes || s->hole[i].offset + s->hole[i].bytes != s->hole[i + 1].offset) return;
    s->hole[i].bytes += s->hole[i + 1].bytes;
    s->n_holes--;
    memmove(s->hole + i + 1, s->hole + i + 2, (size_t)(s->n_holes - i - 1) * sizeof *s->hole);
}

/* Any two holes have a ticket between them, so the array has room for one more hole. */
static void give_extent(rp_disk_queue *s, int64_t offset, int64_t bytes)
{
    int64_t i = s->n_holes;

    if (!bytes) return;
    while (i > 0 && s->hole[i - 1].offset > offset) i--;
    memmove(s->hole + i + 1, s->hole + i, (size_t)(s->n_holes++ - i) * sizeof *s->hole);
    s->hole[i] = (rp_disk_queue_hole){ offset, bytes };
    join_with_next(s, i);
    join_with_next(s, i - 1);
    rp_disk_queue_hole last = s->hole[s->n_holes - 1];
    if (last.offset + last.bytes < s->top) return;
    s->top = last.offset;
    s->n_holes--;
}

/* ---- opening and closing ---- */

/* Takes the chunks from host memory. That memory may be aligned to less than a block, so one extra block is taken. */
static rp_status take_chunks(rp_disk_queue *s)
{
    rp_mem_space *space = s->ctx->space[s->ctx->host];
    int64_t bytes       = s->n_chunks * s->chunk_bytes + RP_DISK_QUEUE_BLOCK;

    s->chunk = rp__host_alloc(s->ctx, s->n_chunks * (int64_t)sizeof *s->chunk);
    if (!s->chunk) return RP_ERR_MEMORY;
    RP_TRY(rp__mem_take(s->ctx, space, s->mem_class, bytes, "the offload buffer", &s->taken_at));
    s->taken_bytes = bytes;
    uint8_t *at    = rp__mem_at(space, s->taken_at);
    if (!at) return RP_OK;
    at += (RP_DISK_QUEUE_BLOCK - (uintptr_t)at % RP_DISK_QUEUE_BLOCK) % RP_DISK_QUEUE_BLOCK;
    for (int i = 0; i < s->n_chunks; i++, at += s->chunk_bytes) {
        s->chunk[i] = (rp_disk_queue_piece){ .memory = at, .next = s->idle };
        s->idle     = &s->chunk[i];
    }
    return RP_OK;
}

static rp_status disk_queue_fill(rp_disk_queue *s, const char *folder)
{
    s->folder = rp__host_text(s->ctx, folder);
    if (!s->folder) return RP_ERR_MEMORY;
    RP_TRY(take_chunks(s));
    if (s->ctx->options.shapes_only) return RP_OK;
    RP_TRY(rp__mem_queue_open(s->ctx, &s->on));
    RP_TRY(rp__disk_queue_io_open(s->ctx, folder, s->label, s->n_chunks, &s->io));
    return rp__disk_queue_start(s);
}

rp_status rp__disk_queue_open_for(rp_ctx *ctx, const char *folder, int64_t buffer_bytes, const char *label, rp_mem_class mem_class, rp_disk_queue **out)
{
    RP_CHECK(ctx, buffer_bytes >= least_buffer_bytes && buffer_bytes <= most_buffer_bytes, RP_ERR_ARG,
             "the offload buffer is %" PRId64 " bytes, expected %" PRId64 " to %" PRId64, buffer_bytes, least_buffer_bytes,
             most_buffer_bytes);
    rp_disk_queue *s = rp__host_alloc(ctx, sizeof *s);
    if (!s) return RP_ERR_MEMORY;
    int64_t blocks = buffer_bytes / RP_DISK_QUEUE_BLOCK;
    *s = (rp_disk_queue){ .ctx = ctx,
                          .label = label,
                          .mem_class = mem_class,
                          .io.fd = -1,
                          .spare = RP_DISK_QUEUE_NONE,
                          .read_first = RP_DISK_QUEUE_NONE,
                          .read_last = RP_DISK_QUEUE_NONE,
                          .n_chunks = blocks < MOST_CHUNKS ? (int)blocks : MOST_CHUNKS };
    s->chunk_bytes = blocks / s->n_chunks * RP_DISK_QUEUE_BLOCK;
    s->queue_end   = &s->queue;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->progress, NULL);
    rp_status status = disk_queue_fill(s, folder);
    if (status == RP_OK) *out = s;
    else rp__disk_queue_close(s);
    return status;
}

rp_status rp__disk_queue_open(rp_ctx *ctx, const char *folder, int64_t buffer_bytes, rp_disk_queue **out)
{
    return rp__disk_queue_open_for(ctx, folder, buffer_bytes, "offloaded slots", RP_MEM_TEMP, out);
}

void rp__disk_queue_close(rp_disk_queue *s)
{
    if (!s) return;
    if (s->running) {
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        pthread_cond_signal(&s->work);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->worker, NULL);
    }
    rp__disk_queue_io_close(&s->io);
    rp__mem_queue_close(s->ctx, &s->on);
    if (s->taken_bytes) rp__mem_give(s->ctx->space[s->ctx->host], s->mem_class, s->taken_bytes, s->taken_at);
    pthread_cond_destroy(&s->progress);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    RP_RELEASE(s->entry, s->hole, s->chunk, s->folder, s);
}

/* ---- tickets ---- */

static rp_status grow(rp_disk_queue *s, int64_t room)
{
    int64_t holes = s->room ? s->room + 1 : 0;

    RP_TRY(RP_RESIZE(s->ctx, s->hole, holes, room + 1));
    pthread_mutex_lock(&s->lock);
    rp_status status = RP_RESIZE(s->ctx, s->entry, s->room, room);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static rp_status disk_queue_make_room(rp_disk_queue *s)
{
    return s->spare != RP_DISK_QUEUE_NONE || s->n_entries < s->room ? RP_OK : grow(s, s->room * 2 + 64);
}

rp_status rp__disk_queue_reserve(rp_disk_queue *s, int64_t tickets) { return tickets > s->room ? grow(s, tickets) : RP_OK; }

static rp_status new_ticket(rp_disk_queue *s, int64_t bytes, int64_t *ticket)
{
    RP_TRY(disk_queue_make_room(s));
    int64_t i = s->spare;
    if (i == RP_DISK_QUEUE_NONE) i = s->n_entries++;
    else s->spare = s->entry[i].next;
    s->entry[i] = (rp_disk_queue_entry){ .live = true, .bytes = bytes, .offset = take_extent(s, rp__disk_queue_blocks(bytes)) };
    *ticket     = i;
    return RP_OK;
}

static rp_disk_queue_entry *entry_of(const rp_disk_queue *s, int64_t ticket)
{
    RP_BUG_IF(ticket < 0 || ticket >= s->n_entries || !s->entry[ticket].live);
    return &s->entry[ticket];
}

/* The caller holds the lock. */
static rp_status report_failure(rp_disk_queue *s)
{
    static const char *const verbs[] = { [RP_DISK_QUEUE_READ] = "read", [RP_DISK_QUEUE_WRITE] = "write" };

    RP_CHECK(s->ctx, !s->failed.number, RP_ERR_IO, "cannot %s %" PRId64 " bytes of %s under '%s': %s",
             verbs[s->failed.operation], s->failed.bytes, s->label, s->folder, strerror(s->failed.number));
    return RP_OK;
}

static rp_status check_failure(rp_disk_queue *s)
{
    pthread_mutex_lock(&s->lock);
    rp_status status = report_failure(s);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- writing ---- */

static rp_status wait_for_chunk(rp_disk_queue *s, rp_disk_queue_piece **out)
{
    pthread_mutex_lock(&s->lock);
    while (!s->idle && !s->failed.number) pthread_cond_wait(&s->progress, &s->lock);
    rp_status status = report_failure(s);
    if (status == RP_OK) {
        *out    = s->idle;
        s->idle = s->idle->next;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void queue_chunk(rp_disk_queue *s, rp_disk_queue_piece *p)
{
    pthread_mutex_lock(&s->lock);
    s->entry[p->ticket].n_writing++;
    s->n_writing++;
    *s->queue_end = p;
    s->queue_end  = &p->next;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

/* The rest of the last block is zeroed, so that old contents of the chunk do not reach the file. */
static rp_status write_chunks(rp_disk_queue *s, int64_t ticket, const uint8_t *data, int64_t bytes)
{
    int64_t start = s->entry[ticket].offset;
    rp_disk_queue_piece *p;

    for (int64_t at = 0; at < bytes; at += s->chunk_bytes) {
        int64_t now = bytes - at < s->chunk_bytes ? bytes - at : s->chunk_bytes, whole = rp__disk_queue_blocks(now);
        RP_TRY(wait_for_chunk(s, &p));
        rp__mem_copy(s->ctx, p->memory, data + at, now);
        rp__mem_sync(s->ctx);
        memset(p->memory + now, 0, (size_t)(whole - now));
        *p = (rp_disk_queue_piece){ .memory = p->memory, .write = true, .ticket = ticket, .offset = start + at, .bytes = whole };
        queue_chunk(s, p);
    }
    return RP_OK;
}

rp_status rp__disk_queue_write(rp_disk_queue *s, const void *data, int64_t bytes, int64_t *ticket)
{
    int64_t made;

    RP_BUG_IF(bytes < 0);
    RP_TRY(check_failure(s));
    RP_TRY(new_ticket(s, bytes, &made));
    rp_status status = s->running ? write_chunks(s, made, data, bytes) : RP_OK;
    if (status != RP_OK) {
        rp__disk_queue_drop(s, made);
        return status;
    }
    s->counts.written_bytes += bytes;
    *ticket = made;
    return RP_OK;
}

/* ---- reading ---- */

/* The worker copies in another queue, so the context's must have finished with `into`. */
rp_status rp__disk_queue_read(rp_disk_queue *s, int64_t ticket, void *into)
{
    rp__mem_sync(s->ctx);
    pthread_mutex_lock(&s->lock);
    rp_disk_queue_entry *e         = entry_of(s, ticket);
    rp_status status = report_failure(s);
    RP_BUG_IF(e->to_read || e->n_reading);
    if (status == RP_OK) s->counts.read_bytes += e->bytes;
    if (status == RP_OK && s->running && e->bytes) {
        e->into        = into;
        e->asked_bytes = 0;
        e->to_read     = true;
        e->next        = RP_DISK_QUEUE_NONE;
        if (s->read_first == RP_DISK_QUEUE_NONE) s->read_first = ticket;
        else s->entry[s->read_last].next = ticket;
        s->read_last = ticket;
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* The caller holds the lock. Only the caller's thread grows the table of entries, so `e` stays valid. */
static void wait_for_entry(rp_disk_queue *s, const rp_disk_queue_entry *e)
{
    while (e->to_read || e->n_reading || e->n_writing) pthread_cond_wait(&s->progress, &s->lock);
}

rp_status rp__disk_queue_wait(rp_disk_queue *s, int64_t ticket)
{
    pthread_mutex_lock(&s->lock);
    wait_for_entry(s, entry_of(s, ticket));
    rp_status status = report_failure(s);
    pthread_mutex_unlock(&s->lock);
    return status;
}

rp_status rp__disk_queue_flush(rp_disk_queue *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->n_writing) pthread_cond_wait(&s->progress, &s->lock);
    rp_status status = report_failure(s);
    pthread_mutex_unlock(&s->lock);
    return status;
}

void rp__disk_queue_drop(rp_disk_queue *s, int64_t ticket)
{
    pthread_mutex_lock(&s->lock);
    rp_disk_queue_entry *e = entry_of(s, ticket);
    if (e->to_read) rp__disk_queue_leave_reads(s, ticket);
    wait_for_entry(s, e);
    e->live  = false;
    e->next  = s->spare;
    s->spare = ticket;
    pthread_mutex_unlock(&s->lock);
    give_extent(s, e->offset, rp__disk_queue_blocks(e->bytes));
}

/* ---- queries and fault injection ---- */

int64_t rp__disk_queue_bytes(const rp_disk_queue *s, int64_t ticket) { return entry_of(s, ticket)->bytes; }
void rp__disk_queue_count(const rp_disk_queue *s, rp_disk_queue_counts *out) { *out = s->counts; }

const char *rp__disk_queue_how(const rp_disk_queue *s)
{
    if (!s->running) return "shapes";
    return s->io.has_ring ? "io_uring" : "thread";
}

void rp__disk_queue_fail(rp_disk_queue *s, rp_disk_queue_operation operation, int64_t after, int64_t times, int number)
{
    pthread_mutex_lock(&s->lock);
    s->fault[operation] = (rp_disk_queue_fault){ after, times, number };
    pthread_mutex_unlock(&s->lock);
}
