/* kernels/gpu/gemm.c -- chooses the kernels of a product. The choice depends on the description and on the alignment of the operands. */
#include "device/blas.h"
#include "kernels/gpu/host.h"

enum {
    BLOCKS_WANTED = 128,        /* products with fewer tiles are cut along their depth */
    DEPTH_LEAST = 512,          /* of a part */
    MOST_PARTS = 16,
    DEPTH_STEP = 32,            /* of a stage in gemm.k; parts are a multiple of it */
};

typedef struct { int size, parts; int64_t depth; } plan;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t tiles_of(const rp_gemm *g, int size) { return gpu_blocks(g->m, size) * gpu_blocks(g->n, size); }

static plan plan_of(const rp_gemm *g)
{
    plan p        = { .parts = 1, .depth = g->k };
    p.size        = g->ab == RP_BF16 && least(g->m, g->n) > 64 && tiles_of(g, 128) >= BLOCKS_WANTED / 2 ? 128 : 64;
    int64_t parts = least(least(BLOCKS_WANTED / (tiles_of(g, p.size) + 1), g->k / DEPTH_LEAST), MOST_PARTS);

    if (parts <= 1) return p;
    p.depth = gpu_blocks(gpu_blocks(g->k, parts), DEPTH_STEP) * DEPTH_STEP;
    p.parts = (int)gpu_blocks(g->k, p.depth);
    return p;
}

static int64_t bytes_of_parts(int parts, int64_t m, int64_t n) { return parts > 1 ? parts * m * n * (int64_t)sizeof(float) : 0; }

void rp__gpu_op_gemm_scratch(const rp_gemm *g, int64_t *bytes) { *bytes = bytes_of_parts(plan_of(g).parts, g->m, g->n); }

/* Parts times tiles are at most BLOCKS_WANTED, and a product that is cut has tiles of 64 x 64 or is one of few tiles of 128 x 128. */
void rp__gpu_op_gemm_scratch_most(const rp_gemm *g, int64_t *bytes)
{
    bool cut = g->k / DEPTH_LEAST > 1;

    *bytes = cut ? least(BLOCKS_WANTED * INT64_C(128) * 128, MOST_PARTS * g->m * g->n) * (int64_t)sizeof(float) : 0;
}

/* Copies to the tensor cores' shared memory are 16 bytes: rows of operands begin at multiples of them. A dequantised B would. */
static bool suits_tensor_cores(const rp_gemm *g, const void *a, const void *b)
{
    return g->ab == RP_BF16 && !(g->transpose_a && g->transpose_b) && (g->transpose_a ? g->m : g->k) % 8 == 0 &&
           (g->transpose_b ? g->k : g->n) % 8 == 0 && gpu_aligned(a) && (g->quant || gpu_aligned(b));
}

static const rp_gpu_kernel *kernel_of(const rp_gemm *g, int size)
{
    if (g->quant && g->transpose_b) return size == 128 ? &rp__gpu_product_quant_nt_128 : &rp__gpu_product_quant_nt_64;
    if (g->quant) return size == 128 ? &rp__gpu_product_quant_nn_128 : &rp__gpu_product_quant_nn_64;
    if (g->transpose_a) return size == 128 ? &rp__gpu_product_tn_128 : &rp__gpu_product_tn_64;
    if (g->transpose_b) return size == 128 ? &rp__gpu_product_nt_128 : &rp__gpu_product_nt_64;
    return size == 128 ? &rp__gpu_product_nn_128 : &rp__gpu_product_nn_64;
}

static product_args args_of(const rp_gemm *g, const void *a, const void *b, const void *c)
{
    return (product_args){ .A = gpu_address(a), .B = gpu_address(b), .C = gpu_address(c), .m = g->m, .n = g->n, .k = g->k, .depth = g->k,
                           .b_first = g->quant ? g->b_first : 0, .ab = (int)g->ab, .c = (int)g->c, .transpose_a = g->transpose_a,
                           .transpose_b = g->transpose_b, .adds = g->adds, .parts = 1, .paired = g->n % 2 == 0 && gpu_address(c) % 8 == 0,
                           .quant = g->quant ? (int)g->quant->dtype : 0 };
}

/* ---- by a library ---- */

static rp_blas_product description_of(const product_args *a)
{
    return (rp_blas_product){ .m = a->m, .n = a->n, .k = a->k, .workspace_bytes = bytes_of_parts(a->parts, a->m, a->n), .ab = a->ab, .c = a->c,
                              .transpose_a = a->transpose_a, .transpose_b = a->transpose_b, .adds = a->adds, .bias = a->bias != 0 };
}

static int multiply(struct rp_gpu *gpu, void *stream, const void *args)
{
    const product_args *a = args;
    rp_blas_product p     = description_of(a);

    return rp__blas_multiply(gpu, &p, &(rp_blas_operands){ a->A, a->B, a->C, a->bias, a->partial }, stream);
}

static const rp_gpu_kernel product_of_library = { .name = "cublasLtMatmul", .args_bytes = sizeof(product_args), .call = multiply };

/* Rows of C whose length is no multiple of 8 would cost the library a factor of 7 (docs/gpu.md). */
static bool suits_library(const rp_gemm *g, const product_args *a)
{
    bool aligned = g->n % 8 == 0 && a->C % 16 == 0 && a->bias % 16 == 0 && a->partial % 256 == 0;
    rp_blas_product p = description_of(a);

    return aligned && !g->quant && !(a->bias && g->c != g->ab) && rp__blas_serves(&g->on, &p);
}

/* ---- the choice ---- */

void rp__gpu_op_gemm(const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, void *scratch)
{
    plan p            = plan_of(g);
    bool tensor_cores = suits_tensor_cores(g, a, b);
    product_args args = args_of(g, a, b, c);
    const rp_gpu_kernel *kernel = tensor_cores ? kernel_of(g, p.size) : g->quant ? &rp__gpu_product_quant_tiles : &rp__gpu_product_tiles;

    args.bias    = gpu_address(bias);
    args.partial = gpu_address(scratch);
    args.depth   = p.depth;
    args.parts   = p.parts;
    if (tensor_cores && suits_library(g, &args)) {
        rp__gpu_launch(&g->on, &product_of_library, 1, 1, 1, &args);
        return;
    }
    rp__gpu_launch(&g->on, kernel, tiles_of(g, tensor_cores ? p.size : 64), 1, p.parts, &args);
    if (p.parts > 1) gpu_line(&g->on, &rp__gpu_product_add_parts, gpu_blocks(g->m * g->n, FLAT_THREADS), &args);
}

/* Tiles of rows of all experts together: the last tile of each expert may be a part of one. */
static int64_t tiles_of_rows(int64_t rows, int64_t experts) { return rows / 64 + least(rows, experts); }

static const rp_gpu_kernel *grouped_kernel_of(const rp_gemm *g, const void *a, const void *b)
{
    if (!suits_tensor_cores(g, a, b)) return g->quant ? &rp__gpu_grouped_quant_tiles : &rp__gpu_grouped_tiles;
    if (g->quant) return g->transpose_b ? &rp__gpu_grouped_quant_nt : &rp__gpu_grouped_quant_nn;
    return g->transpose_a ? &rp__gpu_grouped_tn : g->transpose_b ? &rp__gpu_grouped_nt : &rp__gpu_grouped_nn;
}

void rp__gpu_op_grouped_gemm(const rp_gemm *g, const int32_t *first, int64_t experts, const void *a, const void *b, void *c)
{
    const rp_gpu_kernel *kernel = grouped_kernel_of(g, a, b);
    product_args args           = args_of(g, a, b, c);

    args.first   = gpu_address(first);
    args.experts = experts;
    if (g->transpose_a) rp__gpu_launch(&g->on, kernel, tiles_of(g, 64), experts, 1, &args);
    else rp__gpu_launch(&g->on, kernel, tiles_of_rows(g->m, experts) * gpu_blocks(g->n, 64), 1, 1, &args);
}
