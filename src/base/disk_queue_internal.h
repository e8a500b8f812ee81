/* base/disk_queue_internal.h -- what the files of the disk queue share: its structures, the worker, and single attempts at I/O.
 *
 *   disk_queue.c          the caller's side: tickets, holes of the file, copies into chunks
 *   disk_queue_worker.c   the worker: which piece is next, what follows an attempt at it
 *   disk_queue_io.c       the file, and attempts through io_uring or at once; knows of neither tickets nor locks
 *
 * One caller, one worker, one lock. Holes are the caller's alone, and so is the growth of the table of entries; a chunk's memory belongs to
 * whoever took the chunk.
 */
#ifndef RP_BASE_DISK_QUEUE_INTERNAL_H
#define RP_BASE_DISK_QUEUE_INTERNAL_H

#include "base/disk_queue.h"

#include <pthread.h>

#ifdef RP_HAVE_LIBURING
#include <liburing.h>
#endif

enum { RP_DISK_QUEUE_BLOCK = 4096, RP_DISK_QUEUE_NONE = -1 };      /* block: the alignment of memory, offsets and lengths in direct I/O */
static inline int64_t rp__disk_queue_blocks(int64_t bytes) { return (bytes + RP_DISK_QUEUE_BLOCK - 1) / RP_DISK_QUEUE_BLOCK * RP_DISK_QUEUE_BLOCK; }

typedef struct rp_disk_queue_piece {     /* a chunk of memory and what it is used for */
    uint8_t *memory;
    bool write;
    int64_t ticket, offset, bytes, done;    /* in the file, whole blocks */
    uint8_t *into;                          /* of a read: where wanted_bytes go in the end */
    int64_t wanted_bytes, result;           /* of the last attempt: bytes moved, or -errno */
    struct rp_disk_queue_piece *next;
} rp_disk_queue_piece;

/* ---- attempts: disk_queue_io.c ---- */

typedef struct {
    int fd, depth;                  /* depth: pieces under way at a time */
    bool direct;
    bool has_ring, ring_refuses;    /* a ring that refused once is not asked again */
#ifdef RP_HAVE_LIBURING
    struct io_uring ring;
#endif
    rp_disk_queue_piece *ended;          /* those that ran at once */
} rp_disk_queue_io;

/* An unnamed file in the folder, and a ring for `depth` pieces where there can be one; else depth becomes 1. */
rp_status rp__disk_queue_io_open(rp_ctx *ctx, const char *folder, const char *what, int depth, rp_disk_queue_io *io);
void rp__disk_queue_io_close(rp_disk_queue_io *io);

void rp__disk_queue_io_begin(rp_disk_queue_io *io, rp_disk_queue_piece *piece);
/* A piece whose attempt is over; one must be under way. */
rp_disk_queue_piece *rp__disk_queue_io_next(rp_disk_queue_io *io);
/* From here on through the page cache, which takes any alignment. */
void rp__disk_queue_io_leave_direct(rp_disk_queue_io *io);

/* ---- the disk queue ---- */

typedef struct { int64_t offset, bytes; } rp_disk_queue_hole;

typedef struct {                    /* a ticket */
    bool live, to_read;             /* to_read: in the queue of reads */
    int64_t offset, bytes;
    int n_writing, n_reading;       /* chunks that hold bytes of it, queued or under way */
    uint8_t *into;
    int64_t asked_bytes;            /* of a read: what chunks were found for */
    int64_t next;                   /* in the queue of reads, or in the list of spare tickets */
} rp_disk_queue_entry;

typedef struct { int64_t after, times; int number; } rp_disk_queue_fault;

struct rp_disk_queue {
    rp_ctx *ctx;
    char *folder;
    const char *what;               /* is in it, for messages */
    rp_mem_class mem_class;
    rp_disk_queue_io io;
    rp_disk_queue_piece *chunk;
    int n_chunks;
    int64_t chunk_bytes, taken_bytes, taken_at;     /* taken: from the ledger */

    rp_disk_queue_hole *hole;            /* sorted by offset, no two touch, none at the end */
    int64_t n_holes, top;
    int64_t n_entries, room, spare;
    rp_disk_queue_counts counts;

    pthread_t worker;
    bool running;
    pthread_mutex_t lock;           /* of all below, and of what the entries hold */
    pthread_cond_t work, progress;  /* for the worker, for the caller */
    rp_disk_queue_entry *entry;
    rp_disk_queue_piece *idle, *queue, **queue_end;
    int64_t read_first, read_last;
    int n_writing;                  /* chunks that are queued or under way to the file */
    bool stop;
    rp_disk_queue_fault fault[2];
    struct { int number; rp_disk_queue_operation operation; int64_t bytes; } failed;
};

/* ---- the worker: disk_queue_worker.c ---- */

rp_status rp__disk_queue_start(rp_disk_queue *queue);
/* Take the ticket out of the queue of reads, which it is in. The lock is held. */
void rp__disk_queue_leave_reads(rp_disk_queue *queue, int64_t ticket);

#endif
