/* safetensors/mark.c -- computes the mark of each file of a set (base/file_mark.h). */
#include "base/file_mark.h"
#include "safetensors/internal.h"

int rp__safetensors_n_files(const rp_safetensors *set) { return set->n_files; }

rp_status rp__safetensors_mark(const rp_safetensors *set, int file, uint64_t *out)
{
    rp_status status = RP_OK;
    rp_file_mark mark;

    RP_TRY(rp__file_mark_begin(&mark, set->ctx, set->file[file].name, &set->file[file].map));
    for (int64_t i = 0; i < set->n_tensors && status == RP_OK; i++)
        if (set->tensor[i].file == file) status = rp__file_mark_tensor(&mark, set->tensor[i].offset, set->tensor[i].bytes);
    return rp__file_mark_end(&mark, status, out);
}
