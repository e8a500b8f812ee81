/* kernels/gpu/list.c -- the list of all kernels, for the driver. */
#include "device/launch.h"

#define RP_GPU_KERNEL(name) extern const rp_gpu_kernel rp__gpu_##name;
#include "kernels/gpu/kernels.def"
#undef RP_GPU_KERNEL

const rp_gpu_kernel *const rp__gpu_kernels[] = {
#define RP_GPU_KERNEL(name) &rp__gpu_##name,
#include "kernels/gpu/kernels.def"
#undef RP_GPU_KERNEL
};

const int rp__gpu_n_kernels = (int)(sizeof rp__gpu_kernels / sizeof rp__gpu_kernels[0]);
