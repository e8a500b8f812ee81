/* tokenizer/to_gguf.h -- writes a tokenizer as the metadata of a GGUF file. */
#ifndef RP_TOKENIZER_TO_GGUF_H
#define RP_TOKENIZER_TO_GGUF_H

#include "base/report.h"
#include "gguf/write.h"
#include "tokenizer/tokenizer.h"

/* Add the keys tokenizer.*, except the chat template, for a model with `vocab` rows of embeddings. Ids without a token are filled with unused
 * tokens. Properties of added tokens that GGUF cannot hold, and tokens beyond `vocab`, are notes in the report.
 * errors  RP_ERR_UNSUPPORTED llama.cpp has no such tokenizer; the message names the part · RP_ERR_IO · RP_ERR_FORMAT · RP_ERR_MEMORY */
rp_status rp__tokenizer_to_gguf(rp_tokenizer *tokenizer, int64_t vocab, rp_gguf_writer *writer, rp_report *report);

#endif
