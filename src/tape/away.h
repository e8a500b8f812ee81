#ifndef RP_TAPE_AWAY_H
#define RP_TAPE_AWAY_H
#include "tensor/tensor.h"
typedef struct rp_away rp_away;
rp_status rp__away_put(rp_away *away, const rp_tensor *t, int64_t *ticket);
rp_status rp__away_fetch(rp_away *away, int64_t ticket, rp_tensor *into);
rp_status rp__away_wait(rp_away *away, int64_t ticket);
void rp__away_drop(rp_away *away, int64_t ticket);
#endif
