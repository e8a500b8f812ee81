/* tokenizer/tokenizer.h -- text to token ids and back: byte-level BPE (GPT-2, Llama 3, Qwen2), SentencePiece's BPE with byte fallback and
 * its unigram models (Llama 2, Mistral, Gemma, T5, ALBERT), WordPiece (BERT).
 *
 * Encoding adds neither bos nor eos: the caller knows where documents begin and end. Special and added tokens written in
 * the text are recognised, as the `tokenizers` package does.
 */
#ifndef RP_TOKENIZER_H
#define RP_TOKENIZER_H

#include "base/base.h"

/* `path` is a Hugging Face directory, a tokenizer.json, SentencePiece's tokenizer.model, or a .gguf file.
 * owner   yours; keeps no pointer to the file
 * errors  RP_ERR_IO absent or unreadable · RP_ERR_FORMAT malformed · RP_ERR_UNSUPPORTED a model, normalizer or
 *         pre-tokenizer that is not known here, named */
rp_status rp__tokenizer_load(rp_ctx *ctx, const char *path, rp_tokenizer **out);
void rp__tokenizer_free(rp_tokenizer *tokenizer);

/* UTF-8 text (invalid bytes become U+FFFD as Python's decode with errors="replace" makes them, each maximal subpart one) to ids.
 * *ids is host memory, yours to rp__release; empty text gives no ids (*ids may be NULL). Text of any length: time and memory
 * grow linearly. */
rp_status rp__tokenizer_encode(rp_tokenizer *tokenizer, const char *text, int64_t bytes, int32_t **ids, int64_t *n_ids);

/* The same of a text that comes in any number of pieces, the first of which BEGINS it and forgets what came before: each call gives the
 * ids that are certain whatever follows, the one that ENDS it the rest. One after another they are the ids of the whole text. Held is
 * what is not certain: as a rule a word or a line. */
typedef enum { RP_TEXT_BEGINS = 1, RP_TEXT_ENDS = 2, RP_TEXT_WHOLE = 3 } rp_text_part;
rp_status rp__tokenizer_feed(rp_tokenizer *tokenizer, const char *text, int64_t bytes, rp_text_part part, int32_t **ids, int64_t *n_ids);

/* The text of the ids; special tokens are skipped when asked. What the byte-level alphabet makes is left as it is where it is no
 * UTF-8; bytes of a byte fallback that make no character are U+FFFD each, as in the package. *text is terminated and yours to
 * rp__release. errors RP_ERR_ARG an id outside the vocabulary */
rp_status rp__tokenizer_decode(rp_tokenizer *tokenizer, const int32_t *ids, int64_t n_ids, bool skip_special, char **text,
                               int64_t *bytes);

/* Text while ids still come, special tokens skipped. Begin behind a prompt (0 ids: at the beginning of a text); each next gives what
 * the id adds, often nothing while a character is incomplete. *text is terminated and yours to rp__release. Holds no memory. */
typedef struct {
    rp_tokenizer *tokenizer;
    int32_t id[64];                 /* those whose text was handed on last, and those that wait */
    int64_t n, n_said, said_bytes;
} rp_decode_stream;
rp_status rp__decode_stream_begin(rp_tokenizer *tokenizer, const int32_t *prompt, int64_t n_prompt, rp_decode_stream *out);
rp_status rp__decode_stream_next(rp_decode_stream *stream, int32_t id, char **text, int64_t *bytes);

int32_t rp__tokenizer_vocab(const rp_tokenizer *tokenizer);       /* number of ids, added tokens included */
int32_t rp__tokenizer_bos(const rp_tokenizer *tokenizer);         /* -1 where there is none */
int32_t rp__tokenizer_eos(const rp_tokenizer *tokenizer);
/* Does this tokenizer put bos before a document (post-processor or add_bos_token, GGUF tokenizer.ggml.add_bos_token)? */
bool rp__tokenizer_adds_bos(const rp_tokenizer *tokenizer);
/* Does the tokenizer call this id special ("[CLS]", "<s>")? */
bool rp__tokenizer_is_special(const rp_tokenizer *tokenizer, int32_t id);
/* The id of a token written out ("<|im_start|>"), or -1. */
int32_t rp__tokenizer_id(const rp_tokenizer *tokenizer, const char *token);

/* Write the files a Hugging Face directory needs (tokenizer.json, tokenizer_config.json, special_tokens_map.json when known) so that
 * AutoTokenizer loads them and gives the same ids; from a directory its files are copied, from GGUF and SentencePiece's model they are made.
 * errors RP_ERR_IO · tokenizer.json is another than the one that was loaded */
rp_status rp__tokenizer_export(rp_tokenizer *tokenizer, const char *directory);

#endif
