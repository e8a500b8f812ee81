/* optim/state_store.h -- keeps optimizer states on disk and brings them to memory one window at a time.
 *
 *   group      the elements of one parameter: | window 0 | window 1 | … | rest |        windows of RP_STATE_STORE_WINDOW elements
 *   part       values of one kind: a state, a master, or absmax. A window of a part is a ticket of a disk queue (base/disk_queue.h)
 *
 *   take       file ─▶ [ part 0 | part 1 | part 2 ]        the current buffer …
 *                      [ part 0 | part 1 | part 2 ] ◀─ file    … while the window expected next is read into the other one
 *   keep       [ part 0 | part 1 | part 2 ] ─▶ file        copied at once, written asynchronously
 *   lend       [ part 0 | part 1 | part 2 ] ─▶ a buffer of device 0, for its kernels; then fetch ◀─
 *
 * The window expected next is the next one of the group. After the last one it is the first window of the group that followed last time.
 *
 * All memory is of class optim and is allocated when the store opens. Two buffers hold one window of the largest group each, and the chunks of the
 * disk queue take as much again. Device 0 has one buffer more if it has kernels of its own. In a shapes-only context the ledger counts the same bytes,
 * but no file exists and nothing may be taken.
 *
 * A part that was never kept uses no space in the file; take marks it as fresh, and the caller must fill it. A disk error is final: every
 * later call returns RP_ERR_IO with the same message. The file is unlinked, so it disappears when the process ends.
 */
#ifndef RP_OPTIM_STATE_STORE_H
#define RP_OPTIM_STATE_STORE_H

#include "base/base.h"

enum { RP_STATE_STORE_PARTS = 5, RP_STATE_STORE_WINDOW = 256 << 10 };      /* a multiple of tiles of kernels/optim.h and of blocks of the disk queue */

/* A part has a value of elem_bytes for every `each` elements, which divides windows; 0: for every element. elem_bytes 0: the group has no such part.
 * room: buffers are sized for max(n, room) elements, so that ranks with different slices use the same amount of memory. */
typedef struct { int64_t n; int elem_bytes[RP_STATE_STORE_PARTS]; int64_t room; int each[RP_STATE_STORE_PARTS]; } rp_state_store_group;

typedef struct {
    int group;
    unsigned parts, fresh;              /* bit sets: parts in memory; those of them that were never kept */
    int64_t first, count;               /* range of elements in the group */
    void *part[RP_STATE_STORE_PARTS];   /* NULL: not requested, or the group has none */
} rp_state_store_view;

typedef struct rp_state_store rp_state_store;

/* Open a store in an existing folder; groups are copied. errors RP_ERR_IO the folder · RP_ERR_MEMORY */
rp_status rp__state_store_open(rp_ctx *ctx, const char *folder, const rp_state_store_group *groups, int n_groups, rp_state_store **out);
void rp__state_store_close(rp_state_store *store);      /* NULL is fine */

/* Read the requested parts of the window that contains element `at` of the group; valid until the next take. errors RP_ERR_IO */
rp_status rp__state_store_take(rp_state_store *store, int group, unsigned parts, int64_t at, rp_state_store_view *out);
/* Bytes of a part of a window that was taken. */
int64_t rp__state_store_view_bytes(const rp_state_store *store, const rp_state_store_view *view, int part);
/* A copy of a window that was taken, in the buffer of device 0. Kernels that are queued later may use it. fetch copies the parts back, and waits. */
rp_state_store_view rp__state_store_lend(rp_state_store *store, const rp_state_store_view *view);
void rp__state_store_fetch(rp_state_store *store, const rp_state_store_view *view, const rp_state_store_view *lent);
/* Write back the window taken last with its current contents. errors RP_ERR_IO, of this or of an earlier write */
rp_status rp__state_store_keep(rp_state_store *store, const rp_state_store_view *view);
/* Mark a part as fresh in all groups. */
void rp__state_store_forget(rp_state_store *store, int part);
/* Wait until all kept windows are in the file. errors RP_ERR_IO */
rp_status rp__state_store_flush(rp_state_store *store);

int64_t rp__state_store_bytes(const rp_state_store *store);     /* of all parts of all groups, kept or not */
struct rp_disk_queue *rp__state_store_disk_queue(rp_state_store *store);  /* for tests only: to inject faults */

#endif
