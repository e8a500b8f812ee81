/* tape/offload.h -- keeps offloaded values between the forward and their backward: in a file on disk, or in another device's memory.
 *
 *   put     copies the contents out; the caller may give the memory back at once; the ticket identifies them
 *   fetch   starts to copy them back; after wait, calls may read them; drop forgets them
 *
 * Files form a disk queue (base/disk_queue.h). Its buffers are counted in the host's ledger, class temp, from open to close. In another
 * device's memory, that device's ledger counts each value from put to drop, class saved. A GPU has a second stream for copies to the host's memory, so
 * its queue does not wait for them. On shapes alone the ledgers count the same.
 */
#ifndef RP_TAPE_OFFLOAD_H
#define RP_TAPE_OFFLOAD_H

#include "tensor/tensor.h"

typedef struct rp_offload rp_offload;

/* Errors: RP_ERR_ARG neither a folder nor a device, both, no such device, or a bad buffer size; RP_ERR_IO the folder; RP_ERR_MEMORY. */
rp_status rp__offload_open(rp_ctx *ctx, const rp_offload_options *options, rp_offload **out);
/* Returns the options for a place of the same kind in a shapes-only context, which needs no folder of its own. */
rp_offload_options rp__offload_options(const rp_offload *offload);
/* Are values kept in another device's memory? False if offload is NULL. */
bool rp__offload_in_memory(const rp_offload *offload);
void rp__offload_close(rp_offload *offload);         /* tickets may be left; NULL is fine */

/* t must be dense and start at the beginning of its storage. Errors: RP_ERR_IO, RP_ERR_MEMORY. */
rp_status rp__offload_put(rp_offload *offload, const rp_tensor *t, int64_t *ticket);
/* into: a tensor of the same shape and dtype. Its storage must stay until wait or drop has returned. One fetch per ticket at a time.
 * Errors: RP_ERR_IO. */
rp_status rp__offload_fetch(rp_offload *offload, int64_t ticket, rp_tensor *into);
/* Wait until the fetch of the ticket has ended. Errors: RP_ERR_IO. */
rp_status rp__offload_wait(rp_offload *offload, int64_t ticket);
void rp__offload_drop(rp_offload *offload, int64_t ticket);

int64_t rp__offload_bytes(const rp_offload *offload);        /* bytes put so far */
/* For tests: returns the disk queue; NULL: another device's memory is used. */
struct rp_disk_queue *rp__offload_disk_queue(rp_offload *offload);
int64_t rp__offload_tickets(const rp_offload *offload);      /* put and not dropped */

#endif
