/* io/utf8.h -- is it UTF-8? Used by whatever reads text from outside; the tokenizers' own helpers are in tokenizer_inside.h. */
#ifndef RP_UTF8_H
#define RP_UTF8_H

#include <stdint.h>

/* Offset of the first byte that is not part of valid UTF-8; `bytes`: all of it is. */
int64_t rp__utf8_valid(const char *text, int64_t bytes);
/* Number of bytes at the end that begin a character whose other bytes may follow: 0 to 3. */
int64_t rp__utf8_unfinished(const char *text, int64_t bytes);

#endif
