/* tokenizer/stream.c -- decodes ids one by one: the text that each adds to the ids before it.
 *
 *   window   [ ids whose text has been returned │ ids that wait ]
 *
 * Decoders depend on neighbours (the first token loses its space, several bytes make one character). So an id is decoded together with the ids
 * returned last, and the new text is the difference. Text that ends in U+FFFD waits, because the next ids may complete a character.
 */
#include "tokenizer/internal.h"

#include <string.h>

enum { LONGEST_WAIT = 4, PROMPT_IDS = 8 };      /* a character has up to 4 bytes · ids of a prompt that are enough context */

static rp_status length_of(rp_decode_stream *s, const int32_t *ids, int64_t n, int64_t *bytes)
{
    char *text = NULL;

    RP_TRY(rp__tokenizer_decode(s->tokenizer, ids, n, true, &text, bytes));
    rp__release(text);
    return RP_OK;
}

/* The waiting ids become the returned ones. A window without text would give no context. */
static rp_status move_on(rp_decode_stream *s)
{
    int64_t n = s->n - s->n_returned, bytes;

    RP_TRY(length_of(s, s->id + s->n_returned, n, &bytes));
    memmove(s->id, s->id + s->n_returned, (size_t)n * sizeof *s->id);
    s->n = s->n_returned = n;
    s->returned_bytes    = bytes;
    return RP_OK;
}

rp_status rp__decode_stream_begin(rp_tokenizer *tokenizer, const int32_t *prompt, int64_t n_prompt, rp_decode_stream *out)
{
    rp_decode_stream s = { .tokenizer = tokenizer };

    for (int64_t i = n_prompt < PROMPT_IDS ? 0 : n_prompt - PROMPT_IDS; i < n_prompt; i++)
        if (prompt[i] < rp__tokenizer_vocab(tokenizer)) s.id[s.n++] = prompt[i];
    RP_TRY(move_on(&s));
    *out = s;
    return RP_OK;
}

static bool may_continue(const char *text, int64_t bytes) { return bytes >= 3 && !memcmp(text + bytes - 3, "\xef\xbf\xbd", 3); }

rp_status rp__decode_stream_next(rp_decode_stream *s, int32_t id, char **text, int64_t *bytes)
{
    char *all = NULL;
    int64_t n = 0;

    if (s->tokenizer->decoders.bytes) return rp__tokenizer_decode(s->tokenizer, &id, 1, true, text, bytes);
    if (s->n == RP_COUNT(s->id)) {          /* only tokens without text came: the ids returned before are far away */
        s->n = s->n_returned = 0;
        s->returned_bytes    = 0;
    }
    s->id[s->n++] = id;
    RP_TRY(rp__tokenizer_decode(s->tokenizer, s->id, s->n, true, &all, &n));
    bool waits = n <= s->returned_bytes || (may_continue(all, n) && s->n - s->n_returned < LONGEST_WAIT);
    *bytes     = waits ? 0 : n - s->returned_bytes;
    memmove(all, all + (waits ? 0 : s->returned_bytes), (size_t)*bytes);
    all[*bytes]      = 0;
    rp_status status = waits ? RP_OK : move_on(s);
    if (status == RP_OK) *text = all;
    else rp__release(all);
    return status;
}
