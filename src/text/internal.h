/* text/internal.h -- the interface of an unpacker; only the files of src/text include it. A new kind is a file and a line of `kinds` in file.c. */
#ifndef RP_TEXT_INTERNAL_H
#define RP_TEXT_INTERNAL_H

#include <string.h>

#include "text/file.h"

enum { RP_TEXT_FILE_BYTES = 1 << 16 };

typedef struct { const uint8_t *at; int64_t bytes; } rp_packed;        /* input not yet unpacked; `step` advances it */

typedef struct {
    const char *name;                   /* for messages: "gzip" */
    const char *magic;
    int magic_bytes;
    /* Returns the unpacker's state, or NULL if memory ran out. */
    void *(*open)(rp_ctx *ctx);
    void (*close)(void *state);
    /* Unpack into `to`; *n is the number of bytes written. *between: the packed data may end here. Returns NULL, an error message, or
     * rp__text_file_memory if memory ran out. */
    const char *(*step)(void *state, rp_packed *from, uint8_t *to, int64_t room, int64_t *n, bool *between);
} rp_unpacker;

extern const char rp__text_file_memory[];
extern const rp_unpacker rp__text_file_gzip, rp__text_file_zstd;

#endif
