/* base/shadow.c -- the used blocks of a shadow, and their copies. */
#include "base/shadow.h"

#include <pthread.h>

#include "base/base.h"

enum { MOST_USED = 4096 };          /* blocks that one call of an op or one update uses; a call has at most some dozens */

typedef struct { uint8_t *block; int64_t bytes; } used_block;

struct rp_shadow {
    const rp_memory *memory;
    uint8_t *device, *host;         /* both ranges */
    int64_t bytes, host_bytes;
    pthread_mutex_t lock;           /* of the list below */
    int n;
    used_block used[MOST_USED];
};

rp_status rp__shadow_new(rp_ctx *ctx, const rp_memory *memory, uint8_t *device, int64_t bytes, rp_shadow **out)
{
    rp_shadow *s = rp__host_alloc(ctx, sizeof *s);

    if (!s) return RP_ERR_MEMORY;
    s->memory = memory;
    s->device = device;
    s->bytes  = bytes;
    s->host   = rp__memory_host.reserve(bytes, &s->host_bytes);
    if (!s->host || s->host_bytes < bytes) {
        if (s->host) rp__memory_host.release(s->host, s->host_bytes);
        rp__release(s);
        return rp_fail(ctx, RP_ERR_MEMORY, "cannot reserve address space for the host's copies of device memory");
    }
    pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return RP_OK;
}

void rp__shadow_free(rp_shadow *s)
{
    if (!s) return;
    rp__memory_host.release(s->host, s->host_bytes);
    pthread_mutex_destroy(&s->lock);
    rp__release(s);
}

uint8_t *rp__shadow_at(const rp_shadow *s, const uint8_t *device) { return s->host + (device - s->device); }

static bool is_used(const rp_shadow *s, const uint8_t *block)
{
    for (int i = s->n - 1; i >= 0; i--)
        if (s->used[i].block == block) return true;
    return false;
}

uint8_t *rp__shadow_use(rp_shadow *s, uint8_t *block, int64_t bytes, const rp_on *on)
{
    if (block < s->device || block >= s->device + s->bytes) return block;
    uint8_t *at = rp__shadow_at(s, block);
    pthread_mutex_lock(&s->lock);
    if (bytes && !is_used(s, block)) {
        RP_BUG_IF(s->n == MOST_USED);
        s->memory->copy(at, block, bytes, on);
        s->memory->sync(on);
        s->used[s->n++] = (used_block){ block, bytes };
    }
    pthread_mutex_unlock(&s->lock);
    return at;
}

void rp__shadow_return(rp_shadow *s, const rp_on *on)
{
    for (int i = 0; i < s->n; i++) s->memory->copy(s->used[i].block, rp__shadow_at(s, s->used[i].block), s->used[i].bytes, on);
    if (s->n) s->memory->sync(on);
    s->n = 0;
}
