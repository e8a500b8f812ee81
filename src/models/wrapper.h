/* models/wrapper.h -- models that have a text model of ours inside: which part of their config.json and of their weights is that model.
 *
 *   { "model_type": "gemma3", "text_config": { … }, "vision_config": … } ─▶ text_config, with what stands outside or nowhere ─▶ a family
 *   "language_model.model.layers.0…"  ─▶  "model.layers.0…"  ─▶ the family's names
 *   "vision_tower…"                   ─▶  left out
 *
 * A wrapper is a line of the table in wrapper.c. What reads it from here on is a model of the text's family: its export is that family's. */
#ifndef RP_MODELS_WRAPPER_H
#define RP_MODELS_WRAPPER_H

#include "models/family.h"

typedef struct { const char *theirs, *ours; } rp_prefix_pair;      /* what names begin with: in the wrapper's files, in the text model's */

struct rp_wrapper {
    const char *model_type;             /* "gemma3" */
    const char *text_type;              /* model_type of a text_config that does not say */
    const rp_prefix_pair *prefix;       /* ended by a NULL; the first that fits counts. Modules are called by the first with that `ours` */
    const char *const *left_out;        /* globs of weights that are no text; NULL-ended */
    bool text_ties;                     /* a tied head may be said inside where outside says it is not */
};

/* The wrapper by the model_type of a config.json; NULL: it is none. */
const rp_wrapper *rp__wrapper_find(const json_t *config);
/* "gemma3, mistral3, …" */
const char *rp__wrapper_names(char *out, size_t out_bytes);
/* reader->json, a wrapper's, becomes the text's; an error where there is none. errors RP_ERR_MEMORY; what is wrong is reported */
rp_status rp__wrapper_take_text(rp_config_reader *reader, const rp_wrapper *wrapper);

bool rp__wrapper_leaves_out(const rp_wrapper *wrapper, const char *name);
/* "language_model.model.norm.weight" to "model.norm.weight"; false where it is no name of the text's. */
bool rp__wrapper_inside(const rp_wrapper *wrapper, const char *name, char out[RP_WEIGHT_NAME_CHARS]);
/* "model.norm.weight" to "model.language_model.norm.weight", as transformers calls the module / to the name by one prefix; false where it is
 * no name with it. */
bool rp__wrapper_outside(const rp_wrapper *wrapper, const char *name, char out[RP_WEIGHT_NAME_CHARS]);
bool rp__prefix_outside(const rp_prefix_pair *prefix, const char *name, char out[RP_WEIGHT_NAME_CHARS]);

#endif
