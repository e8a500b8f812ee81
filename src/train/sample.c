/* train/sample.c -- the first sample of the data as text, in stretches of targets and of tokens that are none. */
#include <stdio.h>
#include <string.h>

#include "train/internal.h"

enum { HEAD_CHARS = RP_SAMPLE_CHARS * 2 / 3 };

typedef struct { char text[RP_SAMPLE_CHARS]; int n; bool cut; } line;

/* Appends a character of a line: line ends and tabs as \\n and \\t. A long text keeps its first and its last characters. */
static void put_char(line *l, char c)
{
    if (l->n == RP_SAMPLE_CHARS - 1) {
        memmove(l->text + HEAD_CHARS, l->text + HEAD_CHARS + 1, (size_t)(RP_SAMPLE_CHARS - 2 - HEAD_CHARS));
        l->n--;
        l->cut = true;
    }
    l->text[l->n++] = c;
    l->text[l->n]   = 0;
}

static void put_text(line *l, const char *text, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++) {
        const char *escape = text[i] == '\n' ? "\\n" : text[i] == '\t' ? "\\t" : text[i] == '\r' ? "\\r" : text[i] == '\\' ? "\\\\" : NULL;
        if (escape) put_char(l, escape[0]);
        put_char(l, escape ? escape[1] : text[i] ? text[i] : '?');
    }
}

static bool is_middle(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

/* Marks the place where characters are missing, which may begin and end within a character of UTF-8. */
static void mark_cut(line *l)
{
    static const char dots[] = " ... ";
    int from = HEAD_CHARS - (int)sizeof dots, to = HEAD_CHARS;

    while (from > 0 && is_middle(l->text[from])) from--;
    while (to < l->n && is_middle(l->text[to])) to++;
    memmove(l->text + from + sizeof dots - 1, l->text + to, (size_t)(l->n - to + 1));
    memcpy(l->text + from, dots, sizeof dots - 1);
}

/* The text of ids [from, to): the part that they add to the text of the ids before. */
static rp_status render_text(rp_tokenizer *tokenizer, const int32_t *ids, int64_t from, int64_t to, line *l)
{
    char *before = NULL, *all = NULL;
    int64_t n_before = 0, n = 0;

    RP_TRY(rp__tokenizer_decode(tokenizer, ids, from, false, &before, &n_before));
    rp__release(before);
    RP_TRY(rp__tokenizer_decode(tokenizer, ids, to, false, &all, &n));
    if (n > n_before) put_text(l, all + n_before, n - n_before);
    rp__release(all);
    return RP_OK;
}

static void render_ids(const int32_t *ids, int64_t from, int64_t to, line *l)
{
    char number[16];

    for (int64_t k = from; k < to; k++) put_text(l, number, snprintf(number, sizeof number, "%s%" PRId32, k > from ? " " : "", ids[k]));
}

static rp_status render_span(rp_tokenizer *tokenizer, const int32_t *ids, int64_t from, int64_t to, char out[RP_SAMPLE_CHARS])
{
    line l = { .n = 0 };

    if (tokenizer) RP_TRY(render_text(tokenizer, ids, from, to, &l));
    else render_ids(ids, from, to, &l);
    if (l.cut) mark_cut(&l);
    memcpy(out, l.text, sizeof l.text);
    return RP_OK;
}

static rp_status render(rp_tokenizer *tokenizer, const int32_t *ids, const bool *target, int64_t n, rp_sample *out)
{
    out->tokens = n;
    for (int64_t from = 0, to; from < n; from = to) {
        for (to = from; to < n && target[to] == target[from]; to++) out->targets += target[to];
        if (out->n == RP_SAMPLE_SPANS) {
            out->more++;
            continue;
        }
        out->span[out->n].target = target[from];
        out->span[out->n].tokens = to - from;
        RP_TRY(render_span(tokenizer, ids, from, to, out->span[out->n++].text));
    }
    return RP_OK;
}

/* A vocabulary of a model may be larger than that of its tokenizer. Then the sample is ids. */
static bool knows_all(const rp_tokenizer *tokenizer, const int32_t *ids, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        if (ids[k] >= rp__tokenizer_vocab(tokenizer)) return false;
    return true;
}

rp_status rp__sample_render(rp_ctx *ctx, rp_data *data, rp_tokenizer *tokenizer, int64_t max_seq_len, rp_sample *out)
{
    int32_t *ids     = rp__host_alloc(ctx, max_seq_len * (int64_t)sizeof *ids);
    bool *target     = ids ? rp__host_alloc(ctx, max_seq_len * (int64_t)sizeof *target) : NULL;
    rp_status status = target ? RP_OK : RP_ERR_MEMORY;
    int64_t n        = 0;

    *out        = (rp_sample){ 0 };
    out->hidden = rp__data_info(data).masked;
    if (status == RP_OK) status = rp__data_sample(data, 0, ids, target, &n);
    if (status == RP_OK) status = render(tokenizer && knows_all(tokenizer, ids, n) ? tokenizer : NULL, ids, target, n, out);
    RP_RELEASE(target, ids);
    return status;
}
