/* gguf/mark.c -- computes the mark of each file of a model (base/file_mark.h). */
#include "base/file_mark.h"
#include "gguf/internal.h"

int rp__gguf_n_files(const rp_gguf *file) { return 1 + file->n_parts; }

static const rp_gguf *part_of(const rp_gguf *g, int part) { return part ? g->part[part - 1] : g; }

const char *rp__gguf_file_name(const rp_gguf *file, int part) { return part_of(file, part)->label; }

rp_status rp__gguf_mark(const rp_gguf *file, int part, uint64_t *out)
{
    const rp_gguf *of = part_of(file, part);
    rp_status status  = RP_OK;
    rp_file_mark mark;

    RP_TRY(rp__file_mark_begin(&mark, file->ctx, of->label, &of->map));
    for (int64_t i = 0; i < of->n_tensors && status == RP_OK; i++)
        status = rp__file_mark_tensor(&mark, of->tensor[i].offset, of->tensor[i].t.bytes);
    return rp__file_mark_end(&mark, status, out);
}
