/* template/lex.c -- splits a chat template into tokens and removes white space around tags, as Jinja does.
 *
 *   {%  {{  {#     begin a block, an output, a comment. `{%-` removes all white space before it. A plain {% or {# that is first in its line
 *                  removes the white space of that line before it; `{%+` keeps it
 *   %}  }}  #}     end it. `-%}` removes all white space after it. A plain %} or #} removes one newline; `+%}` keeps it
 *
 * One newline at the end of the text is removed. Every kind of newline becomes '\n'.
 */
#include "template/internal.h"

#include "base/list.h"
#include "text/utf8.h"

typedef struct {
    rp_template_tokens *out;
    rp_template *of;
    const char *text;
    int64_t n, at;
    int line;
    bool line_begins;                   /* only removed or no text precedes `at` in this line */
} lexer;

static rp_status push(lexer *l, rp_template_token token)
{
    rp_template_tokens *o = l->out;

    RP_TRY(RP_GROW(l->of->ctx, o->token, o->room, o->n + 1));
    o->token[o->n++] = token;
    return RP_OK;
}

static rp_status push_text(lexer *l, rp_token_kind kind, const char *at, int64_t bytes)
{
    return push(l, (rp_template_token){ .kind = kind, .line = l->line, .text = { at, bytes } });
}

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name_start(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80; }

static char peek(const lexer *l, int64_t ahead) { return l->at + ahead < l->n ? l->text[l->at + ahead] : 0; }

static void advance(lexer *l, int64_t bytes)
{
    for (; bytes > 0; bytes--) l->line += l->text[l->at++] == '\n';
}

/* ---- data ---- */

static int64_t data_end(const lexer *l)
{
    for (int64_t i = l->at; i + 1 < l->n; i++)
        if (l->text[i] == '{' && strchr("%{#", l->text[i + 1]) && l->text[i + 1]) return i;
    return l->n;
}

/* The end of the data that is kept before a tag. */
static int64_t kept(const lexer *l, int64_t end)
{
    char kind = l->text[end + 1], sign = end + 2 < l->n ? l->text[end + 2] : 0;
    int64_t line = end;

    if (sign == '-') {
        while (end > l->at && is_blank(l->text[end - 1])) end--;
        return end;
    }
    if (sign == '+' || kind == '{') return end;
    while (line > l->at && l->text[line - 1] != '\n') {
        if (!is_blank(l->text[line - 1])) return end;
        line--;
    }
    return line > l->at || l->line_begins ? line : end;
}

static rp_status lex_data(lexer *l)
{
    int64_t end = data_end(l), keep = end < l->n ? kept(l, end) : end;

    if (keep > l->at) RP_TRY(push_text(l, RP_T_DATA, l->text + l->at, keep - l->at));
    advance(l, end - l->at);
    return RP_OK;
}

/* After the end of a tag: removes the white space that its sign demands. */
static void skip_after(lexer *l, char sign, bool newline)
{
    if (sign == '-')
        while (l->at < l->n && is_blank(l->text[l->at])) advance(l, 1);
    else if (sign != '+' && newline && peek(l, 0) == '\n') advance(l, 1);
    l->line_begins = l->at > 0 && l->text[l->at - 1] == '\n';
}

static rp_status skip_comment(lexer *l)
{
    int begun = l->line;

    advance(l, 2);
    while (l->at < l->n && !(peek(l, 0) == '#' && peek(l, 1) == '}')) advance(l, 1);
    if (l->at >= l->n) return rp__template_wrong(l->of, begun, RP_ERR_FORMAT, "a comment does not end");
    char sign = l->text[l->at - 1];
    advance(l, 2);
    skip_after(l, sign, true);
    return RP_OK;
}

/* ---- strings ---- */

static int hex_digit(char c) { return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

/* Decodes \xhh, \uhhhh or \Uhhhhhhhh. 0 if it is malformed; the text then stays unchanged. */
static int hex_escape(const char *at, const char *end, char *out, int *taken)
{
    int digits = *at == 'x' ? 2 : *at == 'u' ? 4 : 8;
    uint32_t point = 0;

    for (int i = 1; i <= digits; i++) {
        if (at + i >= end || hex_digit(at[i]) < 0) return 0;
        point = point << 4 | (uint32_t)hex_digit(at[i]);
    }
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) point = 0xfffd;
    *taken = 1 + digits;
    return rp__utf8_put(out, point);
}

static int octal_escape(const char *at, const char *end, char *out, int *taken)
{
    uint32_t point = 0;

    for (*taken = 0; *taken < 3 && at + *taken < end && at[*taken] >= '0' && at[*taken] <= '7'; ++*taken)
        point = point << 3 | (uint32_t)(at[*taken] - '0');
    return rp__utf8_put(out, point);
}

/* Decodes the escape after a backslash at `at`. Returns the number of bytes written; *taken: bytes read. */
static int escape(const char *at, const char *end, char *out, int *taken)
{
    static const char from[] = "nrtbfav\\'\"", to[] = "\n\r\t\b\f\a\v\\'\"";
    const char *known        = *at ? strchr(from, *at) : NULL;
    int written              = 0;

    *taken = 1;
    if (known) out[written++] = to[known - from];
    else if (*at == '\n') return 0;
    else if (*at >= '0' && *at <= '7') written = octal_escape(at, end, out, taken);
    else if (*at == 'x' || *at == 'u' || *at == 'U') written = hex_escape(at, end, out, taken);
    if (written) return written;
    *taken = 0;
    *out   = '\\';
    return 1;
}

static rp_status lex_string(lexer *l)
{
    const char *begin = l->text + l->at + 1, *end = l->text + l->n, *at = begin;
    char quote = l->text[l->at];

    while (at < end && *at != quote) at += *at == '\\' && at + 1 < end ? 2 : 1;
    if (at >= end) return rp__template_wrong(l->of, l->line, RP_ERR_FORMAT, "a string does not end");
    char *text = rp__bump_alloc(&l->of->bump, at - begin + 8), *put = text;      /* only U+FFFD may be longer than its escape */
    if (!text) return RP_ERR_MEMORY;
    for (const char *p = begin; p < at;) {
        int taken = 0;
        if (*p == '\\') {
            put += escape(p + 1, at, put, &taken);
            p += 1 + taken;
        } else *put++ = *p++;
    }
    RP_TRY(push_text(l, RP_T_STRING, text, put - text));
    advance(l, at + 1 - begin + 1);
    return RP_OK;
}

/* ---- other parts of a tag ---- */

static rp_status lex_number(lexer *l)
{
    char digits[64];
    int n        = 0;
    bool real    = false;
    int64_t from = l->at;
    rp_template_token t = { .kind = RP_T_INT, .line = l->line };

    for (;; l->at++) {
        char c   = peek(l, 0);
        bool dot = c == '.' && is_digit(peek(l, 1)) && !real;
        bool e   = (c == 'e' || c == 'E') && (is_digit(peek(l, 1)) || ((peek(l, 1) == '-' || peek(l, 1) == '+') && is_digit(peek(l, 2))));
        if (!is_digit(c) && !dot && !e && !(c == '_' && is_digit(peek(l, 1))) && !((c == '-' || c == '+') && real && strchr("eE", digits[n - 1])))
            break;
        real = real || dot || e;
        if (c != '_' && n < (int)sizeof digits - 1) digits[n++] = c;
    }
    digits[n] = 0;
    t.text    = (rp_text){ l->text + from, l->at - from };
    if (real) t.kind = RP_T_FLOAT;
    bool read = real ? rp__parse_double(digits, &t.f) : rp__parse_int(digits, 0, INT64_MAX, &t.i);
    if (!read) return rp__template_wrong(l->of, l->line, RP_ERR_FORMAT, "'%s' is not a number", digits);
    return push(l, t);
}

static rp_status lex_sign(lexer *l)
{
    static const char *const two[] = { "**", "//", "==", "!=", "<=", ">=" };

    for (int i = 0; i < RP_COUNT(two); i++)
        if (peek(l, 0) == two[i][0] && peek(l, 1) == two[i][1]) {
            RP_TRY(push_text(l, RP_T_SIGN, two[i], 2));
            advance(l, 2);
            return RP_OK;
        }
    char c = peek(l, 0);
    if (!c || !strchr("+-*/%~[](){}<>=.:|,;", c))
        return rp__template_wrong(l->of, l->line, RP_ERR_FORMAT, "the character '%c' has no meaning here", c >= ' ' && c < 127 ? c : '?');
    RP_TRY(push_text(l, RP_T_SIGN, l->text + l->at, 1));
    advance(l, 1);
    return RP_OK;
}

static rp_status lex_token(lexer *l)
{
    char c = peek(l, 0);

    if (c == '\'' || c == '"') return lex_string(l);
    if (is_digit(c)) return lex_number(l);
    if (!is_name_start(c)) return lex_sign(l);
    int64_t from = l->at;
    while (l->at < l->n && (is_name_start(peek(l, 0)) || is_digit(peek(l, 0)))) l->at++;
    return push_text(l, RP_T_NAME, l->text + from, l->at - from);
}

/* Inside open braces, }} does not end the output: {{ {'a': {}}}} */
static rp_status lex_tag(lexer *l)
{
    bool print = peek(l, 1) == '{';
    int begun = l->line, braces = 0;
    char end = print ? '}' : '%';

    RP_TRY(push_text(l, print ? RP_T_PRINT : RP_T_BLOCK, l->text + l->at, 2));
    advance(l, 2);
    if (peek(l, 0) == '-' || peek(l, 0) == '+') advance(l, 1);
    for (;;) {
        while (l->at < l->n && is_blank(peek(l, 0))) advance(l, 1);
        if (l->at >= l->n) return rp__template_wrong(l->of, begun, RP_ERR_FORMAT, "'%s' does not end", print ? "{{" : "{%");
        int64_t sign = (peek(l, 0) == '-' || (peek(l, 0) == '+' && !print)) ? 1 : 0;
        if (!braces && peek(l, sign) == end && peek(l, sign + 1) == '}') {
            char mark = sign ? peek(l, 0) : 0;
            RP_TRY(push_text(l, print ? RP_T_PRINT_END : RP_T_BLOCK_END, l->text + l->at, sign + 2));
            advance(l, sign + 2);
            skip_after(l, mark, !print);
            return RP_OK;
        }
        braces += peek(l, 0) == '{' ? 1 : peek(l, 0) == '}' ? -1 : 0;
        if (braces < 0) return rp__template_wrong(l->of, l->line, RP_ERR_FORMAT, "a '}' closes nothing");
        RP_TRY(lex_token(l));
    }
}

/* Converts newlines of every kind to '\n' in place and removes the last one. */
static int64_t plain_newlines(char *text, int64_t bytes)
{
    int64_t n = 0;

    for (int64_t i = 0; i < bytes; i++) {
        if (text[i] == '\r' && i + 1 < bytes && text[i + 1] == '\n') continue;
        text[n++] = text[i] == '\r' ? '\n' : text[i];
    }
    return n && text[n - 1] == '\n' ? n - 1 : n;
}

rp_status rp__template_lex(rp_template *t, const char *text, int64_t bytes, rp_template_tokens *out)
{
    char *copy = rp__bump_text(&t->bump, text, bytes);
    lexer l    = { .out = out, .of = t, .text = copy, .line = 1, .line_begins = true };

    if (!copy) return RP_ERR_MEMORY;
    l.n = plain_newlines(copy, bytes);
    while (l.at < l.n) {
        RP_TRY(lex_data(&l));
        if (l.at >= l.n) break;
        RP_TRY(peek(&l, 1) == '#' ? skip_comment(&l) : lex_tag(&l));
    }
    return push_text(&l, RP_T_END, "", 0);
}
