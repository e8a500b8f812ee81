/* base/part.c -- creates the parts of a context. They follow the context in the same block of memory. */
#include "base/base.h"

#include <stdlib.h>

#define RP_PART(name, folder) extern const rp_ctx_part rp__part_##folder;
#include "base/parts.def"
#undef RP_PART

static const rp_ctx_part *const kinds[] = {
#define RP_PART(name, folder) &rp__part_##folder,
#include "base/parts.def"
#undef RP_PART
};

/* Rounded up to an alignment that suits every C type. */
static size_t aligned(size_t bytes) { return (bytes + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t); }

rp_ctx *rp__ctx_alloc(void)
{
    size_t at[RP_PARTS], bytes = aligned(sizeof(rp_ctx));

    for (int i = 0; i < RP_PARTS; i++) {
        at[i] = bytes;
        bytes += aligned((size_t)kinds[i]->bytes);
    }
    rp_ctx *ctx = calloc(1, bytes);
    for (int i = 0; ctx && i < RP_PARTS; i++) ctx->part[i] = (char *)ctx + at[i];
    return ctx;
}

void rp__parts_open(rp_ctx *ctx)
{
    for (int i = 0; i < RP_PARTS; i++)
        if (kinds[i]->open) kinds[i]->open(ctx);
}

void rp__parts_close(rp_ctx *ctx)
{
    for (int i = RP_PARTS; i-- > 0;)
        if (kinds[i]->close) kinds[i]->close(ctx);
}
