/* nn/lora.h -- a low-rank adapter beside a linear layer (Hu et al. 2021, arXiv 2106.09685).
 *
 *   x ─────────────── w ─────────────────────────┐
 *   └─ dropout ─ lora_a ─ scale ─ lora_b ─────── + ─▶ y          w is frozen: it has a gradient in no step, only x through it
 *      [.., in]  [.., r]  [.., r]  [.., out]
 *
 * The parts are linear layers of their own, children of the one they sit beside: "layers.0.attn.q.lora_a.weight" [r, in] and
 * "….lora_b.weight" [out, r], whichever way round the layer itself is stored. Scaled where it is narrow: what is scaled has r
 * elements a row. With lora_b at zero, as it begins, y is the layer's own.
 */
#ifndef RP_NN_LORA_H
#define RP_NN_LORA_H

#include "nn/module.h"

/* alpha / rank scales the product, or alpha / sqrt(rank) with rslora (Kalajdzievski 2023, arXiv 2312.03732). */
typedef struct {
    int64_t rank;                       /* 0: no adapter */
    double alpha, dropout;
    bool rslora;
} rp_lora;

float rp__lora_scale(const rp_lora *lora);

/* The layer's forward has an adapter from here on; its parts have undefined contents. Once a layer, before its parameters are listed.
 * errors  RP_ERR_ARG a rank below 1 · RP_ERR_MEMORY */
rp_status rp__lora_attach(rp_module *linear, const rp_lora *lora);
/* The layer's adapter; false: it has none, or is no linear layer. */
typedef struct { rp_lora lora; const rp_param *a, *b; bool in_out; } rp_lora_parts;     /* in_out: of the layer's weight */
bool rp__lora_parts(const rp_module *linear, rp_lora_parts *out);

/* Of a parameter's path: is it one of an adapter's? Then *layer_chars of the path are the layer's. */
typedef enum { RP_LORA_NONE, RP_LORA_A, RP_LORA_B } rp_lora_part;
rp_lora_part rp__lora_part_of(const char *param_path, int *layer_chars);

/* For the layer: add the adapter's share to *y. */
typedef struct { rp_lora lora; rp_module *a, *b; } rp_lora_beside;
rp_status rp__lora_step(const rp_lora_beside *beside, rp_tensor *x, rp_tensor **y);

#endif
