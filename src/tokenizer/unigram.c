/* tokenizer/unigram.c -- finds the sequence of tokens for a piece with the highest sum of scores (Viterbi).
 *
 *   path[i]   the best way to write the first i bytes: its score, its last token and where that begins
 *
 * From each character on, the trie gives all tokens that begin there. A character that is not a token by itself may be `unk`, with the lowest score
 * minus ten. The first of equal ways stays; sums are doubles, added left to right. Both are as in the package (Kudo 2018, arXiv:1804.10959,
 * and SentencePiece's encode_optimized). Adjacent unks are joined before they are looked up or fall back to bytes. Time: length times the length of
 * the longest token. Memory: 16 bytes per byte.
 */
#include "tokenizer/internal.h"

#include <string.h>

#include "base/list.h"
#include "text/bytes.h"

enum { KEPT_PATHS = 1 << 16 };

static rp_status unigram_make_room(rp_unigram *u, int64_t bytes)
{
    int64_t n = bytes + 1;

    RP_CHECK(u->ctx, bytes < INT32_MAX, RP_ERR_UNSUPPORTED, "a piece of text has %" PRId64 " bytes and cannot be cut", bytes);
    if (n > u->path_room) RP_TRY(RP_RESIZE(u->ctx, u->path, u->path_room, n));
    for (int64_t i = 0; i < n; i++) u->path[i] = (rp_path){ .start = -1 };
    return RP_OK;
}

static void give_back(rp_unigram *u)
{
    if (u->path_room <= KEPT_PATHS) return;
    rp__release(u->path);
    u->path      = NULL;
    u->path_room = 0;
}

static void offer(rp_path *path, double score, int64_t start, int32_t id)
{
    if (path->start < 0 || score > path->score) *path = (rp_path){ score, (int32_t)start, id };
}

static rp_status find_paths(rp_unigram *u, const char *piece, int64_t bytes)
{
    uint32_t point;

    for (int64_t at = 0, n; at < bytes; at += n) {
        double so_far = u->path[at].score;
        bool single   = false;
        int32_t node = 0, id;
        n = rp__utf8_next(piece + at, bytes - at, &point);
        for (int64_t end = at; end < bytes;) {
            node = rp__trie_step(&u->trie, node, (uint8_t)piece[end++], &id);
            if (!node) break;
            if (id < 0) continue;
            offer(&u->path[end], so_far + u->score[id], at, id);
            single = single || end == at + n;
        }
        if (single) continue;
        RP_CHECK(u->ctx, u->unk >= 0, RP_ERR_UNSUPPORTED, "a character has no token, and the tokenizer has no token for unknown characters");
        offer(&u->path[at + n], so_far + u->unk_score, at, u->unk);
    }
    return RP_OK;
}

/* Appends the ids of text[start, end) in reverse order: one token, its bytes, or unk. */
static rp_status put_reversed(rp_unigram *u, const char *piece, int64_t start, int64_t end)
{
    int32_t id = rp__vocab_find_model(u->vocab, piece + start, end - start);
    bool bytes = id < 0 && u->byte_fallback;

    for (int64_t i = start; i < end && bytes; i++) bytes = u->fallback_id[(uint8_t)piece[i]] >= 0;
    if (!bytes) return rp__ids_push(u->ctx, &u->reversed, id >= 0 ? id : u->unk);
    for (int64_t i = end - 1; i >= start; i--) RP_TRY(rp__ids_push(u->ctx, &u->reversed, u->fallback_id[(uint8_t)piece[i]]));
    return RP_OK;
}

rp_status rp__unigram_encode(rp_unigram *u, const char *piece, int64_t bytes, rp_ids *ids)
{
    RP_TRY(unigram_make_room(u, bytes));
    RP_TRY(find_paths(u, piece, bytes));
    u->reversed.n = 0;
    for (int64_t end = bytes; end > 0;) {
        int64_t start = u->path[end].start;
        while (u->path[end].id == u->unk && start > 0 && u->path[start].id == u->unk) start = u->path[start].start;
        RP_TRY(put_reversed(u, piece, start, end));
        end = start;
    }
    for (int64_t i = u->reversed.n - 1; i >= 0; i--) RP_TRY(rp__ids_push(u->ctx, ids, u->reversed.at[i]));
    give_back(u);
    return RP_OK;
}

void rp__unigram_free(rp_unigram *u)
{
    RP_RELEASE(u->score, u->path, u->reversed.at);
    rp__trie_free(&u->trie);
}
