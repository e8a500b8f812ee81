/* policy/read.h -- conditions and rules from a YAML tree.
 *
 *   condition   one key, its name, with its fields: { every_k_layers: { k: 4 } }; the short forms leave the inner map
 *               out where it has one field: { path: "*.mlp" }, { module_type: MLP }, { layers: [0, 3, 7-9] }
 *   rule        several conditions, all of which must hold, and a fate
 *
 * What is made borrows the tree's texts and lies in the bump beside them. Errors go to the report; a status is for memory alone. */
#ifndef RP_POLICY_READ_H
#define RP_POLICY_READ_H

#include "policy/policy.h"

typedef struct {
    rp_ctx *ctx;
    rp_bump *bump;
    rp_report *report;
    const char *folder;         /* absolute: libraries are found from it */
    bool own_types;             /* a module type that no model has is one of the program's */
} rp_condition_reader;

/* A line of the table of conditions. */
typedef struct {
    const char *name;
    rp_condition_kind kind;
    const char *fields;         /* of the map form, the required one first; NULL: none */
    rp_status (*read)(rp_condition_reader *r, const rp_yaml_node *value, rp_condition *c);       /* NULL: parts */
    bool (*holds_for_module)(const rp_condition *c, const char *path, const rp_module *module);  /* NULL: it asks about slots */
    bool (*holds_for_slot)(const rp_condition *c, const rp_slot_info *slot);     /* NULL: as for its module and those above */
} rp_condition_line;

#define RP_CONDITION_KINDS (RP_CONDITION_EVERY + 1)
extern const rp_condition_line rp__conditions[RP_CONDITION_KINDS];      /* in the order of rp_condition_kind */

/* The value of the first field when `value` is the map form, `value` itself when it is the short one. NULL after a reported error. */
const rp_yaml_node *rp__condition_field(rp_condition_reader *r, const rp_condition_line *line, const rp_yaml_node *value);

/* A condition about modules; *out is NULL after a reported error. */
rp_status rp__condition_read(rp_condition_reader *r, const rp_yaml_node *node, rp_condition **out);
/* The good ones of a list. */
rp_status rp__conditions_read(rp_condition_reader *r, const rp_yaml_node *list, int *n, rp_condition ***out);
rp_status rp__rules_read(rp_condition_reader *r, const rp_yaml_node *list, int *n, rp_rule **out);
/* "recipe.yaml:12"; what has no line is its origin. NULL: memory. */
const char *rp__place_text(rp_bump *bump, rp_place place);

#endif
