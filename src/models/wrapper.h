/* models/wrapper.h -- models that contain one of our text models: selects the text model's part of their config.json and weights.
 *
 *   { "model_type": "gemma3", "text_config": { … }, "vision_config": … } ─▶ text_config, plus outer fields and missing defaults ─▶ a family
 *   "language_model.model.layers.0…"  ─▶  "model.layers.0…"  ─▶ the family's names
 *   "vision_tower…"                   ─▶  left out
 *
 * A wrapper is a line of the table in wrapper.c. After reading, the model belongs to the text model's family, and is exported as such. */
#ifndef RP_MODELS_WRAPPER_H
#define RP_MODELS_WRAPPER_H

#include "models/family.h"

typedef struct { const char *theirs, *ours; } rp_prefix_pair;      /* prefixes of names: in the wrapper's files, in the text model's */

struct rp_wrapper {
    const char *model_type;             /* "gemma3" */
    const char *text_type;              /* model_type of a text_config that has none */
    const rp_prefix_pair *prefix;       /* ends with NULL; the first that matches is used. Modules are named by the first entry with that `ours` */
    const char *const *left_out;        /* globs of weights outside the text model; ends with NULL */
    bool text_ties;                     /* a tied head may be declared in text_config even if the outer field says false */
};

/* The wrapper with the model_type of this config.json; NULL: it is not a wrapper. */
const rp_wrapper *rp__wrapper_find(const json_t *config);
/* Write "gemma3, mistral3, …" to out. Returns out. */
const char *rp__wrapper_names(char *out, size_t out_bytes);
/* Replace reader->json, a wrapper's config, by that of its text model. It is an error if there is none. Errors in the config are reported
 * through the reader. errors RP_ERR_MEMORY */
rp_status rp__wrapper_take_text(rp_config_reader *reader, const rp_wrapper *wrapper);

bool rp__wrapper_leaves_out(const rp_wrapper *wrapper, const char *name);
/* "language_model.model.norm.weight" to "model.norm.weight". Returns false if the name is not one of the text model. */
bool rp__wrapper_inside(const rp_wrapper *wrapper, const char *name, char out[RP_WEIGHT_NAME_CHARS]);
/* "model.norm.weight" to "model.language_model.norm.weight", the module's name in transformers; prefix_outside uses one given prefix. Return false
 * if the prefix does not match. */
bool rp__wrapper_outside(const rp_wrapper *wrapper, const char *name, char out[RP_WEIGHT_NAME_CHARS]);
bool rp__prefix_outside(const rp_prefix_pair *prefix, const char *name, char out[RP_WEIGHT_NAME_CHARS]);

#endif
