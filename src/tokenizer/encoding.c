/* tokenizer/encoding.c -- a text on its way to ids, given in any number of pieces.
 *
 *   piece ─▶ repair ─▶ added ─▶ normalizer … ─▶ added ─▶ spaces, cut … ─▶ model ─▶ ids
 *             held      held       held          held        held          held
 *
 * A level uses up as much of its text as it can be certain of whatever comes behind it: up to a character that nothing before composes
 * with, a match that looked at nothing beyond the piece, two characters that no merge joins. The rest it holds until more comes, so the
 * ids are those of the whole text wherever it was cut into pieces. What is certain of a span whose end is not known is handed on: digits
 * that never come hold nothing up.
 *
 * Where nothing is certain, what is held grows, to the whole text if need be. A level is run again when it has twice as much, so time
 * stays in proportion to the text. A text that is one piece is held nowhere and copied only by what changes it.
 */
#include "text/bytes.h"
#include "tokenizer/internal.h"

#include <string.h>

enum { KEPT_BYTES = 1 << 20 };

/* The text from `used` on waits; it may be what waited before. */
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

static void start_again(rp_level *l)
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
    start_again(l);
    return RP_OK;
}

/* ---- the ends of the way ---- */

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

/* ---- the whole ---- */

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

/* Buffers that one long text made large are not kept for the next. */
static void trim(rp_bytes *bytes)
{
    if (bytes->room > KEPT_BYTES) rp__release(bytes->at);
    if (bytes->room > KEPT_BYTES) *bytes = (rp_bytes){ 0 };
}

void rp__encoding_begin(rp_encoding *e)
{
    for (int k = 0; k < e->n_levels; k++) {
        start_again(&e->level[k]);
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
    for (int k = 0; k < e->n_levels; k++) {
        rp__release(e->level[k].held.at);
        rp__release(e->level[k].made.at);
    }
    rp__release(e->ids.at);
}
