/* tests/device/fake_blas.h -- a cuBLASLt for tests, over the emulated driver.
 *
 *   heuristic ──▶ checks a description, claims all the workspace that it may have
 *   product   ──▶ checks all arguments ──▶ fills the workspace with 0xff ──▶ launches the kernel product_tiles, both in the stream of the call
 *
 * So products run late, in the order of their stream, and a capture gets them. The library counts column after column: its product C^T = op(B)^T op(A)^T
 * is the kernel's C = op(A) op(B). An argument that the fake refuses has status 7, and `fake.wrong` keeps the first one.
 */
#ifndef RP_FAKE_BLAS_H
#define RP_FAKE_BLAS_H

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "device/blas.h"
#include "device/driver.h"
#include "device/emulate/emulate.h"
#include "kernels/gpu/host.h"

/* Statuses and constants by the library's names, without their first word. */
enum { STATUS_ALLOC_FAILED = 3, STATUS_INVALID_VALUE = 7, STATUS_EXECUTION_FAILED = 13, STATUS_INTERNAL_ERROR = 14, STATUS_NOT_SUPPORTED = 15 };
enum { FAKE_R_32F = 0, FAKE_R_16BF = 14, FAKE_COMPUTE_32F = 68, FAKE_EPILOGUE_DEFAULT = 1, FAKE_EPILOGUE_BIAS = 4, FAKE_REDUCTION_COMPUTE_TYPE = 2 };
enum { FAKE_DESC_TRANSA = 3, FAKE_DESC_TRANSB = 4, FAKE_DESC_EPILOGUE = 7, FAKE_DESC_BIAS_POINTER = 8 };
enum { FAKE_PREF_WORKSPACE = 1, FAKE_PREF_REDUCTION = 3, FAKE_PREF_ALIGN_A = 5, FAKE_PREF_ALIGN_D = 8, FAKE_ALIGN = 16, FAKE_VERSION = 130100 };
enum { FAKE_HANDLE = 0x1a, FAKE_OPERATION, FAKE_LAYOUT, FAKE_PREFERENCE, FAKE_ALGORITHM };        /* the first int of each object */

/* Answers of the heuristic: an algorithm, or one of four ways to have none. */
typedef enum { FAKE_SERVES, FAKE_SUPPORTS_NOTHING, FAKE_FINDS_NOTHING, FAKE_HAS_BAD_STATE, FAKE_WANTS_MORE, FAKE_ANSWERS } fake_answer;

typedef struct { int kind; } fake_handle;
typedef struct { int kind, transposes[2], epilogue; uint64_t bias; } fake_operation;
typedef struct { int kind, type; uint64_t rows, columns; } fake_layout;
typedef struct { int kind; unsigned has_workspace, sums, alignment[4]; size_t workspace; } fake_preference;
/* A product of rows, as the kernel computes it. It is the algorithm, too. */
typedef struct { int kind, transpose_a, transpose_b, c, bias, unused; int64_t m, n, k; size_t workspace; uint64_t rest; } fake_product;
_Static_assert(sizeof(fake_product) == sizeof((rp_blas_heuristic){ 0 }.algorithm), "an algorithm of the library has 64 bytes");

static struct {
    fake_answer answer;                 /* to later questions */
    int status;                         /* of later products; 0: they are computed */
    bool refuses_captures;              /* products in a capture have status 13 */
    int64_t asked, products, with_workspace;
    const char *wrong;                  /* the first argument that was refused; NULL: none was */
    void *function;                     /* product_tiles */
} fake;

static int fake_refuse(const char *wrong)
{
    if (!fake.wrong) fake.wrong = wrong;
    return STATUS_INVALID_VALUE;
}

#define FAKE_NEEDS(holds) \
    do { \
        if (!(holds)) return fake_refuse(#holds); \
    } while (0)

static bool fake_is(const void *object, int kind) { return object && *(const int *)object == kind; }

static int fake_new(void **object, const void *from, size_t bytes)
{
    FAKE_NEEDS(object);
    *object = malloc(bytes);
    if (*object) memcpy(*object, from, bytes);
    return *object ? 0 : STATUS_ALLOC_FAILED;
}

/* ---- descriptions ---- */

static int fake_create(void **handle)
{
    void *module;

    if (rp__cuda_emulated.cuModuleLoadData(&module, "no image")) return STATUS_INTERNAL_ERROR;
    if (rp__cuda_emulated.cuModuleGetFunction(&fake.function, module, rp__gpu_product_tiles.name)) return STATUS_INTERNAL_ERROR;
    return fake_new(handle, &(fake_handle){ FAKE_HANDLE }, sizeof(fake_handle));
}

static int fake_operation_new(void **operation, int compute, int scale)
{
    FAKE_NEEDS(compute == FAKE_COMPUTE_32F && scale == FAKE_R_32F);
    return fake_new(operation, &(fake_operation){ .kind = FAKE_OPERATION, .epilogue = FAKE_EPILOGUE_DEFAULT }, sizeof(fake_operation));
}

static int fake_operation_set(void *operation, int attribute, const void *value, size_t bytes)
{
    fake_operation *o = operation;
    int number = 0;

    FAKE_NEEDS(fake_is(o, FAKE_OPERATION) && value);
    if (attribute == FAKE_DESC_BIAS_POINTER) {
        FAKE_NEEDS(bytes == sizeof o->bias);
        memcpy(&o->bias, value, sizeof o->bias);
        FAKE_NEEDS(o->bias && o->bias % FAKE_ALIGN == 0);
        return 0;
    }
    FAKE_NEEDS(attribute == FAKE_DESC_TRANSA || attribute == FAKE_DESC_TRANSB || attribute == FAKE_DESC_EPILOGUE);
    FAKE_NEEDS(bytes == sizeof number);
    memcpy(&number, value, sizeof number);
    FAKE_NEEDS(attribute == FAKE_DESC_EPILOGUE ? number == FAKE_EPILOGUE_BIAS : number == 0 || number == 1);
    if (attribute == FAKE_DESC_EPILOGUE) o->epilogue = number;
    else o->transposes[attribute - FAKE_DESC_TRANSA] = number;
    return 0;
}

/* Columns are dense and begin at multiples of 16 bytes. */
static int fake_layout_new(void **layout, int type, uint64_t rows, uint64_t columns, int64_t step)
{
    FAKE_NEEDS(type == FAKE_R_32F || type == FAKE_R_16BF);
    FAKE_NEEDS(rows && columns && step == (int64_t)rows);
    FAKE_NEEDS(rows * (type == FAKE_R_32F ? 4 : 2) % FAKE_ALIGN == 0);
    return fake_new(layout, &(fake_layout){ FAKE_LAYOUT, type, rows, columns }, sizeof(fake_layout));
}

static int fake_preference_new(void **preference)
{
    return fake_new(preference, &(fake_preference){ .kind = FAKE_PREFERENCE }, sizeof(fake_preference));
}

static int fake_preference_set(void *preference, int attribute, const void *value, size_t bytes)
{
    fake_preference *p = preference;
    bool aligns        = attribute >= FAKE_PREF_ALIGN_A && attribute <= FAKE_PREF_ALIGN_D;

    FAKE_NEEDS(fake_is(p, FAKE_PREFERENCE) && value);
    FAKE_NEEDS(attribute == FAKE_PREF_WORKSPACE || attribute == FAKE_PREF_REDUCTION || aligns);
    FAKE_NEEDS(bytes == (attribute == FAKE_PREF_WORKSPACE ? sizeof p->workspace : sizeof p->sums));
    if (attribute == FAKE_PREF_WORKSPACE) memcpy(&p->workspace, value, bytes);
    else memcpy(aligns ? &p->alignment[attribute - FAKE_PREF_ALIGN_A] : &p->sums, value, bytes);
    p->has_workspace |= attribute == FAKE_PREF_WORKSPACE;
    return 0;
}

static int fake_preference_free(void *preference)
{
    FAKE_NEEDS(fake_is(preference, FAKE_PREFERENCE));
    free(preference);
    return 0;
}

/* ---- products ---- */

/* a and b are the library's operands: the kernel's B and A. */
static int fake_describe(const fake_operation *o, const fake_layout *a, const fake_layout *b, const fake_layout *c, const fake_layout *d, fake_product *p)
{
    FAKE_NEEDS(fake_is(o, FAKE_OPERATION) && fake_is(a, FAKE_LAYOUT) && fake_is(b, FAKE_LAYOUT) && fake_is(c, FAKE_LAYOUT) && fake_is(d, FAKE_LAYOUT));
    FAKE_NEEDS(a->type == FAKE_R_16BF && b->type == FAKE_R_16BF);
    FAKE_NEEDS(c->type == d->type && c->rows == d->rows && c->columns == d->columns);
    FAKE_NEEDS(o->epilogue != FAKE_EPILOGUE_BIAS || d->type == FAKE_R_16BF);         /* a bias has the type of D */
    uint64_t n = d->rows, m = d->columns, k = o->transposes[0] ? a->rows : a->columns;
    FAKE_NEEDS(a->rows == (o->transposes[0] ? k : n) && a->columns == (o->transposes[0] ? n : k));
    FAKE_NEEDS(b->rows == (o->transposes[1] ? m : k) && b->columns == (o->transposes[1] ? k : m));
    *p = (fake_product){ .kind = FAKE_ALGORITHM, .transpose_a = o->transposes[1], .transpose_b = o->transposes[0], .c = d->type,
                         .bias = o->epilogue == FAKE_EPILOGUE_BIAS, .m = (int64_t)m, .n = (int64_t)n, .k = (int64_t)k };
    return 0;
}

static int fake_find(void *handle, void *operation, void *a, void *b, void *c, void *d, void *preference, int wanted, rp_blas_heuristic *found, int *n)
{
    const fake_preference *p = preference;
    fake_product product;

    fake.asked++;
    FAKE_NEEDS(fake_is(handle, FAKE_HANDLE) && fake_is(p, FAKE_PREFERENCE) && wanted == 1 && found && n);
    FAKE_NEEDS(p->has_workspace && p->sums == FAKE_REDUCTION_COMPUTE_TYPE);
    for (int i = 0; i < 4; i++) FAKE_NEEDS(p->alignment[i] == FAKE_ALIGN);
    int status = fake_describe(operation, a, b, c, d, &product);
    if (status) return status;
    product.workspace = p->workspace;
    memset(found, 0, sizeof *found);
    memcpy(found->algorithm, &product, sizeof product);
    found->workspace = p->workspace + (fake.answer == FAKE_WANTS_MORE);
    found->state     = fake.answer == FAKE_HAS_BAD_STATE ? STATUS_NOT_SUPPORTED : 0;
    *n               = fake.answer != FAKE_FINDS_NOTHING && fake.answer != FAKE_SUPPORTS_NOTHING;
    return fake.answer == FAKE_SUPPORTS_NOTHING ? STATUS_NOT_SUPPORTED : 0;
}

static unsigned fake_tiles(const fake_product *p) { return (unsigned)(gpu_blocks(p->m, 64) * gpu_blocks(p->n, 64)); }

static int fake_launch(const fake_product *p, const product_args *args, uint64_t workspace, void *stream)
{
    const rp_gpu_kernel *kernel = &rp__gpu_product_tiles;
    void *parameters[]          = { (void *)(uintptr_t)args };

    if (p->workspace && rp__cuda_emulated.cuMemsetD8Async(workspace, 0xff, p->workspace, stream)) return STATUS_INTERNAL_ERROR;
    if (rp__cuda_emulated.cuLaunchKernel(fake.function, fake_tiles(p), 1, 1, (unsigned)kernel->threads, 1, 1, (unsigned)kernel->shared_bytes, stream,
                                         parameters, NULL))
        return STATUS_INTERNAL_ERROR;
    fake.products++;
    fake.with_workspace += p->workspace > 0;
    return 0;
}

static bool fake_captures(void) { return rp__emulate_calls("cuStreamBeginCapture_v2") > rp__emulate_calls("cuStreamEndCapture"); }

static int fake_multiply(void *handle, void *operation, const void *alpha, uint64_t A, void *a, uint64_t B, void *b, const void *beta, uint64_t C, void *c,
                         uint64_t D, void *d, const void *algorithm, uint64_t workspace, size_t workspace_bytes, void *stream)
{
    fake_product p, chosen;
    float one, old;

    FAKE_NEEDS(fake_is(handle, FAKE_HANDLE) && fake_is(algorithm, FAKE_ALGORITHM) && alpha && beta && stream);
    int status = fake_describe(operation, a, b, c, d, &p);
    if (status) return status;
    memcpy(&chosen, algorithm, sizeof chosen);
    p.workspace = chosen.workspace;
    FAKE_NEEDS(!memcmp(&chosen, &p, sizeof p));                 /* the algorithm of this description */
    memcpy(&one, alpha, sizeof one);
    memcpy(&old, beta, sizeof old);
    FAKE_NEEDS(one == 1 && (old == 0 || old == 1));
    FAKE_NEEDS(A && B && C && A % FAKE_ALIGN == 0 && B % FAKE_ALIGN == 0 && C % FAKE_ALIGN == 0 && C == D);
    FAKE_NEEDS(workspace_bytes >= p.workspace && workspace % 256 == 0 && (workspace || !p.workspace));
    uint64_t bias = p.bias ? ((const fake_operation *)operation)->bias : 0;
    FAKE_NEEDS(!p.bias || bias);
    if (fake.refuses_captures && fake_captures()) return STATUS_EXECUTION_FAILED;
    if (fake.status) return fake.status;
    return fake_launch(&p, &(product_args){ .A = B, .B = A, .C = D, .bias = bias, .m = p.m, .n = p.n, .k = p.k, .depth = p.k, .ab = RP_BF16,
                                            .c = p.c == FAKE_R_32F ? RP_F32 : RP_BF16, .transpose_a = p.transpose_a, .transpose_b = p.transpose_b,
                                            .adds = old == 1, .parts = 1 }, workspace, stream);
}

static size_t fake_version(void) { return FAKE_VERSION; }

static bool fake_load(rp_blas_calls *calls)
{
    *calls = (rp_blas_calls){
        .cublasLtCreate = fake_create, .cublasLtMatmulDescCreate = fake_operation_new, .cublasLtMatmulDescSetAttribute = fake_operation_set,
        .cublasLtMatrixLayoutCreate = fake_layout_new, .cublasLtMatmulPreferenceCreate = fake_preference_new,
        .cublasLtMatmulPreferenceSetAttribute = fake_preference_set, .cublasLtMatmulPreferenceDestroy = fake_preference_free,
        .cublasLtMatmulAlgoGetHeuristic = fake_find, .cublasLtMatmul = fake_multiply, .cublasLtGetVersion = fake_version,
    };
    return true;
}

#endif
