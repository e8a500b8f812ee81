/* tokenizer/text_ids.h -- a file of text to ids, window after window: neither the text nor its ids are held whole.
 *
 *   file ─ 64 KiB ─▶ encode ─ the ids that are certain ─▶ take
 */
#ifndef RP_TOKENIZER_TEXT_IDS_H
#define RP_TOKENIZER_TEXT_IDS_H

#include "text/file.h"
#include "tokenizer/tokenizer.h"

/* Who encodes: rp__tokenizer_feed with its tokenizer, or what stands in for it in a test. */
typedef rp_status (*rp_encode_part)(void *encoder, const char *text, int64_t bytes, rp_text_part part, int32_t **ids, int64_t *n_ids);
/* Who takes the ids, in order, any number at a time; `ids` is borrowed. What it returns ends the reading unless it is RP_OK. */
typedef rp_status (*rp_take_ids)(void *user, const int32_t *ids, int64_t n_ids);

/* All that `file` still has, as one text. errors: those of reading, of encoding, of taking */
rp_status rp__text_ids(rp_ctx *ctx, rp_text_file *file, rp_encode_part encode, void *encoder, rp_take_ids take, void *user);

/* rp__tokenizer_feed, its tokenizer being the encoder. */
rp_status rp__text_ids_feed(void *tokenizer, const char *text, int64_t bytes, rp_text_part part, int32_t **ids, int64_t *n_ids);

#endif
