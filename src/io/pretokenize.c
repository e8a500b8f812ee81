/* io/pretokenize.c -- cut text into the pieces inside which merging happens.
 *
 * A pipeline of stages (Split, Digits, ByteLevel; Sequence is their order). Each stage cuts what the one before hands
 * it and sees only that: a look-ahead ends where its piece ends. Pieces are handed on as they are found; nothing is kept.
 */
#include "io/tokenizer_inside.h"

#include <string.h>

typedef struct { rp_pretokenizer *pre; rp_piece_fn fn; void *user; } walk;
typedef struct { int64_t start, end; bool match; } span;
typedef struct { walk *walk; int stage; const char *text; span held; bool holds; } cutter;

static rp_status run_stage(walk *w, int k, const char *text, int64_t bytes);

static rp_status emit(cutter *c, span s)
{
    return s.end > s.start ? run_stage(c->walk, c->stage + 1, c->text + s.start, s.end - s.start) : RP_OK;
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

/* After an empty match the search goes on one character later; an empty match right after another match does not count. */
static rp_status cut_by_pattern(cutter *c, rp_stage *stage, int64_t bytes)
{
    int64_t done = 0, from = 0, start, end, last_end = -1;
    uint32_t point;

    while (from <= bytes) {
        RP_TRY(rp__pattern_next(stage->pattern, c->text, bytes, from, &start, &end));
        if (start < 0) break;
        from = end > start || end >= bytes ? end + (end == start) : end + rp__utf8_next(c->text + end, bytes - end, &point);
        if (start == end && end == last_end) continue;
        last_end = end;
        if (done < start) RP_TRY(cut(c, stage->behaviour, (span){ done, start, stage->invert }));
        RP_TRY(cut(c, stage->behaviour, (span){ start, end, !stage->invert }));
        done = end;
    }
    if (done < bytes) RP_TRY(cut(c, stage->behaviour, (span){ done, bytes, stage->invert }));
    return emit_held(c);
}

static rp_status run_stage(walk *w, int k, const char *text, int64_t bytes)
{
    if (k == w->pre->n_stages) return w->fn(w->user, text, bytes);
    rp_stage *stage = &w->pre->stage[k];
    if (stage->prefix_space && text[0] != ' ') {
        stage->prefixed.n = 0;
        RP_TRY(rp__bytes_push(w->pre->ctx, &stage->prefixed, " ", 1));
        RP_TRY(rp__bytes_push(w->pre->ctx, &stage->prefixed, text, bytes));
        text = stage->prefixed.at;
        bytes++;
    }
    if (!stage->pattern) return run_stage(w, k + 1, text, bytes);
    return cut_by_pattern(&(cutter){ .walk = w, .stage = k, .text = text }, stage, bytes);
}

rp_status rp__pretokenize(rp_pretokenizer *pre, const char *text, int64_t bytes, rp_piece_fn fn, void *user)
{
    return bytes ? run_stage(&(walk){ pre, fn, user }, 0, text, bytes) : RP_OK;
}

void rp__pretokenizer_free(rp_pretokenizer *pre)
{
    for (int i = 0; i < pre->n_stages; i++) {
        rp__pattern_free(pre->stage[i].pattern);
        rp__release(pre->stage[i].prefixed.at);
    }
}
