/* base/yaml_read.h -- scalars judged by what is wanted of them, and the words for what is there instead.
 *
 * Only a plain scalar is a number; a quoted one is text and nothing else. */
#ifndef RP_YAML_READ_H
#define RP_YAML_READ_H

#include "base/yaml.h"

/* false: it is something else, and *out is untouched. */
bool rp__yaml_int(const rp_yaml_node *node, int64_t low, int64_t high, int64_t *out);
bool rp__yaml_number(const rp_yaml_node *node, double *out);      /* finite */
/* A scalar that is neither null nor empty. */
bool rp__yaml_is_text(const rp_yaml_node *node);

/* Where its key stands; of what has none, where it stands itself. */
rp_place rp__yaml_key_place(const rp_yaml_node *node);

/* "'text'", "[1, 2]", "nothing" … into out; returns out. */
#define RP_YAML_SHOWN_CHARS 96
const char *rp__yaml_shown(const rp_yaml_node *node, char out[RP_YAML_SHOWN_CHARS]);
/* Report "'KEY' wants WHAT, not 'what is there'". */
void rp__yaml_mismatch(rp_report *report, const char *key, const char *wants, const rp_yaml_node *node);

#endif
