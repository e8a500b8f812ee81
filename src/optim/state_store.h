/* optim/state_store.h -- optimizer states that live on disk, taken down a window at a time.
 *
 *   group      the elements of one parameter: | window 0 | window 1 | … | rest |        windows of RP_STATE_STORE_WINDOW elements
 *   part       what there is of each element: state 0, state 1, master; a window of each is a ticket of a disk queue (base/disk_queue.h)
 *
 *   take       file ─▶ [ part 0 | part 1 | part 2 ]        the buffer at hand …
 *                      [ part 0 | part 1 | part 2 ] ◀─ file    … while what is expected next comes into the other one
 *   keep       [ part 0 | part 1 | part 2 ] ─▶ file        copied at once, written behind
 *
 * Expected next is the group's next window, then the first of the group that followed it last time. Memory, all of class optim and taken
 * once, when the state store opens: two buffers of one window of the largest group, and the chunks of the disk queue, as much again. In a shapes-only
 * context the ledger is told the same and there is no file; there nothing is taken down.
 *
 * A part that was never kept takes no place in the file: whoever takes it down is told that it is fresh, and fills it. An error of the disk
 * is final: every later call gives RP_ERR_IO with its sentence. The file has no name: nothing stays behind however the process ends.
 */
#ifndef RP_OPTIM_STATE_STORE_H
#define RP_OPTIM_STATE_STORE_H

#include "base/base.h"

enum { RP_STATE_STORE_PARTS = 3, RP_STATE_STORE_WINDOW = 256 << 10 };      /* whole tiles of kernels/optim.h, whole blocks of the disk queue */

/* 0 bytes: it has no such part. room: buffers are measured as if n were this, where it is more; on ranks they are then alike, the slices are not. */
typedef struct { int64_t n; int elem_bytes[RP_STATE_STORE_PARTS]; int64_t room; } rp_state_store_group;

typedef struct {
    int group;
    unsigned parts, fresh;              /* bits: which are at hand; which of them hold nothing yet */
    int64_t first, count;               /* elements of the group */
    void *part[RP_STATE_STORE_PARTS];         /* NULL: not asked for, or the group has none */
} rp_state_store_view;

typedef struct rp_state_store rp_state_store;

/* The folder must exist; groups are copied. errors RP_ERR_IO the folder · RP_ERR_MEMORY */
rp_status rp__state_store_open(rp_ctx *ctx, const char *folder, const rp_state_store_group *groups, int n_groups, rp_state_store **out);
void rp__state_store_close(rp_state_store *store);      /* NULL is fine */

/* The window with element `at` of the group, of those parts; it stays at hand until the next take. errors RP_ERR_IO */
rp_status rp__state_store_take(rp_state_store *store, int group, unsigned parts, int64_t at, rp_state_store_view *out);
/* What was taken last, as it is now. errors RP_ERR_IO, of this or of an earlier write */
rp_status rp__state_store_keep(rp_state_store *store, const rp_state_store_view *view);
/* The part is fresh again, in all groups. */
void rp__state_store_forget(rp_state_store *store, int part);
/* All that was kept is in the file. errors RP_ERR_IO */
rp_status rp__state_store_flush(rp_state_store *store);

int64_t rp__state_store_bytes(const rp_state_store *store);     /* of all parts of all groups, kept or not */
struct rp_disk_queue *rp__state_store_disk_queue(rp_state_store *store);  /* tests only: for its faults */

#endif
