/* tokenizer/wordpiece.c -- splits a word into the longest token that begins it, then the longest that continues it, and so on.
 *
 * A word that cannot be split completely, or that has too many characters, becomes one `unk`.
 */
#include "text/bytes.h"
#include "tokenizer/internal.h"

static int32_t longest(const rp_trie *trie, const char *text, int64_t bytes, int64_t *length)
{
    int32_t best = -1, node = 0, value;

    for (int64_t i = 0; i < bytes; i++) {
        node = rp__trie_step(trie, node, (uint8_t)text[i], &value);
        if (!node) break;
        if (value < 0) continue;
        best    = value;
        *length = i + 1;
    }
    return best;
}

rp_status rp__wordpiece_encode(rp_wordpiece *w, const char *piece, int64_t bytes, rp_ids *ids)
{
    int64_t first = ids->n, length = 0;

    if (rp__n_chars(piece, bytes) > w->max_chars) return rp__ids_push(w->ctx, ids, w->unk);
    for (int64_t at = 0; at < bytes; at += length) {
        int32_t id = longest(at ? &w->continues : &w->starts, piece + at, bytes - at, &length);
        if (id < 0) {
            ids->n = first;
            return rp__ids_push(w->ctx, ids, w->unk);
        }
        RP_TRY(rp__ids_push(w->ctx, ids, id));
    }
    return RP_OK;
}

void rp__wordpiece_free(rp_wordpiece *w)
{
    rp__release(w->prefix.at);
    rp__trie_free(&w->starts);
    rp__trie_free(&w->continues);
}
