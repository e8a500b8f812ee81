/* models/rope.h -- the tables of rotary position embedding. */
#ifndef RP_MODELS_ROPE_H
#define RP_MODELS_ROPE_H

#include "models/config.h"
#include "tensor/tensor.h"

/* Compute theta^(-2i/dim) for i < dim/2, scaled as the config says. "linear" divides all by the factor (Chen et al. 2023). "llama3" keeps
 * short waves, divides long ones and interpolates between them (Llama 3.1's release). "yarn" interpolates by the number of rotations, on a ramp
 * (Peng et al. 2023). "longrope" divides each by its own divisor (LongRoPE, 2024).
 * In fp32, as in transformers. */
void rp__rope_frequencies(const rp_rope_config *rope, int64_t dim, float *frequency);

/* Make cos and sin [length, dim/2], times attention_factor, of `dtype` (fp32, or fp64 for fp64 activations), class temp.
 * errors  RP_ERR_MEMORY */
rp_status rp__rope_tables(rp_ctx *ctx, const rp_rope_config *rope, int64_t dim, int64_t length, rp_dtype dtype, rp_tensor **cos,
                          rp_tensor **sin);

#endif
