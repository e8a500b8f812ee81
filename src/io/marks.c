/* io/marks.c -- the mark of a file of weights: two files with the same mark are taken for the same.
 *
 *   size │ header: all of it │ of each tensor: its first, middle and last SLICE_BYTES
 *
 * Three short reads a tensor, whatever its size. A tensor of up to three slices counts whole; of a larger one, bytes between the slices are not
 * seen. Training changes nearly all elements of a tensor, so other weights show in every slice of it. */
#include "io/marks.h"

#include "base/checksum.h"
#include "io/gguf_inside.h"
#include "io/safetensors_inside.h"

enum { SLICE_BYTES = 4096, HEADER_WINDOW = 64 * SLICE_BYTES };

typedef struct {
    rp_ctx *ctx;
    const char *label;
    const rp_file_map *map;
    rp_checksum sum;
    int64_t header_end;                 /* where the first tensor begins */
    uint8_t *window;
} marking;

static rp_status add_bytes(marking *m, int64_t at, int64_t bytes)
{
    for (int64_t n; bytes > 0; at += n, bytes -= n) {
        n = bytes < HEADER_WINDOW ? bytes : HEADER_WINDOW;
        RP_TRY(rp__file_get(m->ctx, m->label, m->map, at, n, m->window));
        m->sum.bytes = 0;               /* a piece of any length may come next */
        rp__checksum_add(&m->sum, m->window, n);
    }
    return RP_OK;
}

static rp_status add_tensor(marking *m, int64_t at, int64_t bytes)
{
    if (bytes <= 3 * SLICE_BYTES) return add_bytes(m, at, bytes);
    RP_TRY(add_bytes(m, at, SLICE_BYTES));
    RP_TRY(add_bytes(m, at + (bytes - SLICE_BYTES) / 2, SLICE_BYTES));
    return add_bytes(m, at + bytes - SLICE_BYTES, SLICE_BYTES);
}

static rp_status begin(marking *m, rp_ctx *ctx, const char *label, const rp_file_map *map)
{
    *m = (marking){ .ctx = ctx, .label = label, .map = map, .sum = rp__checksum_begin(), .header_end = map->bytes };
    m->window = rp__host_alloc(ctx, HEADER_WINDOW);
    return m->window ? RP_OK : RP_ERR_MEMORY;
}

static rp_status end(marking *m, rp_status status, uint64_t *mark)
{
    if (status == RP_OK) status = add_bytes(m, 0, m->header_end);
    if (status == RP_OK) {
        m->sum.bytes = (uint64_t)m->map->bytes;
        *mark        = rp__checksum_end(&m->sum);
    }
    rp__release(m->window);
    return status;
}

static void note_begin(marking *m, int64_t at)
{
    if (at < m->header_end) m->header_end = at;
}

int rp__safetensors_n_files(const rp_safetensors *set) { return set->n_files; }

rp_status rp__safetensors_mark(const rp_safetensors *set, int file, uint64_t *mark)
{
    rp_status status = RP_OK;
    marking m;

    RP_TRY(begin(&m, set->ctx, set->file[file].name, &set->file[file].map));
    for (int64_t i = 0; i < set->n_tensors && status == RP_OK; i++) {
        const rp_safetensor *t = &set->tensor[i];
        if (t->file != file) continue;
        note_begin(&m, t->offset);
        status = add_tensor(&m, t->offset, t->bytes);
    }
    return end(&m, status, mark);
}

int rp__gguf_n_files(const rp_gguf *file) { return 1 + file->n_parts; }

static const rp_gguf *part_of(const rp_gguf *g, int part) { return part ? g->part[part - 1] : g; }

const char *rp__gguf_file_name(const rp_gguf *file, int part) { return part_of(file, part)->label; }

rp_status rp__gguf_mark(const rp_gguf *file, int part, uint64_t *mark)
{
    const rp_gguf *of = part_of(file, part);
    rp_status status  = RP_OK;
    marking m;

    RP_TRY(begin(&m, file->ctx, of->label, &of->map));
    for (int64_t i = 0; i < of->n_tensors && status == RP_OK; i++) {
        note_begin(&m, of->tensor[i].offset);
        status = add_tensor(&m, of->tensor[i].offset, of->tensor[i].t.bytes);
    }
    return end(&m, status, mark);
}
