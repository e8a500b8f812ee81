/* kernels/kernels.h -- plain functions on buffers, in one table per CPU level.
 *
 * kernels.def has a line per kernel: its name and its prototype. The files of cpu/ are compiled once for each level
 * (levels.def); each level's table points at its own copies. A NULL entry means: the op runs its
 * reference. The level is chosen once, at run time, from cpuid; REPRISE_CPU=amx|zen4|v4|v3|base forces another that runs here.
 * Kernels are given dense buffers unless the prototype says strides, take fp32 or bf16 (never fp64), sum in fp32, split
 * work over `on->threads` in a way that depends on shapes and the nominal thread count alone, and never allocate.
 */
#ifndef RP_KERNELS_H
#define RP_KERNELS_H

#include "base/base.h"
#include "base/philox.h"
#include "kernels/optim.h"
#include "kernels/attention.h"
#include "kernels/gemm.h"

#define RP_MAX_LEVELS 8               /* room for rp__kernels_levels */

#define RP_KERNEL(name, prototype) typedef void rp_kernel_##name prototype;
#include "kernels/kernels.def"
#undef RP_KERNEL

typedef struct rp_kernels {
    const char *level;              /* "amx", "zen4", "v4", "v3", "base"; "none" for the empty table */
#define RP_KERNEL(name, prototype) rp_kernel_##name *name;
#include "kernels/kernels.def"
#undef RP_KERNEL
} rp_kernels;

/* The table of this machine, never NULL, constant for the process. */
const rp_kernels *rp__kernels_cpu(void);
/* The table in which everything is NULL. */
const rp_kernels *rp__kernels_none(void);
/* The table of the context\'s device. */
static inline const rp_kernels *rp__kernels(const rp_ctx *ctx) { return ctx->device[0]->kernels(); }
/* For tests: rp__kernels_cpu answers `table` from now on; NULL gives the choice back. Between a prepare and its backward it must not change. */
void rp__kernels_force(const rp_kernels *table);
/* All levels this machine can run, whether they pay or not, the lowest first: fills at most max (RP_MAX_LEVELS), returns how many. */
int rp__kernels_levels(const rp_kernels **out, int max);

#endif
