/* bench/gpu/products.c -- measures the matrix products of training steps by cuBLASLt: the seconds of each shape, and whether its bits repeat.
 *
 *   gcc -O2 -std=gnu11 bench/gpu/products.c -ldl -lm -o products && ./products >products.jsonl    libcuda, libnvrtc, libcublasLt at run time; 30 s, 31 GiB
 *   ./products 8192                                                                            only the products of so many rows
 *   ./products sustained                                                                       some of them, each for three seconds
 *
 * Run it in the root of the repository. Each line of the output is a JSON object. The products of a linear layer:
 *
 *   y    y[rows, n]  = x[rows, k] w[n, k]^T       m = rows, n = n, k = k
 *   dx   dx[rows, k] = dy[rows, n] w[n, k]        m = rows, n = k, k = n
 *   dw   dw[n, k]    = dy[rows, n]^T x[rows, k]   m = n, n = k, k = rows      in bf16, or in fp32 ("dw32")
 *
 * bf16 with fp32 sums, or fp32 without rounding of the operands. The algorithm is the first one of the heuristic with 32 MiB of workspace. Reductions in
 * place are masked out: their order may change. Products are timed as nodes of a graph that rotate over 256 MiB. `runs` runs write to poisoned memory at
 * two addresses; the bits of `differ` of them are not those of the first. */
#include "gpu.h"

#define LT(X) \
    X(cublasLtGetVersion, size_t, (void)) X(cublasLtCreate, int, (gpu_handle *)) X(cublasLtMatmulDescCreate, int, (gpu_handle *, int, int)) \
    X(cublasLtMatmulDescSetAttribute, int, (gpu_handle, int, const void *, size_t)) X(cublasLtMatmulDescDestroy, int, (gpu_handle)) \
    X(cublasLtMatrixLayoutCreate, int, (gpu_handle *, int, uint64_t, uint64_t, int64_t)) X(cublasLtMatrixLayoutDestroy, int, (gpu_handle)) \
    X(cublasLtMatmulPreferenceCreate, int, (gpu_handle *)) X(cublasLtMatmulPreferenceSetAttribute, int, (gpu_handle, int, const void *, size_t)) \
    X(cublasLtMatmulPreferenceDestroy, int, (gpu_handle)) \
    X(cublasLtMatmulAlgoGetHeuristic, int, \
      (gpu_handle, gpu_handle, gpu_handle, gpu_handle, gpu_handle, gpu_handle, gpu_handle, int, void *, int *)) \
    X(cublasLtMatmulAlgoConfigGetAttribute, int, (const void *, int, void *, size_t, size_t *)) \
    X(cublasLtMatmul, int, \
      (gpu_handle, gpu_handle, const void *, gpu_address, gpu_handle, gpu_address, gpu_handle, const void *, gpu_address, gpu_handle, gpu_address, \
       gpu_handle, const void *, gpu_address, size_t, gpu_handle))
#define LT_TABLE(name, result, params) static result(*name) params;
LT(LT_TABLE)

typedef struct { uint64_t algorithm[8]; size_t workspace; int state; float waves; int reserved[4]; } heuristic;

enum { F32 = 0, BF16 = 14, COMPUTE_F32 = 68, TRANSPOSE_A = 3, TRANSPOSE_B = 4, WORKSPACE = 1, REDUCTIONS = 3, NOT_IN_PLACE = 6 };
typedef enum { Y, DX, DW, DW32, OPS } product;
static const char *const op_names[OPS] = { "y", "dx", "dw", "dw32" };

typedef struct { gpu_address at, sum; int64_t n; } args;

static gpu_handle lt, lane, hash_kernel;
static gpu_address pool, workspace, sums;
static const size_t POOL = (size_t)30 << 30, WORKSPACE_BYTES = (size_t)32 << 20;

typedef struct {
    product op;
    int dtype, out_dtype;
    int64_t m, n, k;                    /* row-major out[m, n] */
    gpu_handle desc, a, b, c;
    heuristic found;
    size_t bytes_a, bytes_b, bytes_c, stride;
    int sets;
} job;

static size_t rounded(size_t n) { return (n + 1023) / 1024 * 1024; }

static void multiply(const job *j, gpu_handle stream, gpu_address a, gpu_address b, gpu_address c)
{
    const float one = 1, zero = 0;
    GPU(cublasLtMatmul(lt, j->desc, &one, a, j->a, b, j->b, &zero, c, j->c, c, j->c, &j->found, workspace, WORKSPACE_BYTES, stream));
}

static void enqueue(void *user, gpu_handle stream, int i)
{
    job *j         = user;
    gpu_address at = pool + j->stride * (size_t)(i % j->sets);
    multiply(j, stream, at, at + rounded(j->bytes_a), at + rounded(j->bytes_a) + rounded(j->bytes_b));
}

static size_t size_of(int dtype) { return dtype == BF16 ? 2 : 4; }

/* A row-major [rows, columns] with `step` elements from row to row, which cuBLAS takes for a column-major [columns, rows]. Returns its bytes. */
static size_t lay_out(gpu_handle *layout, int dtype, int64_t rows, int64_t columns, int64_t step)
{
    GPU(cublasLtMatrixLayoutCreate(layout, dtype, (uint64_t)columns, (uint64_t)rows, step));
    return (size_t)(rows * step) * size_of(dtype);
}

/* cuBLAS computes out^T[n, m], so its A is the second operand. `pad` elements follow each row of y and dy. */
static void describe(job *j, int64_t rows, int64_t n, int64_t k, int64_t pad)
{
    bool first    = j->op == Y, last = j->op >= DW;
    int transpose[2] = { first, last };
    int64_t m[]   = { rows, rows, n, n }, columns[] = { n, k, k, k }, depth[] = { k, n, rows, rows };

    GPU(cublasLtMatmulDescCreate(&j->desc, COMPUTE_F32, F32));
    GPU(cublasLtMatmulDescSetAttribute(j->desc, TRANSPOSE_A, &transpose[0], 4));
    GPU(cublasLtMatmulDescSetAttribute(j->desc, TRANSPOSE_B, &transpose[1], 4));
    j->m = m[j->op], j->n = columns[j->op], j->k = depth[j->op];
    j->bytes_a = last ? lay_out(&j->a, j->dtype, rows, k, k) : lay_out(&j->a, j->dtype, n, k, k);
    j->bytes_b = first ? lay_out(&j->b, j->dtype, rows, k, k) : lay_out(&j->b, j->dtype, rows, n, n + pad);
    j->bytes_c = lay_out(&j->c, j->out_dtype, j->m, j->n, first ? n + pad : k);
    j->stride  = rounded(j->bytes_a) + rounded(j->bytes_b) + rounded(j->bytes_c);
    j->sets    = (int)(((size_t)256 << 20) / j->stride) + 1;
}

static void close_job(job *j)
{
    GPU(cublasLtMatrixLayoutDestroy(j->a));
    GPU(cublasLtMatrixLayoutDestroy(j->b));
    GPU(cublasLtMatrixLayoutDestroy(j->c));
    GPU(cublasLtMatmulDescDestroy(j->desc));
}

/* False: there is no algorithm or no room, and a line says so. */
static bool open_job(job *j, product op, int64_t rows, int64_t n, int64_t k, int dtype, int64_t pad)
{
    int reductions = NOT_IN_PLACE, got = 0;
    gpu_handle preference;

    *j = (job){ .op = op, .dtype = dtype, .out_dtype = op == DW32 ? F32 : dtype };
    describe(j, rows, n, k, pad);
    GPU(cublasLtMatmulPreferenceCreate(&preference));
    GPU(cublasLtMatmulPreferenceSetAttribute(preference, WORKSPACE, &WORKSPACE_BYTES, sizeof WORKSPACE_BYTES));
    GPU(cublasLtMatmulPreferenceSetAttribute(preference, REDUCTIONS, &reductions, 4));
    int error = cublasLtMatmulAlgoGetHeuristic(lt, j->desc, j->a, j->b, j->c, j->c, preference, 1, &j->found, &got);
    GPU(cublasLtMatmulPreferenceDestroy(preference));
    if (!error && got && j->stride * (size_t)j->sets + 4096 <= POOL) return true;
    printf("{\"op\": \"%s\", \"m\": %ld, \"n\": %ld, \"k\": %ld, \"no_algorithm\": %d}\n", op_names[op], (long)j->m, (long)j->n, (long)j->k, error);
    close_job(j);
    return false;
}

/* Runs whose bits are not the first one's; every second one writes 4 KiB further on. */
static int count_different(const job *j, int runs)
{
    static uint64_t value[32];
    int differ = 0;
    gpu_address at = pool, c = at + rounded(j->bytes_a) + rounded(j->bytes_b);

    GPU(cuMemsetD8Async(sums, 0, sizeof value, lane));
    for (int i = 0; i < runs; i++) {
        gpu_address to = c + (i % 2 ? 4096 : 0);
        args a = { to, sums + 8 * (size_t)i, (int64_t)(j->bytes_c / 4) };
        GPU(cuMemsetD8Async(to, 0xff, j->bytes_c, lane));
        multiply(j, lane, at, at + rounded(j->bytes_a), to);
        gpu_launch(hash_kernel, 132 * 8, 256, lane, &a);
    }
    GPU(cuMemcpyDtoHAsync_v2(value, sums, sizeof value, lane));
    GPU(cuStreamSynchronize(lane));
    for (int i = 1; i < runs; i++) differ += value[i] != value[0];
    return differ;
}

static int config(const job *j, int attribute)
{
    int value = 0;
    size_t written;

    return cublasLtMatmulAlgoConfigGetAttribute(&j->found, attribute, &value, 4, &written) ? -1 : value;
}

static void tell(const job *j, int64_t rows, int64_t pad, double seconds, int runs)
{
    double flops = 2.0 * (double)j->m * (double)j->n * (double)j->k;

    printf("{\"op\": \"%s\", \"dtype\": \"%s\", \"rows\": %ld, \"m\": %ld, \"n\": %ld, \"k\": %ld, \"pad\": %ld, ", op_names[j->op],
           j->dtype == BF16 ? "bf16" : "fp32", (long)rows, (long)j->m, (long)j->n, (long)j->k, (long)pad);
    printf("\"seconds\": %.4e, \"tflops\": %.1f, \"algorithm\": %d, \"tile\": %d, \"stages\": %d, \"splits\": %d, \"reduction\": %d, ", seconds,
           flops / seconds * 1e-12, config(j, 0), config(j, 1), config(j, 6), config(j, 2), config(j, 3));
    printf("\"waves\": %.2f, \"workspace\": %zu, \"runs\": %d, \"differ\": %d}\n", j->found.waves, j->found.workspace, runs, count_different(j, runs));
    fflush(stdout);
}

static void run(product op, int64_t rows, int64_t n, int64_t k, int dtype, int64_t pad)
{
    job j;

    if (!open_job(&j, op, rows, n, k, dtype, pad)) return;
    int nodes = (int)(4e-3 / (2.0 * (double)rows * (double)n * (double)k / 500e12 + 3e-6)) + 1;
    double s  = gpu_time(enqueue, &j, nodes > 200 ? 200 : nodes, 0.03, lane);
    tell(&j, rows, pad, s, s > 0.01 ? 3 : s > 0.002 ? 8 : 20);
    close_job(&j);
}

/* weights[n, k] of SmolLM2-135M, GPT-2 124M, Llama 1B, 8B and 70B; pad makes a row of logits a multiple of 64 elements */
static const struct { int n, k, pad; } weights[] = {
    { 576, 576, 0 }, { 192, 576, 0 }, { 1536, 576, 0 }, { 576, 1536, 0 }, { 49152, 576, 0 },
    { 768, 768, 0 }, { 2304, 768, 0 }, { 3072, 768, 0 }, { 768, 3072, 0 }, { 50257, 768, 0 }, { 50257, 768, 47 },
    { 2048, 2048, 0 }, { 512, 2048, 0 }, { 5632, 2048, 0 }, { 2048, 5632, 0 }, { 8192, 2048, 0 }, { 2048, 8192, 0 }, { 128256, 2048, 0 },
    { 4096, 4096, 0 }, { 1024, 4096, 0 }, { 14336, 4096, 0 }, { 4096, 14336, 0 }, { 128256, 4096, 0 },
    { 8192, 8192, 0 }, { 1024, 8192, 0 }, { 28672, 8192, 0 }, { 8192, 28672, 0 },
    { 3072, 1024, 0 }, { 1024, 1024, 0 }, { 1152, 576, 0 }, { 8192, 576, 0 }, { 16384, 768, 0 }, { 11264, 2048, 0 },
};

static void run_all(int64_t rows)
{
    for (int i = 0; i < (int)(sizeof weights / sizeof *weights); i++) {
        if (rows * weights[i].n > INT64_C(2) << 30) continue;
        for (product op = Y; op < OPS; op++) run(op, rows, weights[i].n, weights[i].k, BF16, weights[i].pad);
    }
}

/* Seconds of a node in the last second of three. By then the card has lowered its clock to stay within its power. */
static double time_sustained(gpu_handle ready, int nodes)
{
    double began = gpu_now(), last = began, seconds = 0;
    int done = 0;

    while (last - began < 3) {
        GPU(cuGraphLaunch(ready, lane));
        GPU(cuGraphLaunch(ready, lane));
        GPU(cuStreamSynchronize(lane));
        double t = gpu_now();
        if (t - began > 2) seconds += t - last, done += 2 * nodes;
        last = t;
    }
    return seconds / done;
}

static void sustain(product op, int64_t rows, int64_t n, int64_t k)
{
    double flops = 2.0 * (double)rows * (double)n * (double)k;
    int nodes    = (int)(20e-3 / (flops / 600e12)) + 1;
    job j;

    if (!open_job(&j, op, rows, n, k, BF16, 0)) return;
    if (nodes > 1000) nodes = 1000;
    double burst     = gpu_time(enqueue, &j, nodes < 50 ? nodes : 50, 0.02, lane);
    gpu_handle ready = gpu_graph(enqueue, &j, nodes, lane);
    double seconds   = time_sustained(ready, nodes);
    GPU(cuGraphExecDestroy(ready));
    printf("{\"sustained\": \"%s\", \"m\": %ld, \"n\": %ld, \"k\": %ld, \"burst\": %.4e, \"seconds\": %.4e, \"burst_tflops\": %.1f, \"tflops\": %.1f}\n",
           op_names[op], (long)j.m, (long)j.n, (long)j.k, burst, seconds, flops / burst * 1e-12, flops / seconds * 1e-12);
    fflush(stdout);
    close_job(&j);
}

static void sustain_all(void)
{
    static const int shape[][3] = { { 8192, 8192, 8192 }, { 16384, 8192, 2048 }, { 16384, 2048, 8192 }, { 16384, 2048, 2048 }, { 16384, 512, 2048 },
                                    { 32768, 3072, 768 }, { 32768, 768, 768 }, { 32768, 1536, 576 }, { 4096, 1536, 576 }, { 1024, 1536, 576 } };
    for (int i = 0; i < (int)(sizeof shape / sizeof *shape); i++)
        for (product op = Y; op < DW32; op++)
            if (i < 4 || op != DX) sustain(op, shape[i][0], shape[i][1], shape[i][2]);
}

/* Square ones, fp32, and row counts between whole waves of tiles. */
static void run_others(void)
{
    static const int fp32[][3] = { { 2048, 1536, 576 }, { 1024, 576, 576 }, { 8192, 3072, 768 }, { 4096, 8192, 2048 }, { 512, 512, 512 }, { 2048, 2048, 2048 },
                                   { 8192, 8192, 8192 } };

    for (int64_t n = 256; n <= 16384; n *= 2)
        for (product op = Y; op < DW32; op++) run(op, n, n, n, BF16, 0);
    for (int i = 0; i < (int)(sizeof fp32 / sizeof *fp32); i++)
        for (product op = Y; op < DW32; op++) run(op, fp32[i][0], fp32[i][1], fp32[i][2], F32, 0);
    for (int64_t rows = 128; rows <= 8192; rows += rows < 2048 ? 384 : 1920) {
        run(Y, rows, 3072, 1024, BF16, 0);
        run(Y, rows, 1152, 4096, BF16, 0);
    }
}

static void open_all(void)
{
    void *so = gpu_library((const char *const[]){ "libcublasLt.so.13", "libcublasLt.so.12", NULL });

#define LT_LOAD(name, result, params) *(void **)&name = gpu_symbol(so, #name);
    LT(LT_LOAD)
    GPU(cublasLtCreate(&lt));
    lane = gpu_stream();
    gpu_handle module = gpu_compile("bench/gpu/products.cu");
    hash_kernel       = gpu_function(module, "hash");
    GPU(cuMemAlloc_v2(&pool, POOL));
    GPU(cuMemAlloc_v2(&workspace, WORKSPACE_BYTES));
    GPU(cuMemAlloc_v2(&sums, 4096));
    args a = { pool, 0, (int64_t)(POOL / 4) };
    gpu_launch(gpu_function(module, "fill"), (unsigned)(POOL / 4 / 256), 256, lane, &a);
    GPU(cuStreamSynchronize(lane));
    printf("{\"cublaslt\": %zu}\n", cublasLtGetVersion());
}

int main(int argc, char **argv)
{
    static const int rows[] = { 2048, 8192, 1024, 32768, 512 };

    gpu_open();
    open_all();
    if (argc > 1 && !strcmp(argv[1], "sustained")) return sustain_all(), 0;
    if (argc > 1) return run_all(atoi(argv[1])), 0;
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) run_all(rows[i]);
    run_others();
    return 0;
}
