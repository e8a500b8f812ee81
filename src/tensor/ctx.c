/* tensor/ctx.c -- contexts: the team of threads, the devices and their memory spaces. */
#include "base/machine.h"
#include "base/sized.h"
#include "kernels/gpu/gpu.h"
#include "kernels/kernels.h"
#include "tensor/tensor.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static const rp_device devices[] = {
#define RP_DEVICE(name, kernels, memory, runs) { name, kernels, &memory, runs },
#include "tensor/devices.def"
#undef RP_DEVICE
};

/* A context opens each device once at most, besides device 0. */
_Static_assert(RP_COUNT(devices) < RP_MAX_DEVICES, "a context has no place for all devices");

enum { MOST_THREADS = 4096 };

static int cores_of_process(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set)) return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : n;
}

static rp_status add_device(rp_ctx *ctx, const char *name, int64_t limit_bytes)
{
    for (int i = 0; i < RP_COUNT(devices); i++) {
        if (strcmp(devices[i].name, name)) continue;
        int at = ctx->n_devices;
        if (devices[i].memory->ready && !ctx->options.shapes_only) RP_TRY(devices[i].memory->ready(ctx));
        RP_TRY(rp__mem_space_new(ctx, devices[i].memory, limit_bytes, ctx->options.shapes_only, &ctx->space[at]));
        ctx->device[at] = &devices[i];
        ctx->n_devices  = at + 1;
        return RP_OK;
    }
    return rp_fail(ctx, RP_ERR_ARG, "unknown device '%s'", name);
}

int64_t rp__device_left(const char *name)
{
    int i = 0;

    while (name && i < RP_COUNT(devices) && strcmp(devices[i].name, name)) i++;
    return i < RP_COUNT(devices) && devices[i].memory->left ? devices[i].memory->left() : rp__machine_memory();
}

/* Buffers for files are host memory. If device 0 is not on the host, the host becomes a second device, to which memory_limit_bytes does not apply. */
static rp_status add_first(rp_ctx *ctx, const char *name)
{
    RP_TRY(add_device(ctx, name ? name : devices[0].name, ctx->options.memory_limit_bytes));
    if (rp__mem_on_host(ctx->space[0])) return RP_OK;
    ctx->far  = rp__mem_is_far(ctx->space[0]);
    ctx->host = 1;
    return add_device(ctx, devices[0].name, 0);
}

const rp_ctx_part rp__part_tensor = { .bytes = sizeof(rp_tensor_ctx) };

rp_status rp__device_open(rp_ctx *ctx, const char *name, int *index)
{
    int i = 1;

    while (i < ctx->n_devices && strcmp(ctx->device[i]->name, name)) i++;
    if (i == ctx->n_devices) RP_TRY(add_device(ctx, name, ctx->options.memory_limit_bytes));
    *index = i;
    return RP_OK;
}

rp_status rp_ctx_new_sized(size_t size, const rp_ctx_options *options, rp_ctx **out)
{
    if (!out) return RP_ERR_ARG;
    rp_ctx *ctx = rp__ctx_alloc();
    rp_status status = RP_ERR_MEMORY;

    if (!ctx) return status;
    bool known = !options || rp__sized_take(&ctx->options, sizeof ctx->options, options, size);
    ctx->seed   = ctx->options.seed;
    rp__parts_open(ctx);
    ctx->threads = ctx->options.threads ? ctx->options.threads : cores_of_process();
    ctx->on      = (rp_on){ .threads = ctx->threads };
    status       = ctx->options.threads < 0 || ctx->options.threads > MOST_THREADS || ctx->options.memory_limit_bytes < 0 ? RP_ERR_ARG : RP_OK;
    if (!known) status = RP_ERR_UNSUPPORTED;
    if (status == RP_OK) status = add_first(ctx, ctx->options.device);
    if (status == RP_OK) status = rp__mem_queue_open(ctx, &ctx->on);
    rp__refusal_set(status == RP_OK ? NULL : ctx);
    if (status != RP_OK) {
        rp_ctx_free(ctx);
        return status;
    }
    *out = ctx;
    return RP_OK;
}

rp_status (rp_ctx_new)(const rp_ctx_options *options, rp_ctx **out) { return rp_ctx_new_sized(RP_FIRST_CTX_OPTIONS, options, out); }

void rp_ctx_free(rp_ctx *ctx)
{
    if (!ctx) return;
    rp__parts_close(ctx);
    rp__mem_queue_close(ctx, &ctx->on);
    for (int i = 0; i < ctx->n_devices; i++) {
        rp_mem m;
        rp__mem_read(ctx->space[i], &m);
#ifndef NDEBUG
        RP_BUG_IF(m.live_bytes != 0);
#endif
        rp__mem_space_free(ctx->space[i]);
    }
    free(ctx);
}

void rp_mem_read_sized(size_t size, rp_ctx *ctx, int device, bool reset, rp_mem *out)
{
    rp_mem m  = { 0 };
    bool here = ctx && device >= 0 && device < ctx->n_devices;

    if (here) rp__mem_read(ctx->space[device], &m);
    if (out) rp__sized_give(out, size, &m, sizeof m);
    if (here && reset) rp__mem_reset_peak(ctx->space[device]);
}

void (rp_mem_read)(rp_ctx *ctx, int device, bool reset, rp_mem *out) { rp_mem_read_sized(RP_FIRST_MEM, ctx, device, reset, out); }

const char *rp_version(void)
{
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
    return TEXT(RP_VERSION_MAJOR) "." TEXT(RP_VERSION_MINOR) "." TEXT(RP_VERSION_PATCH);
}
