/* recipe/foreign.h -- what the translations of other systems' keys share: modalities.c, megatron.c, torchtune.c. */
#ifndef RP_RECIPE_FOREIGN_H
#define RP_RECIPE_FOREIGN_H

#include "recipe/internal.h"

enum { RP_FOREIGN_MOST = 16 };

typedef struct {
    rp_recipe_reader *r;
    rp_yaml_node *root;
    rp_yaml_node *found[RP_FOREIGN_MOST];       /* taken out of the tree, in the order of the table */
} rp_foreign;

/* The value that was set for one of the table's keys; NULL: it was not. */
rp_yaml_node *rp__foreign_get(const rp_foreign *t, const char *key);
/* The scalar's text; "" for a list or a map, which no word equals. */
const char *rp__foreign_word(const rp_yaml_node *node);
/* `node` and all below it stand at `place`. */
void rp__foreign_set_place(rp_yaml_node *node, rp_place place);

/* An error where the key of `node` stands. */
#define RP_FOREIGN_ERROR(t, node, ...) rp__report_error((t)->r->report, rp__yaml_key_place(node), __VA_ARGS__)

/* The key `path` gets a value written here; `old` stood at `from`. */
rp_status rp__foreign_become(rp_foreign *t, const rp_yaml_node *from, const char *old, const char *path, const char *value);
/* The key `path` gets the value of `from`, as it is. */
rp_status rp__foreign_move(rp_foreign *t, const rp_yaml_node *from, const char *old, const char *path);

/* A list as YAML has it, "[a, b]", made item by item. errors RP_ERR_CONFIG there are too many; said where `at` stands */
typedef struct {
    char text[512];
    size_t used;
} rp_foreign_list;
rp_status rp__foreign_list_add(rp_foreign *t, rp_foreign_list *list, const char *item, const rp_yaml_node *at);
rp_status rp__foreign_list_end(rp_foreign *t, rp_foreign_list *list, const rp_yaml_node *at);

rp_status rp__foreign_modalities(rp_foreign *t);
rp_status rp__foreign_megatron(rp_foreign *t);
rp_status rp__foreign_torchtune(rp_foreign *t);
rp_status rp__foreign_sharding(rp_foreign *t);

#endif
