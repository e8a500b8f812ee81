/* cmake/embed_kernels.c -- a program of the build (RP_CUDA_KERNELS): compiles the kernels of GPUs with NVRTC, and makes them part of the library.
 *
 *   embed_kernels 80,89,90,100 IMAGES.bin IMAGES.c
 *
 * IMAGES.bin gets the cubins one after the other, IMAGES.c a table of them, and the assembler includes IMAGES.bin there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/image.h"

static int failure(const char *what, const char *name)
{
    fprintf(stderr, "embed_kernels: %s '%s'\n", what, name);
    return 1;
}

/* One program for one GPU: its bytes, and its line of the table. */
static int embed(int program, int capability, int64_t *at, FILE *bytes, FILE *table)
{
    char reason[512], *log;
    int64_t n;
    void *cubin = rp__image_compile(program, capability, &n, &log, reason, sizeof reason);

    free(log);
    if (!cubin) return failure(reason, rp__image_name(program));
    fprintf(table, "    { \"%s\", %d, %lld, %lld },\n", rp__image_name(program), capability, (long long)*at, (long long)n);
    int failed = fwrite(cubin, 1, (size_t)n, bytes) != (size_t)n;
    free(cubin);
    *at += n;
    return failed ? failure("cannot write", "kernels") : 0;
}

static int embed_all(const char *capabilities, FILE *bytes, FILE *table, int *n)
{
    int64_t at = 0;

    for (const char *c = capabilities; *c; c += strspn(c, ",")) {
        char *end;
        long capability = strtol(c, &end, 10);
        if (end == c || capability < 80 || capability > 999) return failure("not a list of compute capabilities:", capabilities);
        for (int p = 0; p < rp__image_programs(); p++, ++*n)
            if (embed(p, (int)capability, &at, bytes, table)) return 1;
        c = end;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int n = 0;

    if (argc != 4) return failure("give capabilities, IMAGES.bin and IMAGES.c, not", argv[argc - 1]);
    FILE *bytes = fopen(argv[2], "wb"), *table = fopen(argv[3], "w");
    if (!bytes || !table) return failure("cannot write", bytes ? argv[3] : argv[2]);
    fprintf(table, "/* Made by cmake/embed_kernels.c. */\n#include \"device/image.h\"\n\nconst rp_gpu_image rp__gpu_images[] = {\n");
    if (embed_all(argv[1], bytes, table, &n)) return 1;
    fprintf(table, "};\nconst int rp__gpu_n_images = %d;\nconst char *const rp__gpu_images_by = \"%s\";\n", n, rp__image_compiler(0));
    fprintf(table, "__asm__(\".section .rodata\\n.balign 64\\n.global rp__gpu_image_bytes\\n.hidden rp__gpu_image_bytes\\n\"\n"
                   "        \"rp__gpu_image_bytes:\\n.incbin \\\"%s\\\"\\n.previous\");\n", argv[2]);
    int failed = fclose(bytes) != 0;
    return fclose(table) || failed ? failure("cannot write", argv[3]) : 0;
}
