/* place/log.h -- logs the buffers that a step takes and gives back, and places them.
 *
 *   begin ─ rp__pass_begin ─ [ a micro-batch ] ─ rp__pass_begin ─ [ another ] ─ … ─ end ─▶ the offset of each take, in order: rp__mem_follow
 *
 * Memory that is live at the beginning keeps its place. A micro-batch with the same events as the second one gets the same placement.
 */
#ifndef RP_PLACE_LOG_H
#define RP_PLACE_LOG_H

#include "place/place.h"

typedef struct rp_place_log rp_place_log;

/* Start to observe the ledger of the context's own device. Errors: RP_ERR_MEMORY. */
rp_status rp__place_log_begin(rp_ctx *ctx, rp_place_log **out);
/* End the log and free it, even after an error. most: as for rp__place. The caller must rp__release *place; NULL: nothing was placed.
 * Errors: RP_ERR_MEMORY. */
rp_status rp__place_log_end(rp_place_log *log, int64_t most, rp_mem_place **place, int *n, rp_placement *out);

#endif
