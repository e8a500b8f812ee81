/* shard/units.h -- decides which weights are gathered together, and around which forwards.
 *
 *   tok_embeddings ─▶ unit 1 ┐
 *   layers.0       ─▶ unit 2 │  a module that the rules name, or each block: the weights below it that no inner unit has
 *   layers.1       ─▶ unit 3 │
 *   output         ─▶ unit 4 ┘
 *   norm           ─▶ unit 0    the root's: all other weights, gathered while the model runs
 *
 *   custom_sharded_layers   paths and globs: each module they match is a unit of its own
 *   modules_to_wrap         types and globs that replace the default of every block
 *
 * As in conditions, a star in a glob also matches dots, and if one rule matches nested modules only the outermost
 * counts. Nested units come from different rules. A list of modules is never a unit, because it has no forward.
 *
 * A weight that two modules share belongs to one unit, and every module that reads it enters that unit. If the rules put the two uses into different
 * units (tok_embeddings is named, output is not), both modules become entries of a new unit. If the weight stayed in either of
 * the two units, the other use would gather that whole unit. If no rule separates the uses, they stay in their unit.
 */
#ifndef RP_SHARD_UNITS_H
#define RP_SHARD_UNITS_H

#include "base/bump.h"
#include "nn/module.h"

/* Names are those of base/module_path.h. */
typedef struct {
    int n_custom, n_wrap;
    const char *const *custom;                  /* dist.custom_sharded_layers */
    const char *const *wrap;                    /* dist.modules_to_wrap */
    const char *layers;                         /* path or glob of the list of blocks */
} rp_unit_rules;

typedef struct {
    const char *path;                           /* "layers.3", "tok_embeddings + output"; "": the root */
    rp_module **entry;                          /* modules whose forwards need the unit; one may run inside another */
    rp_param **param;                           /* one per weight, of the module that owns it, in the order of the forward */
    int n_entries, n_params;
    int64_t whole_bytes, slice_bytes;           /* of its parameters: gathered; held by one rank */
} rp_unit;

typedef struct {
    rp_unit *unit;                              /* in the order in which a forward first enters them; none is empty */
    int n_units;
    rp_module *root;
    rp_bump bump;
    const char *failed;                         /* after RP_ERR_MATCH: the recipe's key whose rule matches nothing; NULL: the default rule (blocks) */
} rp_units;

/* Makes the units of a tree, which it borrows. Call rp__units_close even after an error.
 * errors  RP_ERR_MATCH a rule matches no module, only a list, a parameter, or only modules without parameters · RP_ERR_MEMORY */
rp_status rp__units_open(rp_ctx *ctx, rp_module *root, const rp_unit_rules *rules, rp_units *out);
void rp__units_close(rp_units *units);

/* The unit that the module's own forward enters; NULL: none, the units of modules above it have its weights. */
rp_unit *rp__units_entered(const rp_units *units, const rp_module *m);

/* "35 units: every TransformerBlock (32); tok_embeddings; output; and the rest (norm)" */
#define RP_UNITS_CHARS 512
const char *rp__units_text(const rp_units *units, char out[RP_UNITS_CHARS]);

#endif
