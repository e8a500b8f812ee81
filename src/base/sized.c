/* base/sized.c -- copies between structs of different sizes (see sized.h). */
#include "base/sized.h"

#include <string.h>

#include "reprise/op.h"
#include "reprise/train.h"

/* No struct has become smaller. */
_Static_assert(sizeof(rp_ctx_options) >= RP_FIRST_CTX_OPTIONS && sizeof(rp_backward_options) >= RP_FIRST_BACKWARD_OPTIONS &&
               sizeof(rp_checkpoint_options) >= RP_FIRST_CHECKPOINT_OPTIONS && sizeof(rp_offload_options) >= RP_FIRST_OFFLOAD_OPTIONS &&
               sizeof(rp_model_options) >= RP_FIRST_MODEL_OPTIONS && sizeof(rp_mem) == RP_FIRST_MEM && sizeof(rp_step_facts) >= RP_FIRST_STEP_FACTS &&
               sizeof(rp_metrics) >= RP_FIRST_METRICS && sizeof(rp_op) >= RP_FIRST_OP && sizeof(rp_init) >= RP_FIRST_INIT &&
               sizeof(rp_optimizer_options) >= RP_FIRST_OPTIMIZER_OPTIONS && sizeof(rp_update) >= RP_FIRST_UPDATE, "public structs grow at their end");

bool rp__sized_take(void *own, size_t own_bytes, const void *given, size_t bytes)
{
    const unsigned char *from = given;

    for (size_t i = own_bytes; i < bytes; i++)
        if (from[i]) return false;
    memset(own, 0, own_bytes);
    memcpy(own, given, bytes < own_bytes ? bytes : own_bytes);
    return true;
}

void rp__sized_give(void *to, size_t bytes, const void *own, size_t own_bytes)
{
    memset(to, 0, bytes);
    memcpy(to, own, bytes < own_bytes ? bytes : own_bytes);
}
