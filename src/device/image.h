/* device/image.h -- machine code of the kernels for a GPU. It is part of the library, or NVRTC compiles it from the text there, and a cache keeps it.
 *
 *   kernels/gpu/FILE.k ──▶ the library, if it was built with -DRP_CUDA_KERNELS=... for this GPU
 *                     ├──▶ $XDG_CACHE_HOME/reprise/gpu/HASH.cubin, or ~/.cache/reprise/gpu/HASH.cubin, if there
 *                     ├──▶ $REPRISE_NVRTC, else libnvrtc.so.13, .12 or .so, by dlopen; then into the cache
 *                     └──▶ without NVRTC: the library, if it has kernels for an earlier GPU of the same generation
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

/* Kernels that cmake/embed_kernels.c compiled while the library was built: `bytes` bytes from `at` on in rp__gpu_image_bytes. */
typedef struct { const char *name; int capability; int64_t at, bytes; } rp_gpu_image;
extern const rp_gpu_image rp__gpu_images[];
extern const int rp__gpu_n_images;
extern const unsigned char rp__gpu_image_bytes[];
/* The compiler of these. */
extern const char *const rp__gpu_images_by;

/* The programs are numbered from 0. */
int rp__image_programs(void);
const char *rp__image_name(int program);

/* Returns the cubin of a program for a compute capability (90 for 9.0): of the library, from the cache or compiled. The caller frees it.
 * NULL: writes the reason to `reason`. */
void *rp__image_get(int program, int capability, int64_t *bytes, char *reason, size_t room);

/* The compiler of the kernels that rp__image_get returns: "NVRTC 13.0". Static text; "" without one. */
const char *rp__image_compiler(int capability);

/* Compiles without the cache. *log becomes NVRTC's messages, with the registers of each kernel; the caller frees both. NULL: see above; *log may be
 * NULL. */
void *rp__image_compile(int program, int capability, int64_t *bytes, char **log, char *reason, size_t room);

#endif
