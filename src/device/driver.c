/* device/driver.c -- finds a driver and opens its first GPU. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "device/gpu.h"
#include "device/image.h"

enum { LEAST_DRIVER = 12000, LEAST_CAPABILITY = 80 };       /* CUDA 12.0; tensor cores with bf16 */

/* ---- tables ---- */

/* A library stays loaded: a driver cannot be closed and opened again. */
static const char *load_cuda(rp_cuda *call, char *text)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *missing = NULL;

    if (!library) return "there is no NVIDIA driver on this machine (libcuda.so.1 cannot be loaded)";
#define RP_CUDA(function, parameters) \
    call->function = (int(*) parameters)(uintptr_t)dlsym(library, #function); \
    if (!call->function && !missing) missing = #function;
#include "device/cuda.def"
#undef RP_CUDA
    if (!missing) return NULL;
    snprintf(text, RP_GPU_TEXT, "the NVIDIA driver is too old: it has no %s, so it is older than CUDA 12.0", missing);
    return text;
}

/* CMakeLists.txt compiles the emulated kernels with these instructions. */
static bool cpu_can_emulate(void)
{
#ifdef RP_HAS_v3
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return true;
#endif
}

static const char *load_emulated(rp_cuda *call, char *text)
{
    (void)text;
    if (!cpu_can_emulate()) return "this CPU has no AVX2 or no FMA, which the emulation of a GPU needs";
    *call = rp__cuda_emulated;
    return NULL;
}

rp_gpu rp__gpu_cuda = { .name = "cuda", .load = load_cuda, .load_blas = rp__blas_load, .slide = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER };
rp_gpu rp__gpu_emu  = { .name = "emu", .emulated = true, .load = load_emulated, .slide = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- errors ---- */

/* A driver that has lost its card gives few hints. */
static const char *advice(int code)
{
    bool lost = code == CUDA_ERROR_UNKNOWN || code == CUDA_ERROR_DEVICE_UNAVAILABLE || code == CUDA_ERROR_ECC_UNCORRECTABLE;

    return lost ? "; the GPU may be lost or broken: see nvidia-smi and the log of the system" : "";
}

const char *rp__gpu_error(const rp_gpu *gpu, int code, const char *call, char *text)
{
    const char *name = NULL, *sentence = NULL;

    if (code < 0) {
        snprintf(text, RP_GPU_TEXT, "%s: status %d", call, -code);
        return text;
    }
    if (gpu->call.cuGetErrorName(code, &name) || !name) name = "an unknown error";
    if (gpu->call.cuGetErrorString(code, &sentence) || !sentence) sentence = "no text";
    snprintf(text, RP_GPU_TEXT, "%s: %s (%s)%s", call, name, sentence, advice(code));
    return text;
}

bool rp__gpu_noted(struct rp_queue *q, int code, const char *call)
{
    if (code && !q->error) q->error = rp__gpu_error(q->gpu, code, call, q->text);
    return !code;
}

/* ---- opening ---- */

static _Thread_local const rp_gpu *current;

void rp__gpu_enter(const rp_gpu *gpu)
{
    if (current == gpu) return;
    gpu->call.cuCtxSetCurrent(gpu->context);
    current = gpu;
}

#define TRY(function, ...) \
    do { \
        int code_ = gpu->call.function(__VA_ARGS__); \
        if (code_) return rp__gpu_error(gpu, code_, #function, gpu->text); \
    } while (0)

static const char *check_card(rp_gpu *gpu, int version)
{
    int major, minor;
    char name[80];

    TRY(cuDeviceGetName, name, (int)sizeof name, gpu->device);
    TRY(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu->device);
    TRY(cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu->device);
    gpu->capability = 10 * major + minor;
    snprintf(gpu->card, sizeof gpu->card, "%s, compute capability %d.%d, driver for CUDA %d.%d", name, major, minor, version / 1000, version % 1000 / 10);
    if (gpu->capability >= LEAST_CAPABILITY) return NULL;
    snprintf(gpu->text, sizeof gpu->text, "the GPU '%s' has compute capability %d.%d; 8.0 or later is needed", name, major, minor);
    return gpu->text;
}

static const char *find_card(rp_gpu *gpu)
{
    int version = 0, cards = 0;
    int code    = gpu->call.cuInit(0);

    if (code == CUDA_ERROR_NO_DEVICE) return "the NVIDIA driver finds no GPU";
    if (code) return rp__gpu_error(gpu, code, "cuInit", gpu->text);
    TRY(cuDriverGetVersion, &version);
    if (version < LEAST_DRIVER) {
        snprintf(gpu->text, sizeof gpu->text, "the NVIDIA driver is too old: it is for CUDA %d.%d, 12.0 or later is needed", version / 1000,
                 version % 1000 / 10);
        return gpu->text;
    }
    TRY(cuDeviceGetCount, &cards);
    if (!cards) return "the NVIDIA driver finds no GPU";
    TRY(cuDeviceGet, &gpu->device, 0);
    return check_card(gpu, version);
}

rp_cuda_allocation rp__gpu_allocation(const rp_gpu *gpu)
{
    return (rp_cuda_allocation){ .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, gpu->device } };
}

static const char *open_card(rp_gpu *gpu)
{
    rp_cuda_allocation kind;
    size_t piece;

    TRY(cuDevicePrimaryCtxRetain, &gpu->context, gpu->device);
    rp__gpu_enter(gpu);
    kind = rp__gpu_allocation(gpu);
    TRY(cuMemGetAllocationGranularity, &piece, &kind, 0);
    gpu->granularity = (int64_t)piece;
    TRY(cuStreamCreate, &gpu->stream, CU_STREAM_NON_BLOCKING);
    size_t n = strlen(gpu->card);
    char products[64];
    gpu->blas = rp__blas_open(gpu->load_blas, products, sizeof products);
    if (!gpu->emulated) snprintf(gpu->card + n, sizeof gpu->card - n, ", kernels by %s%s", rp__image_compiler(gpu->capability), products);
    return rp__gpu_load_kernels(gpu, gpu->text);
}

/* No arena has memory yet. */
static void describe(rp_gpu *gpu)
{
    size_t available = 0, total = 0;
    char held[RP_SIZE_CHARS], all[RP_SIZE_CHARS];

    gpu->call.cuMemGetInfo_v2(&available, &total);
    snprintf(gpu->about, sizeof gpu->about, "%s; the driver and other programs hold %s of %s", gpu->card, rp__size_text(held, (int64_t)(total - available)),
             rp__size_text(all, (int64_t)total));
}

static const char *open_gpu(rp_gpu *gpu)
{
    const char *why = gpu->load(&gpu->call, gpu->text);

    if (!why) why = find_card(gpu);
    if (!why) why = open_card(gpu);
    if (!why) describe(gpu);
    return why;
}

static void open_once(rp_gpu *gpu)
{
    pthread_mutex_lock(&gpu->lock);
    if (!gpu->tried) gpu->unusable = open_gpu(gpu);
    gpu->tried = true;
    pthread_mutex_unlock(&gpu->lock);
}

int64_t rp__gpu_left(rp_gpu *gpu)
{
    size_t available = 0, total = 0;

    open_once(gpu);
    if (gpu->unusable) return -1;
    rp__gpu_enter(gpu);
    return gpu->call.cuMemGetInfo_v2(&available, &total) ? -1 : (int64_t)available;
}

rp_status rp__gpu_ready(rp_gpu *gpu, rp_ctx *ctx)
{
    pthread_mutex_lock(&gpu->lock);
    bool first   = !gpu->greeted;
    gpu->greeted = true;
    pthread_mutex_unlock(&gpu->lock);
    if (first) rp__log(ctx, RP_LOG_INFO, "device '%s': loading its kernels%s", gpu->name, gpu->emulated ? "" : ", which the first use on a machine compiles");
    open_once(gpu);
    RP_CHECK(ctx, !gpu->unusable, RP_ERR_BACKEND, "device '%s' cannot be used: %s", gpu->name, gpu->unusable);
    if (first) rp__log(ctx, RP_LOG_INFO, "device '%s': %s", gpu->name, gpu->about);
    return RP_OK;
}
