/* tokenizer/internal.h -- the parts of a tokenizer; only the files of the tokenizer and their tests include it.
 *
 *   text ─ repair ─ added tokens ─ normalize ─ added tokens ─ pre-tokenize ─ model ─ ids
 *          utf8.c    added.c    normalizers.c    added.c    pretokenize.c   bpe.c, unigram.c, wordpiece.c
 *   ids ─ tokens ─ decoders.c ─ text
 *
 * Each part is a level (encoding.c). It receives a text in any number of pieces, passes on the part that no further text can change, and holds the
 * remainder. Memory proportional to a piece: its normalized copy, if there are normalizers, and its ids. json.c builds all parts from tokenizer.json.
 * gguf.c makes that JSON from a GGUF file, spm.c from SentencePiece's tokenizer.model.
 */
#ifndef RP_TOKENIZER_INTERNAL_H
#define RP_TOKENIZER_INTERNAL_H

#include <jansson.h>

#include "gguf/gguf.h"
#include "text/utf8.h"
#include "tokenizer/tokenizer.h"

/* ---- classes of characters, and the byte-level alphabet (characters.c) ---- */

/* Characters assigned after Unicode 14: their general category, "Han" for the script, or "+" for numbers that only the Digits pre-tokenizer knows.
 * rp__late_range: in rising order; NULL after the last. */
typedef struct { uint32_t first, last; char category[4]; } rp_late_range;
const rp_late_range *rp__late_range(int i);
bool rp__is_space(uint32_t point);                  /* White_Space */
bool rp__is_word(uint32_t point);                   /* letters, marks, decimal digits, connectors, joiners */
/* The byte-level alphabet has a printable character for every byte. rp__point_byte: -1 if the character stands for no byte. */
uint32_t rp__byte_point(uint8_t byte);
int rp__point_byte(uint32_t point);
/* Append each byte's character to `out`, at most two bytes each. errors RP_ERR_MEMORY */
rp_status rp__byte_text(rp_ctx *ctx, const char *text, int64_t bytes, rp_bytes *out);
/* Appends the bytes for which a text of the alphabet stands. With any other character, the text is appended as it is. errors RP_ERR_MEMORY */
rp_status rp__text_bytes(rp_ctx *ctx, const char *text, int64_t bytes, rp_bytes *out);
int64_t rp__n_chars(const char *text, int64_t bytes);           /* of UTF-8 */

/* ---- vocabulary (vocab.c) ---- */

enum { RP_TOKEN_IN_MODEL = 1, RP_TOKEN_ADDED = 2, RP_TOKEN_SPECIAL = 4 };
#define RP_MAX_TOKENS (1 << 22)

/* flags 0: no token has this id. `at`: its text; `shown`: the text that it decodes to, which differs only for an added token in normalized text. */
typedef struct { int64_t at, shown; int32_t bytes, shown_bytes; uint32_t flags; } rp_token;
typedef struct {
    rp_bytes text;                  /* all tokens as in the file, each zero-terminated */
    rp_token *token;
    int32_t n_ids, room;            /* n_ids: the largest id + 1 */
    int32_t n_model;                /* tokens with RP_TOKEN_IN_MODEL */
    int32_t longest_bytes;
    int32_t *slot;                  /* open addressing: id + 1; 0: empty */
    int64_t n_slots, n_used;
} rp_vocab;

/* Add a token. errors RP_ERR_FORMAT an id out of range or in use, or a second id for the same text · RP_ERR_MEMORY */
rp_status rp__vocab_add(rp_ctx *ctx, rp_vocab *vocab, const char *text, int64_t bytes, int64_t id, uint32_t flags);
int32_t rp__vocab_find(const rp_vocab *vocab, const char *text, int64_t bytes);     /* -1 if absent */
int32_t rp__vocab_find_model(const rp_vocab *vocab, const char *text, int64_t bytes);     /* -1 if the model has no such token */
const char *rp__vocab_text(const rp_vocab *vocab, int32_t id);
/* Change the text that a token decodes to. errors RP_ERR_FORMAT · RP_ERR_MEMORY */
rp_status rp__vocab_show(rp_ctx *ctx, rp_vocab *vocab, int32_t id, const char *text, int64_t bytes);
void rp__vocab_free(rp_vocab *vocab);

/* ---- strings by their bytes (trie.c) ---- */

typedef struct { int32_t child, sibling, value; uint8_t byte; } rp_trie_node;
typedef struct {
    rp_trie_node *node;             /* node 0 is the root; its children are in `root` */
    int32_t n_nodes, room;
    int32_t root[256];
} rp_trie;

/* Add a string. If it exists, it keeps its value; *fresh: it was new. Empty strings are not stored. errors RP_ERR_FORMAT · RP_ERR_MEMORY */
rp_status rp__trie_insert(rp_ctx *ctx, rp_trie *trie, const char *text, int64_t bytes, int32_t value, bool *fresh);
/* The child of a node (0: the root) by one byte; 0 if there is none. *value is -1 if no string ends there. */
int32_t rp__trie_step(const rp_trie *trie, int32_t node, uint8_t byte, int32_t *value);
void rp__trie_free(rp_trie *trie);

/* ---- added tokens (added.c) ---- */

typedef struct { int32_t id; bool lstrip, rstrip, single_word; } rp_added;
typedef struct { rp_trie trie; rp_added *added; int32_t n_added, room; bool looks_back; } rp_added_set;     /* any lstrip or single_word */

rp_status rp__added_insert(rp_ctx *ctx, rp_added_set *set, const char *text, int64_t bytes, rp_added added);
void rp__added_free(rp_added_set *set);
/* Skip white space from `at`: forward up to `bytes` / backward down to `low`. */
int64_t rp__skip_space(const char *text, int64_t bytes, int64_t at);
int64_t rp__skip_space_back(const char *text, int64_t low, int64_t at);

/* ---- regular expressions (pattern.c) ---- */

typedef struct rp_pattern rp_pattern;
enum { RP_PATTERN_LITERAL = 1, RP_PATTERN_DIGITS = 2 };     /* a plain string · \p{N} as in the Digits pre-tokenizer */
/* Compile a pattern of the `tokenizers` package so that PCRE2 matches the same texts.
 * errors  RP_ERR_UNSUPPORTED a construct that may differ in meaning · RP_ERR_FORMAT PCRE2 refuses it · RP_ERR_MEMORY */
rp_status rp__pattern_new(rp_ctx *ctx, const char *text, int64_t bytes, unsigned flags, rp_pattern **out);
/* Find the next match at or after `from`; *start is -1 if there is none. `open`: the text continues after `bytes`; then a match is reported only if
 * no further text could change it. If none is reported, no match begins before *end, which is `bytes` or the position that depends on further text.
 * errors  RP_ERR_UNSUPPORTED the pattern exceeds its steps on this text, or cannot be matched · RP_ERR_MEMORY */
rp_status rp__pattern_next(rp_pattern *pattern, const char *text, int64_t bytes, bool open, int64_t from, int64_t *start, int64_t *end);
/* Steps that the patterns of a text have taken, and bytes of the text, each of which allows some steps. */
typedef struct { int64_t steps, bytes; } rp_work;
/* Begin a text: its matches share a limit of steps. A pattern counts alone until it shares `work` with others. */
void rp__pattern_begin(rp_pattern *pattern);
void rp__pattern_share(rp_pattern *pattern, rp_work *work);
/* Count bytes that have been searched. */
void rp__pattern_pass(rp_pattern *pattern, int64_t bytes);
/* Start of the text that matches at or after `from` may look back at. */
int64_t rp__pattern_context(const rp_pattern *pattern, const char *text, int64_t from);
void rp__pattern_free(rp_pattern *pattern);

/* All matches as the package counts them: after an empty match the search continues one character later, and an empty match directly after another
 * match is skipped. Begin with { .pattern, .text, .bytes, .last_end = -1 }. At the end start is -1, and no further match begins before `from`:
 * continue there when more text comes. errors as rp__pattern_next */
typedef struct { rp_pattern *pattern; const char *text; int64_t bytes; bool open; int64_t from, last_end, start, end; } rp_matches;
rp_status rp__matches_next(rp_matches *matches);
/* Append the text with each match replaced by `with`. errors as rp__pattern_next */
rp_status rp__pattern_replace(rp_ctx *ctx, rp_pattern *pattern, const char *text, int64_t bytes, const rp_bytes *with, rp_bytes *out);

/* ---- sets of characters, as in the package (unicode_sets.c) ---- */

bool rp__is_punctuation(uint32_t point);            /* separators of Punctuation and BertPreTokenizer */
bool rp__is_dropped(uint32_t point);                /* removed by BertNormalizer's clean_text */
bool rp__is_cjk(uint32_t point);                    /* surrounded by spaces by BertNormalizer */
bool rp__is_nonspacing(uint32_t point);             /* removed by BertNormalizer's strip_accents, after NFD */
bool rp__is_mark(uint32_t point);                   /* removed by StripAccents */
int rp__lower(uint32_t point, uint32_t out[2]);     /* writes and returns one or two characters */
/* Does a grapheme end between the two characters? *state is 0 before the first pair of a text. */
bool rp__breaks_between(uint32_t left, uint32_t right, int32_t *state);

/* ---- normalizers (normalize.c, normalizers.c, charsmap.c) ---- */

typedef enum { RP_NFC, RP_NFD, RP_NFKC, RP_NFKD } rp_normal_form;
#define RP_MAX_NORMALIZERS 16

/* Append the normal form of valid UTF-8. Linear in the length of the text, even for long runs of marks. errors RP_ERR_MEMORY */
rp_status rp__normalize(rp_ctx *ctx, rp_normal_form form, const char *text, int64_t bytes, rp_bytes *out);

/* SentencePiece's rules: a double-array trie over UTF-8, and the replacement texts that its values point to. */
typedef struct { rp_bytes blob; const uint8_t *unit, *text; int64_t n_units, text_bytes; } rp_charsmap;
/* Decode a precompiled_charsmap. errors RP_ERR_FORMAT not base64, or inconsistent sizes · RP_ERR_MEMORY */
rp_status rp__charsmap_new(rp_ctx *ctx, const char *base64, int64_t bytes, rp_charsmap *out);
/* Append the normalized text. *used is all of the text if it ends, otherwise up to its last grapheme. errors RP_ERR_MEMORY */
rp_status rp__charsmap_apply(rp_ctx *ctx, const rp_charsmap *map, const char *text, int64_t bytes, bool ends, int64_t *used, rp_bytes *out);

/* Position of a level in its text. Offsets count from the first byte that the level holds. */
typedef struct { int64_t start, end; bool match; } rp_span;
typedef struct {
    rp_matches matches;
    int64_t done;                   /* text before it was passed on or is in `span` */
    int64_t at, space_end;          /* added tokens: searched up to here · end of the spaces skipped last */
    int64_t given;                  /* end of the part of `span` that was passed on */
    rp_span span;                   /* waits for its neighbour or its end */
    bool begun, holds, grows, joined;       /* some text came · `span` is in use · its end is not known · it has joined its neighbour */
} rp_cursor;
#define RP_CURSOR_START ((rp_cursor){ .matches = { .last_end = -1 } })

/* Input of a normalizer. `used` is `bytes` at first. If the text continues, the normalizer lowers it to the part that is certain. */
typedef struct { const char *text; int64_t bytes, used; bool ends; rp_cursor *cursor; } rp_passage;

typedef struct rp_normalizer rp_normalizer;
struct rp_normalizer {
    rp_status (*run)(rp_ctx *ctx, rp_normalizer *step, rp_passage *in, rp_bytes *out);      /* appends to `out` */
    rp_normal_form form;
    bool left, right;               /* the ends that Strip strips */
    rp_pattern *pattern;            /* Replace: the pattern to search for */
    rp_bytes content;               /* Replace: the replacement; Prepend: the prefix */
    rp_charsmap map;
};
typedef struct { rp_normalizer step[RP_MAX_NORMALIZERS]; int n_steps; } rp_normalizers;

/* Run the text through all steps; `out` is overwritten. */
rp_status rp__normalize_all(rp_ctx *ctx, rp_normalizers *normalizers, const char *text, int64_t bytes, rp_bytes *out);
void rp__normalizers_free(rp_normalizers *normalizers);

/* ---- pre-tokenizers (pretokenize.c) ---- */

typedef enum { RP_SPLIT_REMOVED, RP_SPLIT_ISOLATED, RP_SPLIT_WITH_PREVIOUS, RP_SPLIT_WITH_NEXT, RP_SPLIT_CONTIGUOUS } rp_split;
typedef enum { RP_PREPEND_NEVER, RP_PREPEND_FIRST, RP_PREPEND_ALWAYS } rp_prepend;
typedef struct {
    rp_pattern *pattern;            /* cuts at its matches … */
    bool (*member)(uint32_t point); /* … or at each character of a set; if both are NULL, the whole text is one piece */
    rp_split behaviour;
    bool invert;
    rp_bytes space;                 /* Metaspace: replaces spaces; empty: spaces stay */
    rp_prepend prepend;             /* when to put a space before a text that does not begin with one */
    bool maps_bytes;                /* the text reaches this stage in the byte-level alphabet */
} rp_stage;
#define RP_MAX_STAGES 16
typedef struct { rp_stage stage[RP_MAX_STAGES]; int n_stages; } rp_pretokenizer;

void rp__pretokenizer_free(rp_pretokenizer *pre);

/* ---- models: a piece to ids ---- */

typedef struct { int32_t left, right, rank; } rp_merge;     /* rank -1: an empty slot */
typedef struct { int32_t id, prev, next, rank; } rp_symbol;     /* rank of the merge with `next`; -1: there is none */
typedef struct { int32_t rank, at; } rp_candidate;
typedef struct { uint64_t *slot; int64_t n_slots, n_used; bool never; } rp_seams;
typedef struct rp_cached_piece rp_cached_piece;
typedef struct {
    rp_ctx *ctx;
    const rp_vocab *vocab;
    bool by_char;                   /* symbols are characters; false: bytes of the byte-level alphabet */
    int32_t byte_id[256];           /* -1: not in the vocabulary */
    int32_t fallback_id[256];       /* ids of "<0x00>" to "<0xFF>" */
    int32_t unk;                    /* id for text without a token; -1: such text is dropped */
    bool fuse_unk, ignore_merges, byte_fallback;
    rp_bytes prefix, suffix;        /* of a symbol that continues a word · of one that ends a word */
    rp_bytes affixed;               /* a symbol with prefix and suffix */
    rp_seams seams;                 /* the pairs of characters that merges join */
    rp_merge *merge;                /* open addressing by (left, right) */
    int64_t n_slots;
    int32_t *result;                /* the resulting token of each merge, by rank */
    rp_symbol *symbol;
    int64_t symbol_room;
    rp_candidate *heap;
    int64_t n_heap, heap_room;
    rp_bytes mapped;                /* a piece in the byte-level alphabet */
    rp_cached_piece *cache;
    int64_t n_steps;                /* heap moves so far; tests check that it is linear */
} rp_bpe;

/* Set prefix, suffix, unk and the switches before adding merges. errors RP_ERR_MEMORY */
rp_status rp__bpe_new(rp_ctx *ctx, const rp_vocab *vocab, int64_t n_merges, rp_bpe *bpe);
/* Add merges in order of rank. A pair added twice has the later rank, as in the package. errors RP_ERR_FORMAT · RP_ERR_MEMORY */
rp_status rp__bpe_add_merge(rp_bpe *bpe, int32_t rank, int32_t left, int32_t right);
rp_status rp__bpe_encode(rp_bpe *bpe, const char *piece, int64_t bytes, rp_ids *ids);
/* Encode the part of an unfinished piece whose ids are certain; *used is its length. */
rp_status rp__bpe_encode_open(rp_bpe *bpe, const char *piece, int64_t bytes, rp_ids *ids, int64_t *used);
void rp__bpe_free(rp_bpe *bpe);

/* Pairs of characters that some merge joins (seams.c). Between any other two characters a text can be cut without changing its ids. */
rp_status rp__seams_add(rp_ctx *ctx, rp_seams *seams, uint32_t left, uint32_t right);
bool rp__seams_have(const rp_seams *seams, uint32_t left, uint32_t right);

/* Unigram: the most likely sequence of tokens (unigram.c). */
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
    rp_path *path;                  /* best path that ends before each byte */
    int64_t path_room;
    rp_ids reversed;
} rp_unigram;

rp_status rp__unigram_encode(rp_unigram *unigram, const char *piece, int64_t bytes, rp_ids *ids);
void rp__unigram_free(rp_unigram *unigram);

/* WordPiece: the longest token first, then the longest that continues it (wordpiece.c). */
typedef struct {
    rp_ctx *ctx;
    const rp_vocab *vocab;
    rp_bytes prefix;                /* of a token that continues a word: "##" */
    rp_trie starts, continues;      /* `continues`: without their prefix */
    int64_t max_chars;
    int32_t unk;
} rp_wordpiece;

rp_status rp__wordpiece_encode(rp_wordpiece *wordpiece, const char *piece, int64_t bytes, rp_ids *ids);
void rp__wordpiece_free(rp_wordpiece *wordpiece);

/* Find the ids of "<0x00>" to "<0xFF>", -1 if the model has none. Returns whether it has all. */
bool rp__fallback_ids(const rp_vocab *vocab, int32_t id[256]);

/* ---- decoders (decoders.c) ---- */

typedef struct rp_decoder rp_decoder;
typedef struct { rp_ctx *ctx; rp_decoder *step; int n_steps; rp_bytes *out; } rp_decoding;
struct rp_decoder {
    /* Takes the next string from the step before; text NULL: the end of the list. */
    rp_status (*run)(rp_decoding *d, int k, const char *text, int64_t bytes);
    rp_pattern *pattern;
    rp_bytes content;               /* Replace: the replacement; other steps: the text to look for */
    int64_t start, stop;            /* Strip: most copies of `content` to remove at the start · at the end */
    bool flag;                      /* Metaspace: a space went in front · WordPiece: clean up */
    int64_t n;                      /* number of strings so far */
    rp_bytes held, made;            /* input that waits · output */
};
#define RP_MAX_DECODERS 8
/* bytes: the byte-level alphabet is the only decoder, and there is no step. joins: there is no decoder; tokens are joined by spaces. */
typedef struct { rp_decoder step[RP_MAX_DECODERS]; int n_steps; bool bytes, joins; } rp_decoders;

rp_status rp__decode_token(rp_decoding *d, const char *text, int64_t bytes);
rp_status rp__decode_end(rp_decoding *d);
void rp__decoders_free(rp_decoders *decoders);

/* ---- a text on its way to ids (encoding.c) ---- */

typedef struct rp_encoding rp_encoding;
/* Runs level k. It passes its output to level k + 1 with rp__encoding_give. *used: length of the text that is not needed again; the cursor's offsets
 * must be relative to it afterwards. At `ends` everything is used. */
typedef rp_status (*rp_level_fn)(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used);
typedef struct {
    rp_level_fn run;
    const rp_added_set *set;        /* each level uses one of these three */
    rp_normalizer *step;
    const rp_stage *stage;
    bool moves;                     /* the level has a cursor */
    bool first;                     /* its text begins the document */
    int64_t past;                   /* bytes of the text before the held ones */
    int64_t wait;                   /* the level runs again when it holds this many bytes */
    rp_bytes held, made;
    rp_cursor cursor;
} rp_level;
enum { RP_MAX_LEVELS = 4 + RP_MAX_NORMALIZERS + 2 * RP_MAX_STAGES };
struct rp_encoding { rp_ctx *ctx; rp_tokenizer *t; rp_level level[RP_MAX_LEVELS]; int n_levels; rp_ids ids; rp_work work; };

void rp__encoding_build(rp_encoding *e, rp_tokenizer *t);
/* Discard held text and begin a new one. */
void rp__encoding_begin(rp_encoding *e);
rp_status rp__encoding_give(rp_encoding *e, int k, const char *text, int64_t bytes, bool first, bool ends);
void rp__encoding_free(rp_encoding *e);
rp_status rp__encoding_added(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used);         /* added.c */
rp_status rp__encoding_normalize(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used);     /* normalizers.c */
rp_status rp__encoding_spaces(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used);        /* pretokenize.c */
rp_status rp__encoding_bytes(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used);
rp_status rp__encoding_cut(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used);

/* ---- the tokenizer ---- */

struct rp_tokenizer {
    rp_ctx *ctx;
    char *path;                     /* where it was loaded from; an export copies or converts these files */
    bool from_gguf;
    uint64_t mark;                  /* hash of tokenizer.json or of the model file; an export refuses a changed file */
    rp_vocab vocab;
    rp_added_set raw, normalized;   /* added tokens searched before normalizing · after it */
    rp_normalizers normalizers;
    rp_pretokenizer pre;
    rp_status (*encode_piece)(rp_tokenizer *t, const char *piece, int64_t bytes, rp_ids *ids);   /* by the type of its model: */
    /* encodes the certain part of an unfinished piece; NULL: pieces must be complete */
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

/* Build a tokenizer from parsed files. `config` (tokenizer_config.json) may be NULL. `name` is for messages. errors as rp__tokenizer_load */
rp_status rp__tokenizer_build(rp_ctx *ctx, const char *name, json_t *root, json_t *config, rp_tokenizer **out);
/* The files of a tokenizer as JSON. name: for messages; mark: as in rp_tokenizer. */
typedef struct { json_t *root, *config; char *name; uint64_t mark; bool from_gguf; } rp_tokenizer_source;
/* Read them; *out must be freed in any case. errors as rp__tokenizer_load */
rp_status rp__tokenizer_read(rp_ctx *ctx, const char *path, rp_tokenizer_source *out);
void rp__tokenizer_source_free(rp_tokenizer_source *source);
rp_status rp__tokenizer_json(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, json_t **out);
/* Convert a GGUF file to a tokenizer.json and a tokenizer_config.json; json_decref both. errors RP_ERR_FORMAT · RP_ERR_UNSUPPORTED · RP_ERR_MEMORY */
rp_status rp__tokenizer_from_gguf(rp_ctx *ctx, const rp_gguf *file, const char *name, json_t **root, json_t **config);
/* The same for SentencePiece's tokenizer.model. */
rp_status rp__tokenizer_from_spm(rp_ctx *ctx, const char *name, const char *data, int64_t bytes, json_t **root, json_t **config);
/* The same for a tokenizer.model in a folder, together with the files next to it. *mark: a hash of the model. errors also RP_ERR_IO */
rp_status rp__tokenizer_spm_folder(rp_ctx *ctx, const char *folder, const char *name, json_t **root, json_t **config, uint64_t *mark);
/* Read tokenizer_config.json, and missing keys from special_tokens_map.json and config.json. Absent files are not an error. */
rp_status rp__tokenizer_config(rp_ctx *ctx, const char *folder, json_t **out);
bool rp__is_spm(const char *name);

#endif
