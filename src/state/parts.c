/* state/parts.c -- writes the files of one state. */
#include "state/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/file.h"
#include "optim/optim.h"
#include "safetensors/safetensors.h"

const char *rp__state_part_name(int part, int parts, char out[RP_STATE_PART_CHARS])
{
    if (parts == 1) snprintf(out, RP_STATE_PART_CHARS, "tensors.safetensors");
    else snprintf(out, RP_STATE_PART_CHARS, "tensors-%d-of-%d.safetensors", part, parts);
    return out;
}

rp_slice rp__state_slice(const rp_state_tensor *t)
{
    int64_t n = rp_meta_elems(rp__state_whole(t));

    return t->slice.room ? t->slice : (rp_slice){ n, 0, n };
}

/* With one part the file has the tensor's own shape, else a row of elements. */
static rp_status declare(const rp_state_tensor *t, int part, int parts, rp_safetensor *d)
{
    const rp_meta *whole = rp__state_whole(t);
    rp_slice mine = rp__state_slice(t), due = rp__slice_at(mine.room, rp_meta_elems(whole), part);

    if (t->tensor) RP_TRY(rp__tensor_needs_data(t->tensor, "saving a state"));
    RP_BUG_IF((t->tensor && !rp_tensor_is_dense(t->tensor)) || mine.first != due.first || mine.count != due.count);
    *d = (rp_safetensor){ .name = t->name, .dtype = rp__safetensors_dtype_of(whole->dtype), .ndim = 1, .dim = { mine.count } };
    if (parts > 1) return RP_OK;
    d->ndim = whole->ndim;
    memcpy(d->dim, whole->dim, (size_t)d->ndim * sizeof d->dim[0]);
    return RP_OK;
}

static rp_status put_elems(rp_safetensors_writer *w, const void *data, int64_t bytes, rp_checksum *sum)
{
    rp__checksum_add(sum, data, bytes);
    return rp__safetensors_put(w, data, bytes);
}

static rp_status put_windows(rp_safetensors_writer *w, const rp_state_tensor *t, int64_t size, rp_checksum *sum)
{
    void *data;

    for (int64_t at = 0, n; at < rp__state_slice(t).count; at += n) {
        RP_TRY(rp__optim_window(t->optim, t->at, at, &data, &n));
        RP_TRY(put_elems(w, data, n * size, sum));
    }
    return RP_OK;
}

static rp_status put_whole(rp_safetensors_writer *w, const rp_state_tensor *t, int64_t size, rp_checksum *sum)
{
    rp_host h;
    int64_t n = rp__state_slice(t).count;

    if (!n) return RP_OK;
    RP_TRY(rp__tensor_host(t->tensor, 0, n, RP_HOST_READ, &h));
    rp_status status = put_elems(w, h.data, n * size, sum);
    rp__tensor_host_end(&h);
    return status;
}

static rp_status put_tensor(rp_safetensors_writer *w, const rp_state_tensor *t, uint64_t *checksum)
{
    rp_checksum sum = rp__checksum_begin();

    RP_TRY((t->tensor ? put_whole : put_windows)(w, t, rp_dtype_bytes(rp__state_whole(t)->dtype), &sum));
    *checksum = rp__checksum_end(&sum);
    return RP_OK;
}

static rp_status put_tensors(rp_safetensors_writer *w, const rp_state_tensor *tensors, int n, uint64_t *checksums)
{
    for (int i = 0; i < n; i++) RP_TRY(put_tensor(w, &tensors[i], &checksums[i]));
    return RP_OK;
}

rp_status rp__state_write_file(rp_ctx *ctx, const char *path, int part, int parts, const rp_state_tensor *tensors, int n, int n_pairs,
                               const rp_safetensors_pair *pairs, uint64_t *checksums)
{
    rp_safetensor *declared  = rp__host_alloc(ctx, n * (int64_t)sizeof *declared);
    rp_safetensors_writer *w = NULL;
    rp_status status         = declared ? RP_OK : RP_ERR_MEMORY;

    for (int i = 0; i < n && status == RP_OK; i++) status = declare(&tensors[i], part, parts, &declared[i]);
    if (status == RP_OK) status = rp__safetensors_create(ctx, path, n, declared, n_pairs, pairs, &w);
    if (status == RP_OK) status = put_tensors(w, tensors, n, checksums);
    if (status == RP_OK) status = rp__safetensors_commit(w);
    else rp__safetensors_discard(w);
    rp__release(declared);
    return status;
}

rp_status rp__state_write_part(rp_ctx *ctx, const char *folder, int part, int parts, const rp_state_tensor *tensors, int n,
                               uint64_t *checksums)
{
    char name[RP_STATE_PART_CHARS];
    char *path = rp__path_join(ctx, folder, rp__state_part_name(part, parts, name));

    if (!path) return RP_ERR_MEMORY;
    rp_status status = rp__state_write_file(ctx, path, part, parts, tensors, n, 0, NULL, checksums);
    rp__release(path);
    return status;
}

uint64_t rp__state_part_checksum(const rp_state_tensor *tensors, int n, const uint64_t *checksums)
{
    uint64_t sum = 0;

    for (int i = 0; i < n; i++) sum += rp__state_json_mark(tensors[i].name, checksums[i]);
    return sum;
}

rp_status rp__state_write_index(rp_ctx *ctx, const char *folder, const rp_state_info *info, const rp_state_tensor *tensors, int n, int parts,
                                const uint64_t *checksums)
{
    char *text = rp__state_json_text(info, tensors, n, parts, checksums), *path;

    RP_CHECK(ctx, text, RP_ERR_FORMAT,
             "cannot write a state of this run: a name or the recipe is not UTF-8, or memory ran out");
    path             = rp__path_join(ctx, folder, RP_STATE_JSON);
    rp_status status = path ? rp__file_write(ctx, path, text, (int64_t)strlen(text)) : RP_ERR_MEMORY;
    rp__release(path);
    free(text);
    return status;
}
