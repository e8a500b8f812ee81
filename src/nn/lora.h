/* nn/lora.h -- low-rank adapters of a linear layer: LoRA (Hu et al. 2021, arXiv 2106.09685) and DoRA (Liu et al. 2024, arXiv 2402.09353).
 *
 *   x ─────────────── w ─────────────────────────┐
 *   └─ dropout ─ lora_a ─ scale ─ lora_b ─────── + ─▶ y          w is frozen and never has a gradient; x gets one through w
 *      [.., in]  [.., r]  [.., r]  [.., out]
 *
 * The parts are linear layers, children of the layer that they adapt: "layers.0.attn.q.lora_a.weight" [r, in] and "….lora_b.weight" [out,
 * r], for both storage orders of the layer's own weight. The scale is applied to the narrow tensor, which has r elements per row. lora_b is
 * zero at first, so y is then the layer's own output.
 *
 *   x ─ dropout ─┬─ w ─────────────────────────── + ─ · m / n ─ + bias ─▶ y        DoRA: the rows of w + scale · b a have the norms n
 *                └─ lora_a ─ scale ─ lora_b ──────┘                                (ops/weight_norm.c) and are given the norms m
 *
 * m is a parameter, "….lora_magnitude.weight" [out], and begins as the norms of w's rows. Dropout applies to the adapter's share only, not
 * to the layer's: w (x - dropout x) is added to y, which is zero without dropout.
 */
#ifndef RP_NN_LORA_H
#define RP_NN_LORA_H

#include "nn/module.h"

/* The product is scaled by alpha / rank, or by alpha / sqrt(rank) with rslora (Kalajdzievski 2023, arXiv 2312.03732). */
typedef struct {
    int64_t rank;                       /* 0: no adapter */
    double alpha, dropout;
    bool rslora, dora;
} rp_lora;

float rp__lora_scale(const rp_lora *lora);

/* Adds an adapter to the layer's forward; the contents of its parts are undefined. Call it once for a layer, before parameters are listed.
 * errors  RP_ERR_ARG a rank below 1 · RP_ERR_MEMORY */
rp_status rp__lora_attach(rp_module *linear, const rp_lora *lora);
/* Returns the layer's adapter in *out; false: the layer has none, or is not linear. */
typedef struct {
    rp_lora lora;
    const rp_param *a, *b, *magnitude;  /* magnitude: NULL without DoRA */
    bool in_out;                        /* of the layer's weight */
} rp_lora_parts;
bool rp__lora_parts(const rp_module *linear, rp_lora_parts *out);
/* Computes the initial magnitude: the norms of the rows of the layer's weight, which must be whole (rp__module_enter). errors RP_ERR_MEMORY */
rp_status rp__magnitude_begin(rp_module *linear, rp_tensor **norms);

/* Returns the part that a parameter path belongs to. For an adapter's part, the first *layer_chars characters are the layer's path. */
typedef enum { RP_LORA_NONE, RP_LORA_A, RP_LORA_B, RP_LORA_MAGNITUDE, RP_LORA_PARTS } rp_lora_part;
rp_lora_part rp__lora_part_of(const char *param_path, int *layer_chars);
/* ".lora_a.weight" */
const char *rp__lora_part_end(rp_lora_part part);

/* For the linear layer: its product with x, with or without bias; and its output with the adapter. errors as rp__apply */
/* in_out: the layer's weight is stored [in, out]; sums_in_out: norms are summed as for such a weight, although it may be quantised and [out, in]. */
typedef struct { rp_lora lora; rp_module *a, *b, *magnitude; bool in_out, sums_in_out; } rp_lora_modules;
rp_status rp__linear_product(rp_module *linear, bool in_out, bool bias, rp_tensor *x, rp_tensor **y);
rp_status rp__lora_forward(const rp_lora_modules *parts, rp_module *linear, rp_tensor *x, rp_tensor **y);

/* nn/dora.c: the same with a magnitude; creates the module that holds it; the norms of the rows of the weight with its adapter.
 * errors as rp__apply; rp__magnitude_new: RP_ERR_MEMORY */
rp_status rp__dora_forward(const rp_lora_modules *parts, rp_module *linear, rp_tensor *x, rp_tensor **y);
rp_status rp__magnitude_new(rp_module *linear, int64_t n, rp_dtype dtype, rp_module **out);
rp_status rp__lora_norms(rp_module *linear, const rp_lora_modules *parts, rp_tensor **norms);
/* Adds the adapter's share of x to *y. Consumes x, even if it fails. errors as rp__apply */
rp_status rp__lora_share_take(const rp_lora_modules *parts, rp_tensor *x, rp_tensor **y);

#endif
