/* train/masking.h -- what a masked-language loss asks for, and what the encoder sees in its place (Devlin et al., BERT, 2018, 3.1).
 *
 *   a token that is neither special nor kept from being a target is chosen with `probability`; of those chosen
 *     8 in 10 are hidden behind the mask token     1 in 10 is any token of the vocabulary     1 in 10 stays
 *   the labels of those chosen are what stood there; no other place has one
 *
 * Whether and how is a function of (seed, step, sample in the global step, position), by Philox: it depends on neither ranks nor
 * accumulation nor who asks, so the targets of a step can be counted before any batch of it is made. A set that is only scored is masked
 * by (seed, sample in the set, position): alike each time.
 */
#ifndef RP_TRAIN_MASKING_H
#define RP_TRAIN_MASKING_H

#include "base/base.h"

typedef struct {
    double probability;                 /* 0: nothing is masked, the targets are the next tokens */
    int32_t mask_id, vocab;
    uint64_t key;                       /* rp__masking_key of the seed */
    bool fixed;                         /* alike each time: `step` does not count, and samples are those of the set */
} rp_masking;

uint64_t rp__masking_key(uint64_t seed);

/* Is the token at `position` of a sample chosen? Then *seen is what stands there for the encoder. Special tokens are the caller's to leave out. */
bool rp__masking_chooses(const rp_masking *masking, int64_t step, int64_t sample, int64_t position, int32_t id, int32_t *seen);

#endif
