#include "tape/away.h"
#include <string.h>
static struct { void *p; int64_t n; bool used; } slots[100000];
rp_status rp__away_put(rp_away *away, const rp_tensor *t, int64_t *ticket)
{
    (void)away; int i = 0; while (slots[i].used) i++;
    slots[i].used = true; slots[i].n = rp_meta_bytes(&t->m); slots[i].p = rp__host_alloc(t->ctx, slots[i].n + 1);
    if (rp_tensor_data(t)) memcpy(slots[i].p, rp_tensor_data(t), (size_t)slots[i].n);
    *ticket = i; return RP_OK;
}
rp_status rp__away_fetch(rp_away *away, int64_t k, rp_tensor *into) { (void)away; if (rp_tensor_data(into)) memcpy(rp_tensor_data(into), slots[k].p, (size_t)slots[k].n); return RP_OK; }
rp_status rp__away_wait(rp_away *away, int64_t k) { (void)away; (void)k; return RP_OK; }
void rp__away_drop(rp_away *away, int64_t k) { (void)away; rp__release(slots[k].p); slots[k].used = false; }
rp_status rp_set_offload(rp_ctx *ctx, const rp_offload_options *o) { ctx->away = o ? (struct rp_away *)ctx : NULL; return RP_OK; }
