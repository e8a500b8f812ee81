/* tokenizer/pattern.c -- runs regular expressions of the `tokenizers` package (Oniguruma, Unicode 16) with PCRE2 (Unicode 14).
 *
 * The pattern is rewritten so that both engines match the same: \s becomes the White_Space characters (PCRE2 would add U+180E), \w and \d become
 * categories, and every \p{..} is extended by the characters in unicode_late.def. Constructs that differ, or that have not been compared, are refused
 * by name.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/bytes.h"
#include "tokenizer/internal.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>

struct rp_pattern {
    rp_ctx *ctx;
    pcre2_general_context *memory;
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    uint32_t look_back;             /* characters; at least one: `^` looks at the one before */
    bool made_open;                 /* machine code for open texts exists */
    int64_t repeats, weight;        /* turns of a counted repeat that PCRE2 does not report · steps per item */
    rp_work own, *work;             /* of the current text; `own.bytes` were searched */
    int64_t most;                   /* step limit of the text */
    PCRE2_SIZE seen;                /* position of the last callout */
};

typedef struct { rp_ctx *ctx; const char *text; int64_t n, at; rp_bytes out; unsigned flags; int64_t repeats, members; bool after_group; } rewriter;

/* Limits of the work for one text. PCRE2's own limit counts backtracking but not the bytes that an item passes over: `(?<!q)a*+b` runs for minutes
 * within it. Therefore PCRE2 calls back before each item of the pattern. An item costs one step, one per byte passed since the last callback, and one
 * per turn of a counted repeat that may fail unseen. Code and classes of many bytes are slow, so the pattern's weight multiplies the cost.
 * A step takes 1 to 15 ns on a Xeon 6 (docs/tokenizers.md). The patterns of published models take at most 48 steps per byte. */
enum { TEXT_STEPS = 10000000, STEPS_PER_BYTE = 64, WEIGHT_BYTES = 1024, WEIGHT_MEMBERS = 128, PATTERN_BYTES = 4096, CLASS_MEMBERS = 512,
       INTERPRETER_KIB = 64 << 10 };      /* memory for backtracking without machine code */

#define SPACES "\\t-\\r\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NOT_SPACES \
    "\\x00-\\x08\\x0e-\\x1f\\x21-\\x84\\x86-\\x9f\\xa1-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}" \
    "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"
/* Oniguruma's word characters: alphabetic characters, marks, decimal digits, connectors, and the numbers of Latin-1. */
#define WORD_REST "\\xb2\\xb3\\xb9\\xbc-\\xbe\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

static rp_status pattern_put(rewriter *r, const char *text) { return rp__bytes_push(r->ctx, &r->out, text, (int64_t)strlen(text)); }

static rp_status pattern_refuse(rewriter *r, const char *construct)
{
    return rp_fail(r->ctx, RP_ERR_UNSUPPORTED, "the pattern '%.*s' uses %s, which is not supported",
                   (int)(r->n < 200 ? r->n : 200), r->text, construct);
}

static char peek(const rewriter *r, int64_t ahead) { return r->at + ahead < r->n ? r->text[r->at + ahead] : 0; }

static rp_status put_range(rewriter *r, uint32_t first, uint32_t last)
{
    char text[32];

    snprintf(text, sizeof text, "\\x{%" PRIx32 "}-\\x{%" PRIx32 "}", first, last);
    return pattern_put(r, text);
}

/* Writes \p{name} for use inside a class: PCRE2's own characters, and those that were added later. */
static rp_status put_category(rewriter *r, const char *name)
{
    size_t length = strlen(name);
    uint32_t first = 1, last = 0;

    RP_TRY(pattern_put(r, "\\p{"));
    RP_TRY(pattern_put(r, name));
    RP_TRY(pattern_put(r, "}"));
    for (int i = 0; rp__late_range(i); i++) {
        const rp_late_range *late = rp__late_range(i);
        bool is_script = !strcmp(late->category, "Han");
        bool in = is_script ? !strcmp(name, "Han") : !strncmp(late->category, name, length);
        if (!in && !(late->category[0] == '+' && (r->flags & RP_PATTERN_DIGITS))) continue;
        bool joins = first <= last && late->first == last + 1;
        if (!joins && first <= last) RP_TRY(put_range(r, first, last));
        if (!joins) first = late->first;
        last = late->last;
    }
    return first <= last ? put_range(r, first, last) : RP_OK;
}

static rp_status put_word(rewriter *r)
{
    static const char *const categories[] = { "L", "M", "Nd", "Nl", "Pc" };

    for (int i = 0; i < RP_COUNT(categories); i++) RP_TRY(put_category(r, categories[i]));
    return pattern_put(r, WORD_REST);
}

/* Reads {name} after \p. Categories of unassigned characters (C, Cn) shrink with each version of Unicode, so they cannot be extended. */
static rp_status read_category(rewriter *r, char name[4])
{
    static const char *const known[] = { "L", "M", "N", "P", "S", "Z", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
        "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Han" };
    char construct[64];
    int64_t end = r->at;

    while (end < r->n && r->text[end] != '}') end++;
    int64_t length = end - r->at - 1;
    if (peek(r, 0) == '{' && end < r->n && length >= 1 && length <= 3) {
        memcpy(name, r->text + r->at + 1, (size_t)length);
        name[length] = 0;
        r->at = end + 1;
        for (int i = 0; i < RP_COUNT(known); i++)
            if (!strcmp(name, known[i])) return RP_OK;
        r->at = end - length - 1;
    }
    length = end - r->at + (end < r->n);
    snprintf(construct, sizeof construct, "the property '\\p%.*s'", (int)(length < 40 ? length : 40), r->text + r->at);
    return pattern_refuse(r, construct);
}

/* Rewrites \x{..}, \xHH or \uHHHH, one character. */
static rp_status escape_hex(rewriter *r, char kind)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    char text[32];
    bool braces = peek(r, 0) == '{';
    int64_t length = 0, want = kind == 'u' ? 4 : braces ? 6 : 2;
    unsigned long value = 0;

    r->at += braces;
    while (length < want && peek(r, length) && strchr(digits, peek(r, length))) length++;
    if (length && (braces || length == want) && !(braces && kind == 'u')) {
        memcpy(text, r->text + r->at, (size_t)length);
        text[length] = 0;
        value        = strtoul(text, NULL, 16);
        if ((braces ? peek(r, length) == '}' : kind == 'u' || value < 0x80) && value <= 0x10ffff) {
            r->at += length + braces;
            snprintf(text, sizeof text, "\\x{%lx}", value);
            return pattern_put(r, text);
        }
    }
    return pattern_refuse(r, "a hexadecimal escape");
}

/* Writes a set of characters: with brackets on its own, without them inside a class. */
static rp_status put_set(rewriter *r, bool in_class, bool negated, const char *category, const char *ranges)
{
    if (in_class && negated) return pattern_refuse(r, "a negated set inside a class");
    if (!in_class) RP_TRY(pattern_put(r, negated ? "[^" : "["));
    if (ranges) RP_TRY(pattern_put(r, ranges));
    else if (category) RP_TRY(put_category(r, category));
    else RP_TRY(put_word(r));
    return in_class ? RP_OK : pattern_put(r, "]");
}

/* Rewrites an escape; the position is after the backslash. */
static rp_status escape(rewriter *r, bool in_class)
{
    char c = peek(r, 0), name[4], text[] = { '\\', c, 0 }, construct[32];

    r->at++;
    switch (c) {
    case 's': return put_set(r, in_class, false, NULL, SPACES);
    case 'S': return put_set(r, in_class, false, NULL, NOT_SPACES);
    case 'd': case 'D': return put_set(r, in_class, c == 'D', "Nd", NULL);
    case 'w': case 'W': return put_set(r, in_class, c == 'W', NULL, NULL);
    case 'p': case 'P':
        RP_TRY(read_category(r, name));
        return put_set(r, in_class, c == 'P', name, NULL);
    case 'r': case 'n': case 't': case 'f': return pattern_put(r, text);
    case 'v': return pattern_put(r, "\\x0b");
    case 'x': case 'u': return escape_hex(r, c);
    default: break;
    }
    if (c > 32 && c < 127 && !strchr("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", c)) return pattern_put(r, text);
    snprintf(construct, sizeof construct, "'\\%c'", c > 32 && c < 127 ? c : '?');
    return pattern_refuse(r, construct);
}

static rp_status rewrite_class(rewriter *r)
{
    RP_TRY(pattern_put(r, "["));
    r->at++;
    if (peek(r, 0) == '^') {
        RP_TRY(pattern_put(r, "^"));
        r->at++;
    }
    for (int64_t members = 0; r->at < r->n; members++) {
        char c = peek(r, 0), text[] = { c, 0 };
        if (c == ']' && members) return r->at++, pattern_put(r, "]");
        if (c == '[') return pattern_refuse(r, "a class inside a class");
        if (c == '&' && peek(r, 1) == '&') return pattern_refuse(r, "'&&' in a class");
        r->at++;
        members -= ((uint8_t)c & 0xc0) == 0x80;
        if (members > r->members) r->members = members;
        if (members == CLASS_MEMBERS) return pattern_refuse(r, "a class of more than 512 characters");
        if (c == '\\') RP_TRY(escape(r, true));
        else RP_TRY(c ? pattern_put(r, text) : pattern_put(r, "\\x00"));
    }
    return rp_fail(r->ctx, RP_ERR_FORMAT, "the pattern '%.*s' has a class without end", (int)(r->n < 200 ? r->n : 200), r->text);
}

static rp_status rewrite_group(rewriter *r)
{
    static const char *const known[] = { "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:", "(?i)", "(?-i)" };

    if (peek(r, 1) == '?') {
        for (int i = 0; i < RP_COUNT(known); i++) {
            int64_t length = (int64_t)strlen(known[i]);
            if (r->n - r->at < length || memcmp(r->text + r->at, known[i], (size_t)length)) continue;
            r->at += length;
            return pattern_put(r, known[i]);
        }
        return pattern_refuse(r, "a group of another kind than (?: (?= (?! (?<= (?<! (?> (?i:");
    }
    if (peek(r, 1) == '*') return pattern_refuse(r, "'(*'");
    r->at++;
    return pattern_put(r, "(");
}

/* Records the turns of a counted character that may pass before it fails: one less than the lowest count. A group's items call back themselves. */
static void count_repeats(rewriter *r, int64_t digits)
{
    int64_t n = 0;

    for (int64_t i = 0; i < digits && n <= 65535; i++) n = 10 * n + peek(r, 1 + i) - '0';
    if (n - 1 > r->repeats) r->repeats = n - 1;
}

/* Rewrites {2}, {2,}, {2,3} and {,3}; any other brace is a literal. Some quantifiers after a brace differ between the engines and are refused. */
static rp_status rewrite_brace(rewriter *r)
{
    int64_t end = r->at + 1, low = 0, high = 0;
    bool comma = false;

    for (; end < r->n && r->text[end] != '}'; end++) {
        if (r->text[end] == ',' && !comma) comma = true;
        else if (r->text[end] < '0' || r->text[end] > '9') break;
        else if (comma) high++;
        else low++;
    }
    if (end >= r->n || r->text[end] != '}' || !(low + high)) return r->at++, pattern_put(r, "\\{");
    char after = end + 1 < r->n ? r->text[end + 1] : 0;
    if (after == '+' || (after == '?' && !comma)) return pattern_refuse(r, "a quantifier after a counted quantifier");
    RP_TRY(pattern_put(r, low ? "{" : "{0"));
    RP_TRY(rp__bytes_push(r->ctx, &r->out, r->text + r->at + 1, end - r->at));
    if (!r->after_group) count_repeats(r, low);
    r->at = end + 1;
    return RP_OK;
}

static rp_status rewrite(rewriter *r)
{
    RP_CHECK(r->ctx, r->n <= PATTERN_BYTES, RP_ERR_UNSUPPORTED, "the pattern '%.200s' has %" PRId64 " bytes; at most %d are supported", r->text,
             r->n, PATTERN_BYTES);
    while (r->at < r->n) {
        char c = peek(r, 0), text[] = { c, 0 };
        if (c == '[') {
            RP_TRY(rewrite_class(r));
        } else if (c == '(') {
            RP_TRY(rewrite_group(r));
        } else if (c == '{') {
            RP_TRY(rewrite_brace(r));
        } else {
            r->at++;
            if (c == '\\') RP_TRY(escape(r, false));
            else RP_TRY(c ? pattern_put(r, text) : pattern_put(r, "\\x00"));
        }
        r->after_group = c == ')';
    }
    return RP_OK;
}

static void *pattern_take(PCRE2_SIZE bytes, void *ctx) { return rp__host_alloc(ctx, (int64_t)bytes); }
static void give(void *p, void *ctx) { (void)ctx; rp__release(p); }

/* Called before each item: charges the work since the last call. */
static int pay(pcre2_callout_block *b, void *user)
{
    rp_pattern *p = user;
    PCRE2_SIZE at = b->current_position;
    int64_t moved = (int64_t)(at > p->seen ? at - p->seen : p->seen - at);

    p->seen        = at;
    p->work->steps += p->weight * (1 + moved + p->repeats);
    return p->work->steps > p->most ? PCRE2_ERROR_CALLOUT : 0;
}

static rp_status malformed(const rp_pattern *p, const rewriter *r, int error)
{
    PCRE2_UCHAR why[200];

    if (error == PCRE2_ERROR_HEAP_FAILED) return RP_ERR_MEMORY;
    pcre2_get_error_message(error, why, sizeof why);
    return rp_fail(p->ctx, RP_ERR_FORMAT, "the pattern '%.*s' is malformed: %s",
                   (int)(r->n < 200 ? r->n : 200), r->text, (const char *)why);
}

static void weigh(rp_pattern *p, const rewriter *r)
{
    size_t bytes = 0;

    pcre2_pattern_info(p->code, PCRE2_INFO_SIZE, &bytes);
    pcre2_pattern_info(p->code, PCRE2_INFO_MAXLOOKBEHIND, &p->look_back);
    if (!p->look_back) p->look_back = 1;
    p->weight  = 1 + (int64_t)bytes / WEIGHT_BYTES + r->members / WEIGHT_MEMBERS;
    p->repeats = r->repeats;
}

static rp_status compile(rp_pattern *p, const rewriter *r)
{
    uint32_t options = PCRE2_UTF | PCRE2_AUTO_CALLOUT |
                       (r->flags & RP_PATTERN_LITERAL ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE);
    pcre2_compile_context *context = NULL;
    int error = 0;
    PCRE2_SIZE at = 0;

    p->memory = pcre2_general_context_create(pattern_take, give, p->ctx);
    context   = p->memory ? pcre2_compile_context_create(p->memory) : NULL;
    if (!context) return RP_ERR_MEMORY;
    p->code = pcre2_compile((PCRE2_SPTR)r->out.at, (PCRE2_SIZE)r->out.n, options, &error, &at, context);
    pcre2_compile_context_free(context);
    if (!p->code) return malformed(p, r, error);
    pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);     /* without JIT the interpreter runs: slower, same matches */
    p->data    = pcre2_match_data_create(1, p->memory);
    p->context = pcre2_match_context_create(p->memory);
    p->stack   = pcre2_jit_stack_create(32 * 1024, 4 * 1024 * 1024, p->memory);
    if (!p->data || !p->context || !p->stack) return RP_ERR_MEMORY;
    pcre2_jit_stack_assign(p->context, NULL, p->stack);
    pcre2_set_callout(p->context, pay, p);
    pcre2_set_match_limit(p->context, UINT32_MAX);
    pcre2_set_heap_limit(p->context, INTERPRETER_KIB);
    weigh(p, r);
    return RP_OK;
}

void rp__pattern_share(rp_pattern *p, rp_work *work) { p->work = work; }
void rp__pattern_begin(rp_pattern *p) { p->own = (rp_work){ 0 }; }
void rp__pattern_pass(rp_pattern *p, int64_t bytes) { p->own.bytes += bytes; }

/* PCRE2's hard partial matching stops at the first attempt that needs a character behind the end, even if only to look at it. Earlier matches do not
 * depend on further text. A match that exceeds the step limit is tried again when more text, and so more steps, are available. */
static bool hangs_on_what_follows(int found)
{
    return found == PCRE2_ERROR_PARTIAL || found == PCRE2_ERROR_CALLOUT || found == PCRE2_ERROR_MATCHLIMIT || found == PCRE2_ERROR_JIT_STACKLIMIT;
}

static int search(rp_pattern *p, const char *text, int64_t bytes, bool open, int64_t from)
{
    p->most = TEXT_STEPS + STEPS_PER_BYTE * (p->work == &p->own ? p->own.bytes + bytes : p->work->bytes);
    p->seen = (PCRE2_SIZE)from;
    return pcre2_match(p->code, (PCRE2_SPTR)text, (PCRE2_SIZE)bytes, (PCRE2_SIZE)from, PCRE2_NO_UTF_CHECK | (open ? PCRE2_PARTIAL_HARD : 0),
                       p->data, p->context);
}

rp_status rp__pattern_next(rp_pattern *p, const char *text, int64_t bytes, bool open, int64_t from, int64_t *start, int64_t *end)
{
    PCRE2_UCHAR why[200];
    if (open && !p->made_open) pcre2_jit_compile(p->code, PCRE2_JIT_PARTIAL_HARD);
    p->made_open |= open;
    int64_t steps          = p->work->steps;
    int found              = search(p, text, bytes, open, from);
    const PCRE2_SIZE *pair = pcre2_get_ovector_pointer(p->data);

    *start = -1;
    *end   = bytes;
    if (open && hangs_on_what_follows(found)) {
        *end = found == PCRE2_ERROR_PARTIAL ? (int64_t)pair[0] : from;
        if (found == PCRE2_ERROR_CALLOUT) p->work->steps = steps;
        return RP_OK;
    }
    if (found == PCRE2_ERROR_NOMATCH) return RP_OK;
    if (found == PCRE2_ERROR_NOMEMORY)
        return rp_fail(p->ctx, RP_ERR_MEMORY, "matching the tokenizer's pattern ran out of memory");
    if (found == PCRE2_ERROR_CALLOUT || found == PCRE2_ERROR_MATCHLIMIT)
        return rp_fail(p->ctx, RP_ERR_UNSUPPORTED, "its pattern takes more than %d steps and %d a byte on this text, at byte %" PRId64,
                       TEXT_STEPS, STEPS_PER_BYTE, p->own.bytes);
    if (found < 0) {
        pcre2_get_error_message(found, why, sizeof why);
        return rp_fail(p->ctx, RP_ERR_UNSUPPORTED, "its pattern cannot be matched against this text: %s",
                       (const char *)why);
    }
    *start = (int64_t)pair[0];
    *end   = (int64_t)pair[1];
    return RP_OK;
}

int64_t rp__pattern_context(const rp_pattern *p, const char *text, int64_t from)
{
    uint32_t point;

    for (uint32_t i = 0; i < p->look_back && from > 0; i++) from = rp__utf8_before(text, from, &point);
    return from;
}

void rp__pattern_free(rp_pattern *p)
{
    if (!p) return;
    pcre2_jit_stack_free(p->stack);
    pcre2_match_context_free(p->context);
    pcre2_match_data_free(p->data);
    pcre2_code_free(p->code);
    pcre2_general_context_free(p->memory);
    rp__release(p);
}

rp_status rp__pattern_new(rp_ctx *ctx, const char *text, int64_t bytes, unsigned flags, rp_pattern **out)
{
    rewriter r       = { .ctx = ctx, .text = text, .n = bytes, .flags = flags };
    rp_status status = RP_OK;
    rp_pattern *p    = rp__host_alloc(ctx, sizeof *p);

    if (!p) return RP_ERR_MEMORY;
    p->ctx  = ctx;
    p->work = &p->own;
    if (flags & RP_PATTERN_LITERAL) RP_TRY_GOTO(rp__bytes_push(ctx, &r.out, text, bytes));
    else RP_TRY_GOTO(rewrite(&r));
    RP_TRY_GOTO(rp__bytes_room(ctx, &r.out, 1));
    RP_TRY_GOTO(compile(p, &r));
    *out = p;
    p    = NULL;
done:
    rp__pattern_free(p);
    rp__release(r.out.at);
    return status;
}
