/* tokenizer/pretokenize.c -- cuts text into the pieces within which the model merges.
 *
 * It is a pipeline of stages. Each stage may replace spaces or change the alphabet, then cuts the pieces of the stage before. It sees only one piece,
 * so a look-ahead ends at the end of its piece. Pieces are passed on as they are found. While the text continues, a gap between matches is passed on
 * as far as no match can begin in it; a match is passed on only when it is complete.
 */
#include "text/bytes.h"
#include "tokenizer/internal.h"

#include <string.h>

typedef struct { rp_encoding *e; int k; rp_level *level; const char *text; } cutter;

/* ---- spans (alternating matches and gaps) to pieces ---- */

/* Passes on the span up to `end`; a part may have been passed on before. */
static rp_status pretokenize_put(cutter *c, int64_t end, bool ends)
{
    rp_level *l   = c->level;
    rp_cursor *at = &l->cursor;
    int64_t start = at->given;

    at->given = end;
    if (l->stage->behaviour == RP_SPLIT_REMOVED && at->span.match) return RP_OK;
    if (at->span.end <= at->span.start) return RP_OK;
    return rp__encoding_give(c->e, c->k + 1, c->text + start, end - start, l->first && !(l->past + at->span.start), ends);
}

static rp_status put_held(cutter *c)
{
    rp_cursor *at = &c->level->cursor;

    if (!at->holds) return RP_OK;
    at->holds = false;
    return pretokenize_put(c, at->span.end, true);
}

/* Does the next span join the held one? */
static bool joins(rp_split behaviour, const rp_cursor *at, bool match)
{
    if (!at->holds) return false;
    switch (behaviour) {
    case RP_SPLIT_CONTIGUOUS: return at->span.match == match;
    case RP_SPLIT_WITH_PREVIOUS: return match && !at->span.match;
    case RP_SPLIT_WITH_NEXT: return !match && at->span.match;
    default: return false;
    }
}

static rp_status hold(cutter *c, rp_span s)
{
    rp_cursor *at      = &c->level->cursor;
    rp_split behaviour = c->level->stage->behaviour;

    at->joined = joins(behaviour, at, s.match);
    if (at->joined) {
        at->span.end   = s.end;
        at->span.match = at->span.match || behaviour == RP_SPLIT_WITH_PREVIOUS;
        return RP_OK;
    }
    RP_TRY(put_held(c));
    at->span  = s;
    at->given = s.start;
    at->holds = true;
    return RP_OK;
}

/* Passes on a whole span that waits for no neighbour, the usual case. */
static rp_status put_whole(cutter *c, rp_span s)
{
    rp_level *l = c->level;

    if (s.end <= s.start || (s.match && l->stage->behaviour == RP_SPLIT_REMOVED)) return RP_OK;
    return rp__encoding_give(c->e, c->k + 1, c->text + s.start, s.end - s.start, l->first && !(l->past + s.start), true);
}

/* Takes the next span, or more of the growing one. A span that may join its neighbour is held. */
static rp_status cut(cutter *c, rp_span s, bool grows)
{
    rp_cursor *at      = &c->level->cursor;
    rp_split behaviour = c->level->stage->behaviour;

    if (!at->grows && !grows && (behaviour == RP_SPLIT_ISOLATED || behaviour == RP_SPLIT_REMOVED)) return put_whole(c, s);
    if (at->grows) at->span.end = s.end;
    else RP_TRY(hold(c, s));
    at->grows = grows;
    if (grows) return pretokenize_put(c, s.end, false);
    bool waits = behaviour == RP_SPLIT_CONTIGUOUS || behaviour == RP_SPLIT_WITH_PREVIOUS || (behaviour == RP_SPLIT_WITH_NEXT && !at->joined);
    return waits ? RP_OK : put_held(c);
}

/* ---- the text ---- */

/* The next match, as rp__matches_next, of the stage's pattern or set. */
static rp_status next_match(const rp_stage *stage, rp_matches *m)
{
    uint32_t point;

    if (stage->pattern) return rp__matches_next(m);
    while (m->from < m->bytes) {
        m->start = m->from;
        m->from += rp__utf8_next(m->text + m->from, m->bytes - m->from, &point);
        m->end   = m->from;
        if (stage->member(point)) return RP_OK;
    }
    m->start = -1;
    return RP_OK;
}

static rp_status cut_at_matches(cutter *c, int64_t bytes, bool ends)
{
    const rp_stage *stage = c->level->stage;
    rp_cursor *at         = &c->level->cursor;
    rp_matches *m         = &at->matches;

    m->pattern = stage->pattern;
    m->text    = c->text;
    m->bytes   = bytes;
    m->open    = !ends;
    for (;;) {
        RP_TRY(next_match(stage, m));
        if (m->start < 0) break;
        if (at->done < m->start || at->grows) RP_TRY(cut(c, (rp_span){ at->done, m->start, stage->invert }, false));
        RP_TRY(cut(c, (rp_span){ m->start, m->end, !stage->invert }, false));
        at->done = m->end;
    }
    int64_t certain = ends ? bytes : m->from;
    if (at->done < certain || (ends && at->grows)) RP_TRY(cut(c, (rp_span){ at->done, certain, stage->invert }, !ends));
    at->done = certain;
    return ends ? put_held(c) : RP_OK;
}

/* Keeps the held text that was not passed on, and the text that the pattern may look back at. Returns the number of bytes no longer needed. */
static int64_t use_up(cutter *c)
{
    rp_cursor *at = &c->level->cursor;
    int64_t used  = at->holds && at->given < at->done ? at->given : at->done;

    if (c->level->stage->pattern) {
        int64_t context = rp__pattern_context(c->level->stage->pattern, c->text, at->matches.from);
        if (context < used) used = context;
    }
    at->done -= used;
    at->given -= used;
    at->span.start -= used;
    at->span.end -= used;
    at->matches.from -= used;
    at->matches.last_end -= used;
    return used;
}

rp_status rp__encoding_cut(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used)
{
    cutter c = { e, k, &e->level[k], text };

    if (!bytes && !c.level->past) return RP_OK;
    RP_TRY(cut_at_matches(&c, bytes, ends));
    if (!ends) *used = use_up(&c);
    return RP_OK;
}

/* ---- spaces ---- */

static bool leads(const rp_bytes *space, const char *text, int64_t bytes)
{
    return text[0] == ' ' || (bytes >= space->n && !memcmp(text, space->at, (size_t)space->n));
}

static rp_status replace_spaces(rp_ctx *ctx, const rp_bytes *space, const char *text, int64_t bytes, rp_bytes *out)
{
    for (int64_t done = 0; done < bytes;) {
        const char *next = memchr(text + done, ' ', (size_t)(bytes - done));
        int64_t end      = next ? next - text : bytes;
        RP_TRY(rp__bytes_push(ctx, out, text + done, end - done));
        if (next) RP_TRY(rp__bytes_push(ctx, out, space->at, space->n));
        done = end + 1;
    }
    return RP_OK;
}

/* Replaces the spaces of the text and, if it begins with none, may put one in front. */
rp_status rp__encoding_spaces(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used)
{
    rp_level *l           = &e->level[k];
    const rp_bytes *space = &l->stage->space;
    rp_prepend prepend    = l->stage->prepend;
    bool begins           = !l->cursor.begun;

    if (begins && (!bytes || (!ends && bytes < space->n && text[0] != ' '))) return RP_OK;
    l->made.n = 0;
    if (begins && !leads(space, text, bytes) && (prepend == RP_PREPEND_ALWAYS || (prepend == RP_PREPEND_FIRST && l->first)))
        RP_TRY(rp__bytes_push(e->ctx, &l->made, space->at, space->n));
    RP_TRY(replace_spaces(e->ctx, space, text, bytes, &l->made));
    l->cursor.begun = true;
    *used           = bytes;
    return rp__encoding_give(e, k + 1, l->made.at ? l->made.at : "", l->made.n, l->first, ends);
}

/* Converts the text to the byte-level alphabet, one character per byte. */
rp_status rp__encoding_bytes(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used)
{
    rp_level *l = &e->level[k];

    l->made.n = 0;
    *used     = bytes;
    RP_TRY(rp__byte_text(e->ctx, text, bytes, &l->made));
    return rp__encoding_give(e, k + 1, l->made.at ? l->made.at : "", l->made.n, l->first, ends);
}

void rp__pretokenizer_free(rp_pretokenizer *pre)
{
    for (int i = 0; i < pre->n_stages; i++) {
        rp__pattern_free(pre->stage[i].pattern);
        rp__release(pre->stage[i].space.at);
    }
}
