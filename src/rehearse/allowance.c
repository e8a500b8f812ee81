/* rehearse/allowance.c -- computes the terms of the allowance and measures the process. */
#include "rehearse/allowance.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/machine.h"

enum { MIB = 1 << 20, PROGRAM = 32 * MIB, LAYER = MIB / 2, WORD = 1280, THREAD = MIB / 4, MPI = 48 * MIB, RANK = MIB / 2 };

rp_allowance rp__allowance(const rp_model *model, int threads, int ranks, int64_t limit)
{
    const rp_model_config *c = rp__model_config(model);

    return (rp_allowance){
        .program = PROGRAM, .model = c->n_layers * LAYER, .tokenizer = c->vocab * WORD, .threads = (int64_t)threads * THREAD,
        .ranks = ranks > 1 ? MPI + (int64_t)ranks * RANK : 0, .mapped = rp__model_mapped_bytes(model), .pages = limit / RP_PAGES_PART,
    };
}

int64_t rp__allowance_bytes(const rp_allowance *a) { return a->program + a->model + a->tokenizer + a->threads + a->ranks + a->mapped + a->pages; }

static int64_t pool_bytes(const rp_ctx *ctx)
{
    int64_t bytes = 0;

    for (int i = 0; i < ctx->n_devices; i++) bytes += rp__mem_mapped(ctx->space[i]);
    return bytes;
}

static int64_t file_bytes(const char *path)
{
    struct stat s;

    return !stat(path, &s) && S_ISREG(s.st_mode) ? (int64_t)s.st_size : 0;
}

/* Bytes of a folder's weights, or of a file. A file that is one of n parts ("-00001-of-00003.gguf") counts n times. */
static int64_t model_bytes(const char *path)
{
    static const char ending[] = ".safetensors";
    const char *parts          = strstr(path, "-of-");
    DIR *folder                = opendir(path);
    int64_t bytes = 0, n = parts ? strtol(parts + 4, NULL, 10) : 1;
    char at[RP_MACHINE_PATH_CHARS];

    if (!folder) return file_bytes(path) * (n > 0 && n < 1 << 16 ? n : 1);
    for (const struct dirent *e; (e = readdir(folder));) {
        size_t chars = strlen(e->d_name);
        if (chars < sizeof ending || strcmp(e->d_name + chars + 1 - sizeof ending, ending)) continue;
        if (snprintf(at, sizeof at, "%s/%s", path, e->d_name) < (int)sizeof at) bytes += file_bytes(at);
    }
    closedir(folder);
    return bytes;
}

/* Files are mapped for reading and take as many addresses again for their parsed contents (base/file.h). Weights that stay in them are mapped meanwhile. */
static int64_t mapped_later(const rp_ctx *ctx, const rp_recipe *r)
{
    int64_t files = 0;

    if (r->model.path) files += model_bytes(r->model.path);
    if (r->model.adapter) files += model_bytes(r->model.adapter);
    return rp__machine_stacks(ctx->threads + 2) + (r->model.mapped ? 3 : 2) * files;
}

/* The measured value of `memory_limit: auto` in this context; 0: not measured yet. */
const rp_ctx_part rp__part_train = { .bytes = sizeof(int64_t) };

int64_t rp__process_limit(rp_ctx *ctx, const rp_recipe *r)
{
    if (r->memory_limit.kind == RP_BUDGET_NONE) return 0;
    if (r->memory_limit.kind == RP_BUDGET_BYTES) return r->memory_limit.bytes;
    int64_t *measured = ctx->part[RP_PART_TRAIN];
    if (!*measured) *measured = rp__machine_process(pool_bytes(ctx), mapped_later(ctx, r));
    return *measured > 1 ? *measured : 1;
}

int64_t rp__process_own(rp_ctx *ctx)
{
    int64_t arena = 0;

#if defined(__GLIBC__)
    malloc_trim(0);
#endif
    for (int i = 0; i < ctx->n_devices; i++) {
        rp_mem m;
        rp__mem_read(ctx->space[i], &m);
        arena += m.reserved_bytes;
    }
    int64_t own = rp__machine_resident() - arena;
    return own > 0 ? own : 0;
}
