/* tokenizer/normalizers.c -- the normalizers of a tokenizer.json. Each takes a passage of text and appends its normalized form. */
#include "text/bytes.h"
#include "tokenizer/reader.h"

#include <string.h>

/* ---- steps ---- */

static rp_status put_point(rp_ctx *ctx, rp_bytes *out, uint32_t point)
{
    RP_TRY(rp__bytes_room(ctx, out, 4));
    out->n += rp__utf8_put(out->at + out->n, point);
    return RP_OK;
}

static bool is_ascii(const char *text, int64_t bytes)
{
    uint8_t any = 0;

    for (int64_t i = 0; i < bytes; i++) any |= (uint8_t)text[i];
    return any < 0x80;
}

/* An ASCII character does not combine with the one before it, but a later one may combine with it. Normal forms keep ASCII unchanged. */
static rp_status run_form(rp_ctx *ctx, rp_normalizer *step, rp_passage *in, rp_bytes *out)
{
    if (!in->ends) {
        if (in->used) in->used--;
        while (in->used > 0 && (uint8_t)in->text[in->used] >= 0x80) in->used--;
    }
    if (is_ascii(in->text, in->used)) return rp__bytes_push(ctx, out, in->text, in->used);
    return rp__normalize(ctx, step->form, in->text, in->used, out);
}

static rp_status run_prepend(rp_ctx *ctx, rp_normalizer *step, rp_passage *in, rp_bytes *out)
{
    if (in->bytes && !in->cursor->begun) RP_TRY(rp__bytes_push(ctx, out, step->content.at, step->content.n));
    in->cursor->begun |= in->bytes > 0;
    return rp__bytes_push(ctx, out, in->text, in->bytes);
}

static rp_status run_replace(rp_ctx *ctx, rp_normalizer *step, rp_passage *in, rp_bytes *out)
{
    rp_matches *m = &in->cursor->matches;
    int64_t *done = &in->cursor->done;

    m->pattern = step->pattern;
    m->text    = in->text;
    m->bytes   = in->bytes;
    m->open    = !in->ends;
    for (;;) {
        RP_TRY(rp__matches_next(m));
        if (m->start < 0) break;
        RP_TRY(rp__bytes_push(ctx, out, in->text + *done, m->start - *done));
        RP_TRY(rp__bytes_push(ctx, out, step->content.at, step->content.n));
        *done = m->end;
    }
    int64_t certain = in->ends ? in->bytes : m->from;
    RP_TRY(rp__bytes_push(ctx, out, in->text + *done, certain - *done));
    if (in->ends) return RP_OK;
    in->used = rp__pattern_context(step->pattern, in->text, certain);
    *done    = certain - in->used;
    m->from -= in->used;
    m->last_end -= in->used;
    return RP_OK;
}

/* Trailing white space is held: the text may end after it. */
static rp_status run_strip(rp_ctx *ctx, rp_normalizer *step, rp_passage *in, rp_bytes *out)
{
    int64_t start = step->left && !in->cursor->begun ? rp__skip_space(in->text, in->bytes, 0) : 0;
    int64_t end   = step->right ? rp__skip_space_back(in->text, start, in->bytes) : in->bytes;

    in->cursor->begun |= start < in->bytes;
    in->used = end;
    return rp__bytes_push(ctx, out, in->text + start, end - start);
}

static rp_status run_lower(rp_ctx *ctx, rp_normalizer *step, rp_passage *in, rp_bytes *out)
{
    uint32_t point, lower[2];

    (void)step;
    for (int64_t at = 0; at < in->bytes;) {
        at   += rp__utf8_next(in->text + at, in->bytes - at, &point);
        int n = rp__lower(point, lower);
        for (int i = 0; i < n; i++) RP_TRY(put_point(ctx, out, lower[i]));
    }
    return RP_OK;
}

static rp_status run_clean(rp_ctx *ctx, rp_normalizer *step, rp_passage *in, rp_bytes *out)
{
    uint32_t point;

    (void)step;
    for (int64_t at = 0; at < in->bytes;) {
        at += rp__utf8_next(in->text + at, in->bytes - at, &point);
        if (!rp__is_dropped(point)) RP_TRY(put_point(ctx, out, rp__is_space(point) ? ' ' : point));
    }
    return RP_OK;
}

static rp_status run_cjk(rp_ctx *ctx, rp_normalizer *step, rp_passage *in, rp_bytes *out)
{
    uint32_t point;

    (void)step;
    for (int64_t at = 0; at < in->bytes;) {
        at      += rp__utf8_next(in->text + at, in->bytes - at, &point);
        bool cjk = rp__is_cjk(point);
        if (cjk) RP_TRY(put_point(ctx, out, ' '));
        RP_TRY(put_point(ctx, out, point));
        if (cjk) RP_TRY(put_point(ctx, out, ' '));
    }
    return RP_OK;
}

static rp_status normalizers_drop(rp_ctx *ctx, bool (*member)(uint32_t point), const rp_passage *in, rp_bytes *out)
{
    uint32_t point;

    for (int64_t at = 0; at < in->bytes;) {
        at += rp__utf8_next(in->text + at, in->bytes - at, &point);
        if (!member(point)) RP_TRY(put_point(ctx, out, point));
    }
    return RP_OK;
}

static rp_status run_drop_marks(rp_ctx *ctx, rp_normalizer *step, rp_passage *in, rp_bytes *out)
{
    (void)step;
    return normalizers_drop(ctx, rp__is_mark, in, out);
}

static rp_status run_drop_nonspacing(rp_ctx *ctx, rp_normalizer *step, rp_passage *in, rp_bytes *out)
{
    (void)step;
    return normalizers_drop(ctx, rp__is_nonspacing, in, out);
}

static rp_status run_charsmap(rp_ctx *ctx, rp_normalizer *step, rp_passage *in, rp_bytes *out)
{
    return rp__charsmap_apply(ctx, &step->map, in->text, in->bytes, in->ends, &in->used, out);
}

rp_status rp__normalize_all(rp_ctx *ctx, rp_normalizers *normalizers, const char *text, int64_t bytes, rp_bytes *out)
{
    rp_bytes from    = { 0 };
    rp_status status = RP_OK;

    out->n = 0;
    if (!normalizers->n_steps) return rp__bytes_push(ctx, out, text, bytes);
    for (int i = 0; i < normalizers->n_steps && status == RP_OK; i++) {
        rp_normalizer *step = &normalizers->step[i];
        rp_cursor cursor    = RP_CURSOR_START;
        if (i) {
            rp_bytes swap = from;
            from   = *out;
            *out   = swap;
            out->n = 0;
        }
        rp_passage in = { i ? (from.at ? from.at : "") : text, i ? from.n : bytes, i ? from.n : bytes, true, &cursor };
        status = step->run(ctx, step, &in, out);
    }
    rp__release(from.at);
    return status;
}

rp_status rp__encoding_normalize(rp_encoding *e, int k, const char *text, int64_t bytes, bool ends, int64_t *used)
{
    rp_level *l   = &e->level[k];
    rp_passage in = { text, bytes, bytes, ends, &l->cursor };

    l->made.n = 0;
    RP_TRY(l->step->run(e->ctx, l->step, &in, &l->made));
    *used = in.used;
    return rp__encoding_give(e, k + 1, l->made.at ? l->made.at : "", l->made.n, l->first, ends);
}

void rp__normalizers_free(rp_normalizers *normalizers)
{
    for (int i = 0; i < normalizers->n_steps; i++) {
        rp__pattern_free(normalizers->step[i].pattern);
        RP_RELEASE(normalizers->step[i].content.at, normalizers->step[i].map.blob.at);
    }
}

/* ---- from JSON ---- */

/* Appends a step before filling it, so that rp__normalizers_free also frees an incomplete one. */
static rp_status normalizers_add(rp_reader *r, rp_normalizer step, rp_normalizer **out)
{
    rp_normalizers *all = &r->t->normalizers;

    RP_READ_CHECK(r, RP_ERR_UNSUPPORTED, all->n_steps < RP_MAX_NORMALIZERS, "more than %d normalizers are not supported",
                  r->name, RP_MAX_NORMALIZERS);
    all->step[all->n_steps] = step;
    if (out) *out = &all->step[all->n_steps];
    all->n_steps++;
    return RP_OK;
}

static rp_status read_form(rp_reader *r, json_t *part)
{
    static const char *const forms[] = { [RP_NFC] = "NFC", [RP_NFD] = "NFD", [RP_NFKC] = "NFKC", [RP_NFKD] = "NFKD" };
    int form = 0;

    while (strcmp(rp__part_kind(part), forms[form])) form++;
    return normalizers_add(r, (rp_normalizer){ .run = run_form, .form = (rp_normal_form)form }, NULL);
}

static rp_status read_prepend(rp_reader *r, json_t *part)
{
    rp_normalizer *step = NULL;

    RP_TRY(normalizers_add(r, (rp_normalizer){ .run = run_prepend }, &step));
    return rp__part_text(r, part, "prepend", &step->content);
}

static rp_status read_replace(rp_reader *r, json_t *part)
{
    rp_normalizer *step = NULL;

    RP_TRY(normalizers_add(r, (rp_normalizer){ .run = run_replace }, &step));
    RP_TRY(rp__part_pattern(r, part, &step->pattern));
    return rp__part_text(r, part, "content", &step->content);
}

static rp_status read_strip(rp_reader *r, json_t *part)
{
    return normalizers_add(r, (rp_normalizer){ .run = run_strip, .left = rp__part_flag(part, "strip_left", true),
                                   .right = rp__part_flag(part, "strip_right", true) }, NULL);
}

static rp_status read_lowercase(rp_reader *r, json_t *part)
{
    (void)part;
    return normalizers_add(r, (rp_normalizer){ .run = run_lower }, NULL);
}

static rp_status read_strip_accents(rp_reader *r, json_t *part)
{
    (void)part;
    return normalizers_add(r, (rp_normalizer){ .run = run_drop_marks }, NULL);
}

static rp_status read_bert(rp_reader *r, json_t *part)
{
    bool lower = rp__part_flag(part, "lowercase", true), accents = rp__part_flag(part, "strip_accents", lower);

    if (rp__part_flag(part, "clean_text", true)) RP_TRY(normalizers_add(r, (rp_normalizer){ .run = run_clean }, NULL));
    if (rp__part_flag(part, "handle_chinese_chars", true)) RP_TRY(normalizers_add(r, (rp_normalizer){ .run = run_cjk }, NULL));
    if (accents) RP_TRY(normalizers_add(r, (rp_normalizer){ .run = run_form, .form = RP_NFD }, NULL));
    if (accents) RP_TRY(normalizers_add(r, (rp_normalizer){ .run = run_drop_nonspacing }, NULL));
    return lower ? normalizers_add(r, (rp_normalizer){ .run = run_lower }, NULL) : RP_OK;
}

static rp_status read_charsmap(rp_reader *r, json_t *part)
{
    const json_t *text = json_object_get(part, "precompiled_charsmap");
    rp_normalizer *step = NULL;

    RP_READ_CHECK(r, RP_ERR_FORMAT, json_is_string(text), "a Precompiled normalizer has no precompiled_charsmap", r->name);
    if (!json_string_length(text)) return RP_OK;
    RP_TRY(normalizers_add(r, (rp_normalizer){ .run = run_charsmap }, &step));
    return rp__charsmap_new(r->ctx, json_string_value(text), (int64_t)json_string_length(text), &step->map);
}

rp_status rp__tokenizer_read_normalizer(rp_reader *r, json_t *part)
{
    static const rp_part_kind kinds[] = {
        { "NFC", read_form }, { "NFD", read_form }, { "NFKC", read_form }, { "NFKD", read_form },
        { "Prepend", read_prepend }, { "Replace", read_replace }, { "Strip", read_strip }, { "Lowercase", read_lowercase },
        { "StripAccents", read_strip_accents }, { "BertNormalizer", read_bert }, { "Precompiled", read_charsmap },
    };

    return rp__read_parts(r, part, "a normalizer", "normalizers", kinds, RP_COUNT(kinds));
}
