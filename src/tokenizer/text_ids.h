/* tokenizer/text_ids.h -- encodes a text file window by window; neither the whole text nor all of its ids are in memory.
 *
 *   file ─ 64 KiB ─▶ encode ─ the ids that are certain ─▶ take
 */
#ifndef RP_TOKENIZER_TEXT_IDS_H
#define RP_TOKENIZER_TEXT_IDS_H

#include "text/file.h"
#include "tokenizer/tokenizer.h"

/* Encodes a part of a text: rp__tokenizer_feed with its tokenizer, or a substitute in a test. */
typedef rp_status (*rp_encode_part)(void *encoder, const char *text, int64_t bytes, rp_text_part part, int32_t **ids, int64_t *n_ids);
/* Receives the ids in order, any number at a time; `ids` is borrowed. A status other than RP_OK ends the reading. */
typedef rp_status (*rp_take_ids)(void *user, const int32_t *ids, int64_t n_ids);

/* Encode everything that `file` still has, as one text. errors as rp__text_file_read, `encode` and `take` · RP_ERR_MEMORY */
rp_status rp__text_ids(rp_ctx *ctx, rp_text_file *file, rp_encode_part encode, void *encoder, rp_take_ids take, void *user);

/* rp__tokenizer_feed as an rp_encode_part; the encoder is the tokenizer. */
rp_status rp__text_ids_feed(void *tokenizer, const char *text, int64_t bytes, rp_text_part part, int32_t **ids, int64_t *n_ids);

#endif
