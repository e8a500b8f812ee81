/* text/internal.h -- what unpacks a packed file; included by text_file*.c alone. A kind is a file and a line of `kinds` in file.c. */
#ifndef RP_TEXT_INTERNAL_H
#define RP_TEXT_INTERNAL_H

#include <string.h>

#include "text/file.h"

enum { RP_TEXT_FILE_BYTES = 1 << 16 };

typedef struct { const uint8_t *at; int64_t bytes; } rp_packed;        /* not yet unpacked; moves on as it is */

typedef struct {
    const char *name;                   /* for messages: "gzip" */
    const char *magic;
    int magic_bytes;
    /* What unpacks, NULL without memory. */
    void *(*open)(rp_ctx *ctx);
    void (*close)(void *state);
    /* Unpack into `to`: *n bytes were made. Returns NULL, what is wrong, or rp__text_file_memory, where memory ran out. *between: the packed data may end
     * here. */
    const char *(*step)(void *state, rp_packed *from, uint8_t *to, int64_t room, int64_t *n, bool *between);
} rp_unpacker;

extern const char rp__text_file_memory[];
extern const rp_unpacker rp__text_file_gzip, rp__text_file_zstd;

#endif
