/* kernels/gpu/fuse.c -- the list of all kernels. For those of fuse.def, the memory that a launch reads and writes, and the arguments of fused launches. */
#include <string.h>

#include "base/base.h"
#include "kernels/gpu/host.h"

const rp_gpu_kernel *const rp__gpu_kernels[] = {
#define RP_GPU_KERNEL(name) &rp__gpu_##name,
#include "kernels/gpu/kernels.def"
#undef RP_GPU_KERNEL
};
const int rp__gpu_n_kernels = RP_COUNT(rp__gpu_kernels);

/* ---- ranges ---- */

static int64_t bytes_of(int dtype, int64_t n) { return dtype == RP_U8 ? n : dtype == RP_BF16 ? 2 * n : 4 * n; }

static void range(rp_gpu_range *to, int *n, u64 at, int64_t bytes, bool writes)
{
    if (at && bytes > 0) to[(*n)++] = (rp_gpu_range){ at, at + (u64)bytes, writes };
}

static int ranges_of_update(const void *args, rp_gpu_range *to)
{
    const optim_args *a = args;
    int64_t blocks      = 4 * gpu_blocks(a->n, RP_OPTIM_BLOCK);
    int n = 0;

    range(to, &n, a->grad, bytes_of(a->grad_dtype, a->n), false);
    range(to, &n, a->param, bytes_of(a->param_dtype, a->n), true);
    range(to, &n, a->state0, bytes_of(a->state_dtype, a->n), true);
    range(to, &n, a->state1, bytes_of(a->state_dtype, a->n), true);
    range(to, &n, a->absmax0, blocks, true);
    range(to, &n, a->absmax1, blocks, true);
    range(to, &n, a->master, 4 * a->n, true);
    return n;
}

static int ranges_of_squares(const void *args, rp_gpu_range *to)
{
    const squares_args *a = args;
    int n = 0;

    range(to, &n, a->from, bytes_of(a->dtype, a->n), false);
    range(to, &n, a->sums, 8 * (1 + a->spans), true);
    return n;
}

static int ranges_of_spans(const void *args, rp_gpu_range *to)
{
    const squares_args *a = args;
    int n = 0;

    range(to, &n, a->sums, 8 * (1 + a->spans), false);
    range(to, &n, a->total, 8, true);
    return n;
}

static int ranges_of_add_parts(const void *args, rp_gpu_range *to)
{
    const add_parts_args *a = args;
    int n = 0;

    range(to, &n, a->from, 4 * a->parts * a->n, false);
    range(to, &n, a->to, bytes_of(a->to_dtype, a->n), true);
    return n;
}

static int ranges_of_rotary(const void *args, rp_gpu_range *to)
{
    const rotary_args *a = args;
    int64_t elems        = a->tokens * a->heads * a->d;
    int n = 0;

    range(to, &n, a->x, bytes_of(a->dtype, elems), false);
    range(to, &n, a->positions, 4 * a->tokens, false);
    range(to, &n, a->cosine, 4 * a->angles * a->half, false);
    range(to, &n, a->sine, 4 * a->angles * a->half, false);
    range(to, &n, a->to, bytes_of(a->to_dtype, elems), true);
    return n;
}

/* Only sums whose operands have one shape are fused. */
static int ranges_of_add(const void *args, rp_gpu_range *to)
{
    const spread_args *a = args;
    int n = 0;

    if (!a->flat || a->sums || a->mask) return 0;
    range(to, &n, a->a, bytes_of(a->dtype, a->n), false);
    range(to, &n, a->b, bytes_of(a->dtype, a->n), false);
    range(to, &n, a->to, bytes_of(a->to_dtype, a->n), true);
    return n;
}

static int ranges_of_norm(const void *args, rp_gpu_range *to)
{
    const norm_args *a = args;
    int n = 0;

    range(to, &n, a->x, bytes_of(a->dtype, a->rows * a->n), false);
    range(to, &n, a->w, bytes_of(a->dtype, a->n), false);
    range(to, &n, a->b, bytes_of(a->dtype, a->n), false);
    range(to, &n, a->y, bytes_of(a->dtype, a->rows * a->n), true);
    range(to, &n, a->mean, 4 * a->rows, true);
    range(to, &n, a->rstd, 4 * a->rows, true);
    return n;
}

static int ranges_of_norm_dx(const void *args, rp_gpu_range *to)
{
    const norm_backward_args *a = args;
    int n = 0;

    range(to, &n, a->x, bytes_of(a->dtype, a->rows * a->n), false);
    range(to, &n, a->w, bytes_of(a->dtype, a->n), false);
    range(to, &n, a->dy, bytes_of(a->dtype, a->rows * a->n), false);
    range(to, &n, a->mean, 4 * a->rows, false);
    range(to, &n, a->rstd, 4 * a->rows, false);
    range(to, &n, a->dx, bytes_of(a->dx_dtype, a->rows * a->n), true);
    return n;
}

static int ranges_of_norm_parts(const void *args, rp_gpu_range *to)
{
    const norm_parts_args *a = args;
    int n = 0;

    range(to, &n, a->x, bytes_of(a->dtype, a->rows * a->n), false);
    range(to, &n, a->dy, bytes_of(a->dtype, a->rows * a->n), false);
    range(to, &n, a->mean, 4 * a->rows, false);
    range(to, &n, a->rstd, 4 * a->rows, false);
    range(to, &n, a->dw, 4 * a->parts * a->n, true);
    range(to, &n, a->db, 4 * a->parts * a->n, true);
    return n;
}

/* A product that is cut along its depth stays apart: its parts are added by a launch that follows. */
static int ranges_of_product(const void *args, rp_gpu_range *to)
{
    const product_args *a = args;
    int n = 0;

    if (a->parts > 1) return 0;
    range(to, &n, a->A, bytes_of(a->ab, a->m * a->k), false);
    range(to, &n, a->B, bytes_of(a->ab, a->k * a->n), false);
    range(to, &n, a->bias, bytes_of(a->ab, a->n), false);
    range(to, &n, a->C, bytes_of(a->c, a->m * a->n), true);
    return n;
}

const rp_gpu_ranges rp__gpu_ranges[] = {
#define RP_GPU_MANY(name, ranges) { &rp__gpu_##name, ranges_of_##ranges },
#define RP_GPU_PART(name, ranges) { &rp__gpu_##name, ranges_of_##ranges },
#define RP_GPU_END(first, second, join)
#define RP_GPU_PAIR(first, second, fused, beside, join)
#include "kernels/gpu/fuse.def"
#undef RP_GPU_MANY
#undef RP_GPU_PART
#undef RP_GPU_END
#undef RP_GPU_PAIR
};
const int rp__gpu_n_ranges = RP_COUNT(rp__gpu_ranges);

/* ---- launches of one kernel ---- */

/* The bytes behind the last item are 0, because launches are compared by their bytes. */
static void begin_many(rp_gpu_launch *l)
{
    size_t bytes   = (size_t)l->kernel->args_bytes;
    many_head head = { .n = 1 };

    memmove(l->args + sizeof head, l->args, bytes);
    memcpy(l->args, &head, sizeof head);
    memset(l->args + sizeof head + bytes, 0, sizeof l->args - sizeof head - bytes);
}

static bool join_many(rp_gpu_launch *first, const rp_gpu_launch *second)
{
    many_head *head = (many_head *)(void *)first->args;
    size_t bytes    = (size_t)second->kernel->args_bytes;
    bool single     = first->kernel == second->kernel;

    if (first->grid[0] > INT32_MAX - second->grid[0] || (!single && head->n == MANY)) return false;
    if (single) begin_many(first);
    memcpy(first->args + sizeof *head + (size_t)head->n * bytes, second->args, bytes);
    head->start[head->n++] = (int)first->grid[0];
    first->grid[0] += second->grid[0];
    return true;
}

/* ---- pairs ---- */

static bool apart(u64 a, int64_t a_bytes, u64 b, int64_t b_bytes) { return !a || !b || a + (u64)a_bytes <= b || b + (u64)b_bytes <= a; }

/* Blocks of the fused kernel write rows of the sum while others read the weights. */
static bool sum_can_be_written(const norm_args *a)
{
    int64_t bytes = bytes_of(a->dtype, a->rows * a->n);

    return apart(a->x, bytes, a->w, bytes_of(a->dtype, a->n)) && apart(a->x, bytes, a->b, bytes_of(a->dtype, a->n));
}

/* They write a row of y while others still read the operands of the sum. y may be an operand: a thread writes only elements that it has read
 * itself. */
static bool rows_can_be_written(const norm_args *a, u64 operand)
{
    int64_t bytes = bytes_of(a->dtype, a->rows * a->n);

    return (a->y == operand || apart(a->y, bytes, operand, bytes)) && apart(a->mean, 4 * a->rows, operand, bytes) &&
           apart(a->rstd, 4 * a->rows, operand, bytes);
}

static bool join_add_norm(rp_gpu_launch *first, const rp_gpu_launch *second)
{
    const spread_args *sum = (const spread_args *)(const void *)first->args;
    const norm_args *norm  = (const norm_args *)(const void *)second->args;
    add_norm_args fused    = { .norm = *norm, .one = sum->a, .two = sum->b, .packed = sum->packed && norm->packed };

    if (sum->to != norm->x || sum->n != norm->rows * norm->n || sum->dtype != norm->dtype || sum->to_dtype != norm->dtype || sum->adds) return false;
    if (!sum_can_be_written(norm) || !rows_can_be_written(norm, sum->a) || !rows_can_be_written(norm, sum->b)) return false;
    memcpy(first->args, &fused, sizeof fused);
    memcpy(first->grid, second->grid, sizeof first->grid);
    return true;
}

/* The sum is written while other blocks still read the operands of the product. */
static bool join_product_add(rp_gpu_launch *first, const rp_gpu_launch *second)
{
    product_args *p      = (product_args *)(void *)first->args;
    const spread_args *s = (const spread_args *)(const void *)second->args;
    bool other_first     = s->b == p->C;
    u64 other            = other_first ? s->a : s->b;
    int64_t bytes        = bytes_of(p->c, s->n);

    if (p->sum || (s->a != p->C && !other_first) || s->n != p->m * p->n || s->dtype != p->c || s->to_dtype != p->c || s->adds) return false;
    if (!apart(other, bytes, p->C, bytes) || !apart(s->to, bytes, p->C, bytes) || !apart(s->to, bytes, p->A, bytes_of(p->ab, p->m * p->k)) ||
        !apart(s->to, bytes, p->B, bytes_of(p->ab, p->k * p->n)) || !apart(s->to, bytes, p->bias, bytes_of(p->ab, p->n))) return false;
    if (p->paired && (other | s->to) % 8) return false;
    p->other       = other;
    p->sum         = s->to;
    p->other_first = other_first;
    return true;
}

static bool join_norm_pair(rp_gpu_launch *first, const rp_gpu_launch *second)
{
    norm_pair_args fused = { .rows = (int)second->grid[0], .across = (int)first->grid[0] };
    int64_t blocks       = second->grid[0] + (int64_t)first->grid[0] * first->grid[1];

    if (blocks > INT32_MAX) return false;
    memcpy(&fused.parts, first->args, sizeof fused.parts);
    memcpy(&fused.d, second->args, sizeof fused.d);
    memcpy(first->args, &fused, sizeof fused);
    first->grid[0] = (unsigned)blocks;
    first->grid[1] = 1;
    return true;
}

const rp_gpu_fusion rp__gpu_fusions[] = {
#define RP_GPU_MANY(name, ranges) \
    { &rp__gpu_##name, &rp__gpu_##name, &rp__gpu_##name##_many, true, join_many }, \
    { &rp__gpu_##name##_many, &rp__gpu_##name, &rp__gpu_##name##_many, true, join_many },
#define RP_GPU_PART(name, ranges)
#define RP_GPU_END(first, second, join) { &rp__gpu_##first, &rp__gpu_##second, &rp__gpu_##first, false, join_##join },
#define RP_GPU_PAIR(first, second, fused, beside, join) { &rp__gpu_##first, &rp__gpu_##second, &rp__gpu_##fused, beside, join_##join },
#include "kernels/gpu/fuse.def"
#undef RP_GPU_MANY
#undef RP_GPU_PART
#undef RP_GPU_END
#undef RP_GPU_PAIR
};
const int rp__gpu_n_fusions = RP_COUNT(rp__gpu_fusions);
