/* io/added.c -- find the added tokens ("<|im_end|>") that are written out in a text.
 *
 * A trie walked from each byte; leftmost match, of those the longest, as the package's automaton gives them. Tokens may
 * take the white space beside them (lstrip, rstrip) or ask for a word boundary (single_word: a refused match is still
 * used up). A walk is at most as long as the longest token.
 */
#include "io/tokenizer_inside.h"

#include <string.h>

rp_status rp__added_insert(rp_ctx *ctx, rp_added_set *set, const char *text, int64_t bytes, rp_added added)
{
    bool fresh = false;

    if (!bytes) return RP_OK;
    if (set->n_added == set->room) {
        int64_t room = set->room ? 2 * (int64_t)set->room : 32, size = (int64_t)sizeof *set->added;
        rp_added *grown = rp__host_grow(ctx, set->added, set->room * size, room * size);
        if (!grown) return RP_ERR_MEMORY;
        set->added = grown;
        set->room  = (int32_t)room;
    }
    RP_TRY(rp__trie_insert(ctx, &set->trie, text, bytes, set->n_added, &fresh));
    if (fresh) set->added[set->n_added++] = added;      /* the first of equals is the one */
    return RP_OK;
}

/* The longest token that starts here, or NULL. */
static const rp_added *longest_at(const rp_added_set *set, const char *text, int64_t bytes, int64_t *length)
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
    return best;
}

static int64_t point_before(const char *text, int64_t at, uint32_t *point)
{
    do at--;
    while (at > 0 && ((uint8_t)text[at] & 0xc0) == 0x80);
    rp__utf8_next(text + at, 4, point);
    return at;
}

static bool stands_alone(const char *text, int64_t bytes, int64_t start, int64_t end)
{
    uint32_t point;

    if (start > 0 && (point_before(text, start, &point), rp__is_word(point))) return false;
    return end >= bytes || (rp__utf8_next(text + end, bytes - end, &point), !rp__is_word(point));
}

int64_t rp__skip_space_back(const char *text, int64_t low, int64_t at)
{
    uint32_t point;

    while (at > low) {
        int64_t before = point_before(text, at, &point);
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

rp_status rp__added_split(const rp_added_set *set, const char *text, int64_t bytes, rp_span_fn fn, void *user)
{
    int64_t done = 0, length = 0, space_end = 0;

    for (int64_t at = 0; set->n_added && at < bytes;) {
        const rp_added *token = longest_at(set, text + at, bytes - at, &length);
        if (!token) {
            at++;
            continue;
        }
        int64_t start = at, end = at + length;
        at = end;
        if (token->single_word && !stands_alone(text, bytes, start, end)) continue;
        if (token->lstrip && start > done) start = rp__skip_space_back(text, done, start);
        if (token->rstrip) {            /* the end of a run of spaces is looked for once, however many tokens are in it */
            if (end >= space_end) space_end = rp__skip_space(text, bytes, end);
            end = space_end;
        }
        if (done < start) RP_TRY(fn(user, text + done, start - done, -1));
        RP_TRY(fn(user, text + start, end - start, token->id));
        done = end;
    }
    return done < bytes ? fn(user, text + done, bytes - done, -1) : RP_OK;
}

void rp__added_free(rp_added_set *set)
{
    rp__release(set->added);
    rp__trie_free(&set->trie);
}
