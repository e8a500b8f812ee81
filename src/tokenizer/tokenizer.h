/* tokenizer/tokenizer.h -- converts text to token ids and back: byte-level BPE (GPT-2, Llama 3, Qwen2), SentencePiece's BPE with byte fallback and
 * its unigram models (Llama 2, Mistral, Gemma, T5, ALBERT), WordPiece (BERT).
 *
 * Encoding adds neither bos nor eos: the caller knows where documents begin and end. Special and added tokens written out in the text are recognised,
 * as in the `tokenizers` package.
 */
#ifndef RP_TOKENIZER_H
#define RP_TOKENIZER_H

#include "base/base.h"

/* Load a tokenizer. `path` is a Hugging Face directory, a tokenizer.json, SentencePiece's tokenizer.model, or a .gguf file.
 * owner   yours: rp__tokenizer_free. The file is not kept open
 * errors  RP_ERR_IO absent or unreadable · RP_ERR_FORMAT malformed · RP_ERR_UNSUPPORTED an unknown model, normalizer, pre-tokenizer or decoder (the
 *         message names it) · RP_ERR_MEMORY */
rp_status rp__tokenizer_load(rp_ctx *ctx, const char *path, rp_tokenizer **out);
/* Name of a folder's tokenizer file: tokenizer.json, otherwise a model of SentencePiece. errors RP_ERR_MEMORY */
rp_status rp__tokenizer_file(rp_ctx *ctx, const char *folder, const char **out);
void rp__tokenizer_free(rp_tokenizer *tokenizer);

/* Encode UTF-8 text of any length. Time and memory are linear in its length. Each maximal invalid subpart becomes U+FFFD, as with Python's
 * errors="replace". Empty text gives no ids (*ids may be NULL).
 * owner   *ids is yours: rp__release
 * errors  RP_ERR_UNSUPPORTED the pattern exceeds its steps on this text, or a piece is too long to merge · RP_ERR_MEMORY */
rp_status rp__tokenizer_encode(rp_tokenizer *tokenizer, const char *text, int64_t bytes, int32_t **ids, int64_t *n_ids);

/* As rp__tokenizer_encode, for a text in any number of pieces. RP_TEXT_BEGINS discards held text of an earlier one. Each call returns the ids that no
 * further text can change; RP_TEXT_ENDS returns the remaining ones. Together they are the ids of the whole text. The text held between calls is
 * usually a word or a line. */
typedef enum { RP_TEXT_BEGINS = 1, RP_TEXT_ENDS = 2, RP_TEXT_WHOLE = 3 } rp_text_part;
rp_status rp__tokenizer_feed(rp_tokenizer *tokenizer, const char *text, int64_t bytes, rp_text_part part, int32_t **ids, int64_t *n_ids);

/* Decode ids to text; `skip_special` skips special tokens. Bytes of the byte-level alphabet are returned as they are, even if they are not UTF-8.
 * Bytes of a byte fallback that form no character become U+FFFD each, as in the package.
 * owner   *text is zero-terminated and yours: rp__release
 * errors  RP_ERR_ARG an id outside the vocabulary · RP_ERR_UNSUPPORTED a pattern exceeds its steps · RP_ERR_MEMORY */
rp_status rp__tokenizer_decode(rp_tokenizer *tokenizer, const int32_t *ids, int64_t n_ids, bool skip_special, char **text,
                               int64_t *bytes);

/* Decode ids one by one; special tokens are skipped. Begin after a prompt (0 ids: at the beginning of a text). Each next call returns the text that
 * the id adds, often nothing while a character is incomplete. The stream itself owns no memory.
 * owner   *text is zero-terminated and yours: rp__release
 * errors  as rp__tokenizer_decode */
typedef struct {
    rp_tokenizer *tokenizer;
    int32_t id[64];                 /* ids whose text was returned last, then ids that wait */
    int64_t n, n_returned, returned_bytes;
} rp_decode_stream;
rp_status rp__decode_stream_begin(rp_tokenizer *tokenizer, const int32_t *prompt, int64_t n_prompt, rp_decode_stream *out);
rp_status rp__decode_stream_next(rp_decode_stream *stream, int32_t id, char **text, int64_t *bytes);

int32_t rp__tokenizer_vocab(const rp_tokenizer *tokenizer);       /* number of ids, added tokens included */
int32_t rp__tokenizer_bos(const rp_tokenizer *tokenizer);         /* -1 if there is none */
int32_t rp__tokenizer_eos(const rp_tokenizer *tokenizer);
/* Does the tokenizer put bos before a document (post-processor, add_bos_token, or tokenizer.ggml.add_bos_token of GGUF)? */
bool rp__tokenizer_adds_bos(const rp_tokenizer *tokenizer);
/* Is the id special ("[CLS]", "<s>") for this tokenizer? */
bool rp__tokenizer_is_special(const rp_tokenizer *tokenizer, int32_t id);
/* The id of a token given as text ("<|im_start|>"), or -1. */
int32_t rp__tokenizer_id(const rp_tokenizer *tokenizer, const char *token);

/* Write the files of a Hugging Face directory (tokenizer.json, tokenizer_config.json, and special_tokens_map.json if known), so that AutoTokenizer
 * gives the same ids. Files of a directory are copied; for GGUF and SentencePiece they are generated.
 * errors  RP_ERR_IO also if the tokenizer file has changed since it was loaded · RP_ERR_MEMORY */
rp_status rp__tokenizer_export(rp_tokenizer *tokenizer, const char *directory);

#endif
