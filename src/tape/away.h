/* tape/away.h -- where offloaded values are between the forward and their backward: in a file on disk, or in the memory of another device.
 *
 *   put     the contents are copied out before it returns; the ticket stands for them
 *   fetch   they begin to come back; wait says when they are there; drop forgets them
 *
 * Files are a spool (base/spool.h): its buffers are in the host's ledger, class temp, from open to close. In another device's memory each
 * value is in that device's ledger, class saved, from put to drop. On shapes alone the ledgers see the same.
 */
#ifndef RP_TAPE_AWAY_H
#define RP_TAPE_AWAY_H

#include "tensor/tensor.h"

typedef struct rp_away rp_away;

/* errors  RP_ERR_ARG neither a folder nor a device, or both; no such device; the buffer's size · RP_ERR_IO the folder · RP_ERR_MEMORY */
rp_status rp__away_open(rp_ctx *ctx, const rp_offload_options *options, rp_away **out);
/* For a place of the same kind in a shapes-only context, which needs no folder of its own. */
rp_offload_options rp__away_options(const rp_away *away);
/* In another device's memory? NULL: nowhere, so false. */
bool rp__away_in_memory(const rp_away *away);
void rp__away_close(rp_away *away);         /* with tickets or without; NULL is fine */

/* t is dense and begins its storage. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__away_put(rp_away *away, const rp_tensor *t, int64_t *ticket);
/* into: as t was, with a storage that stays until wait or drop has returned. One fetch of a ticket at a time. errors RP_ERR_IO */
rp_status rp__away_fetch(rp_away *away, int64_t ticket, rp_tensor *into);
rp_status rp__away_wait(rp_away *away, int64_t ticket);
void rp__away_drop(rp_away *away, int64_t ticket);

int64_t rp__away_bytes(const rp_away *away);        /* put so far */
/* Tests only: the files; NULL: another device's memory. */
struct rp_spool *rp__away_spool(rp_away *away);
int64_t rp__away_tickets(const rp_away *away);      /* put and not dropped */

#endif
