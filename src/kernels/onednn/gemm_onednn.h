/* kernels/onednn/gemm_onednn.h -- products by oneDNN, where the build found it.
 *
 * *took says whether the library runs this description: it does when its choice is a brgemm kernel (the ones that keep to
 * the scratchpad they declare) and bf16 is faster there than fp32. The answer is a function of the description, the CPU
 * level and the library version. When *took is false nothing was done and the status is RP_OK.
 */
#ifndef RP_GEMM_ONEDNN_H
#define RP_GEMM_ONEDNN_H

#include "kernels/gemm.h"

#define RP_ONEDNN_NAME_CHARS 64

typedef struct {
    bool takes;
    int64_t scratch_bytes;
    char name[RP_ONEDNN_NAME_CHARS];        /* "onednn 2.6.3 brg:avx512_core" */
} rp_onednn_answer;

#ifdef RP_HAVE_ONEDNN
/* Asks by a primitive descriptor alone: no code is generated. Cached. errors RP_ERR_BACKEND */
rp_status rp__onednn_ask(rp_ctx *ctx, const rp_gemm *g, rp_onednn_answer *out);
/* errors RP_ERR_BACKEND; C is then undefined */
rp_status rp__onednn_gemm(rp_ctx *ctx, const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, void *scratch,
                          bool *took);
#else
static inline rp_status rp__onednn_ask(rp_ctx *ctx, const rp_gemm *g, rp_onednn_answer *out)
{
    (void)ctx, (void)g;
    *out = (rp_onednn_answer){ .takes = false };
    return RP_OK;
}

static inline rp_status rp__onednn_gemm(rp_ctx *ctx, const rp_gemm *g, const void *a, const void *b, void *c, const void *bias,
                                        void *scratch, bool *took)
{
    (void)ctx, (void)g, (void)a, (void)b, (void)c, (void)bias, (void)scratch;
    *took = false;
    return RP_OK;
}
#endif

#endif
