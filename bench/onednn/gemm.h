/* bench/onednn/gemm.h -- products by oneDNN's C API, 2.x and 3.x, to hold our own against; not part of the library.
 *
 * Without oneDNN in the build every product is refused.
 */
#ifndef BENCH_ONEDNN_GEMM_H
#define BENCH_ONEDNN_GEMM_H

#include "kernels/gemm.h"

typedef struct onednn_product onednn_product;

#ifdef RP_HAVE_ONEDNN
/* "oneDNN 2.6.3" */
const char *onednn_name(void);
/* A product ready to run on these operands, with g->threads threads; NULL: the library has none. Yours to onednn_free. */
onednn_product *onednn_new(const rp_gemm *g, const void *a, const void *b, void *c);
bool onednn_run(onednn_product *p);
void onednn_free(onednn_product *p);
#else
static inline const char *onednn_name(void) { return NULL; }
static inline onednn_product *onednn_new(const rp_gemm *g, const void *a, const void *b, void *c)
{
    (void)g, (void)a, (void)b, (void)c;
    return NULL;
}
static inline bool onednn_run(onednn_product *p) { return (void)p, false; }
static inline void onednn_free(onednn_product *p) { (void)p; }
#endif

#endif
