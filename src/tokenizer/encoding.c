/* tokenizer/encoding.c -- the path of a text to ids. The text may be given in any number of pieces.
 *
 *   piece ─▶ repair ─▶ added ─▶ normalizer … ─▶ added ─▶ spaces, cut … ─▶ model ─▶ ids
 *             held      held       held          held        held          held
 *
 * A level consumes the part of its text whose result no further text can change. This part ends at a character that cannot compose with the one
 * before it, at a match that did not look beyond the piece, or between two characters that no merge joins. The level holds the remainder until more
 * text comes. So the ids are those of the whole text, wherever it was cut into pieces. If the end of a span is unknown, its certain part is still
 * passed on: a pre-tokenizer that waits for digits holds nothing up if no digits come.
 *
 * If nothing is certain, the held text grows, up to the whole text if necessary. A level runs again when the held text has doubled, so the total time
 * stays proportional to the length of the text. A text given as one piece is never held, and only steps that change it copy it.
 */
#include "text/bytes.h"
#include "tokenizer/internal.h"

#include <string.h>

enum { KEPT_BYTES = 1 << 20 };

/* Holds the text from `used` on; `text` may be the held text itself. */
static rp_status hold(rp_encoding *e, rp_level *l, const char *text, int64_t bytes, int64_t used)
{
    int64_t rest = bytes - used;

    RP_BUG_IF(used < 0 || rest < 0);
    if (text == l->held.at) memmove(l->held.at, text + used, (size_t)rest);
    l->held.n = text == l->held.at ? rest : 0;
    if (!l->held.n) RP_TRY(rp__bytes_push(e->ctx, &l->held, text + used, rest));
    l->wait  = 2 * rest;
    l->past += used;
    return RP_OK;
}

static void restart(rp_level *l)
{
    l->held.n = 0;
    l->past   = 0;
    l->wait   = 0;
    if (l->moves) l->cursor = RP_CURSOR_START;
}

rp_status rp__encoding_give(rp_encoding *e, int k, const char *text, int64_t bytes, bool first, bool ends)
{
    rp_level *l  = &e->level[k];
    int64_t used = 0;

    if (!k) e->work.bytes += bytes;
    l->first = first;
    if (l->held.n) {
        RP_TRY(rp__bytes_push(e->ctx, &l->held, text, bytes));
        if (!ends && l->held.n < l->wait) return RP_OK;
        text  = l->held.at;
        bytes = l->held.n;
    }
    RP_TRY(l->run(e, k, text, bytes, ends, &used));
    if (!ends) return hold(e, l, text, bytes, used);
    restart(l);
    return RP_OK;
}

/* ---- the first and the last level ---- */

static rp_status repair(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used)
{
    rp_bytes *made = &e->level[k].made;

    *used = ends ? bytes : bytes - rp__utf8_unfinished(text, bytes);
    if (rp__utf8_valid(text, *used) == *used) return rp__encoding_give(e, k + 1, text, *used, true, ends);
    made->n = 0;
    RP_TRY(rp__utf8_repair(e->ctx, text, *used, made));
    return rp__encoding_give(e, k + 1, made->at, made->n, true, ends);
}

static rp_status model(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used)
{
    rp_tokenizer *t = e->t;

    (void)k;
    if (!bytes) return RP_OK;
    if (!ends) return t->encode_open && !t->maps_bytes ? t->encode_open(t, text, bytes, &e->ids, used) : RP_OK;
    if (!t->maps_bytes) return t->encode_piece(t, text, bytes, &e->ids);
    t->mapped.n = 0;
    RP_TRY(rp__byte_text(e->ctx, text, bytes, &t->mapped));
    return t->encode_piece(t, t->mapped.at, t->mapped.n, &e->ids);
}

/* ---- all levels ---- */

static rp_pattern *pattern_of(const rp_level *l) { return l->step ? l->step->pattern : l->stage ? l->stage->pattern : NULL; }

static void encoding_add(rp_encoding *e, rp_level level)
{
    rp_pattern *p = pattern_of(&level);

    if (p) rp__pattern_share(p, &e->work);
    level.moves  = level.set || level.step || level.stage;
    level.cursor = RP_CURSOR_START;
    RP_BUG_IF(e->n_levels == RP_MAX_LEVELS);
    e->level[e->n_levels++] = level;
}

void rp__encoding_build(rp_encoding *e, rp_tokenizer *t)
{
    *e = (rp_encoding){ .ctx = t->ctx, .t = t };
    encoding_add(e, (rp_level){ .run = repair });
    encoding_add(e, (rp_level){ .run = rp__encoding_added, .set = &t->raw });
    for (int i = 0; i < t->normalizers.n_steps; i++) encoding_add(e, (rp_level){ .run = rp__encoding_normalize, .step = &t->normalizers.step[i] });
    encoding_add(e, (rp_level){ .run = rp__encoding_added, .set = &t->normalized });
    for (int i = 0; i < t->pre.n_stages; i++) {
        const rp_stage *stage = &t->pre.stage[i];
        if (stage->space.n) encoding_add(e, (rp_level){ .run = rp__encoding_spaces, .stage = stage });
        else if (stage->maps_bytes) encoding_add(e, (rp_level){ .run = rp__encoding_bytes, .stage = stage });
        if (stage->pattern || stage->member) encoding_add(e, (rp_level){ .run = rp__encoding_cut, .stage = stage });
    }
    encoding_add(e, (rp_level){ .run = model });
}

/* Frees buffers that one long text made large. */
static void trim(rp_bytes *bytes)
{
    if (bytes->room > KEPT_BYTES) rp__release(bytes->at);
    if (bytes->room > KEPT_BYTES) *bytes = (rp_bytes){ 0 };
}

void rp__encoding_begin(rp_encoding *e)
{
    for (int k = 0; k < e->n_levels; k++) {
        restart(&e->level[k]);
        trim(&e->level[k].held);
        trim(&e->level[k].made);
        rp_pattern *p = pattern_of(&e->level[k]);
        if (p) rp__pattern_begin(p);
    }
    e->ids.n = 0;
    e->work  = (rp_work){ 0 };
}

void rp__encoding_free(rp_encoding *e)
{
    for (int k = 0; k < e->n_levels; k++) RP_RELEASE(e->level[k].held.at, e->level[k].made.at);
    rp__release(e->ids.at);
}
