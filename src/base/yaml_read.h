/* base/yaml_read.h -- reads scalars as the types that a schema wants, and describes a node that does not match.
 *
 * Only a plain scalar can be a number; a quoted one is only text. */
#ifndef RP_YAML_READ_H
#define RP_YAML_READ_H

#include "base/yaml.h"

/* false: the scalar is something else, and *out is unchanged. */
bool rp__yaml_int(const rp_yaml_node *node, int64_t low, int64_t high, int64_t *out);
bool rp__yaml_number(const rp_yaml_node *node, double *out);      /* finite */
/* Is it a scalar that is neither null nor empty? */
bool rp__yaml_is_text(const rp_yaml_node *node);

/* The place of its key; of a node without a key, its own place. */
rp_place rp__yaml_key_place(const rp_yaml_node *node);

/* "'text'", "[1, 2]", "nothing" … into out; returns out. */
#define RP_YAML_SHOWN_CHARS 96
const char *rp__yaml_shown(const rp_yaml_node *node, char out[RP_YAML_SHOWN_CHARS]);
/* Reports "'KEY' wants WANTS, not 'text'". */
void rp__yaml_mismatch(rp_report *report, const char *key, const char *wants, const rp_yaml_node *node);

#endif
