/* base/disk_queue_worker.c -- the thread of a disk queue: chooses the next piece and handles the result of each attempt.
 *
 *   chunk   idle -> filled by a write -> queued -> in flight -> idle           the caller fills it, the worker does the rest
 *           idle -> in flight for a read -> copied to the caller -> idle       all by the worker
 *
 * I/O and copies run without the lock. `work` takes the lock; the functions above it are called with the lock held. disk_queue_worker_settle and
 * disk_queue_worker_begin release it meanwhile.
 */
#include "base/disk_queue_internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static void give_chunk(rp_disk_queue *s, rp_disk_queue_piece *p)
{
    rp_disk_queue_entry *e = &s->entry[p->ticket];

    if (p->write) {
        e->n_writing--;
        s->n_writing--;
    } else {
        e->n_reading--;
    }
    p->next = s->idle;
    s->idle = p;
    pthread_cond_signal(&s->progress);
}

static rp_disk_queue_piece *take_queued(rp_disk_queue *s)
{
    rp_disk_queue_piece *p = s->queue;

    if (!p) return NULL;
    s->queue = p->next;
    if (!s->queue) s->queue_end = &s->queue;
    return p;
}

void rp__disk_queue_leave_reads(rp_disk_queue *s, int64_t ticket)
{
    int64_t before = RP_DISK_QUEUE_NONE, i = s->read_first;

    for (; i != ticket; i = s->entry[i].next) before = i;
    if (before == RP_DISK_QUEUE_NONE) s->read_first = s->entry[i].next;
    else s->entry[before].next = s->entry[i].next;
    if (s->read_last == ticket) s->read_last = before;
    s->entry[ticket].to_read = false;
}

/* After an error, and when the disk queue closes, pieces that have not started are dropped. */
static void abandon(rp_disk_queue *s)
{
    for (rp_disk_queue_piece *p; (p = take_queued(s));) give_chunk(s, p);
    while (s->read_first != RP_DISK_QUEUE_NONE) rp__disk_queue_leave_reads(s, s->read_first);
    pthread_cond_signal(&s->progress);
}

/* Assigns the next part of the first read to an idle chunk, once the ticket's data has been written. */
static rp_disk_queue_piece *next_read(rp_disk_queue *s)
{
    rp_disk_queue_piece *p = s->idle;

    if (!p || s->read_first == RP_DISK_QUEUE_NONE) return NULL;
    int64_t ticket    = s->read_first;
    rp_disk_queue_entry *e = &s->entry[ticket];
    int64_t left      = e->bytes - e->asked_bytes, bytes = left < s->chunk_bytes ? left : s->chunk_bytes;
    if (e->n_writing) return NULL;
    s->idle = p->next;
    *p = (rp_disk_queue_piece){ .memory = p->memory, .ticket = ticket, .offset = e->offset + e->asked_bytes, .bytes = rp__disk_queue_blocks(bytes),
                           .into = e->into + e->asked_bytes, .wanted_bytes = bytes };
    e->asked_bytes += bytes;
    e->n_reading++;
    if (e->asked_bytes == e->bytes) rp__disk_queue_leave_reads(s, ticket);
    return p;
}

static rp_disk_queue_piece *next_piece(rp_disk_queue *s)
{
    if (s->stop || s->failed.number) {
        abandon(s);
        return NULL;
    }
    rp_disk_queue_piece *p = take_queued(s);
    return p ? p : next_read(s);
}

static int64_t with_faults(rp_disk_queue *s, const rp_disk_queue_piece *p)
{
    rp_disk_queue_fault *f = &s->fault[p->write ? RP_DISK_QUEUE_WRITE : RP_DISK_QUEUE_READ];

    if (f->times == 0 || f->after-- > 0) return p->result;
    f->times--;
    if (f->number) return -f->number;
    return p->result > 1 ? p->result / 2 | 1 : p->result;
}

static void remember_failure(rp_disk_queue *s, const rp_disk_queue_piece *p, int number)
{
    if (s->failed.number) return;
    s->failed.number    = number;
    s->failed.operation = p->write ? RP_DISK_QUEUE_WRITE : RP_DISK_QUEUE_READ;
    s->failed.bytes     = s->entry[p->ticket].bytes;
}

/* Handles the result of an attempt; true: try again. Direct I/O that stopped inside a block, or that the file system rejects, continues through
 * the page cache. */
static bool disk_queue_worker_settle(rp_disk_queue *s, rp_disk_queue_piece *p)
{
    int64_t moved = with_faults(s, p);

    if (moved == -EINTR || moved == -EAGAIN) return true;
    if (moved == -EINVAL && s->io.direct) {
        rp__disk_queue_io_leave_direct(&s->io);
        return true;
    }
    if (moved > 0) {
        p->done += moved;
        if (p->done % RP_DISK_QUEUE_BLOCK) rp__disk_queue_io_leave_direct(&s->io);
        if (p->done < p->bytes) return true;
    }
    if (moved <= 0) {
        remember_failure(s, p, moved ? (int)-moved : EIO);
    } else if (!p->write) {
        pthread_mutex_unlock(&s->lock);
        bool copied = rp__mem_copy_in(s->ctx, &s->on, p->into, p->memory, p->wanted_bytes);
        pthread_mutex_lock(&s->lock);
        if (!copied) remember_failure(s, p, EIO);
    }
    give_chunk(s, p);
    return false;
}

static void disk_queue_worker_begin(rp_disk_queue *s, rp_disk_queue_piece *p)
{
    pthread_mutex_unlock(&s->lock);
    rp__disk_queue_io_begin(&s->io, p);
    pthread_mutex_lock(&s->lock);
}

static void *work(void *user)
{
    rp_disk_queue *s    = user;
    int n_underway = 0;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        for (rp_disk_queue_piece *p; n_underway < s->io.depth && (p = next_piece(s)); n_underway++) disk_queue_worker_begin(s, p);
        if (n_underway) {
            pthread_mutex_unlock(&s->lock);
            rp_disk_queue_piece *p = rp__disk_queue_io_next(&s->io);
            pthread_mutex_lock(&s->lock);
            if (disk_queue_worker_settle(s, p)) disk_queue_worker_begin(s, p);
            else n_underway--;
        } else if (s->stop) {
            break;
        } else {
            pthread_cond_wait(&s->work, &s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Starts the worker with all signals blocked, so that only the program's threads receive them. The same keeps the signal of the file size limit
 * (SIGXFSZ) from ending the process. */
rp_status rp__disk_queue_start(rp_disk_queue *s)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int number = rp__fault_fires(s->ctx) ? ENOMEM : pthread_create(&s->worker, NULL, work, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    RP_CHECK(s->ctx, !number, RP_ERR_MEMORY, "cannot start the offload thread: %s", strerror(number));
    s->running = true;
    return RP_OK;
}
