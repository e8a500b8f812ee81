/* tokenizer/bpe.c -- byte-pair merging: repeatedly joins the adjacent pair of the lowest rank, the leftmost first if ranks are equal.
 *
 * Symbols are a linked list in an array; candidates are in a heap. If a candidate's pair has changed since it was queued, its rank differs and it is
 * dropped. A piece of n bytes takes at most O(n log n) steps. Short pieces and their ids are cached by hash, because words repeat in text. Without a
 * pre-tokenizer a whole document is one piece. It is cut here between characters that no merge joins (usually before the space that begins a word),
 * which changes no id.
 */
#include "tokenizer/internal.h"

#include <string.h>

#include "base/list.h"
#include "text/bytes.h"

enum { CACHED = 8192, CACHED_BYTES = 30, CACHED_IDS = 8, KEPT_SYMBOLS = 1 << 16 };
struct rp_cached_piece { uint8_t n_bytes, n_ids; char text[CACHED_BYTES]; int32_t id[CACHED_IDS]; };

static rp_merge *merge_slot(const rp_bpe *bpe, int32_t left, int32_t right)
{
    uint64_t mask = (uint64_t)bpe->n_slots - 1, key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;

    for (uint64_t i = key * 0x9e3779b97f4a7c15ull >> 32;; i++) {
        rp_merge *m = &bpe->merge[i & mask];
        if (m->rank < 0 || (m->left == left && m->right == right)) return m;
    }
}

/* ---- the heap: lowest rank first, then leftmost ---- */

static bool before(rp_candidate a, rp_candidate b) { return a.rank != b.rank ? a.rank < b.rank : a.at < b.at; }

static void sift_up(rp_bpe *bpe, int64_t i)
{
    rp_candidate c = bpe->heap[i];

    for (; i > 0 && before(c, bpe->heap[(i - 1) / 2]); i = (i - 1) / 2, bpe->n_steps++) bpe->heap[i] = bpe->heap[(i - 1) / 2];
    bpe->heap[i] = c;
}

static void sift_down(rp_bpe *bpe, int64_t i)
{
    rp_candidate c = bpe->heap[i];

    for (int64_t child; (child = 2 * i + 1) < bpe->n_heap; i = child, bpe->n_steps++) {
        if (child + 1 < bpe->n_heap && before(bpe->heap[child + 1], bpe->heap[child])) child++;
        if (!before(bpe->heap[child], c)) break;
        bpe->heap[i] = bpe->heap[child];
    }
    bpe->heap[i] = c;
}

static rp_candidate pop(rp_bpe *bpe)
{
    rp_candidate top = bpe->heap[0];

    bpe->heap[0] = bpe->heap[--bpe->n_heap];
    if (bpe->n_heap) sift_down(bpe, 0);
    return top;
}

/* ---- one piece ---- */

static rp_status bpe_make_room(rp_bpe *bpe, int64_t n)
{
    RP_CHECK(bpe->ctx, n < INT32_MAX / 2, RP_ERR_UNSUPPORTED, "a piece of text has %" PRId64 " bytes and cannot be cut", n);
    if (n > bpe->symbol_room) RP_TRY(RP_RESIZE(bpe->ctx, bpe->symbol, bpe->symbol_room, n));
    if (2 * n <= bpe->heap_room) return RP_OK;
    return RP_RESIZE(bpe->ctx, bpe->heap, bpe->heap_room, 2 * n);       /* each merge removes one candidate and adds at most two */
}

static void give_back(rp_bpe *bpe)
{
    if (bpe->symbol_room <= KEPT_SYMBOLS) return;
    RP_RELEASE(bpe->symbol, bpe->heap);
    bpe->symbol      = NULL;
    bpe->heap        = NULL;
    bpe->symbol_room = bpe->heap_room = 0;
}

/* Converts bytes to symbols. A byte without a token becomes `unk`; without an `unk` it is dropped. */
static int32_t first_symbols(rp_bpe *bpe, const char *piece, int64_t bytes)
{
    int32_t n     = 0;
    bool last_unk = false;

    for (int64_t i = 0; i < bytes; i++) {
        int32_t id = bpe->byte_id[(uint8_t)piece[i]];
        bool unk   = id < 0;
        if (unk && (bpe->unk < 0 || (bpe->fuse_unk && last_unk))) continue;
        bpe->symbol[n] = (rp_symbol){ .id = unk ? bpe->unk : id, .prev = n - 1, .next = n + 1, .rank = -1 };
        last_unk       = unk;
        n++;
    }
    if (n) bpe->symbol[n - 1].next = -1;
    return n;
}

/* The symbols of a piece so far. unk_waits: a character without a token is pending, because the next one may fuse with it. */
typedef struct { int32_t n; bool unk_waits; } spelling;

static void add_symbol(rp_bpe *bpe, spelling *s, int32_t id)
{
    bpe->symbol[s->n] = (rp_symbol){ .id = id, .prev = s->n - 1, .next = s->n + 1, .rank = -1 };
    s->n++;
}

/* Adds the prefix and suffix that the vocabulary expects around this character. If it falls back to bytes, they are included, too. */
static rp_status affix(rp_bpe *bpe, bool first, bool last, const char **text, int64_t *n)
{
    bool has_prefix = !first && bpe->prefix.n, has_suffix = last && bpe->suffix.n;

    if (!has_prefix && !has_suffix) return RP_OK;
    bpe->affixed.n = 0;
    if (has_prefix) RP_TRY(rp__bytes_push(bpe->ctx, &bpe->affixed, bpe->prefix.at, bpe->prefix.n));
    RP_TRY(rp__bytes_push(bpe->ctx, &bpe->affixed, *text, *n));
    if (has_suffix) RP_TRY(rp__bytes_push(bpe->ctx, &bpe->affixed, bpe->suffix.at, bpe->suffix.n));
    *text = bpe->affixed.at;
    *n    = bpe->affixed.n;
    return RP_OK;
}

static bool fall_back(rp_bpe *bpe, spelling *s, const char *text, int64_t n)
{
    if (!bpe->byte_fallback) return false;
    for (int64_t i = 0; i < n; i++)
        if (bpe->fallback_id[(uint8_t)text[i]] < 0) return false;
    for (int64_t i = 0; i < n; i++) add_symbol(bpe, s, bpe->fallback_id[(uint8_t)text[i]]);
    return true;
}

/* Converts characters to symbols. As in the package, a pending unknown character is placed after the bytes of a fallback, not before them. */
static rp_status spell(rp_bpe *bpe, const char *piece, int64_t bytes, int32_t *n_symbols)
{
    spelling s = { 0 };
    uint32_t point;
    int32_t id;

    for (int64_t at = 0, n; at < bytes; at += n) {
        const char *text = piece + at;
        int64_t length   = n = rp__utf8_next(text, bytes - at, &point);
        RP_TRY(affix(bpe, !at, at + n == bytes, &text, &length));
        id = rp__vocab_find_model(bpe->vocab, text, length);
        if (id < 0 && (fall_back(bpe, &s, text, length) || bpe->unk < 0)) continue;
        if (s.unk_waits && (id >= 0 || !bpe->fuse_unk)) add_symbol(bpe, &s, bpe->unk);
        s.unk_waits = id < 0;
        if (id >= 0) add_symbol(bpe, &s, id);
    }
    if (s.unk_waits) add_symbol(bpe, &s, bpe->unk);
    if (s.n) bpe->symbol[s.n - 1].next = -1;
    *n_symbols = s.n;
    return RP_OK;
}

static bool score(rp_bpe *bpe, int32_t at)
{
    rp_symbol *s = &bpe->symbol[at];

    s->rank = s->next < 0 ? -1 : merge_slot(bpe, s->id, bpe->symbol[s->next].id)->rank;
    return s->rank >= 0;
}

static void propose(rp_bpe *bpe, int32_t at)
{
    if (at < 0 || !score(bpe, at)) return;
    bpe->heap[bpe->n_heap++] = (rp_candidate){ bpe->symbol[at].rank, at };
    sift_up(bpe, bpe->n_heap - 1);
}

static void bpe_join(rp_bpe *bpe, int32_t at)
{
    rp_symbol *left = &bpe->symbol[at], *right = &bpe->symbol[left->next];

    left->id    = bpe->result[left->rank];
    left->next  = right->next;
    right->rank = -1;
    if (left->next >= 0) bpe->symbol[left->next].prev = at;
    propose(bpe, at);
    propose(bpe, left->prev);
}

static rp_status merge_piece(rp_bpe *bpe, const char *piece, int64_t bytes, rp_ids *ids)
{
    int32_t n = 0;

    /* a character has at most as many symbols as bytes, its prefix and suffix included */
    RP_TRY(bpe_make_room(bpe, bytes * (1 + bpe->prefix.n) + bpe->suffix.n));
    if (bpe->by_char) RP_TRY(spell(bpe, piece, bytes, &n));
    else n = first_symbols(bpe, piece, bytes);
    bpe->n_heap = 0;
    for (int32_t i = 0; i < n; i++)
        if (score(bpe, i)) bpe->heap[bpe->n_heap++] = (rp_candidate){ bpe->symbol[i].rank, i };
    for (int64_t i = bpe->n_heap / 2 - 1; i >= 0; i--) sift_down(bpe, i);
    while (bpe->n_heap) {
        rp_candidate c = pop(bpe);
        if (bpe->symbol[c.at].rank == c.rank) bpe_join(bpe, c.at);
    }
    rp_status status = RP_OK;
    for (int32_t i = n ? 0 : -1; i >= 0 && status == RP_OK; i = bpe->symbol[i].next)
        status = rp__ids_push(bpe->ctx, ids, bpe->symbol[i].id);
    give_back(bpe);
    return status;
}

/* With ignore_merges, a piece that equals a token becomes that token even if merging would give something else. */
static rp_status whole_piece(rp_bpe *bpe, const char *piece, int64_t bytes, int32_t *id)
{
    *id = -1;
    if (!bpe->ignore_merges || bytes > bpe->vocab->longest_bytes) return RP_OK;
    if (bpe->by_char) {
        *id = rp__vocab_find_model(bpe->vocab, piece, bytes);
        return RP_OK;
    }
    bpe->mapped.n = 0;
    RP_TRY(rp__byte_text(bpe->ctx, piece, bytes, &bpe->mapped));
    *id = rp__vocab_find_model(bpe->vocab, bpe->mapped.at, bpe->mapped.n);
    return RP_OK;
}

static rp_status encode_cached(rp_bpe *bpe, const char *piece, int64_t bytes, rp_ids *ids)
{
    rp_cached_piece *cached = NULL;
    int64_t first           = ids->n;
    int32_t id;

    if (bytes <= CACHED_BYTES) {
        uint64_t h = rp__hash(piece, (size_t)bytes, RP_HASH_START);
        cached     = &bpe->cache[(h ^ h >> 29) % CACHED];
        if (cached->n_bytes == bytes && !memcmp(cached->text, piece, (size_t)bytes)) {
            for (int i = 0; i < cached->n_ids; i++) RP_TRY(rp__ids_push(bpe->ctx, ids, cached->id[i]));
            return RP_OK;
        }
    }
    RP_TRY(whole_piece(bpe, piece, bytes, &id));
    RP_TRY(id >= 0 ? rp__ids_push(bpe->ctx, ids, id) : merge_piece(bpe, piece, bytes, ids));
    int64_t n = ids->n - first;
    if (!cached || n > CACHED_IDS) return RP_OK;
    cached->n_bytes = (uint8_t)bytes;
    cached->n_ids   = (uint8_t)n;
    memcpy(cached->text, piece, (size_t)bytes);
    if (n) memcpy(cached->id, ids->at + first, (size_t)n * sizeof *cached->id);
    return RP_OK;
}

/* The end of the part that begins at `at`. Parts end between two characters that have tokens and that no merge joins: there the two sides are
 * independent. (A character without a token may be dropped, or be pending for the next.) */
static int64_t end_of_part(rp_bpe *bpe, const char *piece, int64_t bytes, int64_t at)
{
    uint32_t last, next;
    int n      = rp__utf8_next(piece + at, bytes - at, &last);
    bool known = rp__vocab_find_model(bpe->vocab, piece + at, n) >= 0;

    for (at += n; at < bytes; at += n) {
        bool left = known;
        n         = rp__utf8_next(piece + at, bytes - at, &next);
        known     = rp__vocab_find_model(bpe->vocab, piece + at, n) >= 0;
        if (left && known && !rp__seams_have(&bpe->seams, last, next)) break;
        last = next;
    }
    return at;
}

/* Encodes all parts but the last, which more text may extend; if the piece ends, all of them. */
static rp_status encode_parts(rp_bpe *bpe, const char *piece, int64_t bytes, bool ends, rp_ids *ids, int64_t *used)
{
    for (int64_t at = 0, end; at < bytes; at = end) {
        end   = end_of_part(bpe, piece, bytes, at);
        *used = at;
        if (!ends && end == bytes) return RP_OK;
        RP_TRY(encode_cached(bpe, piece + at, end - at, ids));
    }
    return RP_OK;
}

static bool has_parts(const rp_bpe *bpe) { return bpe->by_char && !bpe->seams.never && !bpe->ignore_merges; }

rp_status rp__bpe_encode(rp_bpe *bpe, const char *piece, int64_t bytes, rp_ids *ids)
{
    int64_t used;

    return has_parts(bpe) ? encode_parts(bpe, piece, bytes, true, ids, &used) : encode_cached(bpe, piece, bytes, ids);
}

rp_status rp__bpe_encode_open(rp_bpe *bpe, const char *piece, int64_t bytes, rp_ids *ids, int64_t *used)
{
    *used = 0;
    return has_parts(bpe) ? encode_parts(bpe, piece, bytes, false, ids, used) : RP_OK;
}

/* Records the characters that a merge joins. Symbols that are no text of their own could be joined without a recorded pair; then nothing is cut. */
static rp_status add_seam(rp_bpe *bpe, const char *left, int64_t left_bytes, const char *right, int64_t right_bytes)
{
    uint32_t last = 0, first = 0;

    if (!left_bytes || !right_bytes || bpe->prefix.n || bpe->suffix.n) {
        bpe->seams.never = true;
        return RP_OK;
    }
    int64_t at = left_bytes - 1;
    while (at > 0 && ((uint8_t)left[at] & 0xc0) == 0x80) at--;
    rp__utf8_next(left + at, left_bytes - at, &last);
    rp__utf8_next(right, right_bytes, &first);
    return rp__seams_add(bpe->ctx, &bpe->seams, last, first);
}

static bool stands_for_bytes(const rp_bpe *bpe, int32_t id)
{
    const rp_token *t = &bpe->vocab->token[id];

    return id == bpe->unk || (t->bytes == 6 && !memcmp(rp__vocab_text(bpe->vocab, id), "<0x", 3));
}

rp_status rp__bpe_add_merge(rp_bpe *bpe, int32_t rank, int32_t left, int32_t right)
{
    const rp_vocab *vocab = bpe->vocab;
    const rp_token *l = &vocab->token[left], *r = &vocab->token[right];
    const char *left_text = rp__vocab_text(vocab, left), *right_text = rp__vocab_text(vocab, right);
    int64_t skip = bpe->prefix.n < r->bytes ? bpe->prefix.n : r->bytes;

    bpe->mapped.n = 0;
    RP_TRY(rp__bytes_push(bpe->ctx, &bpe->mapped, left_text, l->bytes));
    RP_TRY(rp__bytes_push(bpe->ctx, &bpe->mapped, right_text + skip, r->bytes - skip));
    int32_t id = rp__vocab_find_model(vocab, bpe->mapped.at, bpe->mapped.n);
    RP_CHECK(bpe->ctx, id >= 0, RP_ERR_FORMAT,
             "merge %d ('%.80s' with '%.80s') makes a token that is not in the vocabulary", rank, left_text, right_text);
    *merge_slot(bpe, left, right) = (rp_merge){ left, right, rank };
    bpe->result[rank]             = id;
    if (stands_for_bytes(bpe, left) || stands_for_bytes(bpe, right)) bpe->seams.never = true;
    return bpe->seams.never ? RP_OK : add_seam(bpe, left_text, l->bytes, right_text, r->bytes);
}

rp_status rp__bpe_new(rp_ctx *ctx, const rp_vocab *vocab, int64_t n_merges, rp_bpe *bpe)
{
    rp_bytes one = { 0 };

    bpe->ctx         = ctx;
    bpe->vocab       = vocab;
    bpe->seams.never = bpe->prefix.n || bpe->suffix.n;
    for (bpe->n_slots = 64; bpe->n_slots < 2 * n_merges; bpe->n_slots *= 2) {}
    bpe->merge  = rp__host_alloc(ctx, bpe->n_slots * (int64_t)sizeof *bpe->merge);
    bpe->result = rp__host_alloc(ctx, n_merges * (int64_t)sizeof *bpe->result);
    bpe->cache  = rp__host_alloc(ctx, CACHED * (int64_t)sizeof *bpe->cache);
    if (!bpe->merge || !bpe->result || !bpe->cache) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < bpe->n_slots; i++) bpe->merge[i].rank = -1;
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        one.n     = 0;
        rp_status status = rp__byte_text(ctx, &byte, 1, &one);
        if (status != RP_OK) {
            rp__release(one.at);
            return status;
        }
        bpe->byte_id[b] = rp__vocab_find_model(vocab, one.at, one.n);
    }
    rp__release(one.at);
    rp__fallback_ids(vocab, bpe->fallback_id);
    return RP_OK;
}

void rp__bpe_free(rp_bpe *bpe)
{
    RP_RELEASE(bpe->merge, bpe->result, bpe->symbol, bpe->heap, bpe->mapped.at, bpe->prefix.at, bpe->suffix.at, bpe->affixed.at,
               bpe->seams.slot, bpe->cache);
}
