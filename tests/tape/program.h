/* program.h -- random programs: regions in regions, sequences, errors that are caught, backwards in the middle.
 *
 *   program   a tree; a node runs its children one after the other, each on the output of the one before
 *   region    rp_checkpoint · sequence: rp_checkpoint_sequential · caught: a region that fails in its middle · back: backward of the sum
 *   captured  ops also read what the node around them began with, which is no argument of theirs
 */
#ifndef RP_PROGRAM_H
#define RP_PROGRAM_H

#include "tape/fates.h"

enum { PROGRAM_CHILDREN = 4, PROGRAM_NODES = 64, PROGRAM_PARAMS = 2 };

typedef struct { int kind, child[PROGRAM_CHILDREN], n_children, segments; } program_node;

typedef struct {
    program_node at[PROGRAM_NODES];
    int n;
    uint32_t state;
} program;

typedef struct {
    bool regions;                   /* false: the same calls without any */
    uint32_t fates_seed;            /* 0: nobody decides */
    int64_t limit_bytes;            /* of the context; 0: none */
    bool shapes_only;
    const char *device;
    int threads;                    /* 0: all */
} program_way;

typedef struct {
    tensor_bits loss, grad[PROGRAM_PARAMS + 1];
    rp_tape_stats work;
    rp_mem mem;
    int64_t own_bytes;              /* before the first call */
    char error[512];
} program_outcome;

program program_make(uint32_t seed);
/* Forward, the sum of the end, backward, in a context of its own, in which nothing may be left. */
rp_status program_run(const program *p, const program_way *way, program_outcome *o);
void assert_same_outcome(const program_outcome *got, const program_outcome *expected, const char *what);

#endif
