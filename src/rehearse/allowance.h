/* rehearse/allowance.h -- memory that a process uses outside the arena: turns `memory_limit`, of the whole process, into a budget of the arena.
 *
 *   memory_limit = budget + program + model + tokenizer + threads + ranks + mapped weights + pages          pages: a 512th of the limit
 *
 * Every term is a fixed upper bound that depends only on the recipe and the model's config. So the same recipe gives the same budget on
 * every machine, and its plan files stay valid. docs/budgets.md has the measurements.
 */
#ifndef RP_REHEARSE_ALLOWANCE_H
#define RP_REHEARSE_ALLOWANCE_H

#include "models/config.h"
#include "models/model.h"
#include "recipe/recipe.h"

enum { RP_PAGES_PART = 512 };           /* an entry of 8 bytes for each page of 4096 */

typedef struct {
    int64_t program;                    /* libraries, code, windows of files being read or written */
    int64_t model;                      /* the tape, modules and plans, in proportion to layers */
    int64_t tokenizer;                  /* in proportion to the vocabulary, as it is exported */
    int64_t threads;                    /* stacks */
    int64_t ranks;                      /* MPI with its buffers for each peer; 0 for one rank */
    int64_t mapped;                     /* weights that stay in the model's files (model.mapped); the system may evict them */
    int64_t pages;                      /* page tables of the arena */
} rp_allowance;

/* Computes the allowance of the model for a limit of `limit` bytes. */
rp_allowance rp__allowance(const rp_model *model, int threads, int ranks, int64_t limit);
int64_t rp__allowance_bytes(const rp_allowance *a);

/* Returns the recipe's `memory_limit` in bytes; 0: it has none. `memory_limit: auto` is measured once in a context. */
int64_t rp__process_limit(rp_ctx *ctx, const rp_recipe *recipe);

/* Returns the bytes that the process uses outside the context's arena. Free heap is returned to the system first. */
int64_t rp__process_own(rp_ctx *ctx);

#endif
