/* tokenizer/seams.c -- the set of pairs of characters that some merge joins: open addressing, at most half full. */
#include "tokenizer/internal.h"

/* 0 marks an empty slot, so a pair of NULs is not stored; a text is never cut there. */
static uint64_t key_of(uint32_t left, uint32_t right) { return (uint64_t)left << 32 | right; }

static uint64_t *slot_of(const rp_seams *seams, uint64_t key)
{
    uint64_t mask = (uint64_t)seams->n_slots - 1;

    for (uint64_t i = key * 0x9e3779b97f4a7c15ull >> 32;; i++) {
        uint64_t *slot = &seams->slot[i & mask];
        if (!*slot || *slot == key) return slot;
    }
}

static rp_status grow(rp_ctx *ctx, rp_seams *seams)
{
    rp_seams larger = *seams;

    larger.n_slots = seams->n_slots ? 2 * seams->n_slots : 1024;
    larger.slot    = rp__host_alloc(ctx, larger.n_slots * (int64_t)sizeof *larger.slot);
    if (!larger.slot) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < seams->n_slots; i++)
        if (seams->slot[i]) *slot_of(&larger, seams->slot[i]) = seams->slot[i];
    rp__release(seams->slot);
    *seams = larger;
    return RP_OK;
}

rp_status rp__seams_add(rp_ctx *ctx, rp_seams *seams, uint32_t left, uint32_t right)
{
    if (!key_of(left, right)) return RP_OK;
    if (2 * (seams->n_used + 1) > seams->n_slots) RP_TRY(grow(ctx, seams));
    uint64_t *slot = slot_of(seams, key_of(left, right));
    if (!*slot) seams->n_used++;
    *slot = key_of(left, right);
    return RP_OK;
}

bool rp__seams_have(const rp_seams *seams, uint32_t left, uint32_t right)
{
    return !key_of(left, right) || (seams->n_slots && *slot_of(seams, key_of(left, right)));
}
