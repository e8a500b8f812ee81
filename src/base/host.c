/* base/host.c -- bookkeeping memory with fault injection, the clocks, the floating-point mode. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

bool rp__fault_fires(rp_ctx *ctx)
{
    ctx->alloc_count++;
    if (ctx->fault_watch) ctx->fault_watch(ctx);
    return ctx->fault_countdown > 0 && --ctx->fault_countdown == 0;
}

void *rp__host_alloc(rp_ctx *ctx, int64_t bytes)
{
    void *p = bytes < 0 || rp__fault_fires(ctx) ? NULL : calloc(1, bytes ? (size_t)bytes : 1);

    if (!p) rp_fail(ctx, RP_ERR_MEMORY, "cannot allocate %" PRId64 " bytes of host memory", bytes);
    return p;
}

void *rp__host_grow(rp_ctx *ctx, void *old, int64_t old_bytes, int64_t new_bytes)
{
    void *p = new_bytes < 0 || rp__fault_fires(ctx) ? NULL : realloc(old, new_bytes ? (size_t)new_bytes : 1);

    if (!p) {
        rp_fail(ctx, RP_ERR_MEMORY, "cannot allocate %" PRId64 " bytes of host memory", new_bytes);
        return NULL;
    }
    if (new_bytes > old_bytes) memset((char *)p + old_bytes, 0, (size_t)(new_bytes - old_bytes));
    return p;
}

char *rp__host_text(rp_ctx *ctx, const char *text)
{
    int64_t bytes = (int64_t)strlen(text) + 1;
    char *copy = rp__host_alloc(ctx, bytes);

    return copy ? memcpy(copy, text, (size_t)bytes) : NULL;
}

void rp__release(void *p) { free(p); }

void rp__release_all(void *const *p, int n)
{
    for (int i = 0; i < n; i++) rp__release(p[i]);
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double rp__seconds(void) { return seconds_of(CLOCK_MONOTONIC); }
double rp__cpu_seconds(void) { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

/* FTZ is bit 15, DAZ bit 6. The modes of other CPUs are left as they are. */
#if defined(__x86_64__)
enum { FLUSH = 0x8040 };
static unsigned fp_mode(void) { return _mm_getcsr(); }
static void fp_set(unsigned mode) { _mm_setcsr(mode); }
#else
enum { FLUSH = 0 };
static unsigned fp_mode(void) { return 0; }
static void fp_set(unsigned mode) { (void)mode; }
#endif

static unsigned fp_enter(unsigned flush)
{
    unsigned saved = fp_mode();

    if ((saved & FLUSH) != flush) fp_set((saved & ~(unsigned)FLUSH) | flush);
    return saved;
}

/* Denormals make AdamW over decayed moments 5x slower, and AMX flushes them anyway. */
unsigned rp__fp_enter(void) { return fp_enter(FLUSH); }
unsigned rp__fp_enter_exact(void) { return fp_enter(0); }

void rp__fp_leave(unsigned saved)
{
    if ((fp_mode() ^ saved) & FLUSH) fp_set(saved);
}
