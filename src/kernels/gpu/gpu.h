/* kernels/gpu/gpu.h -- the table of kernels of a GPU. */
#ifndef RP_KERNELS_GPU_H
#define RP_KERNELS_GPU_H

#include "kernels/kernels.h"
#include "reprise/op.h"

/* The table of a GPU, constant for the process: entries.def lists the entries that launch kernels, which take addresses of device memory. The other
 * entries are the CPU's, for ops that run on the host. */
const rp_kernels *rp__kernels_gpu(void);
/* Does forward, or backward, of this call run with launches alone? The call is not fp64. Then the code of the op accesses no
 * tensor from the host. An op that is not served must use the CPU's table for both passes, since some entries here take only device addresses. */
bool rp__gpu_runs(const rp_op_meta *m, bool backward);

#endif
