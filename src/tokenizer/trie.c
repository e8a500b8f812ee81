/* tokenizer/trie.c -- maps byte strings to numbers; lookup walks a text from one byte on.
 *
 * The children of the root are a table, those of other nodes a short list of siblings. A walk is at most as long as the longest string. Node 0 is the
 * root. Elsewhere 0 means "no node", because no link leads back to the root.
 */
#include "tokenizer/internal.h"

#include "base/list.h"

static int32_t child_of(const rp_trie *trie, int32_t parent, uint8_t byte)
{
    int32_t c = parent ? trie->node[parent].child : trie->root[byte];

    while (c && trie->node[c].byte != byte) c = trie->node[c].sibling;
    return c;
}

static rp_status add_child(rp_ctx *ctx, rp_trie *trie, int32_t parent, uint8_t byte, int32_t *out)
{
    int32_t *head;

    *out = child_of(trie, parent, byte);
    if (*out) return RP_OK;
    RP_CHECK(ctx, trie->n_nodes < INT32_MAX / 2, RP_ERR_FORMAT, "the tokens are too long");
    RP_TRY(RP_GROW(ctx, trie->node, trie->room, trie->n_nodes + 1));
    if (!trie->n_nodes) trie->n_nodes = 1;        /* the root */
    *out = trie->n_nodes++;
    head = parent ? &trie->node[parent].child : &trie->root[byte];
    trie->node[*out] = (rp_trie_node){ .sibling = *head, .value = -1, .byte = byte };
    *head = *out;
    return RP_OK;
}

rp_status rp__trie_insert(rp_ctx *ctx, rp_trie *trie, const char *text, int64_t bytes, int32_t value, bool *fresh)
{
    int32_t node = 0;

    for (int64_t i = 0; i < bytes; i++) RP_TRY(add_child(ctx, trie, node, (uint8_t)text[i], &node));
    *fresh = node && trie->node[node].value < 0;
    if (*fresh) trie->node[node].value = value;
    return RP_OK;
}

int32_t rp__trie_step(const rp_trie *trie, int32_t node, uint8_t byte, int32_t *value)
{
    int32_t next = child_of(trie, node, byte);

    *value = next ? trie->node[next].value : -1;
    return next;
}

void rp__trie_free(rp_trie *trie) { rp__release(trie->node); }
