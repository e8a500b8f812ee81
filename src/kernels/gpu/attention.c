/* kernels/gpu/attention.c -- chooses and launches the kernels of attention.
 *
 *   scratch   ranges [batch, queries] two int | tiles [batch, tiles of queries] four int | backward: delta [batch, heads, queries] fp32
 *
 * Ranges are filled for calls with documents only, but scratch has room in any case, since it depends on shapes alone.
 */
#include "kernels/gpu/host.h"

#include <math.h>

enum {
    ROWS         = 64,          /* of a block of every kernel */
    MOST_WIDTH   = 256,         /* of a head, on tensor cores */
    RANGE_ROWS   = 256,         /* RANGE_THREADS of attention.k */
    DELTA_ROWS   = 256 / DELTA_TEAM,
    PIECE        = 8,           /* elements of a copy to shared memory */
    ALIGNMENT    = 256,
};

typedef struct { int64_t ranges, tiles, delta, bytes; } room;

static int64_t round_up(int64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static room room_of(const rp_attention *a, bool backward)
{
    room r;

    r.ranges = 0;
    r.tiles  = r.ranges + round_up(a->batch * a->queries * 2 * (int64_t)sizeof(int32_t));
    r.delta  = r.tiles + round_up(a->batch * gpu_blocks(a->queries, ATTENTION_TILE) * 4 * (int64_t)sizeof(int32_t));
    r.bytes  = backward ? r.delta + round_up(a->batch * a->heads * a->queries * (int64_t)sizeof(float)) : r.delta;
    return r;
}

void rp__gpu_op_attention_forward_scratch(const rp_attention *a, int64_t *bytes) { *bytes = room_of(a, false).bytes; }
void rp__gpu_op_attention_backward_scratch(const rp_attention *a, int64_t *bytes) { *bytes = room_of(a, true).bytes; }

/* ---- arguments ---- */

static attention_part part_of(const rp_attention_part *p)
{
    u64 low = ((u64)1 << (64 - ATTENTION_STEP_BITS)) - 1, batch = (u64)p->batch_step;

    return (attention_part){ .address = gpu_address(p->data), .row = (u64)p->row_step | (batch & low) << ATTENTION_STEP_BITS,
                             .head = (u64)p->head_step | batch >> (64 - ATTENTION_STEP_BITS) << ATTENTION_STEP_BITS };
}

/* Are all rows of a tensor aligned to `elements` elements? The step of an extent of 1 does not matter. */
static bool rows_aligned(const rp_attention *a, const rp_attention_part *p, int64_t rows, int64_t heads, int64_t elements)
{
    int64_t bytes = elements * (p->dtype == RP_BF16 ? 2 : 4);

    return gpu_address(p->data) % (u64)bytes == 0 && (a->batch == 1 || p->batch_step % elements == 0) && (rows == 1 || p->row_step % elements == 0) &&
           (heads == 1 || p->head_step % elements == 0);
}

static bool suits(const rp_attention *a, const rp_attention_part *p, int64_t rows, int64_t heads)
{
    return p->dtype == RP_BF16 && rows_aligned(a, p, rows, heads, PIECE);
}

/* Tensor-core kernels multiply the difference of a product and the row's largest product. A factor of 0, or one that overflows, is left to the plain
 * kernels, which form scores first. */
static bool moderate(float factor) { return fabsf(factor) > 1e-6f && fabsf(factor) < 1e6f; }

/* `last`: the output, or its gradient. */
static bool suits_tensor_cores(const rp_attention *a, const rp_attention_part *last)
{
    return a->dim % PIECE == 0 && a->dim <= MOST_WIDTH && moderate(a->softcap > 0 ? a->softcap : a->scale) && suits(a, &a->q, a->queries, a->heads) &&
           suits(a, &a->k, a->keys, a->kv_heads) && suits(a, &a->v, a->keys, a->kv_heads) && suits(a, last, a->queries, a->heads);
}

static attention_args args_of(const rp_attention *a, const room *r, bool tensor_cores)
{
    const float log2_e = 1.44269504f;
    char *scratch      = a->scratch;
    bool capped        = a->softcap > 0;
    attention_args g = { .q = part_of(&a->q), .k = part_of(&a->k), .v = part_of(&a->v), .g = part_of(&a->grad_out), .lse = gpu_address(a->lse),
                         .key = a->stream.key, .queries = (int)a->queries, .keys = (int)a->keys,
                         .heads = (int)a->heads, .kv_heads = (int)a->kv_heads, .dim = (int)a->dim, .window = a->window < a->keys ? (int)a->window : 0,
                         .scale = a->scale, .kept = 1.0f, .causal = a->causal, .capped = capped, .dtype = (unsigned char)a->q.dtype,
                         .g_dtype = (unsigned char)a->grad_out.dtype };

    if (a->dropout > 0) {
        g.stream = gpu_stream(&a->on, a->stream);
        g.kept   = 1.0f / (1.0f - a->dropout);
        g.limit  = (uint32_t)ceilf(a->dropout * 16777216.0f) << 8;       /* uniform(word) < dropout */
    }
    if (capped) {
        g.inner = a->scale / a->softcap;
        g.outer = tensor_cores ? a->softcap * log2_e : a->softcap;
    } else {
        g.flipped = a->scale < 0;
        g.outer   = fabsf(a->scale) * log2_e;
    }
    if (a->doc_start) {
        g.ranges = gpu_address(scratch + r->ranges);
        g.tiles  = gpu_address(scratch + r->tiles);
    }
    return g;
}

static void launch_ranges(const rp_attention *a, const attention_args *g)
{
    attention_ranges_args r = { .doc_start = gpu_address(a->doc_start), .ranges = g->ranges, .tiles = g->tiles, .doc_batch_step = a->doc_batch_step,
                                .doc_row_step = a->doc_row_step, .queries = g->queries, .keys = g->keys, .window = g->window, .causal = a->causal };

    if (a->doc_start && a->queries) gpu_line(&a->on, &rp__gpu_attention_ranges, a->batch * (a->causal ? gpu_blocks(a->queries, RANGE_ROWS) : 1), &r);
}

/* A kernel for tensor cores by width, or the plain one for so many columns. */
typedef struct { const rp_gpu_kernel *kernel; int64_t blocks; } choice;

/* Blocks of ROWS rows: keys of all key heads, or queries of all heads. */
static int64_t row_blocks(const rp_attention *a, bool keys)
{
    return a->batch * (keys ? a->kv_heads * gpu_blocks(a->keys, ROWS) : a->heads * gpu_blocks(a->queries, ROWS));
}

static choice by_width(const rp_attention *a, bool keys, const rp_gpu_kernel *w64, const rp_gpu_kernel *w128, const rp_gpu_kernel *w256)
{
    return (choice){ a->dim <= 64 ? w64 : a->dim <= 128 ? w128 : w256, row_blocks(a, keys) };
}

static choice by_columns(const rp_attention *a, bool keys, const rp_gpu_kernel *c64, const rp_gpu_kernel *c128)
{
    return a->dim <= 64 ? (choice){ c64, row_blocks(a, keys) } : (choice){ c128, row_blocks(a, keys) * gpu_blocks(a->dim, 128) };
}

static void launch(const rp_attention *a, choice c, const attention_args *g) { gpu_line(&a->on, c.kernel, c.blocks, g); }

/* ---- forward ---- */

void rp__gpu_op_attention_forward(const rp_attention *a)
{
    bool tensor_cores = suits_tensor_cores(a, &a->out);
    room r            = room_of(a, false);
    attention_args g  = args_of(a, &r, tensor_cores);

    g.first       = part_of(&a->out);
    g.first_dtype = (unsigned char)a->out.dtype;
    launch_ranges(a, &g);
    launch(a, tensor_cores ? by_width(a, false, &rp__gpu_attention_forward_64, &rp__gpu_attention_forward_128, &rp__gpu_attention_forward_256)
                           : by_columns(a, false, &rp__gpu_attention_plain_64, &rp__gpu_attention_plain_128), &g);
}

/* ---- backward ---- */

static void launch_delta(const rp_attention *a, const attention_args *g)
{
    attention_delta_args d = { .out = part_of(&a->out), .g = g->g, .delta = g->delta, .rows = a->batch * a->heads * a->queries, .queries = g->queries,
                               .heads = g->heads, .dim = g->dim, .dtype = (int)a->out.dtype, .g_dtype = g->g_dtype,
                               .packed = rows_aligned(a, &a->out, a->queries, a->heads, PACK) && rows_aligned(a, &a->grad_out, a->queries, a->heads, PACK) };

    gpu_line(&a->on, &rp__gpu_attention_delta, gpu_blocks(d.rows, DELTA_ROWS), &d);
}

static void set_first(attention_args *g, const rp_attention *a, const rp_attention_part *p, int64_t rows, int64_t heads)
{
    g->first        = part_of(p);
    g->first_dtype  = (unsigned char)p->dtype;
    g->first_adds   = p->adds;
    g->first_paired = rows_aligned(a, p, rows, heads, 2);
}

static void set_second(attention_args *g, const rp_attention *a, const rp_attention_part *p, int64_t rows, int64_t heads)
{
    g->second        = part_of(p);
    g->second_dtype  = (unsigned char)p->dtype;
    g->second_adds   = p->adds;
    g->second_paired = rows_aligned(a, p, rows, heads, 2);
}

static void backward_keys(const rp_attention *a, attention_args g, bool tensor_cores)
{
    if (!a->dk.data && !a->dv.data) return;
    set_first(&g, a, &a->dk, a->keys, a->kv_heads);
    set_second(&g, a, &a->dv, a->keys, a->kv_heads);
    if (!tensor_cores) launch(a, by_columns(a, true, &rp__gpu_attention_plain_dkv_64, &rp__gpu_attention_plain_dkv_128), &g);
    else if (a->dim <= 128) launch(a, by_width(a, true, &rp__gpu_attention_dkv_64, &rp__gpu_attention_dkv_128, NULL), &g);
    else {
        if (a->dk.data) launch(a, (choice){ &rp__gpu_attention_dk_256, row_blocks(a, true) }, &g);
        if (a->dv.data) launch(a, (choice){ &rp__gpu_attention_dv_256, row_blocks(a, true) }, &g);
    }
}

static void backward_queries(const rp_attention *a, attention_args g, bool tensor_cores)
{
    if (!a->dq.data) return;
    set_first(&g, a, &a->dq, a->queries, a->heads);
    launch(a, tensor_cores ? by_width(a, false, &rp__gpu_attention_dq_64, &rp__gpu_attention_dq_128, &rp__gpu_attention_dq_256)
                           : by_columns(a, false, &rp__gpu_attention_plain_dq_64, &rp__gpu_attention_plain_dq_128), &g);
}

void rp__gpu_op_attention_backward(const rp_attention *a)
{
    bool tensor_cores = suits_tensor_cores(a, &a->grad_out);
    room r            = room_of(a, true);
    attention_args g  = args_of(a, &r, tensor_cores);

    g.delta = gpu_address((char *)a->scratch + r.delta);
    launch_ranges(a, &g);
    launch_delta(a, &g);
    backward_keys(a, g, tensor_cores);
    backward_queries(a, g, tensor_cores);
}
