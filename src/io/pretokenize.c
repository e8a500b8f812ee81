/* io/pretokenize.c -- cut text into the pieces inside which merging happens.
 *
 * A pipeline of stages. Each stage may change the spaces of what the one before hands it, or its alphabet, cuts it, and sees only that: a
 * look-ahead ends where its piece ends. Pieces are handed on as they are found; nothing is kept.
 */
#include "io/tokenizer_inside.h"

#include <string.h>

typedef struct { rp_pretokenizer *pre; rp_piece_fn fn; void *user; } walk;
typedef struct { int64_t start, end; bool match; } span;
typedef struct { walk *walk; int stage; const char *text; span held; bool holds, first; } cutter;

static rp_status run_stage(walk *w, int k, const char *text, int64_t bytes, bool first);

static rp_status emit(cutter *c, span s)
{
    if (s.end <= s.start) return RP_OK;
    return run_stage(c->walk, c->stage + 1, c->text + s.start, s.end - s.start, c->first && !s.start);
}

static rp_status emit_held(cutter *c)
{
    span s = c->held;

    if (!c->holds) return RP_OK;
    c->holds = false;
    return emit(c, s);
}

static rp_status hold(cutter *c, span s)
{
    RP_TRY(emit_held(c));
    c->held  = s;
    c->holds = true;
    return RP_OK;
}

/* The next span, match or gap. What has to wait for its neighbour is held. */
static rp_status cut(cutter *c, rp_split behaviour, span s)
{
    bool joins = false;

    switch (behaviour) {
    case RP_SPLIT_ISOLATED: return emit(c, s);
    case RP_SPLIT_REMOVED: return s.match ? RP_OK : emit(c, s);
    case RP_SPLIT_CONTIGUOUS: joins = c->holds && c->held.match == s.match; break;
    case RP_SPLIT_WITH_PREVIOUS: joins = c->holds && s.match && !c->held.match; break;
    case RP_SPLIT_WITH_NEXT: joins = c->holds && !s.match && c->held.match; break;
    }
    if (!joins) return hold(c, s);
    c->held.end = s.end;
    if (behaviour == RP_SPLIT_WITH_PREVIOUS) c->held.match = true;
    return behaviour == RP_SPLIT_WITH_NEXT ? emit_held(c) : RP_OK;
}

/* The next match, as rp__matches_next, of whatever the stage cuts at. */
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

static rp_status cut_at_matches(cutter *c, rp_stage *stage, int64_t bytes)
{
    rp_matches m = { .pattern = stage->pattern, .text = c->text, .bytes = bytes, .last_end = -1 };
    int64_t done = 0;

    for (;;) {
        RP_TRY(next_match(stage, &m));
        if (m.start < 0) break;
        if (done < m.start) RP_TRY(cut(c, stage->behaviour, (span){ done, m.start, stage->invert }));
        RP_TRY(cut(c, stage->behaviour, (span){ m.start, m.end, !stage->invert }));
        done = m.end;
    }
    if (done < bytes) RP_TRY(cut(c, stage->behaviour, (span){ done, bytes, stage->invert }));
    return emit_held(c);
}

/* The text with another character for its spaces and, where it begins with none, one in front. */
static rp_status change_spaces(rp_ctx *ctx, rp_stage *stage, const char *text, int64_t bytes, bool first)
{
    const rp_bytes *space = &stage->space;
    rp_bytes *out         = &stage->changed;
    bool leads            = text[0] == ' ' || (bytes >= space->n && !memcmp(text, space->at, (size_t)space->n));

    out->n = 0;
    if (!leads && (stage->prepend == RP_PREPEND_ALWAYS || (stage->prepend == RP_PREPEND_FIRST && first)))
        RP_TRY(rp__bytes_push(ctx, out, space->at, space->n));
    for (int64_t done = 0; done < bytes;) {
        const char *next = memchr(text + done, ' ', (size_t)(bytes - done));
        int64_t end      = next ? next - text : bytes;
        RP_TRY(rp__bytes_push(ctx, out, text + done, end - done));
        if (next) RP_TRY(rp__bytes_push(ctx, out, space->at, space->n));
        done = end + 1;
    }
    return RP_OK;
}

static rp_status run_stage(walk *w, int k, const char *text, int64_t bytes, bool first)
{
    if (k == w->pre->n_stages) return w->fn(w->user, text, bytes);
    rp_stage *stage = &w->pre->stage[k];
    if (stage->space.n) {
        RP_TRY(change_spaces(w->pre->ctx, stage, text, bytes, first));
        text  = stage->changed.at;
        bytes = stage->changed.n;
    } else if (stage->maps_bytes) {
        stage->changed.n = 0;
        RP_TRY(rp__byte_text(w->pre->ctx, text, bytes, &stage->changed));
        text  = stage->changed.at;
        bytes = stage->changed.n;
    }
    if (!stage->pattern && !stage->member) return run_stage(w, k + 1, text, bytes, first);
    return cut_at_matches(&(cutter){ .walk = w, .stage = k, .text = text, .first = first }, stage, bytes);
}

rp_status rp__pretokenize(rp_pretokenizer *pre, const char *text, int64_t bytes, bool first, rp_piece_fn fn, void *user)
{
    return bytes ? run_stage(&(walk){ pre, fn, user }, 0, text, bytes, first) : RP_OK;
}

void rp__pretokenizer_free(rp_pretokenizer *pre)
{
    for (int i = 0; i < pre->n_stages; i++) {
        rp__pattern_free(pre->stage[i].pattern);
        rp__release(pre->stage[i].space.at);
        rp__release(pre->stage[i].changed.at);
    }
}
