/* io/marks.h -- do two ranks read the same weights? A file's mark tells, by few reads (marks.c says what it does not see). */
#ifndef RP_IO_MARKS_H
#define RP_IO_MARKS_H

#include "io/gguf.h"
#include "io/safetensors.h"

int rp__safetensors_n_files(const rp_safetensors *set);
int rp__gguf_n_files(const rp_gguf *file);                      /* of a split model all parts */
const char *rp__gguf_file_name(const rp_gguf *file, int part);
/* Size, header, and slices of each tensor. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__safetensors_mark(const rp_safetensors *set, int file, uint64_t *mark);
rp_status rp__gguf_mark(const rp_gguf *file, int part, uint64_t *mark);

#endif
