/* tokenizer/added.c -- finds the added tokens (such as "<|im_end|>") that are written out in a text.
 *
 * A trie is walked from each byte. The leftmost match wins, and of those the longest, as in the package's automaton. A token may also take the white
 * space before or after it (lstrip, rstrip), or require word boundaries (single_word; a refused match is still consumed). A walk is at most as long
 * as the longest token. While the text continues, bytes that may become part of a token, and white space that a token may take, are held.
 */
#include "tokenizer/internal.h"

#include "base/list.h"
#include "text/bytes.h"

rp_status rp__added_insert(rp_ctx *ctx, rp_added_set *set, const char *text, int64_t bytes, rp_added added)
{
    bool fresh = false;

    if (!bytes) return RP_OK;
    RP_TRY(RP_GROW(ctx, set->added, set->room, set->n_added + 1));
    RP_TRY(rp__trie_insert(ctx, &set->trie, text, bytes, set->n_added, &fresh));
    if (!fresh) return RP_OK;           /* of equal tokens the first counts */
    set->added[set->n_added++] = added;
    set->looks_back |= added.lstrip || added.single_word;
    return RP_OK;
}

/* The longest token that starts here, or NULL. *hangs: further text could change the result. */
static const rp_added *longest_at(const rp_added_set *set, const char *text, int64_t bytes, int64_t *length, bool *hangs)
{
    const rp_added *best = NULL;
    int32_t node = 0, value;

    for (int64_t i = 0; i < bytes; i++) {
        node = rp__trie_step(&set->trie, node, (uint8_t)text[i], &value);
        if (!node) break;
        if (value < 0) continue;
        best    = &set->added[value];
        *length = i + 1;
    }
    *hangs = node != 0;
    return best;
}

static bool stands_alone(const char *text, int64_t bytes, int64_t start, int64_t end)
{
    uint32_t point;

    if (start > 0 && (rp__utf8_before(text, start, &point), rp__is_word(point))) return false;
    return end >= bytes || (rp__utf8_next(text + end, bytes - end, &point), !rp__is_word(point));
}

int64_t rp__skip_space_back(const char *text, int64_t low, int64_t at)
{
    uint32_t point;

    while (at > low) {
        int64_t before = rp__utf8_before(text, at, &point);
        if (!rp__is_space(point)) break;
        at = before;
    }
    return at;
}

int64_t rp__skip_space(const char *text, int64_t bytes, int64_t at)
{
    uint32_t point;

    while (at < bytes) {
        int n = rp__utf8_next(text + at, bytes - at, &point);
        if (!rp__is_space(point)) break;
        at += n;
    }
    return at;
}

/* ---- a text in pieces ---- */

typedef struct { rp_encoding *e; int k; rp_level *level; const char *text; int64_t bytes; bool ends; } walk;

/* Passes on the text between tokens up to `end`; a part of it may have been passed on before. */
static rp_status put_text(walk *w, int64_t end, bool ends)
{
    rp_level *l  = w->level;
    rp_cursor *c = &l->cursor;

    if (!c->grows && c->done >= end) return RP_OK;
    if (!c->grows) c->span.start = c->done;
    c->grows      = !ends;
    int64_t start = c->done;
    c->done       = end;
    return rp__encoding_give(w->e, w->k + 1, w->text + start, end - start, l->first && !(l->past + c->span.start), ends);
}

/* Processes the token at the cursor. *waits: the decision needs the text that follows. */
static rp_status take_token(walk *w, const rp_added *token, int64_t length, bool *waits)
{
    rp_cursor *c  = &w->level->cursor;
    int64_t start = c->at, end = start + length, space_end = c->space_end;

    *waits = !w->ends && end == w->bytes && (token->single_word || token->rstrip);
    if (*waits) return RP_OK;
    if (!token->single_word || stands_alone(w->text, w->bytes, start, end)) {
        if (token->rstrip && end >= space_end) space_end = rp__skip_space(w->text, w->bytes, end);
        *waits = !w->ends && token->rstrip && space_end == w->bytes;
        if (*waits) return RP_OK;
        c->space_end = space_end;       /* each run of spaces is scanned once, however many tokens are in it */
        if (token->lstrip && start > c->done) start = rp__skip_space_back(w->text, c->done, start);
        RP_TRY(put_text(w, start, true));
        RP_TRY(rp__ids_push(w->e->ctx, &w->e->ids, token->id));
        c->done = token->rstrip ? space_end : end;
    }
    c->at = end;
    return RP_OK;
}

/* The first position from `at` on whose byte begins some token. */
static int64_t next_start(const rp_added_set *set, const char *text, int64_t bytes, int64_t at)
{
    const int32_t *root = set->trie.root;

    while (at < bytes && !root[(uint8_t)text[at]]) at++;
    return at;
}

static rp_status find_tokens(walk *w)
{
    const rp_added_set *set = w->level->set;
    rp_cursor *c            = &w->level->cursor;
    int64_t length          = 0;

    for (;;) {
        bool waits = false;
        c->at      = next_start(set, w->text, w->bytes, c->at);
        if (c->at == w->bytes) return RP_OK;
        const rp_added *token = longest_at(set, w->text + c->at, w->bytes - c->at, &length, &waits);
        waits                 = waits && !w->ends;
        if (waits) return RP_OK;
        if (!token) c->at++;
        else RP_TRY(take_token(w, token, length, &waits));
        if (waits) return RP_OK;
    }
}

/* Passes on the text that is certain. Spaces before the next token may belong to it, and whether it stands alone depends on the character before it. */
static rp_status put_what_is_certain(walk *w, int64_t *used)
{
    rp_cursor *c = &w->level->cursor;
    int64_t end  = c->at;
    uint32_t point;

    if (w->level->set->looks_back && end > c->done) end = rp__skip_space_back(w->text, c->done, end);
    if (end > c->done) RP_TRY(put_text(w, end, false));
    *used = w->level->set->looks_back && c->at > 0 ? rp__utf8_before(w->text, c->at, &point) : c->at;
    if (*used > c->done) *used = c->done;
    c->at -= *used;
    c->done -= *used;
    c->space_end -= *used;
    c->span.start -= *used;
    return RP_OK;
}

rp_status rp__encoding_added(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used)
{
    walk w = { e, k, &e->level[k], text, bytes, ends };

    RP_TRY(find_tokens(&w));
    return ends ? put_text(&w, bytes, true) : put_what_is_certain(&w, used);
}

void rp__added_free(rp_added_set *set)
{
    rp__release(set->added);
    rp__trie_free(&set->trie);
}
