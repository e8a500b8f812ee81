/* tape/offload.h -- where offloaded values are between the forward and their backward: in a file on disk, or in the memory of another device.
 *
 *   put     the contents are copied out before it returns; the ticket stands for them
 *   fetch   they begin to come back; wait says when they are there; drop forgets them
 *
 * Files are a disk queue (base/disk_queue.h): its buffers are in the host's ledger, class temp, from open to close. In another device's memory each
 * value is in that device's ledger, class saved, from put to drop. On shapes alone the ledgers see the same.
 */
#ifndef RP_TAPE_OFFLOAD_H
#define RP_TAPE_OFFLOAD_H

#include "tensor/tensor.h"

typedef struct rp_offload rp_offload;

/* errors  RP_ERR_ARG neither a folder nor a device, or both; no such device; the buffer's size · RP_ERR_IO the folder · RP_ERR_MEMORY */
rp_status rp__offload_open(rp_ctx *ctx, const rp_offload_options *options, rp_offload **out);
/* For a place of the same kind in a shapes-only context, which needs no folder of its own. */
rp_offload_options rp__offload_options(const rp_offload *offload);
/* In another device's memory? NULL: nowhere, so false. */
bool rp__offload_in_memory(const rp_offload *offload);
void rp__offload_close(rp_offload *offload);         /* with tickets or without; NULL is fine */

/* t is dense and begins its storage. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__offload_put(rp_offload *offload, const rp_tensor *t, int64_t *ticket);
/* into: as t was, with a storage that stays until wait or drop has returned. One fetch of a ticket at a time. errors RP_ERR_IO */
rp_status rp__offload_fetch(rp_offload *offload, int64_t ticket, rp_tensor *into);
rp_status rp__offload_wait(rp_offload *offload, int64_t ticket);
void rp__offload_drop(rp_offload *offload, int64_t ticket);

int64_t rp__offload_bytes(const rp_offload *offload);        /* put so far */
/* Tests only: the files; NULL: another device's memory. */
struct rp_disk_queue *rp__offload_disk_queue(rp_offload *offload);
int64_t rp__offload_tickets(const rp_offload *offload);      /* put and not dropped */

#endif
