/* policy/read.h -- reads conditions and rules from a YAML tree.
 *
 *   condition   one key, its name, with its fields: { every_k_layers: { k: 4 } }. A short form omits the inner map
 *               if there is only one field: { path: "*.mlp" }, { module_type: MLP }, { layers: [0, 3, 7-9] }
 *   rule        several conditions, all of which must hold, and a fate
 *
 * Results are allocated in the bump and borrow the texts of the tree. Errors in the text go to the report. Returned errors: RP_ERR_MEMORY.
 */
#ifndef RP_POLICY_READ_H
#define RP_POLICY_READ_H

#include "policy/policy.h"

typedef struct {
    rp_ctx *ctx;
    rp_bump *bump;
    rp_report *report;
    const char *folder;         /* absolute; relative library paths start here */
    bool own_types;             /* accept unknown module types as types of the program's own modules */
} rp_condition_reader;

/* An entry of the table of conditions. */
typedef struct {
    const char *name;
    rp_condition_kind kind;
    const char *fields;         /* fields of the map form, the required one first; NULL: none */
    rp_status (*read)(rp_condition_reader *r, const rp_yaml_node *value, rp_condition *c);       /* NULL: the value holds other conditions */
    bool (*holds_for_module)(const rp_condition *c, const char *path, const rp_module *module);  /* NULL: for slots only */
    bool (*holds_for_slot)(const rp_condition *c, const rp_slot_info *slot);     /* NULL: holds if it holds for the slot's module or a parent */
} rp_condition_line;

#define RP_CONDITION_KINDS (RP_CONDITION_EVERY + 1)
extern const rp_condition_line rp__conditions[RP_CONDITION_KINDS];      /* in the order of rp_condition_kind */

/* Returns the value of the first field for the map form, or `value` itself for the short form. NULL after a reported error. */
const rp_yaml_node *rp__condition_field(rp_condition_reader *r, const rp_condition_line *line, const rp_yaml_node *value);

/* Read a condition on modules; *out is NULL after a reported error. */
rp_status rp__condition_read(rp_condition_reader *r, const rp_yaml_node *node, rp_condition **out);
/* Read a list of conditions; conditions with errors are reported and left out. */
rp_status rp__conditions_read(rp_condition_reader *r, const rp_yaml_node *list, int *n, rp_condition ***out);
rp_status rp__rules_read(rp_condition_reader *r, const rp_yaml_node *list, int *n, rp_rule **out);
/* Returns "recipe.yaml:12", or only the origin if there is no line. NULL: RP_ERR_MEMORY. */
const char *rp__place_text(rp_bump *bump, rp_place place);

#endif
