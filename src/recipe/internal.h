/* recipe/internal.h -- shared by the files of the recipe: the table of keys, the reader, the passes over the tree. */
#ifndef RP_RECIPE_INTERNAL_H
#define RP_RECIPE_INTERNAL_H

#include "base/yaml_read.h"
#include "recipe/recipe.h"

typedef enum {
    KEY_TEXT, KEY_WORD, KEY_BOOL, KEY_INT, KEY_OPT_INT, KEY_NUMBER, KEY_OPT_NUMBER, KEY_PAIR, KEY_TEXTS, KEY_FILES, KEY_MAP, KEY_BUDGET,
    KEY_RESUME, KEY_RESHARD, KEY_CONDITIONS, KEY_RULES, KEY_TYPES, KEY_DURATION
} rp_key_type;

enum {
    KEY_NULL     = 1,           /* KEY_TEXT: may be null */
    KEY_ABOVE    = 2,           /* `low` itself is out of range … */
    KEY_BELOW    = 4,           /* … `high` itself is out of range */
    KEY_FREE     = 32,          /* may change when a run is resumed … */
    KEY_SHARE    = 64           /* … may change as long as the global batch stays the same */
};

typedef struct {
    const char *path;           /* such as "optimizer.lr" */
    rp_key_type type;
    size_t offset;              /* of the field in rp_recipe */
    const char *fallback;       /* the default, as rp__recipe_write writes it */
    const char *words;          /* KEY_WORD: the allowed words; optional numbers: the word for "not set" */
    double low, high;
    unsigned flags;
    const char *help;
} rp_recipe_key;

extern const rp_recipe_key rp__recipe_keys[];
extern const int rp__recipe_n_keys;

/* Index of a key in the table; -1 if it is unknown. */
int rp__recipe_find_key(const char *path);
/* Is `path` a map that holds keys ("optimizer", "activation_checkpointing.offload")? */
bool rp__recipe_is_group(const char *path);
/* The known key closest to an unknown one: the same name in another group, or a sibling with a similar spelling. NULL if none is close. */
#define RP_KEY_CHARS 128
const char *rp__recipe_nearest_key(const char *path, char out[RP_KEY_CHARS]);

typedef struct {
    rp_ctx *ctx;
    rp_recipe *recipe;
    rp_report *report;
    const char *folder;         /* folder of the recipe, absolute; plug-in libraries are relative to it */
    int64_t most_bytes;         /* upper limit of the memory budget; 0: as in the recipe */
    bool with_errors;           /* return the recipe despite errors in its keys, as far as it could be read */
} rp_recipe_reader;

#define RP_WANTS_CHARS 256
/* Describe the values that a key accepts, such as "a whole number from 1". Returns out. */
const char *rp__recipe_wants(const rp_recipe_key *key, char out[RP_WANTS_CHARS]);
/* Read a value into its field, or report an error. errors RP_ERR_MEMORY (an invalid value returns RP_OK) */
rp_status rp__recipe_value_read(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node);
/* Write the field as a node of `doc`. errors RP_ERR_MEMORY */
rp_status rp__recipe_value_write(const rp_recipe *recipe, const rp_recipe_key *key, rp_yaml_doc *doc, rp_yaml_node **out);
/* Does the field equal its default, even if the user set it? */
bool rp__recipe_is_default(const rp_recipe *recipe, const rp_recipe_key *key);
/* The value as rp__recipe_write writes it, in doc->bump. errors RP_ERR_MEMORY */
rp_status rp__recipe_value_text(const rp_recipe *recipe, const rp_recipe_key *key, rp_yaml_doc *doc, const char **out);
/* A scalar that reads back as this text; dollars are escaped. NULL if memory runs out. */
rp_yaml_node *rp__recipe_text_node(rp_yaml_doc *doc, const char *text, rp_place place);

rp_status rp__recipe_read_conditions(rp_recipe_reader *r, const rp_yaml_node *node);
rp_status rp__recipe_read_rules(rp_recipe_reader *r, const rp_yaml_node *node);
/* Let conditions count the blocks of the list that `activation_checkpointing.layers` names. */
void rp__recipe_bind_layers(rp_recipe *recipe);
void rp__recipe_close_plugins(rp_recipe *recipe);

/* The passes over the tree, in this order. errors RP_ERR_MEMORY; other errors are reported */
rp_status rp__recipe_apply_setting(rp_recipe_reader *r, rp_yaml_node *root, const char *setting);
rp_status rp__recipe_interpolate(rp_recipe_reader *r, rp_yaml_node *root);
rp_status rp__recipe_translate(rp_recipe_reader *r, rp_yaml_node *root);
/* Set a key in the tree, replacing its value; missing maps are created. errors RP_ERR_MEMORY; other errors are reported */
rp_status rp__recipe_put(rp_recipe_reader *r, rp_yaml_node *root, const char *path, rp_yaml_node *node);
/* Is it a key of another system that is translated? */
bool rp__recipe_is_foreign(const char *key);
/* Runs after the schema walk: the mode that applies, contradictions, keys without effect. */
void rp__recipe_check(rp_recipe_reader *r);

#endif
