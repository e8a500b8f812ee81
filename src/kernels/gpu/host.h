/* kernels/gpu/host.h -- helpers for the functions that launch kernels. rp__gpu_op_NAME has the prototype of NAME in kernels.def. Its addresses are
 * device memory. It fills a struct of arguments and adds launches to the queue. */
#ifndef RP_GPU_HOST_H
#define RP_GPU_HOST_H

#include <stddef.h>

#include "device/launch.h"
#include "kernels/kernels.h"

typedef uint64_t u64;
typedef int64_t i64;
#include "kernels/gpu/args.h"

#define RP_GPU_KERNEL(name) extern const rp_gpu_kernel rp__gpu_##name;
#include "kernels/gpu/kernels.def"
#undef RP_GPU_KERNEL

#define RP_GPU_ENTRY(name) rp_kernel_##name rp__gpu_op_##name;
#include "kernels/gpu/entries.def"
#undef RP_GPU_ENTRY

static inline u64 gpu_address(const void *p) { return (u64)(uintptr_t)p; }
static inline int64_t gpu_blocks(int64_t n, int64_t each) { return (n + each - 1) / each; }

/* Can all rows of n elements of these buffers be read in packs? A missing buffer does not matter. */
static inline bool gpu_aligned(const void *p) { return gpu_address(p) % 16 == 0; }
static inline int gpu_packed(int64_t n, const void *a, const void *b, const void *c, const void *d)
{
    return n % PACK == 0 && gpu_aligned(a) && gpu_aligned(b) && gpu_aligned(c) && gpu_aligned(d);
}

/* Threads that compute a row of n elements: a warp, or a whole block. */
static inline int gpu_team(int64_t n) { return n <= 1024 ? 32 : ROW_THREADS; }
static inline int64_t gpu_row_blocks(int64_t rows, int team) { return gpu_blocks(rows, ROW_THREADS / team); }
/* Blocks for rows of n elements, with a thread for each pack of a row. */
static inline int64_t gpu_pack_blocks(int64_t rows, int64_t n) { return gpu_blocks(rows * gpu_blocks(n, PACK), FLAT_THREADS); }

/* Where the step block has these values. */
static inline u64 gpu_stream(const rp_on *on, rp_stream s)
{
    return rp__gpu_now(on, offsetof(step_block, stream), &(step_stream){ s.step, s.sample_base }, sizeof(step_stream));
}
static inline u64 gpu_weight(const rp_on *on, float weight) { return rp__gpu_now(on, offsetof(step_block, weight), &weight, sizeof weight); }

/* Launches on a line of blocks. */
static inline void gpu_line(const rp_on *on, const rp_gpu_kernel *kernel, int64_t blocks, const void *args)
{
    rp__gpu_launch(on, kernel, blocks, 1, 1, args);
}

#endif
