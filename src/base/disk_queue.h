/* base/disk_queue.h -- bytes that wait on disk: written behind, fetched ahead of need, in one unlinked temporary file.
 *
 *   write   data --copy--> [chunk] [chunk] ... --worker--> file      returns once copied; blocks while every chunk is busy
 *   read    file --worker--> [chunk] ... --copy--> into              returns at once; wait says when it is there
 *
 *   file    | ticket 0 | hole | ticket 2      | ticket 3 |           extents of whole 4096-byte blocks, first fit
 *                                                        ^ file_bytes = high water
 *
 * One thread a disk queue does the I/O, through io_uring where the library is built in and the kernel allows it (REPRISE_IO=thread: never),
 * else with pread and pwrite; past the page cache where the file system can. The chunks are taken from the ledger once, when the disk queue
 * opens, and given back when it closes: nothing between the two touches the ledger. In a shapes-only context there is the same entry
 * in the ledger, but no file, no thread and no data.
 *
 * An error of the disk is final: whatever meets it first, every later write, read and wait gives RP_ERR_IO with its sentence; drop and
 * close go on working. The file has no name: nothing stays behind however the process ends.
 */
#ifndef RP_BASE_DISK_QUEUE_H
#define RP_BASE_DISK_QUEUE_H

#include "base/base.h"

typedef struct rp_disk_queue rp_disk_queue;

typedef enum { RP_DISK_QUEUE_READ, RP_DISK_QUEUE_WRITE } rp_disk_queue_operation;

typedef struct {
    int64_t written_bytes, read_bytes;      /* as asked for, since the disk queue was opened */
    int64_t file_bytes;                     /* the file at its largest */
} rp_disk_queue_counts;

/* The folder must exist. buffer_bytes is what the chunks may take together.
 * errors  RP_ERR_IO the folder · RP_ERR_ARG the buffer is below 8 KiB or above 16 GiB · RP_ERR_MEMORY */
rp_status rp__disk_queue_open(rp_ctx *ctx, const char *folder, int64_t buffer_bytes, rp_disk_queue **out);
/* The same for something else than offloaded slots: messages call it `what` (static text), and the chunks are of that class. */
rp_status rp__disk_queue_open_for(rp_ctx *ctx, const char *folder, int64_t buffer_bytes, const char *what, rp_mem_class mem_class, rp_disk_queue **out);
void rp__disk_queue_close(rp_disk_queue *queue);      /* with tickets or without; NULL is fine */

/* That many tickets can be there at a time without taking more memory: writes then give no RP_ERR_MEMORY. errors RP_ERR_MEMORY */
rp_status rp__disk_queue_reserve(rp_disk_queue *queue, int64_t tickets);

/* When it returns the caller may write to `data` again. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__disk_queue_write(rp_disk_queue *queue, const void *data, int64_t bytes, int64_t *ticket);
/* Begins; `into` takes the bytes that were written and must stay until wait or drop has returned. One read of a ticket at a time; after its
 * wait the ticket can be read again. */
rp_status rp__disk_queue_read(rp_disk_queue *queue, int64_t ticket, void *into);
/* For the end of what goes on with the ticket: its read, or else its write. After it, failed or not, the worker has let go of `into`. */
rp_status rp__disk_queue_wait(rp_disk_queue *queue, int64_t ticket);
/* For the end of all writes: what was written until now is in the file, or this tells why it is not. */
rp_status rp__disk_queue_flush(rp_disk_queue *queue);
/* Forget the contents, once I/O in flight on them has ended. */
void rp__disk_queue_drop(rp_disk_queue *queue, int64_t ticket);

int64_t rp__disk_queue_bytes(const rp_disk_queue *queue, int64_t ticket);
void rp__disk_queue_count(const rp_disk_queue *queue, rp_disk_queue_counts *out);
const char *rp__disk_queue_how(const rp_disk_queue *queue);      /* "io_uring", "thread", "shapes" */

/* Tests only: of the attempts of an operation from now on, `times` ones after the first `after` end with this errno, or with 0 report about
 * half of the bytes they moved. */
void rp__disk_queue_fail(rp_disk_queue *queue, rp_disk_queue_operation operation, int64_t after, int64_t times, int number);

#endif
