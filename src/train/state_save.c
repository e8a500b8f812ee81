/* train/state_save.c -- a state written aside, synced, renamed; old ones removed. See state.h for the promise. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/file.h"
#include "io/safetensors.h"
#include "train/state_json.h"

/* ---- the files of one state ---- */

static rp_status declare(const rp_state_tensor *t, rp_safetensor *d)
{
    RP_TRY(rp__tensor_needs_data(t->tensor, "saving a state"));
    RP_BUG_IF(!rp_tensor_is_dense(t->tensor));
    *d =
        (rp_safetensor){ .name = t->name, .dtype = rp__safetensors_dtype_of(t->tensor->m.dtype), .ndim = t->tensor->m.ndim };
    memcpy(d->dim, t->tensor->m.dim, (size_t)d->ndim * sizeof d->dim[0]);
    return RP_OK;
}

static rp_status put_tensors(rp_safetensors_writer *w, const rp_state_tensor *tensors, int n, uint64_t *checksums)
{
    for (int i = 0; i < n; i++) {
        const void *data = rp_tensor_data(tensors[i].tensor);
        int64_t bytes    = rp_meta_bytes(&tensors[i].tensor->m);
        rp_checksum sum  = rp__checksum_begin();
        rp__checksum_add(&sum, data, bytes);
        checksums[i] = rp__checksum_end(&sum);
        RP_TRY(rp__safetensors_put(w, data, bytes));
    }
    return RP_OK;
}

static rp_status write_tensors(rp_ctx *ctx, const char *folder, const rp_state_tensor *tensors, int n, uint64_t *checksums)
{
    rp_safetensor *declared  = rp__host_alloc(ctx, n * (int64_t)sizeof *declared);
    char *path               = declared ? rp__path_join(ctx, folder, RP_STATE_TENSORS) : NULL;
    rp_safetensors_writer *w = NULL;
    rp_status status         = path ? RP_OK : RP_ERR_MEMORY;

    for (int i = 0; i < n && status == RP_OK; i++) status = declare(&tensors[i], &declared[i]);
    if (status == RP_OK) status = rp__safetensors_create(ctx, path, n, declared, 0, NULL, &w);
    if (status == RP_OK) status = put_tensors(w, tensors, n, checksums);
    if (status == RP_OK) status = rp__safetensors_commit(w);
    else rp__safetensors_discard(w);
    rp__release(path);
    rp__release(declared);
    return status;
}

static rp_status write_json(rp_ctx *ctx, const char *folder, const rp_state_info *info, const rp_state_tensor *tensors,
                            const uint64_t *checksums, int n)
{
    char *text = rp__state_json_text(info, tensors, checksums, n), *path;

    RP_CHECK(ctx, text, RP_ERR_FORMAT,
             "cannot write a state of this run: a name or the recipe is not UTF-8, or memory ran out");
    path             = rp__path_join(ctx, folder, RP_STATE_JSON);
    rp_status status = path ? rp__file_write(ctx, path, text, (int64_t)strlen(text)) : RP_ERR_MEMORY;
    rp__release(path);
    free(text);
    return status;
}

static rp_status write_files(rp_ctx *ctx, const char *folder, const rp_state_info *info, const rp_state_tensor *tensors,
                             int n)
{
    uint64_t *checksums = rp__host_alloc(ctx, n * (int64_t)sizeof *checksums);

    if (!checksums) return RP_ERR_MEMORY;
    rp_status status = rp__make_dirs(ctx, folder);
    if (status == RP_OK) status = write_tensors(ctx, folder, tensors, n, checksums);
    if (status == RP_OK) status = write_json(ctx, folder, info, tensors, checksums, n);
    rp__release(checksums);
    return status;
}

/* ---- names ---- */

/* What a killed process left: names that begin with ".step-". */
static rp_status remove_leftovers(rp_ctx *ctx, const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    rp_status status = RP_OK;

    if (!dir) return RP_OK;
    while (status == RP_OK && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, ".step-", 6)) continue;
        char *path = rp__path_join(ctx, folder, entry->d_name);
        status     = path ? rp__remove_tree(ctx, path) : RP_ERR_MEMORY;
        rp__release(path);
    }
    closedir(dir);
    return status;
}

static rp_status remove_state(rp_ctx *ctx, const char *output_dir, int64_t step)
{
    char *name = rp__state_name(ctx, output_dir, "step-#", step),
         *old = rp__state_name(ctx, output_dir, ".step-#.old", step);
    rp_status status = name && old ? RP_OK : RP_ERR_MEMORY;

    if (status == RP_OK && rename(name, old))
        status = rp__fail(ctx, RP_ERR_IO, "cannot remove '%s': %s", name, strerror(errno));
    if (status == RP_OK) status = rp__remove_tree(ctx, old);
    rp__release(name);
    rp__release(old);
    return status;
}

rp_status rp__state_prune(rp_ctx *ctx, const char *output_dir, int64_t newest_step, int keep_last_n)
{
    char *folder = rp__state_name(ctx, output_dir, "", 0);
    int64_t *steps = NULL;
    int n = 0, kept = 0;
    rp_status status = folder ? remove_leftovers(ctx, folder) : RP_ERR_MEMORY;

    if (status == RP_OK) status = rp__state_list(ctx, output_dir, &steps, &n);
    for (int i = 0; i < n && status == RP_OK; i++) {
        if (steps[i] <= newest_step && kept < (keep_last_n > 1 ? keep_last_n : 1)) kept++;
        else status = remove_state(ctx, output_dir, steps[i]);
    }
    rp__release(steps);
    rp__release(folder);
    return status;
}

/* A state of the same step is there when a run was resumed from before it: the new one takes its place. */
static rp_status save_as(rp_ctx *ctx, const char *folder, const char *aside, const char *name, const rp_state_info *info,
                         const rp_state_tensor *tensors, int n)
{
    RP_TRY(rp__make_dirs(ctx, folder));
    RP_TRY(remove_leftovers(ctx, folder));
    rp_status status = write_files(ctx, aside, info, tensors, n);
    if (status == RP_OK) status = rp__dir_commit(ctx, aside, name);
    return status == RP_OK ? RP_OK : rp__dir_discard(ctx, aside, status);
}

rp_status rp__state_save(rp_ctx *ctx, const char *output_dir, const rp_state_info *info, const rp_state_tensor *tensors,
                         int n, int keep_last_n)
{
    char *folder = rp__state_name(ctx, output_dir, "", 0),
         *aside = rp__state_name(ctx, output_dir, ".step-#.tmp", info->step);
    char *name   = rp__state_name(ctx, output_dir, "step-#", info->step);
    rp_status status = folder && aside && name ? save_as(ctx, folder, aside, name, info, tensors, n) : RP_ERR_MEMORY;

    if (status == RP_OK) status = rp__dir_sync(ctx, output_dir);     /* the folder of states itself may be new */
    if (status == RP_OK) status = rp__state_prune(ctx, output_dir, info->step, keep_last_n);
    rp__release(folder);
    rp__release(aside);
    rp__release(name);
    return status;
}
