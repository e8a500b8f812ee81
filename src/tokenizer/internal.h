/* tokenizer/internal.h -- what a tokenizer is made of; included by the files of the tokenizer and their tests.
 *
 *   text ─ repair ─ added tokens ─ normalize ─ added tokens ─ pre-tokenize ─ model ─ ids
 *          utf8.c    added.c    normalizers.c    added.c    pretokenize.c   bpe.c, unigram.c, wordpiece.c
 *   ids ─ tokens ─ decoders.c ─ text
 *
 * Each part is a level (encoding.c): it is given a text in any number of pieces, hands on what is certain whatever comes behind it, and
 * keeps the rest until more comes. What is proportional to a piece are its normalized copy, where there are normalizers, and the
 * ids. json.c builds all parts from tokenizer.json; gguf.c makes that JSON from a GGUF file,
 * spm.c from SentencePiece's tokenizer.model.
 */
#ifndef RP_TOKENIZER_INTERNAL_H
#define RP_TOKENIZER_INTERNAL_H

#include <jansson.h>

#include "gguf/gguf.h"
#include "text/utf8.h"
#include "tokenizer/tokenizer.h"

/* ---- classes of characters, and the byte-level alphabet (characters.c) ---- */

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

/* flags 0: no token has this id. What an added token that is looked for in normalized text decodes to is its normalized text. */
typedef struct { int64_t at, shown; int32_t bytes, shown_bytes; uint32_t flags; } rp_token;
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
int32_t rp__vocab_find_model(const rp_vocab *vocab, const char *text, int64_t bytes);     /* -1 where the model has none */
const char *rp__vocab_text(const rp_vocab *vocab, int32_t id);
/* Give a token that is there another text to decode to. */
rp_status rp__vocab_show(rp_ctx *ctx, rp_vocab *vocab, int32_t id, const char *text, int64_t bytes);
void rp__vocab_free(rp_vocab *vocab);

/* ---- strings by their bytes (trie.c) ---- */

typedef struct { int32_t child, sibling, value; uint8_t byte; } rp_trie_node;
typedef struct {
    rp_trie_node *node;             /* node 0 is the root, its children in `root` */
    int32_t n_nodes, room;
    int32_t root[256];
} rp_trie;

/* The first of equal strings keeps its value; *fresh says whether this was it. An empty string is not kept. */
rp_status rp__trie_insert(rp_ctx *ctx, rp_trie *trie, const char *text, int64_t bytes, int32_t value, bool *fresh);
/* From a node (0: the root) by one byte to the next, 0 where there is none; *value is -1 where no string ends. */
int32_t rp__trie_step(const rp_trie *trie, int32_t node, uint8_t byte, int32_t *value);
void rp__trie_free(rp_trie *trie);

/* ---- added tokens (added.c) ---- */

typedef struct { int32_t id; bool lstrip, rstrip, single_word; } rp_added;
typedef struct { rp_trie trie; rp_added *added; int32_t n_added, room; bool looks_back; } rp_added_set;     /* any lstrip or single_word */

rp_status rp__added_insert(rp_ctx *ctx, rp_added_set *set, const char *text, int64_t bytes, rp_added added);
void rp__added_free(rp_added_set *set);
/* From `at` over white space, forward to at most `bytes`, backward to at least `low`. */
int64_t rp__skip_space(const char *text, int64_t bytes, int64_t at);
int64_t rp__skip_space_back(const char *text, int64_t low, int64_t at);

/* ---- regular expressions (pattern.c) ---- */

typedef struct rp_pattern rp_pattern;
enum { RP_PATTERN_LITERAL = 1, RP_PATTERN_DIGITS = 2 };     /* a plain string · \p{N} as the Digits pre-tokenizer knows it */
/* A pattern in the dialect of the `tokenizers` package, made to mean the same under PCRE2.
 * errors  RP_ERR_UNSUPPORTED a construct not known to mean the same · RP_ERR_FORMAT PCRE2 refuses it */
rp_status rp__pattern_new(rp_ctx *ctx, const char *text, int64_t bytes, unsigned flags, rp_pattern **out);
/* The next match at or after `from`; *start is -1 when there is none. Of a text that goes on behind `bytes`, `open`, a match counts
 * only when no more text could change it; without one, none begins before *end, which is `bytes` or where it hangs on what follows. */
rp_status rp__pattern_next(rp_pattern *pattern, const char *text, int64_t bytes, bool open, int64_t from, int64_t *start, int64_t *end);
/* The steps that the patterns of a text have taken, and the bytes of the text, which have a few steps each. */
typedef struct { int64_t steps, bytes; } rp_work;
/* A text begins: its matches share its steps. A pattern has them to itself until it shares those of `work`. */
void rp__pattern_begin(rp_pattern *pattern);
void rp__pattern_share(rp_pattern *pattern, rp_work *work);
/* Bytes that have been searched. */
void rp__pattern_pass(rp_pattern *pattern, int64_t bytes);
/* Where the text begins that matches at or after `from` may look back at. */
int64_t rp__pattern_context(const rp_pattern *pattern, const char *text, int64_t from);
void rp__pattern_free(rp_pattern *pattern);

/* All matches as the package counts them: after an empty match the search goes on one character later, and an empty match
 * right after another match is none. Begin with { .pattern, .text, .bytes, .last_end = -1 }; start is -1 at the end, and `from` then
 * the place before which no other match begins: where more text is to be looked at from. */
typedef struct { rp_pattern *pattern; const char *text; int64_t bytes; bool open; int64_t from, last_end, start, end; } rp_matches;
rp_status rp__matches_next(rp_matches *matches);
/* Append the text with each match replaced. */
rp_status rp__pattern_replace(rp_ctx *ctx, rp_pattern *pattern, const char *text, int64_t bytes, const rp_bytes *with, rp_bytes *out);

/* ---- sets of characters as the package has them (unicode_sets.c) ---- */

bool rp__is_punctuation(uint32_t point);            /* what Punctuation and BertPreTokenizer cut at */
bool rp__is_dropped(uint32_t point);                /* what BertNormalizer's clean_text drops */
bool rp__is_cjk(uint32_t point);                    /* what it puts spaces around */
bool rp__is_nonspacing(uint32_t point);             /* what its strip_accents drops, after NFD */
bool rp__is_mark(uint32_t point);                   /* what StripAccents drops */
int rp__lower(uint32_t point, uint32_t out[2]);     /* one or two characters */
/* Does a grapheme end between the two? *state is 0 before the first pair of a text. */
bool rp__breaks_between(uint32_t left, uint32_t right, int32_t *state);

/* ---- normalizers (normalize.c, normalizers.c, charsmap.c) ---- */

typedef enum { RP_NFC, RP_NFD, RP_NFKC, RP_NFKD } rp_normal_form;
#define RP_MAX_NORMALIZERS 16

/* Append the normal form of valid UTF-8. Linear in the text, runs of marks included. */
rp_status rp__normalize(rp_ctx *ctx, rp_normal_form form, const char *text, int64_t bytes, rp_bytes *out);

/* SentencePiece's rules as a double-array trie over UTF-8, and the texts that its values point into. */
typedef struct { rp_bytes blob; const uint8_t *unit, *text; int64_t n_units, text_bytes; } rp_charsmap;
/* `base64` is precompiled_charsmap. errors  RP_ERR_FORMAT not base64, or sizes that contradict each other */
rp_status rp__charsmap_new(rp_ctx *ctx, const char *base64, int64_t bytes, rp_charsmap *out);
/* *used is all of the text where it ends, else up to its last grapheme. */
rp_status rp__charsmap_apply(rp_ctx *ctx, const rp_charsmap *map, const char *text, int64_t bytes, bool ends, int64_t *used, rp_bytes *out);

/* Where a level is in its text; offsets are from the first byte that it holds. */
typedef struct { int64_t start, end; bool match; } rp_span;
typedef struct {
    rp_matches matches;
    int64_t done;                   /* what is before it was handed on, or is in `span` */
    int64_t at, space_end;          /* added tokens: looked for up to here · the end of the spaces last skipped */
    int64_t given;                  /* of `span`, what was handed on */
    rp_span span;                   /* what waits for its neighbour or its end */
    bool begun, holds, grows, joined;       /* any text came · there is a span · its end is not known · it has its neighbour */
} rp_cursor;
#define RP_CURSOR_START ((rp_cursor){ .matches = { .last_end = -1 } })

/* What a normalizer is given. Where the text goes on, it may lower `used`, which is `bytes`: to what it could be certain of. */
typedef struct { const char *text; int64_t bytes, used; bool ends; rp_cursor *cursor; } rp_passage;

typedef struct rp_normalizer rp_normalizer;
struct rp_normalizer {
    rp_status (*run)(rp_ctx *ctx, rp_normalizer *step, rp_passage *in, rp_bytes *out);      /* appends */
    rp_normal_form form;
    bool left, right;               /* the ends that Strip cuts */
    rp_pattern *pattern;            /* what Replace looks for */
    rp_bytes content;               /* what it puts there; what Prepend puts in front */
    rp_charsmap map;
};
typedef struct { rp_normalizer step[RP_MAX_NORMALIZERS]; int n_steps; } rp_normalizers;

/* Text through all the steps; `out` is replaced. */
rp_status rp__normalize_all(rp_ctx *ctx, rp_normalizers *normalizers, const char *text, int64_t bytes, rp_bytes *out);
void rp__normalizers_free(rp_normalizers *normalizers);

/* ---- pre-tokenizers (pretokenize.c) ---- */

typedef enum { RP_SPLIT_REMOVED, RP_SPLIT_ISOLATED, RP_SPLIT_WITH_PREVIOUS, RP_SPLIT_WITH_NEXT, RP_SPLIT_CONTIGUOUS } rp_split;
typedef enum { RP_PREPEND_NEVER, RP_PREPEND_FIRST, RP_PREPEND_ALWAYS } rp_prepend;
typedef struct {
    rp_pattern *pattern;            /* cuts at its matches … */
    bool (*member)(uint32_t point); /* … or at each character of a set; neither: the whole text is one piece */
    rp_split behaviour;
    bool invert;
    rp_bytes space;                 /* stands for spaces (Metaspace); empty: nothing does */
    rp_prepend prepend;             /* a space goes in front of a text that has none there */
    bool maps_bytes;                /* the text comes to this stage in the byte-level alphabet */
} rp_stage;
#define RP_MAX_STAGES 16
typedef struct { rp_stage stage[RP_MAX_STAGES]; int n_stages; } rp_pretokenizer;

void rp__pretokenizer_free(rp_pretokenizer *pre);

/* ---- models: a piece to ids ---- */

typedef struct { int32_t left, right, rank; } rp_merge;     /* rank -1: an empty slot */
typedef struct { int32_t id, prev, next, rank; } rp_symbol;     /* rank of merging with next; -1: none */
typedef struct { int32_t rank, at; } rp_candidate;
typedef struct { uint64_t *slot; int64_t n_slots, n_used; bool never; } rp_seams;
typedef struct rp_cached_piece rp_cached_piece;
typedef struct {
    rp_ctx *ctx;
    const rp_vocab *vocab;
    bool by_char;                   /* symbols are characters; else the bytes of the byte-level alphabet */
    int32_t byte_id[256];           /* -1: not in the vocabulary */
    int32_t fallback_id[256];       /* "<0x0A>" and so on */
    int32_t unk;                    /* for what has no token; -1: it vanishes */
    bool fuse_unk, ignore_merges, byte_fallback;
    rp_bytes prefix, suffix;        /* of a symbol that continues a word, of one that ends it */
    rp_bytes affixed;               /* a symbol with them */
    rp_seams seams;                 /* between which characters merges join */
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

/* prefix, suffix, unk and the switches are to be set before merges are added. */
rp_status rp__bpe_new(rp_ctx *ctx, const rp_vocab *vocab, int64_t n_merges, rp_bpe *bpe);
/* Merges in order of rank. A pair that comes again takes the later rank, as in the package. */
rp_status rp__bpe_add_merge(rp_bpe *bpe, int32_t rank, int32_t left, int32_t right);
rp_status rp__bpe_encode(rp_bpe *bpe, const char *piece, int64_t bytes, rp_ids *ids);
/* Of a piece that goes on, as far as its ids are certain: *used. */
rp_status rp__bpe_encode_open(rp_bpe *bpe, const char *piece, int64_t bytes, rp_ids *ids, int64_t *used);
void rp__bpe_free(rp_bpe *bpe);

/* Pairs of characters that some merge joins (seams.c): a text can be cut between any others without a change of its ids. */
rp_status rp__seams_add(rp_ctx *ctx, rp_seams *seams, uint32_t left, uint32_t right);
bool rp__seams_have(const rp_seams *seams, uint32_t left, uint32_t right);

/* The pieces that are likeliest together (unigram.c). */
typedef struct { double score; int32_t start, id; } rp_path;
typedef struct {
    rp_ctx *ctx;
    const rp_vocab *vocab;
    double *score;                  /* by id */
    double unk_score;               /* of a character without a token */
    int32_t unk;                    /* -1: such a character is an error */
    bool byte_fallback;
    int32_t fallback_id[256];
    rp_trie trie;
    rp_path *path;                  /* the best that ends before each byte */
    int64_t path_room;
    rp_ids reversed;
} rp_unigram;

rp_status rp__unigram_encode(rp_unigram *unigram, const char *piece, int64_t bytes, rp_ids *ids);
void rp__unigram_free(rp_unigram *unigram);

/* The longest token first, then the longest that continues it (wordpiece.c). */
typedef struct {
    rp_ctx *ctx;
    const rp_vocab *vocab;
    rp_bytes prefix;                /* of a token that continues a word: "##" */
    rp_trie starts, continues;      /* the latter without their prefix */
    int64_t max_chars;
    int32_t unk;
} rp_wordpiece;

rp_status rp__wordpiece_encode(rp_wordpiece *wordpiece, const char *piece, int64_t bytes, rp_ids *ids);
void rp__wordpiece_free(rp_wordpiece *wordpiece);

/* The ids of "<0x00>" to "<0xFF>", -1 where the model has none. True when it has all. */
bool rp__fallback_ids(const rp_vocab *vocab, int32_t id[256]);

/* ---- decoders (decoders.c) ---- */

typedef struct rp_decoder rp_decoder;
typedef struct { rp_ctx *ctx; rp_decoder *step; int n_steps; rp_bytes *out; } rp_decoding;
struct rp_decoder {
    /* Takes the next string of the list that the step before makes; with NULL, the end of it. */
    rp_status (*run)(rp_decoding *d, int k, const char *text, int64_t bytes);
    rp_pattern *pattern;
    rp_bytes content;               /* what Replace puts, what else is looked for */
    int64_t start, stop;            /* how many characters Strip takes at most */
    bool flag;                      /* Metaspace: a space went in front · WordPiece: clean up */
    int64_t n;                      /* strings so far */
    rp_bytes held, made;            /* what waits for more, what is handed on */
};
#define RP_MAX_DECODERS 8
typedef struct { rp_decoder step[RP_MAX_DECODERS]; int n_steps; bool bytes, joins; } rp_decoders;   /* bytes: the byte-level
                                       alphabet alone, and no step · joins: no decoder, tokens with spaces between them */

rp_status rp__decode_token(rp_decoding *d, const char *text, int64_t bytes);
rp_status rp__decode_end(rp_decoding *d);
void rp__decoders_free(rp_decoders *decoders);

/* ---- a text on its way to ids (encoding.c) ---- */

typedef struct rp_encoding rp_encoding;
/* What level k is to hand on goes by rp__encoding_give to k + 1. *used is how much of the text need not be seen again; the cursor's offsets are to
 * be from there. At `ends` all is. */
typedef rp_status (*rp_level_fn)(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used);
typedef struct {
    rp_level_fn run;
    const rp_added_set *set;        /* that of what it does which it needs */
    rp_normalizer *step;
    const rp_stage *stage;
    bool moves;                     /* it has a cursor */
    bool first;                     /* its text is where the document begins */
    int64_t past;                   /* bytes of the text before those it holds */
    int64_t wait;                   /* it is not run again before it has so many */
    rp_bytes held, made;
    rp_cursor cursor;
} rp_level;
enum { RP_MAX_LEVELS = 4 + RP_MAX_NORMALIZERS + 2 * RP_MAX_STAGES };
struct rp_encoding { rp_ctx *ctx; rp_tokenizer *t; rp_level level[RP_MAX_LEVELS]; int n_levels; rp_ids ids; rp_work work; };

void rp__encoding_build(rp_encoding *e, rp_tokenizer *t);
/* Forget what is held. */
void rp__encoding_begin(rp_encoding *e);
rp_status rp__encoding_give(rp_encoding *e, int k, const char *text, int64_t bytes, bool first, bool ends);
void rp__encoding_free(rp_encoding *e);
rp_status rp__encoding_added(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used);         /* added.c */
rp_status rp__encoding_normalize(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used);     /* normalizers.c */
rp_status rp__encoding_spaces(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used);        /* pretokenize.c */
rp_status rp__encoding_bytes(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used);
rp_status rp__encoding_cut(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used);

/* ---- the whole ---- */

struct rp_tokenizer {
    rp_ctx *ctx;
    char *path;                     /* where it came from: what an export copies or converts */
    bool from_gguf;
    uint64_t mark;                  /* hash of tokenizer.json, which an export finds unchanged or refuses */
    rp_vocab vocab;
    rp_added_set raw, normalized;   /* tokens looked for before and after normalizing */
    rp_normalizers normalizers;
    rp_pretokenizer pre;
    rp_status (*encode_piece)(rp_tokenizer *t, const char *piece, int64_t bytes, rp_ids *ids);   /* by the model it has: */
    /* Of a piece that goes on; NULL: it has to be whole. */
    rp_status (*encode_open)(rp_tokenizer *t, const char *piece, int64_t bytes, rp_ids *ids, int64_t *used);
    rp_bpe bpe;
    rp_unigram unigram;
    rp_wordpiece wordpiece;
    bool maps_bytes;                /* pieces reach the model in the byte-level alphabet */
    rp_bytes mapped;
    rp_encoding encoding;
    rp_decoders decoders;
    int32_t bos, eos;
    bool adds_bos;
};

/* Build from parsed files; `config` (tokenizer_config.json) may be NULL. `name` is for messages. */
rp_status rp__tokenizer_build(rp_ctx *ctx, const char *name, json_t *root, json_t *config, rp_tokenizer **out);
rp_status rp__tokenizer_json(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, json_t **out);
/* The tokenizer.json and tokenizer_config.json that a GGUF file amounts to; both are yours to json_decref. */
rp_status rp__tokenizer_from_gguf(rp_ctx *ctx, const rp_gguf *file, const char *name, json_t **root, json_t **config);
/* The same of SentencePiece's tokenizer.model. */
rp_status rp__tokenizer_from_spm(rp_ctx *ctx, const char *name, const char *data, int64_t bytes, json_t **root, json_t **config);
/* … and of the files beside it. *mark: a hash of the model. */
rp_status rp__tokenizer_spm_folder(rp_ctx *ctx, const char *folder, const char *name, json_t **root, json_t **config, uint64_t *mark);
/* tokenizer_config.json, and what it leaves out from special_tokens_map.json and config.json; absent files are no error. */
rp_status rp__tokenizer_config(rp_ctx *ctx, const char *folder, json_t **out);
/* Which file of a folder is its tokenizer: tokenizer.json, or where there is none a model of SentencePiece. */
rp_status rp__tokenizer_file(rp_ctx *ctx, const char *folder, const char **out);
bool rp__is_spm(const char *name);

#endif
