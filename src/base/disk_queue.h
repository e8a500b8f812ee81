/* base/disk_queue.h -- buffers offloaded to disk: written asynchronously and read back before use, in one unlinked temporary file.
 *
 *   write   data --copy--> [chunk] [chunk] ... --worker--> file      returns once copied; blocks while every chunk is busy
 *   read    file --worker--> [chunk] ... --copy--> into              returns at once; wait returns when the data is in `into`
 *
 *   file    | ticket 0 | hole | ticket 2      | ticket 3 |           extents of whole 4096-byte blocks, first fit
 *                                                        ^ file_bytes = high water
 *
 * Each disk queue has one thread for I/O. It uses io_uring if the library was built with it and the kernel allows it (REPRISE_IO=thread
 * disables it), else pread and pwrite. It uses direct I/O if the file system supports it. The chunks are taken from the ledger once, when the
 * disk queue opens, and given back when it closes; nothing in between changes the ledger. In a shapes-only context the ledger has the same
 * entry, but no file, no thread and no data exist.
 *
 * An error of the disk is final: after it, every write, read and wait returns RP_ERR_IO with the same message. drop and close still work.
 * The file has no name, so nothing is left on disk however the process ends.
 */
#ifndef RP_BASE_DISK_QUEUE_H
#define RP_BASE_DISK_QUEUE_H

#include "base/base.h"

typedef struct rp_disk_queue rp_disk_queue;

typedef enum { RP_DISK_QUEUE_READ, RP_DISK_QUEUE_WRITE } rp_disk_queue_operation;

typedef struct {
    int64_t written_bytes, read_bytes;      /* as requested, since the disk queue was opened */
    int64_t file_bytes;                     /* largest size of the file so far */
} rp_disk_queue_counts;

/* Opens a disk queue for offloaded slots. The folder must exist. buffer_bytes is the size of all chunks together.
 * errors  RP_ERR_IO the folder · RP_ERR_ARG the buffer is below 8 KiB or above 16 GiB · RP_ERR_MEMORY */
rp_status rp__disk_queue_open(rp_ctx *ctx, const char *folder, int64_t buffer_bytes, rp_disk_queue **out);
/* The same for other data. `label` (static text) names the data in messages; mem_class is the class of the chunks. errors as rp__disk_queue_open */
rp_status rp__disk_queue_open_for(rp_ctx *ctx, const char *folder, int64_t buffer_bytes, const char *label, rp_mem_class mem_class, rp_disk_queue **out);
void rp__disk_queue_close(rp_disk_queue *queue);      /* open tickets are dropped; NULL is fine */

/* Allocates room for that many open tickets. Up to that number, writes never return RP_ERR_MEMORY. errors RP_ERR_MEMORY */
rp_status rp__disk_queue_reserve(rp_disk_queue *queue, int64_t tickets);

/* Once it returns, the caller may overwrite `data`. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__disk_queue_write(rp_disk_queue *queue, const void *data, int64_t bytes, int64_t *ticket);
/* Starts reading the written bytes into `into`, which must stay valid until wait or drop has returned. One read per ticket at a time; after its
 * wait the ticket can be read again. errors RP_ERR_IO */
rp_status rp__disk_queue_read(rp_disk_queue *queue, int64_t ticket, void *into);
/* Waits for the ticket's pending read or write. Afterwards the worker no longer uses `into`, even after an error. errors RP_ERR_IO */
rp_status rp__disk_queue_wait(rp_disk_queue *queue, int64_t ticket);
/* Waits until everything written so far is in the file. errors RP_ERR_IO */
rp_status rp__disk_queue_flush(rp_disk_queue *queue);
/* Frees the ticket and its extent after any I/O on it has ended. */
void rp__disk_queue_drop(rp_disk_queue *queue, int64_t ticket);

int64_t rp__disk_queue_bytes(const rp_disk_queue *queue, int64_t ticket);
void rp__disk_queue_count(const rp_disk_queue *queue, rp_disk_queue_counts *out);
const char *rp__disk_queue_how(const rp_disk_queue *queue);      /* "io_uring", "thread", "shapes" */

/* Tests only: makes attempts of an operation fail. After `after` further attempts, the next `times` ones end with errno `number`; 0 makes them
 * report about half of the bytes they moved. */
void rp__disk_queue_fail(rp_disk_queue *queue, rp_disk_queue_operation operation, int64_t after, int64_t times, int number);

#endif
