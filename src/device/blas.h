/* device/blas.h -- matrix products by NVIDIA's cuBLASLt, if the machine has it.
 *
 *   kernels/gpu/gemm.c ──▶ does it serve this product? ──▶ a launch whose kernel is a call of the library (rp_gpu_kernel.call)
 *
 * The algorithm follows from the description of a product, the card and the version of the library, never from an address. So products repeat their bits,
 * and the version belongs to the text of a card. The table of functions comes from libcublasLt by dlopen; tests give their own.
 */
#ifndef RP_BLAS_H
#define RP_BLAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/device.h"

/* cublasLtMatmulHeuristicResult_t; it begins with the algorithm. */
typedef struct { uint64_t algorithm[8]; size_t workspace; int state; float waves; int reserved[4]; } rp_blas_heuristic;

/* The functions that a device uses. All return a cublasStatus_t, 0 for success. Prototypes: "cuBLAS", CUDA 13.0, chapter "Using the cuBLASLt API".
 * Handles are void *, device addresses uint64_t. */
#define RP_BLAS_FUNCTIONS(X) \
    X(cublasLtCreate, (void **handle)) \
    X(cublasLtMatmulDescCreate, (void **operation, int compute, int scale)) \
    X(cublasLtMatmulDescSetAttribute, (void *operation, int attribute, const void *value, size_t bytes)) \
    X(cublasLtMatrixLayoutCreate, (void **layout, int type, uint64_t rows, uint64_t columns, int64_t step)) \
    X(cublasLtMatmulPreferenceCreate, (void **preference)) \
    X(cublasLtMatmulPreferenceSetAttribute, (void *preference, int attribute, const void *value, size_t bytes)) \
    X(cublasLtMatmulPreferenceDestroy, (void *preference)) \
    X(cublasLtMatmulAlgoGetHeuristic, (void *handle, void *operation, void *a, void *b, void *c, void *d, void *preference, int wanted, \
      rp_blas_heuristic *found, int *n)) \
    X(cublasLtMatmul, (void *handle, void *operation, const void *alpha, uint64_t A, void *a, uint64_t B, void *b, const void *beta, uint64_t C, \
      void *c, uint64_t D, void *d, const void *algorithm, uint64_t workspace, size_t workspace_bytes, void *stream))

typedef struct {
#define RP_BLAS(name, parameters) int (*name) parameters;
    RP_BLAS_FUNCTIONS(RP_BLAS)
#undef RP_BLAS
    size_t (*cublasLtGetVersion)(void);
} rp_blas_calls;

/* C[m,n] = op(A)[m,k] op(B)[k,n] (+ C) (+ bias[n]), row after row. Sums are fp32; so is the bias's sum. Descriptions are compared by their bytes. */
typedef struct {
    int64_t m, n, k;
    int64_t workspace_bytes;    /* the algorithm needs no more */
    int ab, c;                  /* rp_dtype of A, B and the bias; of C: bf16, or c fp32 */
    int transpose_a, transpose_b, adds, bias;
} rp_blas_product;

/* Addresses of device memory, at multiples of 16; the workspace at a multiple of 256. */
typedef struct { uint64_t a, b, c, bias, workspace; } rp_blas_operands;

struct rp_gpu;
struct rp_blas;

/* Fills the table from the machine's library. False: there is none. */
bool rp__blas_load(rp_blas_calls *calls);
/* Opens the library in the current context. NULL: there is none, REPRISE_CUBLASLT is "off", or it refuses. `text` gets " and cuBLASLt 13.1.0", or "". */
struct rp_blas *rp__blas_open(bool (*load)(rp_blas_calls *calls), char *text, size_t room);
/* Does the library have an algorithm for this product? Asked once for each description. */
bool rp__blas_serves(const rp_on *on, const rp_blas_product *p);
/* Adds a product that is served to a stream. Returns 0, or minus the library's status. */
int rp__blas_multiply(struct rp_gpu *gpu, const rp_blas_product *p, const rp_blas_operands *at, void *stream);

#endif
