/* policy/condition.h -- conditions on modules, and on slots by the module that makes them.
 *
 *   for a module           layers.3.mlp                    if it holds, the module becomes a region
 *   in a rule, for a slot  layers.3.mlp.up · matmul · 0    if it holds, the rule applies to this slot
 *
 * A module condition holds for a slot if it holds for the module that makes the slot or for one of its parents. A plug-in is called with the
 * slot itself. Conditions on properties that only slots have (op, call, sizes) are allowed only in rules.
 */
#ifndef RP_CONDITION_H
#define RP_CONDITION_H

#include "base/yaml_read.h"

typedef enum {
    RP_CONDITION_ANY, RP_CONDITION_ALL, RP_CONDITION_NOT,
    RP_CONDITION_EVERY_K_LAYERS,                /* block i if (i + 1 - offset) is a multiple of k */
    RP_CONDITION_LAYERS,                        /* block i if it is in one of the ranges */
    RP_CONDITION_MODULE_TYPE, RP_CONDITION_PATH, RP_CONDITION_PLUGIN,
    RP_CONDITION_OP, RP_CONDITION_CALL, RP_CONDITION_LARGER_THAN, RP_CONDITION_CHEAPER_THAN_FLOPS,   /* for slots only */
    RP_CONDITION_EVERY                          /* only directly in a rule: every k-th of the slots that the rule's other conditions hold for */
} rp_condition_kind;

typedef struct { int64_t first, last; } rp_layer_range;

struct rp_args { const rp_yaml_node *map; };    /* NULL: no arguments were given */

struct rp_condition {
    rp_condition_kind kind;
    rp_place place;
    int n_parts;                                /* for any, all, not */
    rp_condition **part;
    int64_t k, offset;                          /* for every_k_layers, every */
    int n_ranges;                               /* for layers */
    rp_layer_range *range;
    const char *layers;                         /* for every_k_layers, layers: path or glob of the list of blocks; NULL: any list */
    int n_types;                                /* for module_type: Reprise's names */
    const char **type;
    const char *glob;                           /* for path, op */
    const char *library, *symbol;               /* for plugin; library is an absolute path */
    rp_args args;
    void *opened;                               /* the open library … */
    rp_plugin plugin;                           /* … and its function, once rp__condition_open has run */
    int64_t number;                             /* for call: its index · for larger_than: bytes */
    double flops;                               /* for cheaper_than_flops */
};

bool rp__condition_holds_for_module(const rp_condition *condition, const char *path, const rp_module *module);
bool rp__condition_holds_for_slot(const rp_condition *condition, const rp_slot_info *slot);

/* Is `i` (from 0) selected by every k-th? Blocks and slots are counted in the same way. */
static inline bool rp__every(int64_t i, int64_t k, int64_t offset) { return (i + 1 - offset) % k == 0; }

/* Count only the blocks of this list. `layers` must outlive the condition. */
void rp__condition_in_list(rp_condition *condition, const char *layers);

/* Call `use` for each plug-in of the condition. */
void rp__condition_plugins(rp_condition *condition, void (*use)(rp_condition *c, rp_report *report), rp_report *report);
/* Open the libraries of its plug-ins. A missing library or function is an error in the report. Close the condition after opening it. */
void rp__condition_open(rp_condition *condition, rp_report *report);
/* Are all its plug-ins open? If not, the result of the condition is unknown. */
bool rp__condition_is_open(const rp_condition *condition);
void rp__condition_close(rp_condition *condition);

/* Returns Reprise's name of a module type ("TransformerBlock") for any accepted name; NULL: unknown. */
const char *rp__module_type_name(const char *name);
extern const char *const rp__module_types[];    /* ends with NULL */

#endif
