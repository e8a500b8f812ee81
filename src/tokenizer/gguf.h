/* tokenizer/gguf.h -- shared by the files that convert a GGUF file to a tokenizer.json.
 *
 *   gguf.c         finds the lists, selects a maker by tokenizer.ggml.model, assembles the parts
 *   gguf_bytes.c   gpt2: byte-level BPE, its pre-tokenizer by name (gguf_names.def); gemma4
 *   gguf_words.c   llama, t5, bert: tokenizers of SentencePiece and BERT
 *   to_gguf.c      the other direction (to_gguf.h)
 */
#ifndef RP_TOKENIZER_GGUF_H
#define RP_TOKENIZER_GGUF_H

#include "tokenizer/internal.h"

enum { RP_GGUF_TOKEN_NORMAL = 1, RP_GGUF_TOKEN_UNKNOWN, RP_GGUF_TOKEN_CONTROL, RP_GGUF_TOKEN_USER, RP_GGUF_TOKEN_UNUSED, RP_GGUF_TOKEN_BYTE };

typedef struct {
    rp_ctx *ctx;
    const rp_gguf *file;
    const char *name;               /* name of the file, for messages */
    const rp_gguf_value *tokens, *types, *merges, *scores;     /* NULL if absent, except tokens */
} rp_gguf_words;

/* The parts of a tokenizer.json; NULL means null. A maker owns them until it returns RP_OK, then the caller does. */
typedef struct { json_t *model, *normalizer, *pre_tokenizer, *decoder; bool adds_bos; } rp_gguf_parts;

const rp_gguf_value *rp__words_get(const rp_gguf_words *w, const char *key, rp_gguf_kind want, rp_gguf_kind element);
bool rp__words_flag(const rp_gguf_words *w, const char *key, bool missing);
int rp__words_type(const rp_gguf_words *w, int64_t id);
/* The token whose id is the value of `key`; NULL if there is none. json_decref it. */
json_t *rp__words_named(const rp_gguf_words *w, const char *key);
rp_status rp__words_bad(const rp_gguf_words *w, int64_t id);
rp_status rp__words_no_memory(const rp_gguf_words *w);
/* Add a token with its id to a vocabulary. errors RP_ERR_FORMAT a duplicate token, or one that is not UTF-8 */
rp_status rp__words_add(const rp_gguf_words *w, json_t *vocab, const char *text, int64_t bytes, int64_t id);

/* The parts of a BPE that writes U+2581 for spaces and falls back to bytes for text without a token. `prefix`: put a space in front of a text. */
void rp__gguf_marked_spaces(const rp_gguf_words *w, json_t *vocab, json_t *merges, bool prefix, rp_gguf_parts *out);

/* The parts of a Sequence, also of one inside another, as a list without fields that change no id. *prefix: a ByteLevel puts a space in front of a
 * text. NULL: jansson could not allocate it. */
json_t *rp__gguf_plain_parts(const json_t *part, const char *list, bool *prefix);
/* The first name of gguf_names.def with this pre-tokenizer and normalizer, both as plain parts. *name is NULL if there is none. errors RP_ERR_MEMORY */
rp_status rp__gguf_name_of(rp_ctx *ctx, const json_t *pre_tokenizers, const json_t *normalizers, bool ignore_merges, const char **name);

rp_status rp__gguf_make_gpt2(const rp_gguf_words *w, rp_gguf_parts *out);
rp_status rp__gguf_make_gemma4(const rp_gguf_words *w, rp_gguf_parts *out);
rp_status rp__gguf_make_llama(const rp_gguf_words *w, rp_gguf_parts *out);
rp_status rp__gguf_make_t5(const rp_gguf_words *w, rp_gguf_parts *out);
rp_status rp__gguf_make_bert(const rp_gguf_words *w, rp_gguf_parts *out);

#endif
