/* tokenizer/vocab.c -- the tokens of a tokenizer by id and by text. */
#include "tokenizer/internal.h"

#include <string.h>

#include "base/list.h"
#include "text/bytes.h"

/* The slot of the text, or the empty slot where it belongs. */
static int64_t slot_of(const rp_vocab *vocab, const char *text, int64_t bytes)
{
    uint64_t mask = (uint64_t)vocab->n_slots - 1, h = rp__hash(text, (size_t)bytes, RP_HASH_START);

    for (uint64_t i = (h ^ h >> 32) & mask;; i = (i + 1) & mask) {
        int32_t id = vocab->slot[i] - 1;
        if (id < 0) return (int64_t)i;
        const rp_token *t = &vocab->token[id];
        if (t->bytes == bytes && !memcmp(vocab->text.at + t->at, text, (size_t)bytes)) return (int64_t)i;
    }
}

static rp_status grow_slots(rp_ctx *ctx, rp_vocab *vocab)
{
    rp_vocab larger = *vocab;

    larger.n_slots = vocab->n_slots ? 2 * vocab->n_slots : 1024;
    larger.slot    = rp__host_alloc(ctx, larger.n_slots * (int64_t)sizeof *larger.slot);
    if (!larger.slot) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < vocab->n_slots; i++) {
        int32_t id = vocab->slot[i] - 1;
        if (id < 0) continue;
        const rp_token *t = &vocab->token[id];
        larger.slot[slot_of(&larger, vocab->text.at + t->at, t->bytes)] = id + 1;
    }
    rp__release(vocab->slot);
    *vocab = larger;
    return RP_OK;
}

int32_t rp__vocab_find(const rp_vocab *vocab, const char *text, int64_t bytes)
{
    return vocab->n_slots ? vocab->slot[slot_of(vocab, text, bytes)] - 1 : -1;
}

int32_t rp__vocab_find_model(const rp_vocab *vocab, const char *text, int64_t bytes)
{
    int32_t id = rp__vocab_find(vocab, text, bytes);

    return id >= 0 && vocab->token[id].flags & RP_TOKEN_IN_MODEL ? id : -1;
}

bool rp__fallback_ids(const rp_vocab *vocab, int32_t id[256])
{
    static const char hex[] = "0123456789ABCDEF";
    bool all                = true;

    for (int b = 0; b < 256; b++) {
        char name[] = { '<', '0', 'x', hex[b >> 4], hex[b & 15], '>' };
        id[b]       = rp__vocab_find_model(vocab, name, (int64_t)sizeof name);
        all         = all && id[b] >= 0;
    }
    return all;
}

const char *rp__vocab_text(const rp_vocab *vocab, int32_t id) { return vocab->text.at + vocab->token[id].at; }

rp_status rp__vocab_add(rp_ctx *ctx, rp_vocab *vocab, const char *text, int64_t bytes, int64_t id, uint32_t flags)
{
    RP_CHECK(ctx, id >= 0 && id < RP_MAX_TOKENS, RP_ERR_FORMAT,
             "token '%.*s' has id %" PRId64 ", outside 0 to %d", (int)(bytes < 80 ? bytes : 80), text, id, RP_MAX_TOKENS - 1);
    RP_CHECK(ctx, bytes < INT32_MAX / 2, RP_ERR_FORMAT, "token %" PRId64 " has %" PRId64 " bytes", id, bytes);
    if (2 * (vocab->n_used + 1) > vocab->n_slots) RP_TRY(grow_slots(ctx, vocab));
    int64_t slot = slot_of(vocab, text, bytes);
    if (vocab->slot[slot] - 1 == id) {              /* an added token that is also in the model */
        vocab->token[id].flags |= flags;
        return RP_OK;
    }
    RP_CHECK(ctx, !vocab->slot[slot], RP_ERR_FORMAT, "token '%.*s' has ids %d and %" PRId64,
             (int)(bytes < 80 ? bytes : 80), text, vocab->slot[slot] - 1, id);
    RP_CHECK(ctx, id >= vocab->n_ids || !vocab->token[id].flags, RP_ERR_FORMAT,
             "tokens '%.80s' and '%.*s' have the same id %" PRId64, rp__vocab_text(vocab, (int32_t)id),
             (int)(bytes < 80 ? bytes : 80), text, id);
    RP_TRY(RP_GROW(ctx, vocab->token, vocab->room, (int32_t)id + 1));
    int64_t at = vocab->text.n;
    RP_TRY(rp__bytes_room(ctx, &vocab->text, bytes + 1));
    RP_TRY(rp__bytes_push(ctx, &vocab->text, text, bytes));
    RP_TRY(rp__bytes_push(ctx, &vocab->text, "", 1));
    vocab->token[id]  = (rp_token){ .at = at, .shown = at, .bytes = (int32_t)bytes, .shown_bytes = (int32_t)bytes, .flags = flags };
    vocab->slot[slot] = (int32_t)id + 1;
    vocab->n_used++;
    if (flags & RP_TOKEN_IN_MODEL) vocab->n_model++;
    if (id >= vocab->n_ids) vocab->n_ids = (int32_t)id + 1;
    if (bytes > vocab->longest_bytes) vocab->longest_bytes = (int32_t)bytes;
    return RP_OK;
}

rp_status rp__vocab_show(rp_ctx *ctx, rp_vocab *vocab, int32_t id, const char *text, int64_t bytes)
{
    rp_token *token = &vocab->token[id];

    RP_CHECK(ctx, bytes < INT32_MAX / 2, RP_ERR_FORMAT, "token %d has %" PRId64 " bytes when normalized", id, bytes);
    int64_t at = vocab->text.n;
    RP_TRY(rp__bytes_push(ctx, &vocab->text, text, bytes));
    token->shown       = at;
    token->shown_bytes = (int32_t)bytes;
    return RP_OK;
}

void rp__vocab_free(rp_vocab *vocab)
{
    RP_RELEASE(vocab->text.at, vocab->token, vocab->slot);
}
