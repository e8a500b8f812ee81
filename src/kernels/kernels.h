/* kernels/kernels.h -- plain functions on buffers, in one table per CPU level.
 *
 * kernels.def has one line per kernel: its name and its prototype. The files of cpu/ are compiled once for each level
 * (levels.def); each level's table points to its own copies. If an entry is NULL, the op runs its
 * reference. The level is chosen once, at run time, from cpuid; REPRISE_CPU=amx|zen4|v4|v3|mmla|base forces another one that the machine supports.
 * Buffers are dense unless the prototype has strides, fp32 or bf16 (never fp64), and sums are fp32. Kernels split
 * work over `on->threads` in a way that depends only on shapes and the nominal number of threads. They never allocate.
 */
#ifndef RP_KERNELS_H
#define RP_KERNELS_H

#include "base/base.h"
#include "base/philox.h"
#include "kernels/optim.h"
#include "kernels/pointwise.h"
#include "kernels/step.h"
#include "kernels/attention.h"
#include "kernels/gemm.h"

#define RP_MAX_LEVELS 8               /* array size for rp__kernels_levels */

#define RP_KERNEL(name, prototype) typedef void rp_kernel_##name prototype;
#include "kernels/kernels.def"
#undef RP_KERNEL

typedef struct rp_kernels {
    const char *level;              /* "amx", "zen4", "v4", "v3", "mmla", "base"; "none" for the empty table */
#define RP_KERNEL(name, prototype) rp_kernel_##name *name;
#include "kernels/kernels.def"
#undef RP_KERNEL
} rp_kernels;

/* The table of this machine, never NULL, constant for the process. */
const rp_kernels *rp__kernels_cpu(void);
/* The table whose entries are all NULL. */
const rp_kernels *rp__kernels_none(void);
/* The table of the context's device. */
static inline const rp_kernels *rp__kernels(const rp_ctx *ctx) { return ctx->device[0]->kernels(); }
/* The table for code between rp__mem_enter and rp__mem_leave: the host's if the device's kernels cannot work on the host's copies. */
static inline const rp_kernels *rp__kernels_inside(const rp_ctx *ctx) { return ctx->far ? rp__kernels_cpu() : rp__kernels(ctx); }
/* For tests: make rp__kernels_cpu return `table`; NULL restores the default. The table must not change between a prepare and its backward. */
void rp__kernels_force(const rp_kernels *table);
/* List all levels that this machine can run, lowest first, even if a lower level is faster. Fills at most max (RP_MAX_LEVELS); returns the count. */
int rp__kernels_levels(const rp_kernels **out, int max);

#endif
