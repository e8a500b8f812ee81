/* policy/condition.h -- what can be asked about a module, and about a slot of the module that makes it.
 *
 *   asked about a module   layers.3.mlp                    it becomes a region
 *   in a rule, of a slot   layers.3.mlp.up · matmul · 0    the rule is for this slot
 *
 * A condition about modules holds for a slot when it holds for the module that makes it or for one that this module is in; a plug-in is
 * asked about the slot itself. What only a slot has (op, call, sizes) can be asked in rules alone. */
#ifndef RP_CONDITION_H
#define RP_CONDITION_H

#include "base/yaml_read.h"

typedef enum {
    RP_CONDITION_ANY, RP_CONDITION_ALL, RP_CONDITION_NOT,
    RP_CONDITION_EVERY_K_LAYERS,                /* block i when (i + 1 - offset) is a multiple of k */
    RP_CONDITION_LAYERS,                        /* block i when it is in one of the ranges */
    RP_CONDITION_MODULE_TYPE, RP_CONDITION_PATH, RP_CONDITION_PLUGIN,
    RP_CONDITION_OP, RP_CONDITION_CALL, RP_CONDITION_LARGER_THAN, RP_CONDITION_CHEAPER_THAN_FLOPS,   /* slots only */
    RP_CONDITION_EVERY                          /* a rule's own: the i-th slot that all else in the rule holds for, as for layers */
} rp_condition_kind;

typedef struct { int64_t first, last; } rp_layer_range;

struct rp_args { const rp_yaml_node *map; };    /* NULL: none were given */

struct rp_condition {
    rp_condition_kind kind;
    rp_place place;
    int n_parts;                                /* any, all, not */
    rp_condition **part;
    int64_t k, offset;                          /* every_k_layers, every */
    int n_ranges;                               /* layers */
    rp_layer_range *range;
    const char *layers;                         /* every_k_layers, layers: path or glob of the list of blocks; NULL: any list */
    int n_types;                                /* module_type: our names */
    const char **type;
    const char *glob;                           /* path, op */
    const char *library, *symbol;               /* plugin; library is absolute */
    rp_args args;
    void *opened;                               /* the library … */
    rp_plugin plugin;                           /* … and its function, from rp__condition_open on */
    int64_t number;                             /* call: its index · larger_than: bytes */
    double flops;                               /* cheaper_than_flops */
};

bool rp__condition_holds_for_module(const rp_condition *condition, const char *path, const rp_module *module);
bool rp__condition_holds_for_slot(const rp_condition *condition, const rp_slot_info *slot);

/* Does `i` (from 0) count among every k-th, as blocks and slots do? */
static inline bool rp__every(int64_t i, int64_t k, int64_t offset) { return (i + 1 - offset) % k == 0; }

/* Count the blocks of this list alone. `layers` must outlive the condition. */
void rp__condition_in_list(rp_condition *condition, const char *layers);

/* Use each of its plug-ins in the same way. */
void rp__condition_plugins(rp_condition *condition, void (*use)(rp_condition *c, rp_report *report), rp_report *report);
/* Open the libraries of its plug-ins; what is not there is an error in the report. A condition that was opened must be closed. */
void rp__condition_open(rp_condition *condition, rp_report *report);
/* Are all its plug-ins open? If not, nothing is known of what it holds for. */
bool rp__condition_is_open(const rp_condition *condition);
void rp__condition_close(rp_condition *condition);

/* Our name of a module type ("TransformerBlock") from any accepted one, NULL if it is none. */
const char *rp__module_type_name(const char *name);
extern const char *const rp__module_types[];    /* ends with NULL */

#endif
