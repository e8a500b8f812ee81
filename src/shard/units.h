/* shard/units.h -- which weights are gathered together, and around which forwards.
 *
 *   tok_embeddings ─▶ unit 1 ┐
 *   layers.0       ─▶ unit 2 │  one that the rules name, or each block: the weights under it that no unit further in has
 *   layers.1       ─▶ unit 3 │
 *   output         ─▶ unit 4 ┘
 *   norm           ─▶ unit 0    the root's: all the rest, gathered while the model runs
 *
 *   custom_sharded_layers   paths and globs: each module they match is a unit of its own
 *   modules_to_wrap         types and globs, in place of every block
 *
 * As with conditions, a glob matches whatever lies between its stars, dots too, and of nested modules that one rule matches only the outermost
 * counts; nesting comes from different rules. A list of modules is no unit: it has no forward.
 *
 * A weight that two modules share is in one unit, and whoever reads it enters that unit. Where the rules would put the two uses into different
 * units (tok_embeddings is named, output is not), the modules that share it are taken out of both into a unit of theirs, with both as entries:
 * as a part of either unit, the other use would gather all of that one. Where no rule divides them, they stay where they are.
 */
#ifndef RP_SHARD_UNITS_H
#define RP_SHARD_UNITS_H

#include "base/bump.h"
#include "nn/module.h"

/* Names are ours (base/module_path.h). */
typedef struct {
    int n_custom, n_wrap;
    const char *const *custom;                  /* dist.custom_sharded_layers */
    const char *const *wrap;                    /* dist.modules_to_wrap */
    const char *layers;                         /* path or glob of the list of blocks */
} rp_unit_rules;

typedef struct {
    const char *path;                           /* "layers.3", "tok_embeddings + output"; "" is the root's */
    rp_module **entry;                          /* their forwards need the unit; one may run inside another */
    rp_param **param;                           /* each by its owner, in the order of the forward */
    int n_entries, n_params;
    int64_t whole_bytes, slice_bytes;           /* of its parameters: gathered · what a rank holds */
} rp_unit;

typedef struct {
    rp_unit *unit;                              /* in the order in which a forward enters them first; none is empty */
    int n_units;
    rp_module *root;
    rp_bump bump;
    const char *failed;                         /* RP_ERR_MATCH: the recipe's key whose rule matches nothing; NULL: the default rule, of blocks */
} rp_units;

/* Borrows the tree. Close it whatever this said.
 * errors  RP_ERR_MATCH a rule matches no module, a list alone, a parameter, or nothing that has parameters · RP_ERR_MEMORY */
rp_status rp__units_open(rp_ctx *ctx, rp_module *root, const rp_unit_rules *rules, rp_units *out);
void rp__units_close(rp_units *units);

/* The unit that the module's own forward enters, NULL: none, those above it are enough. */
rp_unit *rp__units_entered(const rp_units *units, const rp_module *m);

/* "35 units: every TransformerBlock (32); tok_embeddings; output; and the rest (norm)" */
#define RP_UNITS_CHARS 512
const char *rp__units_text(const rp_units *units, char out[RP_UNITS_CHARS]);

#endif
