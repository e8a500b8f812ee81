/* bench/gpu/gpu.h -- the CUDA driver and NVRTC by dlopen: the build needs no header and no library of CUDA.
 *
 * An error prints the call and ends the program. Exit code 77: there is no driver. */
#ifndef BENCH_GPU_H
#define BENCH_GPU_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long gpu_address;
typedef void *gpu_handle;               /* a context, module, function, stream, event, graph */

#define GPU_DRIVER(X) \
    X(cuInit, (unsigned)) X(cuDriverGetVersion, (int *)) X(cuDeviceGet, (int *, int)) X(cuDeviceGetName, (char *, int, int)) \
    X(cuDeviceGetAttribute, (int *, int, int)) X(cuDevicePrimaryCtxRetain, (gpu_handle *, int)) X(cuCtxSetCurrent, (gpu_handle)) \
    X(cuMemGetInfo_v2, (size_t *, size_t *)) X(cuMemAlloc_v2, (gpu_address *, size_t)) X(cuMemFree_v2, (gpu_address)) \
    X(cuMemHostAlloc, (void **, size_t, unsigned)) X(cuMemFreeHost, (void *)) X(cuModuleLoadData, (gpu_handle *, const void *)) \
    X(cuModuleGetFunction, (gpu_handle *, gpu_handle, const char *)) X(cuFuncSetAttribute, (gpu_handle, int, int)) \
    X(cuLaunchKernel, (gpu_handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, gpu_handle, void **, void **)) \
    X(cuStreamCreate, (gpu_handle *, unsigned)) X(cuStreamSynchronize, (gpu_handle)) X(cuStreamWaitEvent, (gpu_handle, gpu_handle, unsigned)) \
    X(cuMemcpyHtoDAsync_v2, (gpu_address, const void *, size_t, gpu_handle)) X(cuMemcpyDtoHAsync_v2, (void *, gpu_address, size_t, gpu_handle)) \
    X(cuMemcpyDtoDAsync_v2, (gpu_address, gpu_address, size_t, gpu_handle)) X(cuMemsetD8Async, (gpu_address, unsigned char, size_t, gpu_handle)) \
    X(cuEventCreate, (gpu_handle *, unsigned)) X(cuEventRecord, (gpu_handle, gpu_handle)) X(cuEventSynchronize, (gpu_handle)) \
    X(cuEventElapsedTime, (float *, gpu_handle, gpu_handle)) X(cuStreamBeginCapture_v2, (gpu_handle, int)) \
    X(cuStreamEndCapture, (gpu_handle, gpu_handle *)) X(cuGraphInstantiateWithFlags, (gpu_handle *, gpu_handle, unsigned long long)) \
    X(cuGraphLaunch, (gpu_handle, gpu_handle)) X(cuGraphExecDestroy, (gpu_handle)) X(cuGraphDestroy, (gpu_handle))

#define GPU_NVRTC(X) \
    X(nvrtcVersion, (int *, int *)) \
    X(nvrtcCreateProgram, (gpu_handle *, const char *, const char *, int, const char *const *, const char *const *)) \
    X(nvrtcCompileProgram, (gpu_handle, int, const char *const *)) X(nvrtcGetProgramLogSize, (gpu_handle, size_t *)) \
    X(nvrtcGetProgramLog, (gpu_handle, char *)) X(nvrtcGetCUBINSize, (gpu_handle, size_t *)) X(nvrtcGetCUBIN, (gpu_handle, char *))

#define GPU_TABLE(name, params) static int(*name) params __attribute__((unused));
GPU_DRIVER(GPU_TABLE)
GPU_NVRTC(GPU_TABLE)

#define GPU(call) gpu_must(call, #call)
static inline void gpu_must(int error, const char *what)
{
    if (!error) return;
    printf("{\"error\": %d, \"call\": \"%.60s\"}\n", error, what);
    fflush(stdout);
    exit(1);
}

static inline double gpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void *gpu_symbol(void *so, const char *name)
{
    void *p = dlsym(so, name);
    if (!p) printf("no %s\n", name), exit(1);
    return p;
}

/* The first of the names that opens. */
static inline void *gpu_library(const char *const *names)
{
    void *so = NULL;
    for (const char *const *n = names; *n && !so; n++) so = dlopen(*n, RTLD_NOW);
    if (!so) printf("no %s here: skipped\n", *names), exit(77);
    return so;
}

/* The driver and a context on the first GPU. */
static inline void gpu_open(void)
{
    void *so = gpu_library((const char *const[]){ "libcuda.so.1", NULL });
    gpu_handle context;
    int device;

#define GPU_LOAD(name, params) *(void **)&name = gpu_symbol(so, #name);
    GPU_DRIVER(GPU_LOAD)
    GPU(cuInit(0));
    GPU(cuDeviceGet(&device, 0));
    GPU(cuDevicePrimaryCtxRetain(&context, device));
    GPU(cuCtxSetCurrent(context));
}

/* A file's text, with a 0 behind it. */
static inline char *gpu_text(const char *path)
{
    enum { MOST = 1 << 20 };
    FILE *f    = fopen(path, "r");
    char *text = calloc(1, MOST);

    if (!f || !text) printf("cannot read %s: run this in the root of the repository\n", path), exit(1);
    if (fread(text, 1, MOST - 1, f) == 0) printf("%s is empty\n", path), exit(1);
    fclose(f);
    return text;
}

static inline char *gpu_cubin(const char *path)
{
    static const char *const option[] = { "-arch=sm_90a", "-fmad=false", "-default-device" };
    gpu_handle program;
    size_t bytes;

    GPU(nvrtcCreateProgram(&program, gpu_text(path), path, 0, NULL, NULL));
    int error = nvrtcCompileProgram(program, 3, option);
    GPU(nvrtcGetProgramLogSize(program, &bytes));
    char *log = calloc(1, bytes + 1);
    GPU(nvrtcGetProgramLog(program, log));
    if (error) printf("%s\n%s\n", path, log), exit(1);
    free(log);
    GPU(nvrtcGetCUBINSize(program, &bytes));
    char *image = malloc(bytes);
    GPU(nvrtcGetCUBIN(program, image));
    return image;
}

/* A module from CUDA C for sm_90a: no contraction of products and sums, IEEE division and square root, subnormals kept. */
static inline gpu_handle gpu_compile(const char *path)
{
    static void *so;
    gpu_handle module;

    if (!so) {
        so = gpu_library((const char *const[]){ "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL });
        GPU_NVRTC(GPU_LOAD)
    }
    char *image = gpu_cubin(path);
    GPU(cuModuleLoadData(&module, image));
    free(image);
    return module;
}

static inline gpu_handle gpu_function(gpu_handle module, const char *name)
{
    gpu_handle f;
    GPU(cuModuleGetFunction(&f, module, name));
    return f;
}

static inline gpu_handle gpu_stream(void)
{
    gpu_handle s;
    GPU(cuStreamCreate(&s, 1));         /* 1: it does not wait for stream 0 */
    return s;
}

static inline gpu_handle gpu_event(bool timed)
{
    gpu_handle e;
    GPU(cuEventCreate(&e, timed ? 0 : 2));      /* 2: without a time */
    return e;
}

static inline void gpu_launch(gpu_handle f, unsigned grid, unsigned threads, gpu_handle stream, void *args)
{
    GPU(cuLaunchKernel(f, grid, 1, 1, threads, 1, 1, 0, stream, (void *[]){ args }, NULL));
}

static inline int gpu_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double gpu_median(double *value, int n)
{
    qsort(value, (size_t)n, sizeof *value, gpu_compare);
    return value[n / 2];
}

/* The calls enqueue(user, stream, 0 ... nodes - 1) as a graph. The first call runs once before: libraries load kernels at first use. */
static inline gpu_handle gpu_graph(void (*enqueue)(void *user, gpu_handle stream, int i), void *user, int nodes, gpu_handle stream)
{
    gpu_handle graph, ready;

    enqueue(user, stream, 0);
    GPU(cuStreamSynchronize(stream));
    GPU(cuStreamBeginCapture_v2(stream, 2));
    for (int i = 0; i < nodes; i++) enqueue(user, stream, i);
    GPU(cuStreamEndCapture(stream, &graph));
    GPU(cuGraphInstantiateWithFlags(&ready, graph, 0));
    GPU(cuGraphDestroy(graph));
    return ready;
}

/* Seconds of one of `nodes` calls of enqueue, which a graph replays: the median of 3 to 9 replays, more than 3 only within `budget` seconds. */
static inline double gpu_time(void (*enqueue)(void *user, gpu_handle stream, int i), void *user, int nodes, double budget, gpu_handle stream)
{
    static gpu_handle begin, end;
    gpu_handle ready = gpu_graph(enqueue, user, nodes, stream);
    double seconds[9], all = 0;
    int n = 0;

    if (!begin) begin = gpu_event(true), end = gpu_event(true);
    GPU(cuGraphLaunch(ready, stream));
    while (n < 3 || (n < 9 && all < budget)) {
        float ms;
        GPU(cuEventRecord(begin, stream));
        GPU(cuGraphLaunch(ready, stream));
        GPU(cuEventRecord(end, stream));
        GPU(cuStreamSynchronize(stream));
        GPU(cuEventElapsedTime(&ms, begin, end));
        all += seconds[n++] = ms * 1e-3;
    }
    GPU(cuGraphExecDestroy(ready));
    return gpu_median(seconds, n) / nodes;
}
#endif
