/* text/utf8.h -- UTF-8: validation, code points, repair. */
#ifndef RP_TEXT_UTF8_H
#define RP_TEXT_UTF8_H

#include "text/bytes.h"

/* Offset of the first byte that is not part of valid UTF-8; `bytes` if all of it is valid. */
int64_t rp__utf8_valid(const char *text, int64_t bytes);
/* Number of bytes at the end that are an unfinished but possibly valid character: 0 to 3. */
int64_t rp__utf8_unfinished(const char *text, int64_t bytes);

/* Decode the code point at text[0], which must be valid UTF-8, and return its length / encode one and return its length. */
int rp__utf8_next(const char *text, int64_t bytes, uint32_t *point);
int rp__utf8_put(char *out, uint32_t point);        /* writes 1 to 4 bytes */
/* Decode the character before text[at] (at > 0) and return its offset. */
int64_t rp__utf8_before(const char *text, int64_t at, uint32_t *point);
/* Append the text with each maximal invalid subpart replaced by U+FFFD. errors RP_ERR_MEMORY */
rp_status rp__utf8_repair(rp_ctx *ctx, const char *text, int64_t bytes, rp_bytes *out);

#endif
