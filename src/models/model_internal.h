/* models/model_internal.h -- what a model is made of, for the files that build it (model.c) and run it (model_pass.c). */
#ifndef RP_MODELS_MODEL_INTERNAL_H
#define RP_MODELS_MODEL_INTERNAL_H

#include "models/model.h"

/* Of blocks that see all, of those with a window where they have their own, and of all for texts beyond the original context. */
enum { WHOLE_ROPE, WINDOW_ROPE, LONG_ROPE, ROPES };
typedef struct { rp_tensor *cos, *sin; } rope_tables;

struct rp_model {
    rp_ctx *ctx;
    rp_model_config config;
    rp_module *root, *tokens, *positions, *types, *embed_norm, *layers, *norm, *head, *output;    /* NULL where there is none */
    rope_tables rope[ROPES];                    /* NULL until a length is known, and where there is no such rope */
    const rp_param **param;
    int n_params;
    const char **adapted;                       /* paths of the layers that have adapters, then of what is trained whole: config.adapter's */
    int64_t cached;
    bool has_cache, beyond;                     /* beyond: this pass has positions beyond the original context */
    bool weighs;                                /* this pass sums the loads of experts … */
    rp_tensor *counted, *loads;                 /* … over first documents of rows alone, where counted is not NULL; borrowed, owned */
    int mixtures;                               /* … of so many blocks */
};

/* The root of the tree. */
typedef struct { rp_module m; rp_model *model; } rp_decoder;

/* in { tokens, positions, types, -, doc_start }: the hidden states after the last norm. Each block is given the tables of its rope. */
rp_status rp__decoder_forward(rp_module *root, rp_tensor *const *in, rp_tensor **out);

#endif
