/* base/shadow.h -- copies of blocks for host code that acts as a kernel, if the host has no access to the device's memory.
 *
 *   device   [ ... block ... | ... block ... ]       far from the host
 *   shadow   [ ... block ... ................]       the same offsets in host memory, whose pages come on first use
 *
 * The first use of a block between rp__mem_enter and rp__mem_leave copies it to the shadow. rp__mem_leave copies all used blocks back.
 */
#ifndef RP_SHADOW_H
#define RP_SHADOW_H

#include "base/device.h"

typedef struct rp_shadow rp_shadow;

/* A shadow of a device's range of addresses. errors RP_ERR_MEMORY */
rp_status rp__shadow_new(rp_ctx *ctx, const rp_memory *memory, uint8_t *device, int64_t bytes, rp_shadow **out);
void rp__shadow_free(rp_shadow *s);
/* The same offset in the shadow; copies nothing. */
uint8_t *rp__shadow_at(const rp_shadow *s, const uint8_t *device);
/* The block's copy, read from the device once until rp__shadow_return. Any thread may call it. A block in other memory is its own copy. */
uint8_t *rp__shadow_use(rp_shadow *s, uint8_t *block, int64_t bytes, const rp_on *on);
/* Copies the used blocks back to the device and forgets them. */
void rp__shadow_return(rp_shadow *s, const rp_on *on);

#endif
