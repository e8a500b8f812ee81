/* io/tokenizer_inside.h -- what a tokenizer is made of; included by the files of the tokenizer and their tests.
 *
 *   text ─ repair ─ added tokens ─ normalize ─ added tokens ─ pre-tokenize ─ cache ─ merge ─ ids
 *          utf8.c    added.c     normalize.c     added.c     pretokenize.c    └── bpe.c ──┘
 *                                                            pattern.c
 *
 * Each part hands spans to the next through a callback, so nothing but the ids is proportional to the text.
 * tokenizer_json.c builds all parts from tokenizer.json; tokenizer_gguf.c makes that JSON from a GGUF file.
 */
#ifndef RP_TOKENIZER_INSIDE_H
#define RP_TOKENIZER_INSIDE_H

#include <jansson.h>

#include "io/gguf.h"
#include "io/tokenizer.h"

/* ---- growing arrays ---- */

typedef struct { int32_t *at; int64_t n, room; } rp_ids;
typedef struct { char *at; int64_t n, room; } rp_bytes;

rp_status rp__ids_push(rp_ctx *ctx, rp_ids *ids, int32_t id);
rp_status rp__bytes_room(rp_ctx *ctx, rp_bytes *bytes, int64_t more);    /* room for `more` beyond n */
rp_status rp__bytes_push(rp_ctx *ctx, rp_bytes *bytes, const char *text, int64_t n);

/* ---- utf8.c ---- */

/* The code point at text[0] of valid UTF-8 and its length. */
int rp__utf8_next(const char *text, int64_t bytes, uint32_t *point);
int rp__utf8_put(char *out, uint32_t point);        /* 1 to 4 bytes */
/* First byte that is not part of valid UTF-8, or `bytes`. */
int64_t rp__utf8_valid(const char *text, int64_t bytes);
/* Append the text with each maximal invalid subpart replaced by U+FFFD. */
rp_status rp__utf8_repair(rp_ctx *ctx, const char *text, int64_t bytes, rp_bytes *out);
bool rp__is_space(uint32_t point);                  /* White_Space */
bool rp__is_word(uint32_t point);                   /* letters, marks, decimal digits, connectors, joiners */
/* The byte-level alphabet: every byte has a printable character. -1 where the point stands for no byte. */
uint32_t rp__byte_point(uint8_t byte);
int rp__point_byte(uint32_t point);
/* The characters of `bytes` appended to `out`: at most two bytes each. */
rp_status rp__byte_text(rp_ctx *ctx, const char *text, int64_t bytes, rp_bytes *out);

/* ---- vocabulary (vocab.c) ---- */

enum { RP_TOKEN_IN_MODEL = 1, RP_TOKEN_ADDED = 2, RP_TOKEN_SPECIAL = 4 };
#define RP_MAX_TOKENS (1 << 22)

typedef struct { int64_t at; int32_t bytes; uint32_t flags; } rp_token;   /* flags 0: no token has this id */
typedef struct {
    rp_bytes text;                  /* all tokens as the file writes them, each terminated */
    rp_token *token;
    int32_t n_ids, room;            /* the greatest id + 1 */
    int32_t n_model;                /* tokens with RP_TOKEN_IN_MODEL */
    int32_t longest_bytes;
    int32_t *slot;                  /* open addressing: id + 1, 0 is empty */
    int64_t n_slots, n_used;
} rp_vocab;

/* errors  RP_ERR_FORMAT an id out of range, or one that another token has */
rp_status rp__vocab_add(rp_ctx *ctx, rp_vocab *vocab, const char *text, int64_t bytes, int64_t id, uint32_t flags);
int32_t rp__vocab_find(const rp_vocab *vocab, const char *text, int64_t bytes);     /* -1 where absent */
const char *rp__vocab_text(const rp_vocab *vocab, int32_t id);
void rp__vocab_free(rp_vocab *vocab);

/* ---- added tokens (added.c) ---- */

typedef struct { int32_t id; bool lstrip, rstrip, single_word; } rp_added;
typedef struct { int32_t child, sibling, added; uint8_t byte; } rp_trie_node;
typedef struct {
    rp_added *added;
    int32_t n_added, added_room;
    rp_trie_node *node;             /* node 0 is the root, its children in `root` */
    int32_t n_nodes, node_room;
    int32_t root[256];
} rp_added_set;

/* `id` is -1 for text between tokens. */
typedef rp_status (*rp_span_fn)(void *user, const char *text, int64_t bytes, int32_t id);

rp_status rp__added_insert(rp_ctx *ctx, rp_added_set *set, const char *text, int64_t bytes, rp_added added);
/* Leftmost, longest matches, each span and each match in turn. */
rp_status rp__added_split(const rp_added_set *set, const char *text, int64_t bytes, rp_span_fn fn, void *user);
void rp__added_free(rp_added_set *set);

/* ---- normalizers (normalize.c) ---- */

typedef enum { RP_NFC, RP_NFD, RP_NFKC, RP_NFKD } rp_normal_form;
#define RP_MAX_NORMALIZERS 8

/* Append the normal form of valid UTF-8. Linear in the text, runs of marks included. */
rp_status rp__normalize(rp_ctx *ctx, rp_normal_form form, const char *text, int64_t bytes, rp_bytes *out);

/* ---- pre-tokenizers (pretokenize.c, pattern.c) ---- */

typedef enum { RP_SPLIT_REMOVED, RP_SPLIT_ISOLATED, RP_SPLIT_WITH_PREVIOUS, RP_SPLIT_WITH_NEXT, RP_SPLIT_CONTIGUOUS } rp_split;
typedef struct rp_pattern rp_pattern;
typedef struct {
    rp_pattern *pattern;            /* NULL: the whole text is one piece */
    rp_split behaviour;
    bool invert, prefix_space;
    rp_bytes prefixed;              /* the text with its space in front */
} rp_stage;
#define RP_MAX_STAGES 16
typedef struct { rp_ctx *ctx; rp_stage stage[RP_MAX_STAGES]; int n_stages; } rp_pretokenizer;
typedef rp_status (*rp_piece_fn)(void *user, const char *text, int64_t bytes);

enum { RP_PATTERN_LITERAL = 1, RP_PATTERN_DIGITS = 2 };     /* a plain string · \p{N} as the Digits pre-tokenizer knows it */
/* A pattern in the dialect of the `tokenizers` package, made to mean the same under PCRE2.
 * errors  RP_ERR_UNSUPPORTED a construct not known to mean the same · RP_ERR_FORMAT PCRE2 refuses it */
rp_status rp__pattern_new(rp_ctx *ctx, const char *text, int64_t bytes, unsigned flags, rp_pattern **out);
/* The next match at or after `from`; *start is -1 when there is none. */
rp_status rp__pattern_next(rp_pattern *pattern, const char *text, int64_t bytes, int64_t from, int64_t *start, int64_t *end);
void rp__pattern_free(rp_pattern *pattern);
rp_status rp__pretokenize(rp_pretokenizer *pre, const char *text, int64_t bytes, rp_piece_fn fn, void *user);
void rp__pretokenizer_free(rp_pretokenizer *pre);

/* ---- merging (bpe.c) ---- */

typedef struct { int32_t left, right, rank; } rp_merge;     /* rank -1: an empty slot */
typedef struct { int32_t id, prev, next, rank; } rp_symbol;     /* rank of merging with next; -1: none */
typedef struct { int32_t rank, at; } rp_candidate;
typedef struct rp_cached_piece rp_cached_piece;
typedef struct {
    rp_ctx *ctx;
    const rp_vocab *vocab;
    int32_t byte_id[256];           /* -1: not in the vocabulary */
    int32_t unk;                    /* for such bytes; -1: they vanish */
    bool fuse_unk, ignore_merges;
    rp_merge *merge;                /* open addressing by (left, right) */
    int64_t n_slots;
    int32_t *result;                /* the token that the merge of a rank makes */
    rp_symbol *symbol;
    int64_t symbol_room;
    rp_candidate *heap;
    int64_t n_heap, heap_room;
    rp_bytes mapped;                /* a piece in the byte-level alphabet */
    rp_cached_piece *cache;
    int64_t n_steps;                /* moves in the heap so far, for tests of linearity */
} rp_bpe;

rp_status rp__bpe_new(rp_ctx *ctx, const rp_vocab *vocab, int64_t n_merges, rp_bpe *bpe);
/* Merges in order of rank. A pair that comes again takes the later rank, as in the package. */
rp_status rp__bpe_add_merge(rp_bpe *bpe, int32_t rank, int32_t left, int32_t right);
rp_status rp__bpe_encode(rp_bpe *bpe, const char *piece, int64_t bytes, rp_ids *ids);
void rp__bpe_free(rp_bpe *bpe);

/* ---- the whole ---- */

struct rp_tokenizer {
    rp_ctx *ctx;
    char *path;                     /* where it came from: what an export copies or converts */
    bool from_gguf;
    rp_vocab vocab;
    rp_added_set raw, normalized;   /* tokens looked for before and after normalizing */
    rp_normal_form normalizer[RP_MAX_NORMALIZERS];
    int n_normalizers;
    rp_pretokenizer pre;
    rp_bpe bpe;
    int32_t bos, eos;
    bool adds_bos;
};

/* Build from parsed files; `config` (tokenizer_config.json) may be NULL. `name` is for messages. */
rp_status rp__tokenizer_build(rp_ctx *ctx, const char *name, json_t *root, json_t *config, rp_tokenizer **out);
rp_status rp__tokenizer_json(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, json_t **out);
/* The tokenizer.json and tokenizer_config.json that a GGUF file amounts to; both are yours to json_decref. */
rp_status rp__tokenizer_from_gguf(rp_ctx *ctx, const rp_gguf *file, const char *name, json_t **root, json_t **config);
/* Text through all the normalizers; `out` is replaced. */
rp_status rp__tokenizer_normalize(rp_tokenizer *tokenizer, const char *text, int64_t bytes, rp_bytes *out);

#endif
