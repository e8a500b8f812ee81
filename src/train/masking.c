/* train/masking.c -- one block of Philox a token: chosen or not, which of the three ways, which other token. */
#include "train/masking.h"

#include "base/philox.h"

uint64_t rp__masking_key(uint64_t seed)
{
    static const char what[] = "masked tokens";

    return rp__hash(what, sizeof what, rp__hash(&seed, sizeof seed, RP_HASH_SEED));
}

/* As a fraction of all words, in exact arithmetic. */
static bool below(uint32_t word, double probability) { return (double)word * 0x1p-32 < probability; }

bool rp__masking_chooses(const rp_masking *m, int64_t step, int64_t sample, int64_t position, int32_t id, int32_t *seen)
{
    rp_stream stream = { .key = m->key, .step = m->fixed ? 0 : step, .sample_base = sample };
    rp_philox draw   = rp__stream_block(&stream, 0, position);

    if (!below(draw.word[0], m->probability)) return false;
    if (below(draw.word[1], 0.8)) *seen = m->mask_id;
    else if (below(draw.word[1], 0.9)) *seen = (int32_t)((uint64_t)draw.word[2] * (uint64_t)m->vocab >> 32);
    else *seen = id;
    return true;
}
