/* io/added.c -- find the added tokens ("<|im_end|>") that are written out in a text.
 *
 * A trie walked from each byte; leftmost match, of those the longest, as the package's automaton gives them. Tokens may
 * take the white space beside them (lstrip, rstrip) or ask for a word boundary (single_word: a refused match is still
 * used up). A walk is at most as long as the longest token.
 */
#include "io/tokenizer_inside.h"

#include <string.h>

static rp_status child_of(rp_ctx *ctx, rp_added_set *set, int32_t parent, uint8_t byte, int32_t *out)
{
    int32_t head = parent ? set->node[parent].child : set->root[byte];

    for (int32_t c = head; c; c = set->node[c].sibling)
        if (set->node[c].byte == byte) return *out = c, RP_OK;
    if (set->n_nodes >= set->node_room) {
        int64_t room = set->node_room ? 2 * (int64_t)set->node_room : 256, size = (int64_t)sizeof *set->node;
        RP_CHECK(ctx, room < INT32_MAX, RP_ERR_FORMAT, "the added tokens are too long");
        rp_trie_node *node = rp__host_grow(ctx, set->node, set->node_room * size, room * size);
        if (!node) return RP_ERR_MEMORY;
        set->node      = node;
        set->node_room = (int32_t)room;
    }
    if (!set->n_nodes) set->n_nodes = 1;        /* the root */
    *out = set->n_nodes++;
    set->node[*out] = (rp_trie_node){ .sibling = head, .added = -1, .byte = byte };
    if (parent) set->node[parent].child = *out;
    else set->root[byte] = *out;
    return RP_OK;
}

rp_status rp__added_insert(rp_ctx *ctx, rp_added_set *set, const char *text, int64_t bytes, rp_added added)
{
    int32_t node = 0;

    if (!bytes) return RP_OK;
    for (int64_t i = 0; i < bytes; i++) RP_TRY(child_of(ctx, set, node, (uint8_t)text[i], &node));
    if (set->node[node].added >= 0) return RP_OK;       /* the first of equals is the one */
    if (set->n_added == set->added_room) {
        int64_t room = set->added_room ? 2 * (int64_t)set->added_room : 32, size = (int64_t)sizeof *set->added;
        rp_added *grown = rp__host_grow(ctx, set->added, set->added_room * size, room * size);
        if (!grown) return RP_ERR_MEMORY;
        set->added      = grown;
        set->added_room = (int32_t)room;
    }
    set->node[node].added     = set->n_added;
    set->added[set->n_added++] = added;
    return RP_OK;
}

/* The longest token that starts here, or NULL. */
static const rp_added *longest_at(const rp_added_set *set, const char *text, int64_t bytes, int64_t *length)
{
    const rp_added *best = NULL;
    int32_t node         = set->root[(uint8_t)text[0]];

    for (int64_t i = 1; node; i++) {
        if (set->node[node].added >= 0) {
            best    = &set->added[set->node[node].added];
            *length = i;
        }
        if (i == bytes) break;
        node = set->node[node].child;
        while (node && set->node[node].byte != (uint8_t)text[i]) node = set->node[node].sibling;
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

static int64_t skip_space_back(const char *text, int64_t low, int64_t at)
{
    uint32_t point;

    while (at > low) {
        int64_t before = point_before(text, at, &point);
        if (!rp__is_space(point)) break;
        at = before;
    }
    return at;
}

static int64_t skip_space(const char *text, int64_t bytes, int64_t at)
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
        if (token->lstrip && start > done) start = skip_space_back(text, done, start);
        if (token->rstrip) {            /* the end of a run of spaces is looked for once, however many tokens are in it */
            if (end >= space_end) space_end = skip_space(text, bytes, end);
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
    rp__release(set->node);
}
