/* models/model_internal.h -- the structure of a model, for the files that build it (model.c) and run it (model_pass.c). */
#ifndef RP_MODELS_MODEL_INTERNAL_H
#define RP_MODELS_MODEL_INTERNAL_H

#include "models/model.h"

/* Ropes of blocks without a window, of blocks with a window if they have their own, and of all blocks beyond the original context. */
enum { WHOLE_ROPE, WINDOW_ROPE, LONG_ROPE, ROPES };
typedef struct { rp_tensor *cos, *sin; } rope_tables;

struct rp_model {
    rp_ctx *ctx;
    rp_model_config config;
    rp_dtype dtype;
    rp_module *root, *tokens, *positions, *types, *embed_norm, *layers, *norm, *head, *output;    /* NULL: the model has none */
    rope_tables rope[ROPES];                    /* NULL until a length is known, or if there is no such rope */
    const rp_param **param;
    int n_params;
    const char **adapted;                       /* paths of the layers with adapters, then of modules trained whole; config.adapter points here */
    int64_t cached;
    bool has_cache, beyond;                     /* beyond: this pass has positions beyond the original context */
    bool weighs;                                /* this pass sums the loads of experts … */
    rp_tensor *counted, *loads;                 /* … counted over the first document of each row only, if counted (borrowed) is not NULL; loads is owned */
    int mixtures;                               /* … of this many blocks */
};

/* The root of the tree. */
typedef struct { rp_module m; rp_model *model; } rp_decoder;

/* in { tokens, positions, types, -, doc_start }; out: the hidden states after the last norm. Passes each block the tables of its rope.
 * errors  those of the modules */
rp_status rp__decoder_forward(rp_module *root, rp_tensor *const *in, rp_tensor **out);

#endif
