/* nn/lora.h -- a low-rank adapter beside a linear layer (Hu et al. 2021, arXiv 2106.09685), or with it in it (DoRA, Liu et al. 2024, arXiv
 * 2402.09353).
 *
 *   x ─────────────── w ─────────────────────────┐
 *   └─ dropout ─ lora_a ─ scale ─ lora_b ─────── + ─▶ y          w is frozen: it has a gradient in no step, only x through it
 *      [.., in]  [.., r]  [.., r]  [.., out]
 *
 * The parts are linear layers of their own, children of the one they sit beside: "layers.0.attn.q.lora_a.weight" [r, in] and
 * "….lora_b.weight" [out, r], whichever way round the layer itself is stored. Scaled where it is narrow: what is scaled has r
 * elements a row. With lora_b at zero, as it begins, y is the layer's own.
 *
 *   x ─ dropout ─┬─ w ─────────────────────────── + ─ · m / n ─ + bias ─▶ y        DoRA: the rows of w + scale · b a, whose norms are n
 *                └─ lora_a ─ scale ─ lora_b ──────┘                                (ops/weight_norm.c), are given the norms m
 *
 * m is a parameter, "….lora_magnitude.weight" [out], and begins as the norms of w's rows. What dropout takes from x it takes from the share of
 * the adapter, not from the layer's: y is then w (x - dropout x) more, which is nothing where nothing is dropped.
 */
#ifndef RP_NN_LORA_H
#define RP_NN_LORA_H

#include "nn/module.h"

/* alpha / rank scales the product, or alpha / sqrt(rank) with rslora (Kalajdzievski 2023, arXiv 2312.03732). */
typedef struct {
    int64_t rank;                       /* 0: no adapter */
    double alpha, dropout;
    bool rslora, dora;
} rp_lora;

float rp__lora_scale(const rp_lora *lora);

/* The layer's forward has an adapter from here on; its parts have undefined contents. Once a layer, before its parameters are listed.
 * errors  RP_ERR_ARG a rank below 1 · RP_ERR_MEMORY */
rp_status rp__lora_attach(rp_module *linear, const rp_lora *lora);
/* The layer's adapter; false: it has none, or is no linear layer. */
typedef struct {
    rp_lora lora;
    const rp_param *a, *b, *magnitude;  /* magnitude: NULL without DoRA */
    bool in_out;                        /* of the layer's weight */
} rp_lora_parts;
bool rp__lora_parts(const rp_module *linear, rp_lora_parts *out);
/* What its magnitude begins as: the norms of the rows of its weight, which is whole (rp__module_enter). errors RP_ERR_MEMORY */
rp_status rp__magnitude_begin(rp_module *linear, rp_tensor **norms);

/* Of a parameter's path: is it one of an adapter's? Then *layer_chars of the path are the layer's. */
typedef enum { RP_LORA_NONE, RP_LORA_A, RP_LORA_B, RP_LORA_MAGNITUDE, RP_LORA_PARTS } rp_lora_part;
rp_lora_part rp__lora_part_of(const char *param_path, int *layer_chars);
/* ".lora_a.weight" */
const char *rp__lora_part_end(rp_lora_part part);

/* For the layer: its product with x, with the bias or without; and what it gives with its adapter. */
typedef struct { rp_lora lora; rp_module *a, *b, *magnitude; bool in_out; } rp_lora_modules;
rp_status rp__linear_product(rp_module *linear, bool in_out, bool bias, rp_tensor *x, rp_tensor **y);
rp_status rp__lora_forward(const rp_lora_modules *parts, rp_module *linear, rp_tensor *x, rp_tensor **y);

/* nn/dora.c: the same with a magnitude; the module that holds it; the norms of the rows of the weight with its adapter. */
rp_status rp__dora_forward(const rp_lora_modules *parts, rp_module *linear, rp_tensor *x, rp_tensor **y);
rp_status rp__magnitude_new(rp_module *linear, int64_t n, rp_dtype dtype, rp_module **out);
rp_status rp__lora_norms(rp_module *linear, const rp_lora_modules *parts, rp_tensor **norms);
/* The adapter adds its share to *y. */
rp_status rp__lora_share_take(const rp_lora_modules *parts, rp_tensor *x, rp_tensor **y);

#endif
