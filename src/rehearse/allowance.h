/* rehearse/allowance.h -- what a process takes beside the arena: how `memory_limit`, of the whole process, becomes a budget of the arena.
 *
 *   memory_limit = budget + program + model + tokenizer + threads + ranks + pages          pages: a 512th of the limit
 *
 * Every term is a fixed upper bound, from the recipe and the model's config alone: the same recipe gives the same budget on every machine, so its
 * plan files stay valid. docs/memory.md has what was measured.
 */
#ifndef RP_REHEARSE_ALLOWANCE_H
#define RP_REHEARSE_ALLOWANCE_H

#include "models/config.h"
#include "recipe/recipe.h"

enum { RP_PAGES_PART = 512 };           /* an entry of 8 bytes for each page of 4096 */

typedef struct {
    int64_t program;                    /* libraries, code, windows of files that are read and written */
    int64_t model;                      /* the tape, modules and plans, by layers */
    int64_t tokenizer;                  /* by words of the vocabulary, as it is exported */
    int64_t threads;                    /* stacks */
    int64_t ranks;                      /* MPI, its buffers for each peer; 0: one rank */
    int64_t pages;                      /* page tables of the arena */
} rp_allowance;

/* Of a limit of `limit` bytes. */
rp_allowance rp__allowance(const rp_model_config *config, int threads, int ranks, int64_t limit);
int64_t rp__allowance_bytes(const rp_allowance *a);

/* Bytes that this process may take by the recipe's `memory_limit`, 0: it has none. `auto` is measured once for a context. */
int64_t rp__process_limit(rp_ctx *ctx, const rp_recipe *recipe);

/* What the process has taken beside the context's arena. Heap that is free goes back to the system first. */
int64_t rp__process_own(rp_ctx *ctx);

#endif
