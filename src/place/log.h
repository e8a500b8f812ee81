/* place/log.h -- what a step takes and gives, noted from the ledger, and placed.
 *
 *   begin ─ rp__pass_begin ─ [ a micro-batch ] ─ rp__pass_begin ─ [ another ] ─ … ─ end ─▶ the offset of each take, in order: rp__mem_follow
 *
 * What is live at the beginning stays where it is. A micro-batch that does what the second one did is laid like it.
 */
#ifndef RP_PLACE_LOG_H
#define RP_PLACE_LOG_H

#include "place/place.h"

typedef struct rp_place_log rp_place_log;

/* Observe the ledger of the context's own device. errors RP_ERR_MEMORY */
rp_status rp__place_log_begin(rp_ctx *ctx, rp_place_log **out);
/* Ends it whatever it says; most: as rp__place. *place is yours to rp__release; NULL where nothing was placed. errors RP_ERR_MEMORY */
rp_status rp__place_log_end(rp_place_log *log, int64_t most, rp_mem_place **place, int *n, rp_placement *out);

#endif
