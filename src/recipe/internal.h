/* recipe/internal.h -- what the files of the recipe share: the table of keys, the reader, the passes over the tree. */
#ifndef RP_RECIPE_INTERNAL_H
#define RP_RECIPE_INTERNAL_H

#include "base/yaml_read.h"
#include "recipe/recipe.h"

typedef enum {
    KEY_TEXT, KEY_WORD, KEY_BOOL, KEY_INT, KEY_OPT_INT, KEY_NUMBER, KEY_OPT_NUMBER, KEY_PAIR, KEY_TEXTS, KEY_FILES, KEY_MAP, KEY_BUDGET,
    KEY_RESUME, KEY_RESHARD, KEY_CONDITIONS, KEY_RULES, KEY_TYPES, KEY_DURATION
} rp_key_type;

enum {
    KEY_NULL     = 1,           /* a text that may be null */
    KEY_ABOVE    = 2,           /* `low` itself is out of range … */
    KEY_BELOW    = 4,           /* … and `high` */
    KEY_FREE     = 32,          /* may change when a run is resumed … */
    KEY_SHARE    = 64           /* … this one as long as the global batch stays */
};

typedef struct {
    const char *path;           /* "optimizer.lr" */
    rp_key_type type;
    size_t offset;              /* of its field in rp_recipe */
    const char *fallback;       /* the default, as rp__recipe_write puts it */
    const char *words;          /* of a word; of an optional number the one that means "not set" */
    double low, high;
    unsigned flags;
    const char *help;
} rp_recipe_key;

extern const rp_recipe_key rp__recipe_keys[];
extern const int rp__recipe_n_keys;

/* Index of a key in the table, -1: there is none. */
int rp__recipe_find_key(const char *path);
/* Is it a map that holds keys ("optimizer", "activation_checkpointing.offload")? */
bool rp__recipe_is_group(const char *path);
/* The unknown key's nearest relative: the same name elsewhere, or a sibling spelled alike. NULL: none. */
#define RP_KEY_CHARS 128
const char *rp__recipe_nearest_key(const char *path, char out[RP_KEY_CHARS]);

typedef struct {
    rp_ctx *ctx;
    rp_recipe *recipe;
    rp_report *report;
    const char *folder;         /* of the recipe, absolute: libraries are found from it */
    int64_t most_bytes;         /* the budget is that at most; 0: as the recipe says */
    bool with_errors;           /* a recipe that has them is given, too, as far as its keys could be read */
} rp_recipe_reader;

#define RP_WANTS_CHARS 256
/* "a whole number from 1" into out; returns out. */
const char *rp__recipe_wants(const rp_recipe_key *key, char out[RP_WANTS_CHARS]);
/* A value into its field, or a reported error; the status is for memory alone. */
rp_status rp__recipe_value_read(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node);
/* The field as a node of `doc`. */
rp_status rp__recipe_value_write(const rp_recipe *recipe, const rp_recipe_key *key, rp_yaml_doc *doc, rp_yaml_node **out);
/* Has the field its default, whoever set it? */
bool rp__recipe_is_default(const rp_recipe *recipe, const rp_recipe_key *key);
/* The value as rp__recipe_write puts it, in doc.bump. */
rp_status rp__recipe_value_text(const rp_recipe *recipe, const rp_recipe_key *key, rp_yaml_doc *doc, const char **out);
/* A scalar that reads back as this text, dollars escaped. NULL: memory. */
rp_yaml_node *rp__recipe_text_node(rp_yaml_doc *doc, const char *text, rp_place place);

rp_status rp__recipe_read_conditions(rp_recipe_reader *r, const rp_yaml_node *node);
rp_status rp__recipe_read_rules(rp_recipe_reader *r, const rp_yaml_node *node);
/* Conditions count the blocks of the recipe's own list. */
void rp__recipe_bind_layers(rp_recipe *recipe);
void rp__recipe_close_plugins(rp_recipe *recipe);

/* The passes over the tree, in this order. */
rp_status rp__recipe_apply_setting(rp_recipe_reader *r, rp_yaml_node *root, const char *setting);
rp_status rp__recipe_interpolate(rp_recipe_reader *r, rp_yaml_node *root);
rp_status rp__recipe_translate(rp_recipe_reader *r, rp_yaml_node *root);
/* Set a key in the tree, in place of what is there; maps are made on the way. */
rp_status rp__recipe_put(rp_recipe_reader *r, rp_yaml_node *root, const char *path, rp_yaml_node *node);
/* Is it a key of another system? */
bool rp__recipe_is_foreign(const char *key);
/* After the walk: which mode applies, contradictions, keys without effect. */
void rp__recipe_check(rp_recipe_reader *r);

#endif
