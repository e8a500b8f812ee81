/* bench/gpu/memory.c -- measures the costs of a GPU beside products: memory traffic, launches, graphs, events, copies to the host and back, and the
 * driver's own bytes.
 *
 *   gcc -O2 -std=gnu11 bench/gpu/memory.c -ldl -lm -o memory && ./memory >memory.jsonl      libcuda and libnvrtc at run time; 10 s, 14 GiB
 *   ./memory driver                                                                         the driver's own bytes only
 *
 * Run it in the root of the repository. Each line of the output is a JSON object. Kernels are timed as nodes of a graph that rotate over 768 MiB, so that
 * their data come from memory and not from the L2 cache ("warm": 1 uses the same data each time). `bytes` are those read and written. */
#include "gpu.h"

typedef struct { gpu_address x, y, z, w; int64_t n; int columns, mode; float f; } args;

enum { EMPTY, SPIN, FILL, COPY, ADD, RMSNORM, ADAMW, BURN, KERNELS };
static const char *const names[KERNELS] = { "empty", "spin", "fill", "copy", "add", "rmsnorm", "adamw", "burn" };
static gpu_handle kernel[KERNELS], lane, other;
static gpu_address pool;
static const size_t POOL = (size_t)12 << 30;

/* ---- memory traffic ---- */

typedef struct { const char *name; int kernel, streams, bytes[4], moved, width, columns, mode; } kind;     /* bytes of an element: in x, y, z, w · moved */
static const kind kinds[] = {
    { "copy", COPY, 2, { 2, 2 }, 4, 8, 0, 0 },
    { "add", ADD, 3, { 2, 2, 2 }, 6, 8, 0, 0 },
    { "rmsnorm 576", RMSNORM, 2, { 2, 2 }, 4, 8, 576, 0 },
    { "rmsnorm 2048", RMSNORM, 2, { 2, 2 }, 4, 8, 2048, 0 },
    { "rmsnorm 4096", RMSNORM, 2, { 2, 2 }, 4, 8, 4096, 0 },
    { "adamw fp32 states", ADAMW, 4, { 2, 2, 4, 4 }, 22, 4, 0, 0 },
    { "adamw bf16 states", ADAMW, 4, { 2, 2, 2, 2 }, 14, 4, 0, 1 },
};
typedef struct { const kind *kind; args a; size_t stride; int sets; unsigned grid, threads; } turn;

static void enqueue(void *user, gpu_handle stream, int i)
{
    turn *t      = user;
    args a       = t->a;
    size_t shift = t->stride * (size_t)(i % t->sets);

    a.x += shift, a.y += shift, a.z += shift;
    if (t->kind->kernel != RMSNORM) a.w += shift;
    gpu_launch(kernel[t->kind->kernel], t->grid, t->threads, stream, &a);
}

static size_t rounded(size_t n) { return (n + 255) / 256 * 256; }

/* n elements. Each set of operands lies behind the one before. */
static turn turn_of(const kind *k, size_t n, bool warm)
{
    turn t = { .kind = k, .a = { .n = (int64_t)n / k->width, .columns = k->columns, .mode = k->mode, .f = 1e-6f } };
    gpu_address *field[] = { &t.a.x, &t.a.y, &t.a.z, &t.a.w };

    if (k->kernel == RMSNORM) t.a.w = pool + POOL - 65536;
    for (int i = 0; i < k->streams; i++) {
        *field[i] = pool + t.stride;
        t.stride  = rounded(t.stride + n * (size_t)k->bytes[i]);
    }
    t.sets    = warm ? 1 : (int)(((size_t)768 << 20) / t.stride) + 1;
    t.threads = k->columns ? (unsigned)(k->columns / 8 + 31) / 32 * 32 : 256;
    t.grid    = k->columns ? (unsigned)(n / (size_t)k->columns) : (unsigned)((n / (size_t)k->width + 255) / 256);
    return t;
}

static void time_kind(const kind *k, size_t bytes, bool warm)
{
    size_t unit = (size_t)(k->columns ? k->columns : k->width), n = bytes / (size_t)k->moved / unit * unit, moved = n * (size_t)k->moved;
    turn t      = turn_of(k, n, warm);
    int nodes   = (int)(4e9 / (double)moved) + 1;

    if (nodes > 300) nodes = 300;
    if (nodes < 4) nodes = 4;
    double s = gpu_time(enqueue, &t, nodes, 0.04, lane);
    printf("{\"moved\": \"%s\", \"warm\": %d, \"bytes\": %zu, \"seconds\": %.4e, \"gbs\": %.0f}\n", k->name, warm, moved, s, (double)moved / s * 1e-9);
    fflush(stdout);
}

/* ---- launches ---- */

static void enqueue_same(void *user, gpu_handle stream, int i)
{
    turn *t = user;
    (void)i;
    gpu_launch(kernel[t->kind->kernel], t->grid, t->threads, stream, &t->a);
}

/* n launches from the host: seconds of a call, and of all until the last one has ended; and in a graph. The first round warms. */
static void time_launch(const char *name, turn *t, int n)
{
    double call = 0, all = 0;

    for (int round = 0; round < 2; round++) {
        double begin = gpu_now();
        for (int i = 0; i < n; i++) enqueue_same(t, lane, i);
        call = (gpu_now() - begin) / n;
        GPU(cuStreamSynchronize(lane));
        all = (gpu_now() - begin) / n;
    }
    double graph = gpu_time(enqueue_same, t, n < 1000 ? n : 1000, 0.05, lane);
    printf("{\"launch\": \"%s\", \"host_call\": %.4e, \"eager\": %.4e, \"graph\": %.4e}\n", name, call, all, graph);
    fflush(stdout);
}

static void time_launches(void)
{
    static const kind none = { .kernel = EMPTY }, spin = { .kernel = SPIN };
    turn t = { .kind = &none, .grid = 1, .threads = 32, .sets = 1 };
    time_launch("empty, 1 block", &t, 5000);
    t.grid = 132 * 8, t.threads = 256;
    time_launch("empty, 1056 blocks of 256", &t, 5000);
    t.kind = &spin;
    for (int64_t cycles = 2000; cycles <= 32000; cycles *= 4) {
        char name[64];
        t.a.n = cycles, t.grid = 132, t.threads = 256;
        snprintf(name, sizeof name, "spin of %ld cycles, 132 blocks of 256", (long)cycles);
        time_launch(name, &t, 1000);
    }
}

/* ---- events and waits ---- */

static gpu_handle hop[2];

/* One stream launches, the other waits and launches, the first one waits. */
static void enqueue_hops(void *user, gpu_handle stream, int i)
{
    args a = { 0 };

    (void)user, (void)i;
    gpu_launch(kernel[EMPTY], 1, 32, stream, &a);
    GPU(cuEventRecord(hop[0], stream));
    GPU(cuStreamWaitEvent(other, hop[0], 0));
    gpu_launch(kernel[EMPTY], 1, 32, other, &a);
    GPU(cuEventRecord(hop[1], other));
    GPU(cuStreamWaitEvent(stream, hop[1], 0));
}

static void time_hops(void)
{
    enum { N = 2000 };
    double begin = 0, call;

    hop[0] = gpu_event(false), hop[1] = gpu_event(false);
    for (int i = -100; i < N; i++) {
        if (!i) GPU(cuStreamSynchronize(lane)), begin = gpu_now();
        enqueue_hops(NULL, lane, i);
    }
    call = (gpu_now() - begin) / N;
    GPU(cuStreamSynchronize(lane));
    double all = (gpu_now() - begin) / N;
    printf("{\"wait\": \"two empty kernels on two streams by turns, 2 hops\", \"host_calls\": %.4e, \"eager\": %.4e, \"graph\": %.4e}\n", call, all,
           gpu_time(enqueue_hops, NULL, 500, 0.05, lane));
    begin = gpu_now();
    for (int i = 0; i < N; i++) GPU(cuEventRecord(hop[0], lane));
    printf("{\"wait\": \"event record\", \"host_calls\": %.4e}\n", (gpu_now() - begin) / N);
}

/* The host waits: for nothing, for a kernel, for a kernel and 4 bytes. */
static void time_waits(void)
{
    static const char *const name[] = { "synchronize an idle stream", "launch and synchronize", "launch, copy 4 bytes to the host, synchronize" };
    enum { N = 201 };
    double seconds[N];
    args a = { 0 };
    void *word;

    GPU(cuMemHostAlloc(&word, 4096, 0));
    for (int work = 0; work < 3; work++) {
        for (int i = 0; i < N; i++) {
            double begin = gpu_now();
            if (work) gpu_launch(kernel[EMPTY], 1, 32, lane, &a);
            if (work == 2) GPU(cuMemcpyDtoHAsync_v2(word, pool, 4, lane));
            GPU(cuStreamSynchronize(lane));
            seconds[i] = gpu_now() - begin;
        }
        printf("{\"wait\": \"%s\", \"seconds\": %.4e}\n", name[work], gpu_median(seconds, N));
    }
    fflush(stdout);
}

/* ---- copies ---- */

static char *in, *out;
static const size_t PINNED = (size_t)1 << 30;

static double time_copies(size_t bytes, int n, bool up, bool down)
{
    double b = gpu_now();
    for (int i = 0; i < n; i++) {
        size_t at = (size_t)i * bytes % PINNED;
        if (at + bytes > PINNED) at = 0;
        if (up) GPU(cuMemcpyHtoDAsync_v2(pool + at, in + at, bytes, lane));
        if (down) GPU(cuMemcpyDtoHAsync_v2(out + at, pool + 2 * PINNED + at, bytes, other));
    }
    GPU(cuStreamSynchronize(lane));
    GPU(cuStreamSynchronize(other));
    return (gpu_now() - b) / n;
}

static void tell_copies(size_t bytes, int n)
{
    time_copies(bytes, n < 16 ? 1 : 16, true, true);
    double up = time_copies(bytes, n, true, false), down = time_copies(bytes, n, false, true), both = time_copies(bytes, n, true, true), b = (double)bytes;

    printf("{\"copies\": %zu, \"to_device\": %.4e, \"to_host\": %.4e, \"both\": %.4e, \"to_device_gbs\": %.2f, \"to_host_gbs\": %.2f, "
           "\"both_gbs_each\": %.2f}\n", bytes, up, down, both, b / up * 1e-9, b / down * 1e-9, b / both * 1e-9);
    fflush(stdout);
}

static void time_host_copies(void)
{
    double begin = gpu_now();

    GPU(cuMemHostAlloc((void **)&in, PINNED, 0));
    GPU(cuMemHostAlloc((void **)&out, PINNED, 0));
    printf("{\"pinning\": %.4e, \"bytes\": %zu}\n", gpu_now() - begin, 2 * PINNED);
    memset(in, 1, PINNED);
    for (size_t bytes = 64 << 10; bytes <= PINNED; bytes *= 4) {
        int n = (int)(PINNED / bytes);
        tell_copies(bytes, n > 256 ? 256 : n < 3 ? 3 : n);
    }
}

/* n kernels on a third stream, alone and while 64 MiB are copied each way, over and over. The first pass warms. */
static void time_overlap(const char *name, turn *t, int n)
{
    gpu_handle third = gpu_stream(), begin = gpu_event(true), end = gpu_event(true);
    double pass[3], copies = 0;
    size_t bytes = 64 << 20;
    int count    = 24;
    double alone = time_copies(bytes, count, true, true);

    for (int i = 0; i < 3; i++) {
        float ms;
        GPU(cuEventRecord(begin, third));
        for (int k = 0; k < n; k++) enqueue(t, third, k);
        GPU(cuEventRecord(end, third));
        if (i == 2) copies = time_copies(bytes, count, true, true);
        GPU(cuStreamSynchronize(third));
        GPU(cuEventElapsedTime(&ms, begin, end));
        pass[i] = ms * 1e-3;
    }
    printf("{\"overlap\": \"%s\", \"alone\": %.4e, \"beside_copies\": %.4e, \"copies_alone\": %.4e, \"copies_beside\": %.4e}\n", name, pass[1], pass[2],
           alone * count, copies * count);
    fflush(stdout);
}

static void time_overlaps(void)
{
    static const kind burn = { .kernel = BURN };
    turn work   = { .kind = &burn, .a = { .x = pool, .n = 20000 }, .sets = 1, .grid = 132 * 8, .threads = 256 };
    turn traffic = turn_of(&kinds[0], (size_t)128 << 20, true);

    traffic.a.x += (size_t)4 << 30, traffic.a.y += (size_t)4 << 30;     /* beside what the copies write */
    time_overlap("arithmetic", &work, (int)(0.08 / gpu_time(enqueue, &work, 4, 0.02, lane)) + 1);
    time_overlap("copy of memory", &traffic, (int)(0.08 / gpu_time(enqueue, &traffic, 4, 0.02, lane)) + 1);
}

/* ---- the driver's own bytes ---- */

static size_t tell_bytes(const char *after)
{
    size_t left, all;

    GPU(cuMemGetInfo_v2(&left, &all));
    printf("{\"driver_bytes\": \"%s\", \"free\": %zu, \"total\": %zu, \"taken\": %zu}\n", after, left, all, all - left);
    fflush(stdout);
    return left;
}

static void tell_device(void)
{
    static const struct { int code; const char *name; } attribute[] = {
        { 16, "multiprocessors" }, { 13, "clock_khz" }, { 36, "memory_clock_khz" }, { 37, "bus_bits" }, { 38, "l2_bytes" },
    };
    char name[128];
    int version;

    GPU(cuDriverGetVersion(&version));
    GPU(cuDeviceGetName(name, sizeof name, 0));
    printf("{\"device\": \"%s\", \"cuda\": %d", name, version);
    for (int i = 0; i < (int)(sizeof attribute / sizeof *attribute); i++) {
        int value = 0;
        GPU(cuDeviceGetAttribute(&value, attribute[i].code, 0));
        printf(", \"%s\": %d", attribute[i].name, value);
    }
    printf("}\n");
}

static void tell_cublaslt(void)
{
    void *so = dlopen("libcublasLt.so.13", RTLD_NOW), *handle;

    if (!so) return;
    int (*create)(void **)  = (int (*)(void **))gpu_symbol(so, "cublasLtCreate");
    size_t (*version)(void) = (size_t (*)(void))gpu_symbol(so, "cublasLtGetVersion");
    GPU(create(&handle));
    printf("{\"cublaslt\": %zu}\n", version());
    tell_bytes("cublasLtCreate");
}

static void tell_driver(void)
{
    args a = { 0 };
    gpu_address p;

    tell_device();
    tell_bytes("context");
    gpu_handle module = gpu_compile("bench/gpu/memory.cu");
    for (int i = 0; i < KERNELS; i++) kernel[i] = gpu_function(module, names[i]);
    tell_bytes("module of 8 kernels by NVRTC");
    lane = gpu_stream(), other = gpu_stream();
    gpu_launch(kernel[EMPTY], 1, 32, lane, &a);
    GPU(cuStreamSynchronize(lane));
    size_t most = tell_bytes("two streams and a launch");
    tell_cublaslt();
    double begin = gpu_now();
    while (most > ((size_t)1 << 30) && cuMemAlloc_v2(&p, most)) most -= (size_t)2 << 20;
    printf("{\"largest_allocation\": %zu, \"seconds\": %.3e}\n", most, gpu_now() - begin);
    GPU(cuMemFree_v2(p));
}

int main(int argc, char **argv)
{
    args a = { 0 };

    (void)argv;
    gpu_open();
    tell_driver();
    if (argc > 1) return 0;
    GPU(cuMemAlloc_v2(&pool, POOL));
    a.x = pool, a.n = (int64_t)(POOL / 4);
    gpu_launch(kernel[FILL], (unsigned)(POOL / 4 / 256), 256, lane, &a);
    GPU(cuStreamSynchronize(lane));
    time_launches();
    time_hops();
    time_waits();
    for (size_t bytes = 64 << 10; bytes <= (size_t)4 << 30; bytes *= 2)
        for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++) time_kind(&kinds[i], bytes, false);
    for (size_t bytes = 64 << 10; bytes <= (size_t)64 << 20; bytes *= 2)
        for (int i = 0; i < 2; i++) time_kind(&kinds[i], bytes, true);
    time_host_copies();
    time_overlaps();
    return 0;
}
