/* device/launch.h -- a launch of a kernel is data: the kernel, a grid and one struct of arguments.
 *
 * A kernel is written once, in the dialect of kernels/gpu/dialect.h. To a C compiler it is a function that one thread of the emulated device runs.
 * To NVRTC it is CUDA C, which device/image.c compiles for the card.
 */
#ifndef RP_LAUNCH_H
#define RP_LAUNCH_H

#include "base/device.h"

enum { RP_GPU_ARGS_BYTES = 4096 };      /* most bytes of a struct of arguments: CUDA's limit */

struct rp_gpu;
typedef struct rp_gpu_kernel {
    const char *name;                   /* also the name of the function in CUDA C */
    void (*run)(const void *args);      /* one thread of the emulated device */
    int threads;                        /* of a block */
    int args_bytes;
    int shared_bytes;                   /* dynamic shared memory of a block */
    /* A call of a library instead of a function: adds its work to the stream, and returns 0 or minus the library's status. NULL: a function. */
    int (*call)(struct rp_gpu *gpu, void *stream, const void *args);
} rp_gpu_kernel;

/* Adds a launch of grid_x * grid_y * grid_z blocks to the queue. `args` is copied. Does nothing if a part of the grid is 0. A call of a library has no
 * grid: give 1, 1, 1.
 * grid_x < 2^31, grid_y and grid_z < 65,536. An error of the driver is reported by the next rp__mem_sync. */
void rp__gpu_launch(const rp_on *on, const rp_gpu_kernel *kernel, int64_t grid_x, int64_t grid_y, int64_t grid_z, const void *args);

/* `bytes` bytes of device memory that belong to the queue of `on`, at most RP_GPU_ROOM_BYTES, for results on their way. The launches after the next
 * call may overwrite them. */
enum { RP_GPU_ROOM_BYTES = 1 << 19 };
void *rp__gpu_room(const rp_on *on, int64_t bytes);
/* Adds a copy from device memory to the host to the queue. It is complete after the next rp__mem_sync. */
void rp__gpu_copy_to_host(const rp_on *on, void *to, const void *from, int64_t bytes);

/* The step block: RP_GPU_BLOCK_BYTES of device memory that belong to the queue and start as zeros. Kernels read values there that change from step to
 * step, so the arguments of their launches do not change. rp__gpu_now makes `bytes` bytes from `at` on equal to `values` for the launches that follow,
 * and copies them only if the host wrote others last. rp__gpu_renew always copies, for bytes that kernels write, too. Both return the address. */
enum { RP_GPU_BLOCK_BYTES = 1 << 10 };
uint64_t rp__gpu_now(const rp_on *on, int64_t at, const void *values, int64_t bytes);
uint64_t rp__gpu_renew(const rp_on *on, int64_t at, const void *values, int64_t bytes);
uint64_t rp__gpu_block(const rp_on *on);
/* RP_GPU_SUMS numbers of device memory that belong to the queue, for sums that wait for each other. */
enum { RP_GPU_SUMS = 1 << 16 };
double *rp__gpu_sums(const rp_on *on);

/* The kernels of kernels/gpu/kernels.def, and their number. */
extern const rp_gpu_kernel *const rp__gpu_kernels[];
extern const int rp__gpu_n_kernels;

/* ---- fusion: two launches become one, with the same bits (fuse.c) ---- */

typedef struct rp_gpu_launch {
    const rp_gpu_kernel *kernel;
    unsigned grid[3];
    _Alignas(16) unsigned char args[RP_GPU_ARGS_BYTES];
} rp_gpu_launch;

/* Device memory that a launch reads or writes, up to but not including `end`. `writes`: it may read it, too. */
typedef struct { uint64_t at, end; bool writes; } rp_gpu_range;
/* Ranges of the launches of a kernel. `list` has room for RP_GPU_LAUNCH_RANGES; returns their number. */
enum { RP_GPU_LAUNCH_RANGES = 16 };
typedef struct { const rp_gpu_kernel *kernel; int (*list)(const void *args, rp_gpu_range *to); } rp_gpu_ranges;

/* A launch of `second` may join an earlier one of `first`.
 *   beside   the two must be independent: neither writes memory that the other one reads or writes. If false, `join` checks the needs of `fused`
 *   join     changes the grid and all arguments of `first` to those of `fused` and returns true; or it changes nothing and returns false */
typedef struct {
    const rp_gpu_kernel *first, *second, *fused;
    bool beside;
    bool (*join)(rp_gpu_launch *first, const rp_gpu_launch *second);
} rp_gpu_fusion;

/* The rules of kernels/gpu/fuse.def, and the kernels in them that are not fused. */
extern const rp_gpu_fusion rp__gpu_fusions[];
extern const rp_gpu_ranges rp__gpu_ranges[];
extern const int rp__gpu_n_fusions, rp__gpu_n_ranges;

#endif
