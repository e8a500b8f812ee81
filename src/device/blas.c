/* device/blas.c -- matrix products by cuBLASLt: device/blas.h.
 *
 * The library counts column after column. So it computes the transposed product, C^T = op(B)^T op(A)^T: its first operand is our B. */
#include "device/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "device/gpu.h"

/* Constants. The library names them with CUBLASLT_ before. */
enum {
    CUDA_R_32F = 0, CUDA_R_16BF = 14, CUBLAS_COMPUTE_32F = 68, MATMUL_DESC_TRANSA = 3, MATMUL_DESC_TRANSB = 4, MATMUL_DESC_EPILOGUE = 7,
    MATMUL_DESC_BIAS_POINTER = 8, EPILOGUE_BIAS = 4, MATMUL_PREF_MAX_WORKSPACE_BYTES = 1, MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5, MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8, REDUCTION_SCHEME_COMPUTE_TYPE = 2,
};
enum { ALIGNMENT = 16 };

/* A description and its algorithm, if it is served. */
typedef struct shape {
    struct shape *next;
    rp_blas_product of;
    bool served;
    void *operation, *a, *b, *c;        /* a, b: of the library's operands */
    rp_blas_heuristic found;
} shape;

struct rp_blas {
    rp_blas_calls call;
    void *handle;
    pthread_mutex_t lock;               /* of the list, and of a description while its bias is set */
    shape *shapes;
};

/* ---- opening ---- */

bool rp__blas_load(rp_blas_calls *calls)
{
    void *library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    bool all      = true;

    if (!library) library = dlopen("libcublasLt.so.12", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) return false;
#define RP_BLAS(function, parameters) \
    calls->function = (int(*) parameters)(uintptr_t)dlsym(library, #function); \
    all             = all && calls->function;
    RP_BLAS_FUNCTIONS(RP_BLAS)
#undef RP_BLAS
    calls->cublasLtGetVersion = (size_t(*)(void))(uintptr_t)dlsym(library, "cublasLtGetVersion");
    return all && calls->cublasLtGetVersion;
}

struct rp_blas *rp__blas_open(bool (*load)(rp_blas_calls *calls), char *text, size_t room)
{
    const char *wish  = getenv("REPRISE_CUBLASLT");
    struct rp_blas *b = load && !(wish && !strcmp(wish, "off")) ? calloc(1, sizeof *b) : NULL;

    if (room) *text = 0;
    if (!b) return NULL;
    if (!load(&b->call) || b->call.cublasLtCreate(&b->handle) || pthread_mutex_init(&b->lock, NULL)) {
        free(b);
        return NULL;
    }
    size_t version = b->call.cublasLtGetVersion();
    snprintf(text, room, " and cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return b;
}

/* ---- descriptions ---- */

static int type_of(int dtype) { return dtype == RP_BF16 ? CUDA_R_16BF : CUDA_R_32F; }

/* A matrix of `rows` rows, each `columns` long, which the library takes for one of `columns` rows. */
static int lay_out(const rp_blas_calls *call, void **layout, int dtype, int64_t rows, int64_t columns)
{
    return call->cublasLtMatrixLayoutCreate(layout, type_of(dtype), (uint64_t)columns, (uint64_t)rows, columns);
}

static int describe(const rp_blas_calls *call, shape *s)
{
    const rp_blas_product *p = &s->of;
    int bias = EPILOGUE_BIAS, status = call->cublasLtMatmulDescCreate(&s->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);

    if (!status) status = call->cublasLtMatmulDescSetAttribute(s->operation, MATMUL_DESC_TRANSA, &p->transpose_b, sizeof p->transpose_b);
    if (!status) status = call->cublasLtMatmulDescSetAttribute(s->operation, MATMUL_DESC_TRANSB, &p->transpose_a, sizeof p->transpose_a);
    if (!status && p->bias) status = call->cublasLtMatmulDescSetAttribute(s->operation, MATMUL_DESC_EPILOGUE, &bias, sizeof bias);
    if (!status) status = p->transpose_b ? lay_out(call, &s->a, p->ab, p->n, p->k) : lay_out(call, &s->a, p->ab, p->k, p->n);
    if (!status) status = p->transpose_a ? lay_out(call, &s->b, p->ab, p->k, p->m) : lay_out(call, &s->b, p->ab, p->m, p->k);
    return status ? status : lay_out(call, &s->c, p->c, p->m, p->n);
}

/* Partial sums are fp32, in the workspace: sums in place depend on which block comes first. */
static int prefer(const rp_blas_calls *call, void *preference, const rp_blas_product *p)
{
    unsigned sums = REDUCTION_SCHEME_COMPUTE_TYPE, alignment = ALIGNMENT;
    size_t bytes  = (size_t)p->workspace_bytes;
    int status    = call->cublasLtMatmulPreferenceSetAttribute(preference, MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);

    if (!status) status = call->cublasLtMatmulPreferenceSetAttribute(preference, MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums);
    for (int i = MATMUL_PREF_MIN_ALIGNMENT_A_BYTES; i <= MATMUL_PREF_MIN_ALIGNMENT_D_BYTES && !status; i++)
        status = call->cublasLtMatmulPreferenceSetAttribute(preference, i, &alignment, sizeof alignment);
    return status;
}

static bool find(const struct rp_blas *b, shape *s)
{
    void *preference;
    int n = 0;

    if (describe(&b->call, s) || b->call.cublasLtMatmulPreferenceCreate(&preference)) return false;
    int status = prefer(&b->call, preference, &s->of);
    if (!status) status = b->call.cublasLtMatmulAlgoGetHeuristic(b->handle, s->operation, s->a, s->b, s->c, s->c, preference, 1, &s->found, &n);
    b->call.cublasLtMatmulPreferenceDestroy(preference);
    return !status && n && !s->found.state && s->found.workspace <= (size_t)s->of.workspace_bytes;
}

/* The caller holds the lock. NULL: memory ran out. */
static shape *shape_of(struct rp_blas *b, const rp_blas_product *p)
{
    shape *s = b->shapes;

    while (s && memcmp(&s->of, p, sizeof *p)) s = s->next;
    if (s) return s;
    s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->of     = *p;
    s->served = find(b, s);
    s->next   = b->shapes;
    b->shapes = s;
    return s;
}

/* ---- products ---- */

bool rp__blas_serves(const rp_on *on, const rp_blas_product *p)
{
    struct rp_blas *b = on->queue->gpu->blas;

    if (!b) return false;
    rp__gpu_enter(on->queue->gpu);
    pthread_mutex_lock(&b->lock);
    const shape *s = shape_of(b, p);
    bool served    = s && s->served;
    pthread_mutex_unlock(&b->lock);
    return served;
}

int rp__blas_multiply(rp_gpu *gpu, const rp_blas_product *p, const rp_blas_operands *at, void *stream)
{
    struct rp_blas *b = gpu->blas;
    const float one = 1, beta = p->adds ? 1 : 0;
    int status = 0;

    pthread_mutex_lock(&b->lock);
    shape *s = shape_of(b, p);
    RP_BUG_IF(!s || !s->served);
    if (p->bias) status = b->call.cublasLtMatmulDescSetAttribute(s->operation, MATMUL_DESC_BIAS_POINTER, &at->bias, sizeof at->bias);
    if (!status)
        status = b->call.cublasLtMatmul(b->handle, s->operation, &one, at->b, s->a, at->a, s->b, &beta, at->c, s->c, at->c, s->c, &s->found, at->workspace,
                                        (size_t)p->workspace_bytes, stream);
    pthread_mutex_unlock(&b->lock);
    return -status;
}
