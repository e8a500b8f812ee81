/* device/launch.c -- loads kernels into the driver, and launches them. */
#include "device/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/team.h"
#include "device/gpu.h"
#include "device/image.h"

/* ---- loading ---- */

static int by_address(const void *a, const void *b)
{
    const rp_gpu_kernel *x = ((const rp_gpu_function *)a)->kernel, *y = ((const rp_gpu_function *)b)->kernel;

    return (x > y) - (x < y);
}

/* The machine code of a program, or the reason why there is none. */
typedef struct { void *image; char why[RP_GPU_TEXT]; } program_image;
typedef struct { int capability; program_image *of; } program_images;

static void get_image(void *arg, int64_t program, int thread)
{
    const program_images *all = arg;
    program_image *i          = &all->of[program];
    int64_t bytes;

    (void)thread;
    i->image = rp__image_get((int)program, all->capability, &bytes, i->why, sizeof i->why);
}

/* Programs are compiled side by side. Without a compiler each has the same reason. */
static void get_images(const rp_gpu *gpu, program_image *image, int n)
{
    int threads = *rp__image_compiler(gpu->capability) ? (int)sysconf(_SC_NPROCESSORS_ONLN) : 1;

    rp__team_run(threads, n, get_image, &(program_images){ gpu->capability, image });
}

static const char *load_program(rp_gpu *gpu, const program_image *i, void **module, char *text)
{
    if (!i->image && !gpu->emulated) {
        snprintf(text, RP_GPU_TEXT, "%s", i->why);
        return text;
    }
    int code = gpu->call.cuModuleLoadData(module, i->image ? i->image : "no image");
    return code ? rp__gpu_error(gpu, code, "cuModuleLoadData", text) : NULL;
}

/* The functions of kernels that this program contains. */
static const char *find_functions(rp_gpu *gpu, void *module, char *text)
{
    for (int i = 0; i < rp__gpu_n_kernels; i++) {
        rp_gpu_function *f = &gpu->function[i];
        int code = f->function ? CUDA_ERROR_NOT_FOUND : gpu->call.cuModuleGetFunction(&f->function, module, f->kernel->name);
        if (code == CUDA_ERROR_NOT_FOUND) continue;
        if (!code && f->kernel->shared_bytes)      /* with static memory it may be more than 48 KiB, which a function must ask for */
            code = gpu->call.cuFuncSetAttribute(f->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f->kernel->shared_bytes);
        if (code) return rp__gpu_error(gpu, code, f->kernel->name, text);
    }
    return NULL;
}

static const char *check_all(const rp_gpu *gpu, char *text)
{
    for (int i = 0; i < rp__gpu_n_kernels; i++) {
        if (gpu->function[i].function) continue;
        snprintf(text, RP_GPU_TEXT, "no program contains the kernel '%s'", gpu->function[i].kernel->name);
        return text;
    }
    return NULL;
}

static void find_rules(rp_gpu_function *f)
{
    for (int i = 0; i < rp__gpu_n_ranges; i++)
        if (rp__gpu_ranges[i].kernel == f->kernel) f->ranges = &rp__gpu_ranges[i];
    for (int i = 0; i < rp__gpu_n_fusions; i++) f->leads = f->leads || rp__gpu_fusions[i].first == f->kernel;
}

static const char *load_programs(rp_gpu *gpu, char *text)
{
    int n = rp__image_programs();
    program_image *image = calloc((size_t)n + 1, sizeof *image);
    const char *why = image ? NULL : "memory ran out";
    void *module;

    if (image && !gpu->emulated) get_images(gpu, image, n);
    for (int p = 0; p < n && !why; p++) {
        why = load_program(gpu, &image[p], &module, text);
        if (!why) why = find_functions(gpu, module, text);
    }
    for (int p = 0; image && p < n; p++) free(image[p].image);
    free(image);
    return why;
}

const char *rp__gpu_load_kernels(rp_gpu *gpu, char *text)
{
    gpu->function = calloc((size_t)rp__gpu_n_kernels + 1, sizeof *gpu->function);
    if (!gpu->function) return "memory ran out";
    for (int i = 0; i < rp__gpu_n_kernels; i++) {
        gpu->function[i].kernel = rp__gpu_kernels[i];
        find_rules(&gpu->function[i]);
    }
    const char *why = load_programs(gpu, text);
    if (why) return why;
    qsort(gpu->function, (size_t)rp__gpu_n_kernels, sizeof *gpu->function, by_address);
    return check_all(gpu, text);
}

/* ---- launching ---- */

const rp_gpu_function *rp__gpu_function_of(const rp_gpu *gpu, const rp_gpu_kernel *kernel)
{
    static const rp_gpu_function library;           /* a call of a library is no function of an image, and never waits or joins */
    const rp_gpu_function key = { .kernel = kernel };
    const rp_gpu_function *f  = kernel->call ? &library : bsearch(&key, gpu->function, (size_t)rp__gpu_n_kernels, sizeof key, by_address);

    RP_BUG_IF(!f);
    return f;
}

void rp__gpu_launch(const rp_on *on, const rp_gpu_kernel *kernel, int64_t grid_x, int64_t grid_y, int64_t grid_z, const void *args)
{
    struct rp_queue *q = on->queue;
    rp_gpu_launch launch;

    RP_BUG_IF(grid_y >= 1 << 16 || grid_z >= 1 << 16 || grid_x > INT32_MAX);
    if (!grid_x || !grid_y || !grid_z) return;
    rp__gpu_enter(q->gpu);
    launch.kernel  = kernel;
    launch.grid[0] = (unsigned)grid_x;
    launch.grid[1] = (unsigned)grid_y;
    launch.grid[2] = (unsigned)grid_z;
    memcpy(launch.args, args, (size_t)kernel->args_bytes);
    rp__gpu_fuse(q, rp__gpu_function_of(q->gpu, kernel), &launch);
}
