/* tokenizer/matches.c -- iterates over all matches of a pattern, and replaces them. */
#include "text/bytes.h"
#include "tokenizer/internal.h"

/* An empty match at the end of an open text is never certain. */
static rp_status next(rp_matches *m)
{
    uint32_t point;

    while (m->open ? m->from < m->bytes : m->from <= m->bytes) {
        RP_TRY(rp__pattern_next(m->pattern, m->text, m->bytes, m->open, m->from, &m->start, &m->end));
        if (m->start < 0 || (m->open && m->start == m->bytes)) {
            m->from  = m->end;
            m->start = -1;
            return RP_OK;
        }
        bool empty = m->start == m->end;
        m->from    = m->end;
        if (empty) m->from += m->end < m->bytes ? rp__utf8_next(m->text + m->end, m->bytes - m->end, &point) : 1;
        if (empty && m->end == m->last_end) continue;
        m->last_end = m->end;
        return RP_OK;
    }
    m->start = -1;
    return RP_OK;
}

rp_status rp__matches_next(rp_matches *m)
{
    int64_t from     = m->from;
    rp_status status = next(m);

    if (m->from > from) rp__pattern_pass(m->pattern, m->from - from);
    return status;
}

rp_status rp__pattern_replace(rp_ctx *ctx, rp_pattern *pattern, const char *text, int64_t bytes, const rp_bytes *with, rp_bytes *out)
{
    rp_matches m = { .pattern = pattern, .text = text, .bytes = bytes, .last_end = -1 };
    int64_t done = 0;

    for (;;) {
        RP_TRY(rp__matches_next(&m));
        if (m.start < 0) break;
        RP_TRY(rp__bytes_push(ctx, out, text + done, m.start - done));
        RP_TRY(rp__bytes_push(ctx, out, with->at, with->n));
        done = m.end;
    }
    return rp__bytes_push(ctx, out, text + done, bytes - done);
}
