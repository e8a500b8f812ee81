/* device/emulate/driver.c -- NVIDIA's driver for one emulated GPU: the table, devices, kernels, checks, and failures on demand for tests.
 *
 * It behaves as a real driver where programs depend on it. Errors of kernels and copies are reported late, by all later calls. Handles are checked. Each
 * thread needs a current context. Captures forbid some calls. In two cases it is stricter than a real driver, so that mistakes show:
 *
 * - a launch must have the kernel's own number of threads, and at least its dynamic shared memory
 * - the default stream (NULL) is not a stream
 *
 * A kernel that accesses memory that is not mapped ends the process with SIGSEGV.
 */
#include "device/emulate/internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRIVER_VERSION = 13000, MULTIPROCESSORS = 132, DEMANDS = 8, MOST_GRID_YZ = 65535 };

typedef struct { emu_object object; const rp_gpu_kernel *kernel; int most_shared_bytes; } function;
typedef struct { const char *name; int left, code; } demand;

static const char *const names[] = {
#define RP_CUDA(name, parameters) #name,
#include "device/cuda.def"
#undef RP_CUDA
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialized, retained;
static int broken;
static emu_object *objects;
static demand demands[DEMANDS];
static int64_t n_calls[EMU_FUNCTIONS];
static const rp_gpu_kernel *const *added;
static int n_added, n_resets;
static char context;                        /* its address is the handle of the primary context */
static _Thread_local int current = -1;      /* this thread's context is current since this reset */

/* ---- entry ---- */

void rp__emulated_break(int code)
{
    if (!broken) broken = code;
}
int rp__emulated_broken(void) { return broken; }

static bool is_sticky(int code)
{
    return (code >= CUDA_ERROR_ILLEGAL_ADDRESS && code <= CUDA_ERROR_LAUNCH_FAILED) || code == CUDA_ERROR_UNKNOWN || code == CUDA_ERROR_ECC_UNCORRECTABLE;
}

int rp__emulated_demanded(const char *name)
{
    int code = CUDA_SUCCESS;
    for (demand *d = demands; d < demands + DEMANDS; d++)
        if (d->name && !strcmp(d->name, name) && --d->left == 0) {
            code    = d->code;
            d->name = NULL;
        }
    if (is_sticky(code)) rp__emulated_break(code);
    return code;
}

int rp__emulated_enter(int f)
{
    pthread_mutex_lock(&lock);
    n_calls[f]++;
    int demanded = rp__emulated_demanded(names[f]);
    if (demanded) return demanded;
    if (f == EMU_cuGetErrorName || f == EMU_cuGetErrorString || f == EMU_cuDriverGetVersion) return CUDA_SUCCESS;
    if (broken) return broken;
    if (!initialized && f != EMU_cuInit) return EMU_NOT_INITIALIZED;
    return f >= EMU_cuMemGetInfo_v2 && current != n_resets ? EMU_INVALID_CONTEXT : CUDA_SUCCESS;
}

void rp__emulated_leave(int *entered)
{
    (void)entered;
    pthread_mutex_unlock(&lock);
}

/* ---- objects ---- */

void *rp__emulated_new(emu_kind kind, size_t bytes)
{
    emu_object *o = calloc(1, bytes);
    if (!o) return NULL;
    o->kind = kind;
    o->next = objects;
    objects = o;
    return o;
}

void *rp__emulated_find(const void *handle, emu_kind kind)
{
    for (emu_object *o = objects; o; o = o->next)
        if (o == handle) return o->kind == kind ? o : NULL;
    return NULL;
}

void rp__emulated_drop(void *object)
{
    emu_object **o = &objects;
    while (*o != object) o = &(*o)->next;
    *o = (*o)->next;
    free(object);
}

/* ---- devices ---- */

int rp__emulated_cuInit(unsigned flags)
{
    RP_ENTER(cuInit);
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    initialized = true;
    return CUDA_SUCCESS;
}

int rp__emulated_cuDriverGetVersion(int *version)
{
    RP_ENTER(cuDriverGetVersion);
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

int rp__emulated_cuDeviceGetCount(int *count)
{
    RP_ENTER(cuDeviceGetCount);
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = 1;
    return CUDA_SUCCESS;
}

int rp__emulated_cuDeviceGet(int *device, int ordinal)
{
    RP_ENTER(cuDeviceGet);
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}

int rp__emulated_cuDeviceGetName(char *name, int chars, int device)
{
    RP_ENTER(cuDeviceGetName);
    if (!name || chars <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)chars, "%s", "emulated GPU");
    return CUDA_SUCCESS;
}

/* Attributes by the numbers of CUdevice_attribute. */
static const struct { int attribute, value; } attributes[] = {
    { 1, RP_EMULATE_THREADS },                                  /* MAX_THREADS_PER_BLOCK */
    { 5, INT_MAX }, { 6, MOST_GRID_YZ }, { 7, MOST_GRID_YZ },   /* MAX_GRID_DIM_X, Y, Z */
    { 8, RP_EMULATE_SHARED_DEFAULT },                           /* MAX_SHARED_MEMORY_PER_BLOCK */
    { 10, RP_EMULATE_WARP },                                    /* WARP_SIZE */
    { CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, MULTIPROCESSORS },
    { 41, 1 },                                                  /* UNIFIED_ADDRESSING */
    { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9 }, { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0 },
    { 97, RP_EMULATE_SHARED_BYTES },                            /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
    { 102, 1 },                                                 /* VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
};

int rp__emulated_cuDeviceGetAttribute(int *value, int attribute, int device)
{
    RP_ENTER(cuDeviceGetAttribute);
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    for (size_t i = 0; value && i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].attribute == attribute) {
            *value = attributes[i].value;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

int rp__emulated_cuDevicePrimaryCtxRetain(void **handle, int device)
{
    RP_ENTER(cuDevicePrimaryCtxRetain);
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    int error = retained ? CUDA_SUCCESS : rp__emulated_open_memory();
    if (error) return error;
    retained = true;
    *handle  = &context;
    return CUDA_SUCCESS;
}

int rp__emulated_cuCtxSetCurrent(void *handle)
{
    RP_ENTER(cuCtxSetCurrent);
    if (handle && (handle != &context || !retained)) return EMU_INVALID_CONTEXT;
    current = handle ? n_resets : -1;
    return CUDA_SUCCESS;
}

/* ---- errors ---- */

static const struct { int code; const char *name, *text; } errors[] = {
    { CUDA_SUCCESS, "CUDA_SUCCESS", "no error" },
    { CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
    { CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
    { EMU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
    { CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable" },
    { CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
    { CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
    { EMU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
    { CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered" },
    { CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
    { EMU_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state" },
    { CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
    { EMU_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
    { CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
    { EMU_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped" },
    { CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure" },
    { EMU_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
    { CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error" },
    { CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing" },
    { CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture" },
    { EMU_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences" },
    { EMU_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began" },
    { EMU_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work" },
    { EMU_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream" },
    { EMU_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream" },
    { EMU_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread" },
};

static int find_error(int code)
{
    for (int i = 0; i < (int)(sizeof errors / sizeof *errors); i++)
        if (errors[i].code == code) return i;
    return -1;
}

int rp__emulated_cuGetErrorName(int error, const char **name)
{
    RP_ENTER(cuGetErrorName);
    int i = find_error(error);
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    *name = i < 0 ? NULL : errors[i].name;
    return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

int rp__emulated_cuGetErrorString(int error, const char **text)
{
    RP_ENTER(cuGetErrorString);
    int i = find_error(error);
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = i < 0 ? NULL : errors[i].text;
    return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- kernels ---- */

int rp__emulated_cuModuleLoadData(void **module, const void *image)
{
    RP_ENTER(cuModuleLoadData);
    int forbidden = rp__emulated_unsafe();
    (void)image;                /* the kernels are part of the library */
    if (forbidden) return forbidden;
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    *module = rp__emulated_new(EMU_MODULE, sizeof(emu_object));
    return *module ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Its functions stay valid here, unlike on a GPU. */
int rp__emulated_cuModuleUnload(void *module)
{
    RP_ENTER(cuModuleUnload);
    if (!rp__emulated_find(module, EMU_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    rp__emulated_drop(module);
    return CUDA_SUCCESS;
}

static const rp_gpu_kernel *find_kernel(const char *name)
{
    for (int i = 0; i < rp__gpu_n_kernels; i++)
        if (!strcmp(rp__gpu_kernels[i]->name, name)) return rp__gpu_kernels[i];
    for (int i = 0; i < n_added; i++)
        if (!strcmp(added[i]->name, name)) return added[i];
    return NULL;
}

int rp__emulated_cuModuleGetFunction(void **handle, void *module, const char *name)
{
    RP_ENTER(cuModuleGetFunction);
    if (!handle || !name) return CUDA_ERROR_INVALID_VALUE;
    if (!rp__emulated_find(module, EMU_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    const rp_gpu_kernel *kernel = find_kernel(name);
    if (!kernel) return CUDA_ERROR_NOT_FOUND;
    for (emu_object *o = objects; o; o = o->next)
        if (o->kind == EMU_FUNCTION && ((function *)(void *)o)->kernel == kernel) {
            *handle = o;
            return CUDA_SUCCESS;
        }
    function *f = rp__emulated_new(EMU_FUNCTION, sizeof *f);
    if (!f) return CUDA_ERROR_OUT_OF_MEMORY;
    f->kernel            = kernel;
    f->most_shared_bytes = RP_EMULATE_SHARED_DEFAULT;
    *handle              = f;
    return CUDA_SUCCESS;
}

int rp__emulated_cuFuncSetAttribute(void *handle, int attribute, int value)
{
    RP_ENTER(cuFuncSetAttribute);
    function *f = rp__emulated_find(handle, EMU_FUNCTION);
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > RP_EMULATE_SHARED_BYTES) return CUDA_ERROR_INVALID_VALUE;
    f->most_shared_bytes = value;
    return CUDA_SUCCESS;
}

int rp__emulated_cuLaunchKernel(void *handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                                unsigned shared_bytes, void *stream, void **parameters, void **extra)
{
    RP_ENTER(cuLaunchKernel);
    const function *f = rp__emulated_find(handle, EMU_FUNCTION);
    emu_stream *s     = rp__emulated_find(stream, EMU_STREAM);
    if (!f || !s) return CUDA_ERROR_INVALID_HANDLE;
    const rp_gpu_kernel *k = f->kernel;
    bool grid_fits = grid_x && grid_y && grid_z && grid_x <= INT_MAX && grid_y <= MOST_GRID_YZ && grid_z <= MOST_GRID_YZ;
    if (!grid_fits || block_x != (unsigned)k->threads || block_y != 1 || block_z != 1 || k->threads > RP_EMULATE_THREADS) return CUDA_ERROR_INVALID_VALUE;
    if (shared_bytes > (unsigned)f->most_shared_bytes || shared_bytes < (unsigned)k->shared_bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!parameters || !parameters[0] || extra || k->args_bytes > RP_GPU_ARGS_BYTES) return CUDA_ERROR_INVALID_VALUE;
    emu_call *c = rp__emulated_call(EMU_LAUNCH);
    if (!c || !(c->staged = malloc((size_t)k->args_bytes))) {
        rp__emulated_free_call(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->kernel       = k;
    c->grid[0]      = (int)grid_x;
    c->grid[1]      = (int)grid_y;
    c->grid[2]      = (int)grid_z;
    c->shared_bytes = (int)shared_bytes;
    memcpy(c->staged, parameters[0], (size_t)k->args_bytes);
    return rp__emulated_submit(s, c);
}

/* ---- for tests ---- */

void rp__emulate_add_kernels(const rp_gpu_kernel *const *kernels, int n)
{
    pthread_mutex_lock(&lock);
    added   = kernels;
    n_added = kernels ? n : 0;
    pthread_mutex_unlock(&lock);
}

void rp__emulate_fail(const char *name, int nth, int code)
{
    pthread_mutex_lock(&lock);
    demand *d = demands;
    while (d < demands + DEMANDS - 1 && d->name) d++;
    *d = (demand){ name, nth, code };
    pthread_mutex_unlock(&lock);
}

int64_t rp__emulate_calls(const char *name)
{
    int64_t n = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < EMU_FUNCTIONS; i++)
        if (!strcmp(names[i], name)) n = n_calls[i];
    pthread_mutex_unlock(&lock);
    return n;
}

int64_t rp__emulate_idle_waits(void)
{
    pthread_mutex_lock(&lock);
    int64_t n = rp__emulated_idle_waits();
    pthread_mutex_unlock(&lock);
    return n;
}

int rp__emulate_live(void)
{
    pthread_mutex_lock(&lock);
    int n = rp__emulated_waiting() + rp__emulated_live_memory();
    for (const emu_object *o = objects; o; o = o->next) n += o->kind != EMU_FUNCTION;       /* a function belongs to its module */
    pthread_mutex_unlock(&lock);
    return n;
}

static void free_object(emu_object *o)
{
    if (o->kind == EMU_EVENT) rp__emulated_release_record(((emu_event *)(void *)o)->record);
    if (o->kind == EMU_GRAPH || o->kind == EMU_EXECUTABLE) rp__emulated_release_body(((emu_graph *)(void *)o)->body);
    free(o);
}

void rp__emulate_reset(void)
{
    pthread_mutex_lock(&lock);
    rp__emulated_close_captures();
    rp__emulated_close_streams();
    while (objects) {
        emu_object *next = objects->next;
        free_object(objects);
        objects = next;
    }
    rp__emulated_close_memory();
    memset(demands, 0, sizeof demands);
    memset(n_calls, 0, sizeof n_calls);
    initialized = retained = false;
    broken      = CUDA_SUCCESS;
    n_resets++;
    rp__emulate_set_schedule(RP_EMULATE_SCHEDULES);
    pthread_mutex_unlock(&lock);
}

const rp_cuda rp__cuda_emulated = {
#define RP_CUDA(name, parameters) .name = rp__emulated_##name,
#include "device/cuda.def"
#undef RP_CUDA
};
