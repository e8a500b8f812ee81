/* data/masking.h -- chooses the targets of a masked-language loss and the tokens that the encoder sees (Devlin et al., BERT, 2018, 3.1).
 *
 *   Each eligible token (not special, not excluded as a target) is chosen with `probability`. Among the chosen tokens
 *     8 in 10 become the mask token     1 in 10 becomes a random token of the vocabulary     1 in 10 stays
 *   The label of a chosen token is its original id. Other positions have no label.
 *
 * A sample with n eligible tokens has n * probability chosen ones. The count is rounded up or down at random so that its mean is exact, but it is
 * at least 1, as in BERT, so a short sample always has a target. The shape of a batch limits its number of targets (rp__masking_most), so the
 * loss is planned for that many rows instead of all rows.
 *
 * The choice is a Philox function of (seed, step, sample in the global step, position). It does not depend on ranks, on gradient accumulation or on
 * the caller, so the targets of a step can be counted before its batches are made. An evaluation set is masked by
 * (seed, sample in the set, position), so its masks are the same each time.
 */
#ifndef RP_DATA_MASKING_H
#define RP_DATA_MASKING_H

#include "base/base.h"

typedef struct {
    double probability;                 /* 0: no masking, labels are the next tokens */
    int32_t mask_id, vocab;
    uint64_t key;                       /* rp__masking_key(seed) */
    bool fixed;                         /* same masks each time: `step` is ignored, and `sample` counts within the set */
} rp_masking;

uint64_t rp__masking_key(uint64_t seed);

/* Upper bound of the number of chosen tokens in a sample of `length` tokens; at least 1. */
int64_t rp__masking_most(double probability, int64_t length);
/* Number of chosen tokens in a sample with n eligible tokens; 0 if n is 0. */
int64_t rp__masking_count(const rp_masking *masking, int64_t step, int64_t sample, int64_t n);
/* Move the chosen positions to the front of place[n], which holds the eligible positions, each below 2^32 - 1. Returns the number of chosen
 * positions. */
int64_t rp__masking_choose(const rp_masking *masking, int64_t step, int64_t sample, uint64_t *place, int64_t n);
/* Id that the encoder sees at a chosen position whose token is `id`. */
int32_t rp__masking_seen(const rp_masking *masking, int64_t step, int64_t sample, int64_t position, int32_t id);

#endif
