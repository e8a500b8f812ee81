/* data/masking.h -- what a masked-language loss asks for, and what the encoder sees in its place (Devlin et al., BERT, 2018, 3.1).
 *
 *   a token that is neither special nor kept from being a target is chosen with `probability`; of those chosen
 *     8 in 10 are hidden behind the mask token     1 in 10 is any token of the vocabulary     1 in 10 stays
 *   the labels of those chosen are what stood there; no other place has one
 *
 * Of n such tokens in a sample, n * probability are chosen, rounded up or down by chance so that the mean is exact, but 1 at least, as BERT has it:
 * a short sample is never without a target. How many targets a batch can have follows from its shape, so the loss is planned for that many rows
 * and not for all.
 *
 * Which and how is a function of (seed, step, sample in the global step, position among which others), by Philox: it depends on neither
 * ranks nor accumulation nor who asks, so the targets of a step can be counted before any batch of it is made. A set that is only scored
 * is masked by (seed, sample in the set, position): alike each time.
 */
#ifndef RP_DATA_MASKING_H
#define RP_DATA_MASKING_H

#include "base/base.h"

typedef struct {
    double probability;                 /* 0: nothing is masked, the targets are the next tokens */
    int32_t mask_id, vocab;
    uint64_t key;                       /* rp__masking_key of the seed */
    bool fixed;                         /* alike each time: `step` does not count, and samples are those of the set */
} rp_masking;

uint64_t rp__masking_key(uint64_t seed);

/* At most so many of a sample of this length are chosen; 1 at least. */
int64_t rp__masking_most(double probability, int64_t length);
/* Of n tokens of a sample that may be, so many are. */
int64_t rp__masking_count(const rp_masking *masking, int64_t step, int64_t sample, int64_t n);
/* place[n]: the positions of those that may be, each below 2^32 - 1. Brings the chosen to its front; returns how many they are. */
int64_t rp__masking_choose(const rp_masking *masking, int64_t step, int64_t sample, uint64_t *place, int64_t n);
/* What stands for the encoder where `id` was chosen. */
int32_t rp__masking_seen(const rp_masking *masking, int64_t step, int64_t sample, int64_t position, int32_t id);

#endif
