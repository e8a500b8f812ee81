/* tokenizer/decoders.c -- converts tokens to text in steps. Each step turns a list of strings into another; at the end the strings are joined.
 *
 * Strings pass through all steps one by one. A step that depends on what follows (bytes of one character, Fuse) holds its strings until then. A step
 * ends its own list before the next step ends its list.
 */
#include "text/bytes.h"
#include "tokenizer/reader.h"

#include <string.h>

/* ---- steps ---- */

static rp_status emit(rp_decoding *d, int k, const char *text, int64_t bytes)
{
    rp_decoder *next = &d->step[k + 1];

    if (k + 1 == d->n_steps) return text ? rp__bytes_push(d->ctx, d->out, text, bytes) : RP_OK;
    rp_status status = next->run(d, k + 1, text, bytes);
    next->n++;
    return status;
}

static rp_status run_replace(rp_decoding *d, int k, const char *text, int64_t bytes)
{
    rp_decoder *s = &d->step[k];

    if (!text) return emit(d, k, NULL, 0);
    s->made.n = 0;
    RP_TRY(rp__pattern_replace(d->ctx, s->pattern, text, bytes, &s->content, &s->made));
    return emit(d, k, s->made.n ? s->made.at : "", s->made.n);
}

static int hex_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Parses "<0x0A>". As in Rust's number parser, a plus may replace the first digit. */
static int byte_of(const char *text, int64_t bytes)
{
    if (bytes != 6 || memcmp(text, "<0x", 3) || text[5] != '>') return -1;
    int high = text[3] == '+' ? 0 : hex_of(text[3]), low = hex_of(text[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Adjacent bytes form one string if they are valid UTF-8; otherwise each becomes U+FFFD. */
static rp_status emit_bytes(rp_decoding *d, int k)
{
    rp_decoder *s = &d->step[k];
    int64_t n     = s->held.n;

    if (!n) return RP_OK;
    s->held.n = 0;
    if (rp__utf8_valid(s->held.at, n) == n) return emit(d, k, s->held.at, n);
    for (int64_t i = 0; i < n; i++) RP_TRY(emit(d, k, "\xef\xbf\xbd", 3));
    return RP_OK;
}

static rp_status run_byte_fallback(rp_decoding *d, int k, const char *text, int64_t bytes)
{
    int byte = text ? byte_of(text, bytes) : -1;

    if (byte >= 0) return rp__bytes_push(d->ctx, &d->step[k].held, &(char){ (char)byte }, 1);
    RP_TRY(emit_bytes(d, k));
    return emit(d, k, text, bytes);
}

static rp_status run_fuse(rp_decoding *d, int k, const char *text, int64_t bytes)
{
    rp_decoder *s = &d->step[k];

    if (text) return rp__bytes_push(d->ctx, &s->held, text, bytes);
    RP_TRY(emit(d, k, s->held.n ? s->held.at : "", s->held.n));
    return emit(d, k, NULL, 0);
}

static rp_status run_byte_level(rp_decoding *d, int k, const char *text, int64_t bytes)
{
    rp_decoder *s = &d->step[k];

    if (text) return rp__text_bytes(d->ctx, text, bytes, &s->held);
    RP_TRY(rp__utf8_repair(d->ctx, s->held.n ? s->held.at : "", s->held.n, &s->made));
    RP_TRY(emit(d, k, s->made.n ? s->made.at : "", s->made.n));
    return emit(d, k, NULL, 0);
}

static bool begins(const rp_bytes *with, const char *text, int64_t bytes)
{
    return with->n && bytes >= with->n && !memcmp(text, with->at, (size_t)with->n);
}

static rp_status run_strip(rp_decoding *d, int k, const char *text, int64_t bytes)
{
    const rp_decoder *s = &d->step[k];
    int64_t size        = s->content.n;

    for (int64_t i = 0; text && i < s->start && begins(&s->content, text, bytes); i++, text += size) bytes -= size;
    for (int64_t i = 0; text && i < s->stop && bytes >= size && begins(&s->content, text + bytes - size, size); i++) bytes -= size;
    return emit(d, k, text, bytes);
}

/* Replaces the marker by a space. In the first token it is removed, because the encoder put it in front of the text. */
static rp_status run_metaspace(rp_decoding *d, int k, const char *text, int64_t bytes)
{
    rp_decoder *s = &d->step[k];

    s->made.n = 0;
    for (int64_t at = 0; text && at < bytes;) {
        bool space = begins(&s->content, text + at, bytes - at);
        if (!space) RP_TRY(rp__bytes_push(d->ctx, &s->made, text + at, 1));
        else if (s->n || !s->flag) RP_TRY(rp__bytes_push(d->ctx, &s->made, " ", 1));
        at += space ? s->content.n : 1;
    }
    return emit(d, k, text && s->made.n ? s->made.at : text ? "" : NULL, s->made.n);
}

/* The replacements run in this order, each over the complete result of the one before. */
static rp_status clean_up(rp_ctx *ctx, rp_bytes *text, rp_bytes *spare)
{
    static const char *const pairs[][2] = { { " .", "." }, { " ?", "?" }, { " !", "!" }, { " ,", "," }, { " ' ", "'" }, { " n't", "n't" },
        { " 'm", "'m" }, { " do not", " don't" }, { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" } };

    for (int i = 0; i < RP_COUNT(pairs); i++) {
        int64_t n = (int64_t)strlen(pairs[i][0]);
        spare->n  = 0;
        for (int64_t at = 0; at < text->n;) {
            bool found = text->n - at >= n && !memcmp(text->at + at, pairs[i][0], (size_t)n);
            if (found) RP_TRY(rp__bytes_push(ctx, spare, pairs[i][1], (int64_t)strlen(pairs[i][1])));
            else RP_TRY(rp__bytes_push(ctx, spare, text->at + at, 1));
            at += found ? n : 1;
        }
        rp_bytes swap = *text;
        *text  = *spare;
        *spare = swap;
    }
    return RP_OK;
}

static rp_status run_wordpiece(rp_decoding *d, int k, const char *text, int64_t bytes)
{
    rp_decoder *s = &d->step[k];

    if (!text) return emit(d, k, NULL, 0);
    bool continues = s->n && (!s->content.n || begins(&s->content, text, bytes));
    s->made.n      = 0;
    if (s->n && !continues) RP_TRY(rp__bytes_push(d->ctx, &s->made, " ", 1));
    int64_t skip = continues ? s->content.n : 0;
    RP_TRY(rp__bytes_push(d->ctx, &s->made, text + skip, bytes - skip));
    if (s->flag) RP_TRY(clean_up(d->ctx, &s->made, &s->held));
    return emit(d, k, s->made.n ? s->made.at : "", s->made.n);
}

/* The suffix that ends a word becomes a space, except in the last token. */
static rp_status run_suffix(rp_decoding *d, int k, const char *text, int64_t bytes)
{
    const rp_bytes nothing = { 0 }, space = { .at = (char[]){ ' ' }, .n = 1 };
    rp_decoder *s          = &d->step[k];

    if (s->n) {
        s->made.n = 0;
        RP_TRY(rp__pattern_replace(d->ctx, s->pattern, s->held.at, s->held.n, text ? &space : &nothing, &s->made));
        RP_TRY(emit(d, k, s->made.n ? s->made.at : "", s->made.n));
    }
    s->held.n = 0;
    return text ? rp__bytes_push(d->ctx, &s->held, text, bytes) : emit(d, k, NULL, 0);
}

/* Step -1 stands for the tokens themselves, so step 0 receives them as from a previous step. */
rp_status rp__decode_token(rp_decoding *d, const char *text, int64_t bytes) { return emit(d, -1, text, bytes); }

rp_status rp__decode_end(rp_decoding *d) { return emit(d, -1, NULL, 0); }

void rp__decoders_free(rp_decoders *decoders)
{
    for (int i = 0; i < decoders->n_steps; i++) {
        rp__pattern_free(decoders->step[i].pattern);
        RP_RELEASE(decoders->step[i].content.at, decoders->step[i].held.at, decoders->step[i].made.at);
    }
}

/* ---- from JSON ---- */

/* Appends a step before filling it, so that rp__decoders_free also frees an incomplete one. */
static rp_status decoders_add(rp_reader *r, rp_decoder step, rp_decoder **out)
{
    rp_decoders *all = &r->t->decoders;

    RP_READ_CHECK(r, RP_ERR_UNSUPPORTED, all->n_steps < RP_MAX_DECODERS, "more than %d decoders are not supported", r->name,
                  RP_MAX_DECODERS);
    all->step[all->n_steps] = step;
    if (out) *out = &all->step[all->n_steps];
    all->n_steps++;
    return RP_OK;
}

static rp_status read_replace(rp_reader *r, json_t *part)
{
    rp_decoder *step = NULL;

    RP_TRY(decoders_add(r, (rp_decoder){ .run = run_replace }, &step));
    RP_TRY(rp__part_pattern(r, part, &step->pattern));
    return rp__part_text(r, part, "content", &step->content);
}

static rp_status read_byte_fallback(rp_reader *r, json_t *part)
{
    (void)part;
    return decoders_add(r, (rp_decoder){ .run = run_byte_fallback }, NULL);
}

static rp_status read_fuse(rp_reader *r, json_t *part)
{
    (void)part;
    return decoders_add(r, (rp_decoder){ .run = run_fuse }, NULL);
}

static rp_status read_byte_level(rp_reader *r, json_t *part)
{
    (void)part;
    return decoders_add(r, (rp_decoder){ .run = run_byte_level }, NULL);
}

static rp_status read_strip(rp_reader *r, json_t *part)
{
    const json_t *start = json_object_get(part, "start"), *stop = json_object_get(part, "stop");
    rp_decoder *step = NULL;

    RP_READ_CHECK(r, RP_ERR_FORMAT, json_is_integer(start) && json_is_integer(stop), "a Strip has no start or no stop", r->name);
    RP_TRY(decoders_add(r, (rp_decoder){ .run = run_strip, .start = json_integer_value(start), .stop = json_integer_value(stop) }, &step));
    return rp__part_text(r, part, "content", &step->content);
}

static rp_status read_metaspace(rp_reader *r, json_t *part)
{
    rp_prepend prepend;
    rp_decoder *step = NULL;

    RP_TRY(rp__part_prepend(r, part, &prepend));
    RP_TRY(decoders_add(r, (rp_decoder){ .run = run_metaspace, .flag = prepend != RP_PREPEND_NEVER }, &step));
    RP_TRY(rp__part_text(r, part, "replacement", &step->content));
    RP_READ_CHECK(r, RP_ERR_FORMAT, step->content.n, "a Metaspace has an empty replacement", r->name);
    return RP_OK;
}

static rp_status read_wordpiece(rp_reader *r, json_t *part)
{
    rp_decoder *step = NULL;

    RP_TRY(decoders_add(r, (rp_decoder){ .run = run_wordpiece, .flag = rp__part_flag(part, "cleanup", true) }, &step));
    return rp__part_text(r, part, "prefix", &step->content);
}

static rp_status read_suffix(rp_reader *r, json_t *part)
{
    rp_decoder *step = NULL;

    RP_TRY(decoders_add(r, (rp_decoder){ .run = run_suffix }, &step));
    RP_TRY(rp__part_text(r, part, "suffix", &step->content));
    RP_READ_CHECK(r, RP_ERR_UNSUPPORTED, step->content.n, "a BPEDecoder without a suffix is not supported", r->name);
    return rp__pattern_new(r->ctx, step->content.at, step->content.n, RP_PATTERN_LITERAL, &step->pattern);
}

/* If the byte-level alphabet is the only step, bytes are returned as they are, invalid ones included. */
rp_status rp__tokenizer_read_decoder(rp_reader *r, json_t *part)
{
    static const rp_part_kind kinds[] = {
        { "Replace", read_replace }, { "ByteFallback", read_byte_fallback }, { "Fuse", read_fuse }, { "Strip", read_strip },
        { "ByteLevel", read_byte_level }, { "Metaspace", read_metaspace }, { "WordPiece", read_wordpiece },
        { "BPEDecoder", read_suffix },
    };
    rp_decoders *all = &r->t->decoders;

    RP_TRY(rp__read_parts(r, part, "a decoder", "decoders", kinds, RP_COUNT(kinds)));
    bool alone = all->n_steps == 1 && all->step[0].run == run_byte_level;
    if (alone) all->n_steps = 0;
    all->bytes = alone || (r->byte_level && !part) || (r->byte_level && json_is_null(part));
    all->joins = !all->bytes && (!part || json_is_null(part));
    return RP_OK;
}
