/* recipe/values.h -- shared by the kinds of values; only values.c, texts.c and numbers.c include it. */
#ifndef RP_RECIPE_VALUES_H
#define RP_RECIPE_VALUES_H

#include "recipe/internal.h"

/* A kind of values. `read` stores a value in its field or reports an error; `write` writes the field so that it reads back.
 * errors  RP_ERR_MEMORY; an invalid value returns RP_OK */
typedef struct {
    rp_status (*read)(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field);
    rp_status (*write)(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out);
} rp_recipe_kind;

extern const rp_recipe_kind rp__kind_text, rp__kind_texts, rp__kind_files, rp__kind_types, rp__kind_word, rp__kind_bool;
extern const rp_recipe_kind rp__kind_int, rp__kind_opt_int, rp__kind_number, rp__kind_opt_number, rp__kind_pair, rp__kind_duration;

/* The place of nodes that come from no file. */
#define RP_MADE_HERE ((rp_place){ "the resolved recipe", 0 })

/* Report that the node is not a value that the key accepts. Returns RP_OK. */
rp_status rp__recipe_mismatch(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node);
rp_status rp__recipe_write_scalar(rp_yaml_doc *doc, const char *text, rp_yaml_node **out);
rp_status rp__recipe_write_text(rp_yaml_doc *doc, const char *text, rp_yaml_node **out);
rp_status rp__recipe_write_int(int64_t value, rp_yaml_doc *doc, rp_yaml_node **out);

#endif
