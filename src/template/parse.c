/* template/parse.c -- parses statements: tokens to nodes.
 *
 *   DATA        name: the text                       PRINT       a
 *   IF          a: condition, body, other: else or the elif's IF
 *   FOR         a: target, b: the iterated value, c: condition or NULL, body, other: else
 *   SET         a: target, b: value                  SET_BLOCK   a: target, b: filters around RP_N_CONSTANT or NULL, body
 *   MACRO       name, a: list of KEYWORDs (b: default or NULL), body
 *   GENERATION  body                                 BREAK, CONTINUE
 */
#include <stdarg.h>
#include <stdio.h>

#include "template/internal.h"

rp_status rp__template_wrong(const rp_template *t, int line, rp_status status, const char *fmt, ...)
{
    char why[RP_ERROR_CHARS];
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    return rp_fail(t->ctx, status, "the chat template of '%s', line %d: %s", t->name, line, why);
}

rp_status rp__template_node(rp_template_parser *p, rp_node_kind kind, rp_node **out)
{
    *out = rp__bump_alloc(&p->of->bump, sizeof **out);
    if (!*out) return RP_ERR_MEMORY;
    **out = (rp_node){ .kind = kind, .line = p->at->line };
    return RP_OK;
}

bool rp__template_is(const rp_template_parser *p, rp_token_kind kind, const char *text)
{
    return p->at->kind == kind && (!text || rp__text_is(p->at->text, text));
}

bool rp__template_take(rp_template_parser *p, rp_token_kind kind, const char *text)
{
    if (!rp__template_is(p, kind, text)) return false;
    p->at++;
    return true;
}

rp_status rp__template_expect(rp_template_parser *p, rp_token_kind kind, const char *text)
{
    const rp_template_token *t = p->at;

    if (rp__template_take(p, kind, text)) return RP_OK;
    const char *wanted = text ? text : kind == RP_T_BLOCK_END ? "%}" : kind == RP_T_PRINT_END ? "}}" : "a name";
    if (t->kind == RP_T_END) return rp__template_wrong(p->of, t->line, RP_ERR_FORMAT, "it ends where '%s' was expected", wanted);
    return rp__template_wrong(p->of, t->line, RP_ERR_FORMAT, "'%s' was expected, not '%.*s'", wanted,
                              (int)(t->text.bytes < 40 ? t->text.bytes : 40), t->text.at);
}

rp_status rp__template_enter(rp_template_parser *p)
{
    if (++p->depth <= RP_TEMPLATE_DEPTH) return RP_OK;
    return rp__template_wrong(p->of, p->at->line, RP_ERR_FORMAT, "it is nested more than %d deep", RP_TEMPLATE_DEPTH);
}

static rp_status end_block(rp_template_parser *p) { return rp__template_expect(p, RP_T_BLOCK_END, NULL); }

static rp_status body_until(rp_template_parser *p, const char *const *ends, rp_node **out);

/* Parses a body up to and including {% end %}. */
static rp_status body_to(rp_template_parser *p, const char *end, rp_node **out)
{
    const char *const ends[] = { end, NULL };

    RP_TRY(body_until(p, ends, out));
    p->at++;
    return end_block(p);
}

/* ---- statements, after their name ---- */

static rp_status parse_if(rp_template_parser *p, rp_node *node)
{
    static const char *const ends[] = { "elif", "else", "endif", NULL };

    RP_TRY(rp__template_expression(p, true, true, &node->a));
    RP_TRY(end_block(p));
    RP_TRY(body_until(p, ends, &node->body));
    if (rp__template_take(p, RP_T_NAME, "elif")) {
        RP_TRY(rp__template_enter(p));
        RP_TRY(rp__template_node(p, RP_N_IF, &node->other));
        RP_TRY(parse_if(p, node->other));
        p->depth--;
        return RP_OK;
    }
    if (rp__template_take(p, RP_T_NAME, "else")) {
        RP_TRY(end_block(p));
        return body_to(p, "endif", &node->other);
    }
    p->at++;
    return end_block(p);
}

/* Parses the target of an assignment: one name, or several separated by commas. */
static rp_status parse_target(rp_template_parser *p, rp_node **out)
{
    rp_node *first = NULL, **last = &first;
    int names      = 0;

    do {
        RP_TRY(rp__template_node(p, RP_N_NAME, last));
        (*last)->name = p->at->text;
        RP_TRY(rp__template_expect(p, RP_T_NAME, NULL));
        last = &(*last)->next;
        names++;
    } while (rp__template_take(p, RP_T_SIGN, ","));
    *out = first;
    if (names == 1 && rp__template_take(p, RP_T_SIGN, ".")) {      /* attribute of a namespace */
        RP_TRY(rp__template_node(p, RP_N_ATTRIBUTE, out));
        (*out)->a    = first;
        (*out)->name = p->at->text;
        return rp__template_expect(p, RP_T_NAME, NULL);
    }
    if (names == 1) return RP_OK;
    RP_TRY(rp__template_node(p, RP_N_TUPLE, out));
    (*out)->body = first;
    return RP_OK;
}

static rp_status parse_for(rp_template_parser *p, rp_node *node)
{
    static const char *const ends[] = { "else", "endfor", NULL };

    RP_TRY(parse_target(p, &node->a));
    RP_TRY(rp__template_expect(p, RP_T_NAME, "in"));
    RP_TRY(rp__template_expression(p, true, false, &node->b));
    if (rp__template_take(p, RP_T_NAME, "if")) RP_TRY(rp__template_expression(p, false, true, &node->c));
    if (rp__template_is(p, RP_T_NAME, "recursive"))
        return rp__template_wrong(p->of, p->at->line, RP_ERR_UNSUPPORTED, "recursive loops are not supported");
    RP_TRY(end_block(p));
    p->loops++;
    RP_TRY(body_until(p, ends, &node->body));
    p->loops--;
    if (rp__template_take(p, RP_T_NAME, "else")) {
        RP_TRY(end_block(p));
        return body_to(p, "endfor", &node->other);
    }
    p->at++;
    return end_block(p);
}

static rp_status parse_set(rp_template_parser *p, rp_node *node)
{
    RP_TRY(parse_target(p, &node->a));
    if (rp__template_take(p, RP_T_SIGN, "=")) {
        RP_TRY(rp__template_expression(p, true, true, &node->b));
        return end_block(p);
    }
    node->kind = RP_N_SET_BLOCK;
    RP_TRY(rp__template_node(p, RP_N_CONSTANT, &node->b));      /* the text of the body, to which the filters around it apply */
    node->b->flag = true;
    RP_TRY(rp__template_filters(p, &node->b));
    RP_TRY(end_block(p));
    return body_to(p, "endset", &node->body);
}

static rp_status parse_parameter(rp_template_parser *p, rp_node **out)
{
    RP_TRY(rp__template_node(p, RP_N_KEYWORD, out));
    (*out)->name = p->at->text;
    RP_TRY(rp__template_expect(p, RP_T_NAME, NULL));
    return rp__template_take(p, RP_T_SIGN, "=") ? rp__template_expression(p, false, true, &(*out)->b) : RP_OK;
}

static rp_status parse_macro(rp_template_parser *p, rp_node *node)
{
    rp_node **last = &node->a;
    int loops      = p->loops;

    node->name = p->at->text;
    RP_TRY(rp__template_expect(p, RP_T_NAME, NULL));
    RP_TRY(rp__template_expect(p, RP_T_SIGN, "("));
    while (!rp__template_is(p, RP_T_SIGN, ")")) {
        RP_TRY(parse_parameter(p, last));
        last = &(*last)->next;
        if (!rp__template_take(p, RP_T_SIGN, ",")) break;
    }
    RP_TRY(rp__template_expect(p, RP_T_SIGN, ")"));
    RP_TRY(end_block(p));
    p->loops = 0;
    RP_TRY(body_to(p, "endmacro", &node->body));
    p->loops = loops;
    return RP_OK;
}

static rp_status parse_generation(rp_template_parser *p, rp_node *node)
{
    p->of->marks_answers = true;
    RP_TRY(end_block(p));
    return body_to(p, "endgeneration", &node->body);
}

static rp_status parse_leave(rp_template_parser *p, rp_node *node)
{
    if (!p->loops)
        return rp__template_wrong(p->of, node->line, RP_ERR_FORMAT, "'%s' outside of a loop", node->kind == RP_N_BREAK ? "break" : "continue");
    return end_block(p);
}

static const struct {
    const char *name;
    rp_node_kind kind;
    rp_status (*parse)(rp_template_parser *p, rp_node *node);
} statements[] = {
    { "if", RP_N_IF, parse_if },          { "for", RP_N_FOR, parse_for },
    { "set", RP_N_SET, parse_set },       { "macro", RP_N_MACRO, parse_macro },
    { "break", RP_N_BREAK, parse_leave }, { "continue", RP_N_CONTINUE, parse_leave },
    { "generation", RP_N_GENERATION, parse_generation },
};

static rp_status parse_statement(rp_template_parser *p, rp_node **out)
{
    const rp_template_token *t = p->at;

    RP_TRY(rp__template_enter(p));
    RP_TRY(rp__template_expect(p, RP_T_NAME, NULL));
    for (int i = 0; i < RP_COUNT(statements); i++) {
        if (!rp__text_is(t->text, statements[i].name)) continue;
        RP_TRY(rp__template_node(p, statements[i].kind, out));
        RP_TRY(statements[i].parse(p, *out));
        p->depth--;
        return RP_OK;
    }
    bool end = t->text.bytes > 3 && (!strncmp(t->text.at, "end", 3) || rp__text_is(t->text, "else") || rp__text_is(t->text, "elif"));
    return rp__template_wrong(p->of, t->line, end ? RP_ERR_FORMAT : RP_ERR_UNSUPPORTED,
                              end ? "'%.*s' closes no open block" : "the statement '%.*s' is not supported",
                              (int)(t->text.bytes < 40 ? t->text.bytes : 40), t->text.at);
}

/* ---- bodies ---- */

static bool at_end(const rp_template_parser *p, const char *const *ends)
{
    if (p->at[0].kind != RP_T_BLOCK || p->at[1].kind != RP_T_NAME) return false;
    for (int i = 0; ends && ends[i]; i++)
        if (rp__text_is(p->at[1].text, ends[i])) return true;
    return false;
}

static rp_status parse_part(rp_template_parser *p, rp_node **out)
{
    const rp_template_token *t = p->at;

    if (rp__template_take(p, RP_T_BLOCK, NULL)) return parse_statement(p, out);
    RP_TRY(rp__template_node(p, t->kind == RP_T_DATA ? RP_N_DATA : RP_N_PRINT, out));
    p->at++;
    (*out)->name = t->text;
    if (t->kind == RP_T_DATA) return RP_OK;
    RP_TRY(rp__template_expression(p, true, true, &(*out)->a));
    return rp__template_expect(p, RP_T_PRINT_END, NULL);
}

/* Parses up to a block that begins with one of `ends`; the next token is then that name. ends NULL: up to the end of the template. */
static rp_status body_until(rp_template_parser *p, const char *const *ends, rp_node **out)
{
    rp_node **last = out;

    *last = NULL;
    while (p->at->kind != RP_T_END) {
        if (at_end(p, ends)) {
            p->at++;
            return RP_OK;
        }
        RP_TRY(parse_part(p, last));
        last = &(*last)->next;
    }
    if (!ends) return RP_OK;
    while (ends[1]) ends++;
    return rp__template_wrong(p->of, p->at->line, RP_ERR_FORMAT, "it ends where '%s' was expected", ends[0]);
}

rp_status rp__template_parse(rp_template *t, const rp_template_tokens *tokens)
{
    rp_template_parser p = { .of = t, .at = tokens->token };

    return body_until(&p, NULL, &t->body);
}
