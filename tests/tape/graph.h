/* graph.h -- random graphs of ops, to be run under any nesting of regions.
 *
 *   values   0 .. N_LEAVES-1 leaves, then what the steps make, in order; squares [8, 8] in whatever shape an op left them, or
 *            halves [8, 4]
 *   step     an op on values seen as they are, turned, cut or reshaped; the run releases a value after its last reader, as
 *            modules do, so the tape must hold every value that backward still reads
 *   nesting  how many regions begin before a step and end behind it
 */
#ifndef RP_GRAPH_H
#define RP_GRAPH_H

#include "tape/tape_test.h"

enum { SIDE = 8, CLASSES = 11, N_LEAVES = 9, MOST_STEPS = 40, MOST_VALUES = N_LEAVES + 2 * MOST_STEPS };
enum { LEAF_X, LEAF_W, LEAF_V, LEAF_GAIN, LEAF_BIAS, LEAF_TABLE, LEAF_HEAD, LEAF_CONSTANT, LEAF_IDS };

typedef enum { SQUARE, TURNED, FLAT, HEADS, HALF, HALF_OF_SQUARE, WHOLE_LEAF } graph_view;

typedef struct { int value; graph_view view; int start; } graph_input;

typedef struct {
    const char *op;
    const void *attr;
    graph_input in[RP_MAX_IN];
    int n_in, n_out, out;           /* out: the first value it makes */
} graph_step;

typedef struct {
    graph_step step[MOST_STEPS];
    int n_step, n_value;
    bool is_half[MOST_VALUES];
    int last_reader[MOST_VALUES];   /* step, or n_step where the loss or nobody reads it */
} graph;

typedef struct { int begins[MOST_STEPS], ends[MOST_STEPS]; } nesting;

typedef struct { rp_tensor *at[N_LEAVES]; } graph_leaves;

typedef struct { tensor_bits loss, grad[N_LEAVES]; } graph_result;

void graph_make(graph *g, uint32_t seed, bool smooth);      /* smooth: no kinks, for differences */

nesting nesting_none(void);
nesting nesting_whole(const graph *g);
nesting nesting_blocks(const graph *g, int steps);
nesting nesting_random(const graph *g, uint32_t seed);

graph_leaves leaves_new(rp_ctx *ctx, rp_dtype dtype);
void leaves_free(graph_leaves *leaves);
void leaves_drop_grads(graph_leaves *leaves);

/* A pass of its own: dropout draws as in every other run. On failure nothing is left but the tape's. */
rp_status graph_forward(const graph *g, const nesting *regions, rp_ctx *ctx, const graph_leaves *leaves, rp_tensor **loss);
/* Forward and backward; the tape is empty afterwards. */
rp_status graph_step_run(const graph *g, const nesting *regions, rp_ctx *ctx, const graph_leaves *leaves, tensor_bits *loss);
void graph_run(const graph *g, const nesting *regions, rp_ctx *ctx, graph_leaves *leaves, graph_result *out);
void assert_same_result(const graph_result *got, const graph_result *expected, const char *what, uint32_t seed);

#endif
