/* device/image.c -- finds the machine code of kernels, or compiles it with NVRTC and keeps the results: device/image.h. */
#include "device/image.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

enum { IMAGE_PATH = 1024, IMAGE_MOST_TEXTS = 64 };

/* ---- the programs ---- */

static bool is_program(const rp_gpu_text *t)
{
    size_t n = strlen(t->name);

    return n > 2 && !strcmp(t->name + n - 2, ".k");
}

static const rp_gpu_text *program_at(int program)
{
    for (int i = 0; i < rp__gpu_n_texts; i++)
        if (is_program(&rp__gpu_texts[i]) && program-- == 0) return &rp__gpu_texts[i];
    return NULL;
}

int rp__image_programs(void)
{
    int n = 0;

    for (int i = 0; i < rp__gpu_n_texts; i++) n += is_program(&rp__gpu_texts[i]);
    return n;
}

const char *rp__image_name(int program) { return program_at(program)->name; }

/* ---- NVRTC ---- */

typedef struct nvrtc_program *nvrtc_program;

/* Its functions, as far as they are used; "NVRTC", CUDA 13.0. All return 0 for success. */
#define NVRTC_FUNCTIONS(X) \
    X(nvrtcVersion, (int *major, int *minor)) \
    X(nvrtcCreateProgram, (nvrtc_program *p, const char *text, const char *name, int n_headers, const char *const *headers, const char *const *names)) \
    X(nvrtcDestroyProgram, (nvrtc_program *p)) \
    X(nvrtcCompileProgram, (nvrtc_program p, int n_options, const char *const *options)) \
    X(nvrtcGetProgramLogSize, (nvrtc_program p, size_t *bytes)) \
    X(nvrtcGetProgramLog, (nvrtc_program p, char *log)) \
    X(nvrtcGetCUBINSize, (nvrtc_program p, size_t *bytes)) \
    X(nvrtcGetCUBIN, (nvrtc_program p, char *cubin))

static struct {
#define FIELD(name, parameters) int (*name) parameters;
    NVRTC_FUNCTIONS(FIELD)
#undef FIELD
    int major, minor;
    bool usable;
    char version[32];
} nvrtc;
static pthread_once_t nvrtc_tried = PTHREAD_ONCE_INIT;

static bool nvrtc_function(void *library, const char *name, void *to)
{
    void *at = dlsym(library, name);

    memcpy(to, &at, sizeof at);
    return at != NULL;
}

static void nvrtc_open(void)
{
    static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so" };
    const char *wanted = getenv("REPRISE_NVRTC");
    void *library      = wanted ? dlopen(wanted, RTLD_NOW | RTLD_LOCAL) : NULL;
    bool complete      = true;

    for (int i = 0; i < RP_COUNT(names) && !library && !wanted; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
#define FIND(name, parameters) complete = complete && nvrtc_function(library, #name, &nvrtc.name);
    NVRTC_FUNCTIONS(FIND)
#undef FIND
    nvrtc.usable = complete && nvrtc.nvrtcVersion(&nvrtc.major, &nvrtc.minor) == 0;
    snprintf(nvrtc.version, sizeof nvrtc.version, "NVRTC %d.%d", nvrtc.major, nvrtc.minor);
}

static bool has_nvrtc(void)
{
    pthread_once(&nvrtc_tried, nvrtc_open);
    return nvrtc.usable;
}

static bool nvrtc_ready(char *reason, size_t room)
{
    if (!has_nvrtc())
        snprintf(reason, room, "NVRTC is missing: libnvrtc.so.13 or libnvrtc.so.12 of the CUDA toolkit compiles the kernels, and this build has none for this "
                 "GPU");
    return has_nvrtc();
}

/* From 9.0 on, "a" allows the instructions of exactly this architecture. */
static void write_arch(int capability, char *to, size_t room) { snprintf(to, room, "-arch=sm_%d%s", capability, capability >= 90 ? "a" : ""); }

/* No option may contract, flush or approximate, because bits would change. */
static const char *const options[] = { "", "-fmad=false", "-ftz=false", "-prec-div=true", "-prec-sqrt=true", "-default-device", "--ptxas-options=-v" };

static char *log_of(nvrtc_program p)
{
    size_t n  = 0;
    char *log = nvrtc.nvrtcGetProgramLogSize(p, &n) ? NULL : calloc(1, n + 1);

    if (log) nvrtc.nvrtcGetProgramLog(p, log);
    return log;
}

/* The first line of NVRTC's messages that has an error. */
static void explain(const char *name, const char *arch, const char *log, char *reason, size_t room)
{
    const char *line = log ? strstr(log, "error") : NULL;

    while (line && line > log && line[-1] != '\n') line--;
    if (!line) line = log ? log : "";
    snprintf(reason, room, "%s cannot compile %s with %s: %.*s", nvrtc.version, name, arch, (int)strcspn(line, "\n"), line);
}

static void *cubin_of(nvrtc_program p, int64_t *bytes)
{
    size_t n    = 0;
    void *cubin = nvrtc.nvrtcGetCUBINSize(p, &n) || !n ? NULL : malloc(n);

    if (cubin) nvrtc.nvrtcGetCUBIN(p, cubin);
    *bytes = (int64_t)n;
    return cubin;
}

void *rp__image_compile(int program, int capability, int64_t *bytes, char **log, char *reason, size_t room)
{
    const rp_gpu_text *t = program_at(program);
    const char *names[IMAGE_MOST_TEXTS], *texts[IMAGE_MOST_TEXTS], *with[RP_COUNT(options)];
    char arch[32];
    int n = 0;
    nvrtc_program p;
    void *cubin = NULL;

    *log = NULL;
    if (!nvrtc_ready(reason, room)) return NULL;
    for (int i = 0; i < rp__gpu_n_texts && n < IMAGE_MOST_TEXTS; i++) {
        if (is_program(&rp__gpu_texts[i])) continue;
        names[n]   = rp__gpu_texts[i].name;
        texts[n++] = rp__gpu_texts[i].text;
    }
    write_arch(capability, arch, sizeof arch);
    memcpy(with, options, sizeof with);
    with[0] = arch;
    snprintf(reason, room, "NVRTC cannot create a program for %s", t->name);
    if (nvrtc.nvrtcCreateProgram(&p, t->text, t->name, n, texts, names)) return NULL;
    bool failed = nvrtc.nvrtcCompileProgram(p, RP_COUNT(options), with) != 0;
    *log        = log_of(p);
    if (!failed) cubin = cubin_of(p, bytes);
    if (!cubin) explain(t->name, arch, *log, reason, room);
    nvrtc.nvrtcDestroyProgram(&p);
    return cubin;
}

/* ---- kernels in the library ---- */

/* Code for 8.0 runs on 8.6. From 9.0 on, "a" binds it to one architecture. */
static bool runs_on(int image, int capability)
{
    return image == capability || (capability < 90 && image / 10 == capability / 10 && image < capability);
}

/* The newest one that runs; with `exact` only one for this very GPU. NULL: there is none. */
static const rp_gpu_image *image_for(const char *name, int capability, bool exact)
{
    const rp_gpu_image *best = NULL;

    for (int i = 0; i < rp__gpu_n_images; i++) {
        const rp_gpu_image *m = &rp__gpu_images[i];
        if (strcmp(m->name, name) || !runs_on(m->capability, capability) || (exact && m->capability != capability)) continue;
        if (!best || m->capability > best->capability) best = m;
    }
    return best;
}

static const rp_gpu_image *image_to_use(const char *name, int capability) { return image_for(name, capability, has_nvrtc()); }

static void *image_copy(const rp_gpu_image *m, int64_t *bytes, char *reason, size_t room)
{
    void *copy = malloc((size_t)m->bytes);

    snprintf(reason, room, "memory ran out");
    if (copy) memcpy(copy, rp__gpu_image_bytes + m->at, (size_t)m->bytes);
    *bytes = m->bytes;
    return copy;
}

const char *rp__image_compiler(int capability)
{
    if (image_to_use(program_at(0)->name, capability)) return rp__gpu_images_by;
    return nvrtc.version;
}

/* ---- the cache ---- */

static uint64_t hash_text(const char *text, uint64_t start) { return rp__hash(text, strlen(text) + 1, start); }

static uint64_t hash_of(const rp_gpu_text *program, int capability)
{
    int facts[] = { capability, nvrtc.major, nvrtc.minor };
    uint64_t h  = rp__hash(facts, sizeof facts, RP_HASH_START);

    for (int i = 1; i < RP_COUNT(options); i++) h = hash_text(options[i], h);
    for (int i = 0; i < rp__gpu_n_texts; i++)
        if (!is_program(&rp__gpu_texts[i])) h = hash_text(rp__gpu_texts[i].text, h);
    return hash_text(program->text, h);
}

/* The folder of the cache; false: there is no place for one. */
static bool cache_folder(char *to, size_t room)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = cache && *cache ? snprintf(to, room, "%s/reprise/gpu", cache) : home && *home ? snprintf(to, room, "%s/.cache/reprise/gpu", home) : 0;

    return n > 0 && (size_t)n < room;
}

static void make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        (void)mkdir(path, 0755);
        *at = '/';
    }
    (void)mkdir(path, 0755);
}

/* A file of the cache ends with the hash of its content, so a damaged file is not used. */
static void *cache_read(const char *path, int64_t *bytes)
{
    FILE *f = fopen(path, "rb");
    uint64_t check;
    uint8_t *data = NULL;
    long size     = 0;

    if (!f) return NULL;
    if (!fseek(f, 0, SEEK_END)) size = ftell(f);
    if (size > (long)sizeof check) data = malloc((size_t)size);
    rewind(f);
    bool good = data && fread(data, 1, (size_t)size, f) == (size_t)size;
    fclose(f);
    if (good) memcpy(&check, data + size - sizeof check, sizeof check);
    if (good && rp__hash(data, (size_t)size - sizeof check, RP_HASH_START) == check) {
        *bytes = size - (long)sizeof check;
        return data;
    }
    free(data);
    return NULL;
}

/* Written under another name first, so that other processes see the whole file or none. A cache that cannot be written is not an error. */
static void cache_write(const char *path, const void *data, int64_t bytes)
{
    uint64_t check = rp__hash(data, (size_t)bytes, RP_HASH_START);
    char aside[IMAGE_PATH + 64];

    snprintf(aside, sizeof aside, "%s.%ld", path, (long)getpid());
    FILE *f = fopen(aside, "wb");
    if (!f) return;
    bool written = fwrite(data, 1, (size_t)bytes, f) == (size_t)bytes && fwrite(&check, 1, sizeof check, f) == sizeof check;
    written      = fclose(f) == 0 && written;
    if (!written || rename(aside, path)) (void)unlink(aside);
}

void *rp__image_get(int program, int capability, int64_t *bytes, char *reason, size_t room)
{
    const rp_gpu_text *t = program_at(program);
    char folder[IMAGE_PATH], path[IMAGE_PATH + 32], *log;
    const rp_gpu_image *m = image_to_use(t->name, capability);

    if (m) return image_copy(m, bytes, reason, room);
    if (!nvrtc_ready(reason, room)) return NULL;
    bool has_place = cache_folder(folder, sizeof folder);
    if (has_place) snprintf(path, sizeof path, "%s/%016" PRIx64 ".cubin", folder, hash_of(t, capability));
    void *cubin = has_place ? cache_read(path, bytes) : NULL;
    if (cubin) return cubin;
    cubin = rp__image_compile(program, capability, bytes, &log, reason, room);
    free(log);
    if (!cubin || !has_place) return cubin;
    make_folders(folder);
    cache_write(path, cubin, *bytes);
    return cubin;
}
