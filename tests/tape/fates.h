/* fates.h -- deciders for tests: a fate for each value, drawn or by a table of ops. */
#ifndef RP_FATES_H
#define RP_FATES_H

#include "tape/graph.h"

enum { FATE_MUST = 128, FATE_MAY_CHANGE = 64 };      /* or'ed to a fate of the table */

typedef struct {
    uint32_t seed;                  /* 0: by the tables */
    const char *op[8];              /* NULL ends; "*" is any */
    unsigned fate[8];
    int n_asked;
} fates;

/* Decide by `f` from here on; NULL: nobody decides. */
void fates_use(rp_ctx *ctx, fates *f);

/* Count the forwards of each op of random graphs from here on: first passes and replays. */
typedef struct { int first, recompute; } op_count;
void counts_reset(void);
op_count counts_of(const char *op);
op_count counts_total(void);
/* The op of that name, counted. */
const rp_op *counted_op(const char *name);

#endif
