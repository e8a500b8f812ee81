/* device/image.h -- machine code of the kernels for a GPU: compiled by NVRTC from the text in the library, and kept in a cache.
 *
 *   kernels/gpu/FILE.k ──▶ $XDG_CACHE_HOME/reprise/gpu/HASH.cubin, or ~/.cache/reprise/gpu/HASH.cubin, if there
 *                     └──▶ libnvrtc.so.13, .12 or .so, by dlopen; then into the cache
 *
 * The hash covers the texts, the GPU's architecture, the options and the version of NVRTC. A program is one .k file; its functions are its kernels.
 */
#ifndef RP_IMAGE_H
#define RP_IMAGE_H

#include <stddef.h>
#include <stdint.h>

/* Files of kernels/gpu in the library, made by cmake/embed.cmake. Names are the paths of #include. */
typedef struct { const char *name, *text; } rp_gpu_text;
extern const rp_gpu_text rp__gpu_texts[];
extern const int rp__gpu_n_texts;

/* The programs are numbered from 0. */
int rp__image_programs(void);
const char *rp__image_name(int program);

/* Returns the cubin of a program for a compute capability (90 for 9.0), from the cache or compiled. The caller frees it.
 * NULL: writes the reason to `reason`. */
void *rp__image_get(int program, int capability, int64_t *bytes, char *reason, size_t room);

/* Compiles without the cache. *log becomes NVRTC's messages, with the registers of each kernel; the caller frees both. NULL: see above; *log may be
 * NULL. */
void *rp__image_compile(int program, int capability, int64_t *bytes, char **log, char *reason, size_t room);

#endif
