/* device/driver.h -- NVIDIA's driver as a table of functions. Nothing of CUDA is needed to build, and a machine without a GPU runs the same code:
 *
 *   kernels, copies ──▶ memory.c, launch.c ──▶ rp_driver.call.cuLaunchKernel … ──▶ libcuda.so.1, by dlopen     device "cuda"
 *                                                                             └──▶ emulate/driver.c            device "emu"
 */
#ifndef RP_DRIVER_H
#define RP_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CUmemLocation, CUmemAllocationProp and CUmemAccessDesc of the driver. */
typedef struct { int type, id; } rp_cuda_location;
typedef struct {
    int type, handle_types;
    rp_cuda_location location;
    void *windows;
    struct { unsigned char compression, rdma; unsigned short usage; unsigned char reserved[4]; } flags;
} rp_cuda_allocation;
typedef struct { rp_cuda_location location; int flags; } rp_cuda_access;

/* The driver's constants that the code uses, by its names. */
enum {
    CU_MEM_ALLOCATION_TYPE_PINNED = 1, CU_MEM_LOCATION_TYPE_DEVICE = 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
    CU_STREAM_NON_BLOCKING = 1, CU_EVENT_DISABLE_TIMING = 2, CU_STREAM_CAPTURE_MODE_RELAXED = 2,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_DEVICE_UNAVAILABLE = 46, CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101, CUDA_ERROR_ECC_UNCORRECTABLE = 214, CUDA_ERROR_INVALID_HANDLE = 400, CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700, CUDA_ERROR_LAUNCH_FAILED = 719, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901, CUDA_ERROR_UNKNOWN = 999,
};

typedef struct {
#define RP_CUDA(name, parameters) int (*name) parameters;
#include "device/cuda.def"
#undef RP_CUDA
} rp_cuda;

/* The emulated driver of emulate/driver.c. It needs no GPU. */
extern const rp_cuda rp__cuda_emulated;

#endif
