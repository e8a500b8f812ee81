/* base/disk_queue_internal.h -- declarations shared by the files of the disk queue: its structures, the worker, single I/O attempts.
 *
 *   disk_queue.c          the caller's side: tickets, holes of the file, copies into chunks
 *   disk_queue_worker.c   the worker: chooses the next piece, handles the result of an attempt
 *   disk_queue_io.c       the file, and attempts through io_uring or synchronous calls; uses neither tickets nor locks
 *
 * One caller, one worker, one lock. Only the caller uses the holes and grows the table of entries. A chunk's memory belongs to the thread that
 * took the chunk.
 */
#ifndef RP_BASE_DISK_QUEUE_INTERNAL_H
#define RP_BASE_DISK_QUEUE_INTERNAL_H

#include "base/disk_queue.h"

#include <pthread.h>

#ifdef RP_HAVE_LIBURING
#include <liburing.h>
#endif

enum { RP_DISK_QUEUE_BLOCK = 4096, RP_DISK_QUEUE_NONE = -1 };      /* block: alignment of memory, offsets and lengths for direct I/O */
static inline int64_t rp__disk_queue_blocks(int64_t bytes) { return (bytes + RP_DISK_QUEUE_BLOCK - 1) / RP_DISK_QUEUE_BLOCK * RP_DISK_QUEUE_BLOCK; }

typedef struct rp_disk_queue_piece {     /* a chunk of memory and its current use */
    uint8_t *memory;
    bool write;
    int64_t ticket, offset, bytes, done;    /* position in the file, in whole blocks */
    uint8_t *into;                          /* of a read: destination of wanted_bytes */
    int64_t wanted_bytes, result;           /* result of the last attempt: bytes moved, or -errno */
    struct rp_disk_queue_piece *next;
} rp_disk_queue_piece;

/* ---- single I/O attempts: disk_queue_io.c ---- */

typedef struct {
    int fd, depth;                  /* depth: most pieces in flight */
    bool direct;
    bool has_ring, ring_refuses;    /* after one refusal the ring is not used any more */
#ifdef RP_HAVE_LIBURING
    struct io_uring ring;
#endif
    rp_disk_queue_piece *ended;          /* finished synchronous attempts */
} rp_disk_queue_io;

/* Creates an unnamed file in the folder and, if possible, a ring for `depth` pieces; else io->depth becomes 1.
 * errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__disk_queue_io_open(rp_ctx *ctx, const char *folder, const char *label, int depth, rp_disk_queue_io *io);
void rp__disk_queue_io_close(rp_disk_queue_io *io);

void rp__disk_queue_io_begin(rp_disk_queue_io *io, rp_disk_queue_piece *piece);
/* Returns a piece whose attempt has finished. At least one piece must be in flight. */
rp_disk_queue_piece *rp__disk_queue_io_next(rp_disk_queue_io *io);
/* Switches to I/O through the page cache, which accepts any alignment. */
void rp__disk_queue_io_leave_direct(rp_disk_queue_io *io);

/* ---- the disk queue ---- */

typedef struct { int64_t offset, bytes; } rp_disk_queue_hole;

typedef struct {                    /* of a ticket */
    bool live, to_read;             /* to_read: in the queue of reads */
    int64_t offset, bytes;
    int n_writing, n_reading;       /* chunks with its bytes, queued or in flight */
    uint8_t *into;
    int64_t asked_bytes;            /* of a read: bytes assigned to chunks so far */
    int64_t next;                   /* next entry in the queue of reads, or in the list of free tickets */
} rp_disk_queue_entry;

typedef struct { int64_t after, times; int number; } rp_disk_queue_fault;

struct rp_disk_queue {
    rp_ctx *ctx;
    char *folder;
    const char *label;              /* names the data in messages */
    rp_mem_class mem_class;
    rp_disk_queue_io io;
    rp_disk_queue_piece *chunk;
    int n_chunks;
    int64_t chunk_bytes, taken_bytes, taken_at;     /* taken from the ledger */

    rp_disk_queue_hole *hole;            /* sorted by offset; no two are adjacent, none ends at `top` */
    int64_t n_holes, top;
    int64_t n_entries, room, spare;
    rp_disk_queue_counts counts;

    pthread_t worker;
    rp_on on;                       /* the worker's queue of device 0 */
    bool running;
    pthread_mutex_t lock;           /* protects all fields below and the contents of entries */
    pthread_cond_t work, progress;  /* work wakes the worker, progress wakes the caller */
    rp_disk_queue_entry *entry;
    rp_disk_queue_piece *idle, *queue, **queue_end;
    int64_t read_first, read_last;
    int n_writing;                  /* chunks queued for or being written to the file */
    bool stop;
    rp_disk_queue_fault fault[2];
    struct { int number; rp_disk_queue_operation operation; int64_t bytes; } failed;
};

/* ---- the worker: disk_queue_worker.c ---- */

/* Starts the worker. errors RP_ERR_MEMORY */
rp_status rp__disk_queue_start(rp_disk_queue *queue);
/* Removes the ticket from the queue of reads; it must be in it. The caller holds the lock. */
void rp__disk_queue_leave_reads(rp_disk_queue *queue, int64_t ticket);

#endif
