/* template/expression.c -- parses expressions: tokens to nodes, with Jinja's precedences.
 *
 *   a if c else b │ or │ and │ not │ == != < <= > >= in, not in │ + - │ ~ │ * / // % │ ** │ - + │ value .name [item] (call) | filter, is test
 *
 *   CONSTANT    constant; flag: the body of a set block          NAME        name
 *   LIST, TUPLE body: items                                      MAP         body: a key, its value, a key …
 *   ATTRIBUTE   a . name            ITEM   a [ b ]               SLICE       a [ b : c : other ], parts may be NULL
 *   CALL        a, body: arguments  FILTER a | name, body        TEST        a is name, body; flag: is not
 *   NOT, NEGATIVE, POSITIVE  a      AND, OR a, b                 ARITHMETIC  a name b
 *   COMPARE     a, body: KEYWORDs with name: the comparison, a: its right operand
 *   CONCAT      body                CHOICE a if b else c         KEYWORD     name = b, among arguments
 */
#include "template/internal.h"

static rp_status unary(rp_template_parser *p, bool filters, rp_node **out);
static rp_status choice(rp_template_parser *p, rp_node **out);

static rp_status nest(rp_template_parser *p, rp_status (*parse)(rp_template_parser *, rp_node **), rp_node **out)
{
    RP_TRY(rp__template_enter(p));
    RP_TRY(parse(p, out));
    p->depth--;
    return RP_OK;
}

/* Replaces a by a new node of which a becomes a part. A chain of operators gives a tree as deep as the chain is long, so its length is limited. */
static rp_status wrap(rp_template_parser *p, rp_node_kind kind, rp_node **a, int *links)
{
    rp_node *node;

    RP_TRY(rp__template_node(p, kind, &node));
    if (++*links > RP_TEMPLATE_DEPTH)
        return rp__template_wrong(p->of, p->at->line, RP_ERR_FORMAT, "an expression has more than %d parts in a row", RP_TEMPLATE_DEPTH);
    node->a = *a;
    *a      = node;
    return RP_OK;
}

/* ---- values ---- */

static rp_status constant(rp_template_parser *p, rp_value value, rp_node **out)
{
    RP_TRY(rp__template_node(p, RP_N_CONSTANT, out));
    (*out)->constant = value;
    return RP_OK;
}

static rp_status name(rp_template_parser *p, rp_node **out)
{
    static const struct { const char *name; rp_value value; } known[] = {
        { "true", { .kind = RP_V_BOOL, .b = true } }, { "True", { .kind = RP_V_BOOL, .b = true } }, { "false", { .kind = RP_V_BOOL } },
        { "False", { .kind = RP_V_BOOL } },           { "none", { .kind = RP_V_NONE } },            { "None", { .kind = RP_V_NONE } },
    };
    rp_text text = p->at->text;

    for (int i = 0; i < RP_COUNT(known); i++)
        if (rp__text_is(text, known[i].name)) {
            p->at++;
            return constant(p, known[i].value, out);
        }
    RP_TRY(rp__template_node(p, RP_N_NAME, out));
    (*out)->name = text;
    p->at++;
    return RP_OK;
}

/* Adjacent strings are one string. */
static rp_status string(rp_template_parser *p, rp_node **out)
{
    int64_t bytes = 0, at = 0;
    const rp_template_token *first = p->at;

    while (rp__template_is(p, RP_T_STRING, NULL)) bytes += (p->at++)->text.bytes;
    char *text = (char *)first->text.at;
    if (p->at > first + 1) {
        text = rp__bump_alloc(&p->of->bump, bytes + 1);
        if (!text) return RP_ERR_MEMORY;
        for (const rp_template_token *t = first; t < p->at; at += (t++)->text.bytes)
            if (t->text.bytes) memcpy(text + at, t->text.at, (size_t)t->text.bytes);
    }
    return constant(p, RP_TEXT_VALUE(text, bytes), out);
}

/* Parses items up to and including the closing sign; a comma may precede it. */
static rp_status items(rp_template_parser *p, const char *end, rp_status (*item)(rp_template_parser *, rp_node **), rp_node **last)
{
    while (!rp__template_is(p, RP_T_SIGN, end)) {
        RP_TRY(item(p, last));
        while (*last) last = &(*last)->next;
        if (!rp__template_take(p, RP_T_SIGN, ",")) break;
    }
    return rp__template_expect(p, RP_T_SIGN, end);
}

/* Parses a key and its value; the value follows the key in the list. */
static rp_status pair(rp_template_parser *p, rp_node **out)
{
    RP_TRY(choice(p, out));
    RP_TRY(rp__template_expect(p, RP_T_SIGN, ":"));
    return choice(p, &(*out)->next);
}

static rp_status list(rp_template_parser *p, rp_node **out)
{
    bool map = rp__template_is(p, RP_T_SIGN, "{");

    RP_TRY(rp__template_node(p, map ? RP_N_MAP : RP_N_LIST, out));
    p->at++;
    return items(p, map ? "}" : "]", map ? pair : choice, &(*out)->body);
}

static rp_status parentheses(rp_template_parser *p, rp_node **out)
{
    p->at++;
    if (rp__template_take(p, RP_T_SIGN, ")")) return rp__template_node(p, RP_N_TUPLE, out);
    RP_TRY(rp__template_expression(p, true, true, out));
    return rp__template_expect(p, RP_T_SIGN, ")");
}

static rp_status primary(rp_template_parser *p, rp_node **out)
{
    const rp_template_token *t = p->at;

    switch (t->kind) {
    case RP_T_NAME: return name(p, out);
    case RP_T_STRING: return string(p, out);
    case RP_T_INT: p->at++; return constant(p, RP_INT_VALUE(t->i), out);
    case RP_T_FLOAT: p->at++; return constant(p, RP_FLOAT_VALUE(t->f), out);
    default: break;
    }
    if (rp__template_is(p, RP_T_SIGN, "(")) return parentheses(p, out);
    if (rp__template_is(p, RP_T_SIGN, "[") || rp__template_is(p, RP_T_SIGN, "{")) return list(p, out);
    return rp__template_wrong(p->of, t->line, RP_ERR_FORMAT, t->text.bytes ? "a value was expected, not '%.*s'" : "it ends where a value was expected",
                              (int)(t->text.bytes < 40 ? t->text.bytes : 40), t->text.at);
}

/* ---- postfix parts of a value ---- */

static rp_status argument(rp_template_parser *p, rp_node **out)
{
    bool keyword = p->at[0].kind == RP_T_NAME && p->at[1].kind == RP_T_SIGN && rp__text_is(p->at[1].text, "=");

    if (rp__template_is(p, RP_T_SIGN, "*") || rp__template_is(p, RP_T_SIGN, "**"))
        return rp__template_wrong(p->of, p->at->line, RP_ERR_UNSUPPORTED, "arguments given as '%.*s' are not supported", (int)p->at->text.bytes,
                                  p->at->text.at);
    if (!keyword) return choice(p, out);
    RP_TRY(rp__template_node(p, RP_N_KEYWORD, out));
    (*out)->name = p->at->text;
    p->at += 2;
    return choice(p, &(*out)->b);
}

/* After the opening parenthesis. */
static rp_status arguments(rp_template_parser *p, rp_node **out) { return items(p, ")", argument, out); }

/* After the bracket: [a] or [a:b:c]. */
static rp_status subscript(rp_template_parser *p, rp_node *node)
{
    rp_node **part[] = { &node->b, &node->c, &node->other };
    int colons       = 0;

    for (int i = 0; i < 3; i++) {
        if (!rp__template_is(p, RP_T_SIGN, ":") && !rp__template_is(p, RP_T_SIGN, "]")) RP_TRY(rp__template_expression(p, i == 0, true, part[i]));
        if (i == 2 || !rp__template_take(p, RP_T_SIGN, ":")) break;
        colons++;
    }
    if (colons) node->kind = RP_N_SLICE;
    else if (!node->b) return rp__template_wrong(p->of, p->at->line, RP_ERR_FORMAT, "a value was expected, not ']'");
    return rp__template_expect(p, RP_T_SIGN, "]");
}

/* A name or, as in Jinja, a number: x.0 is x[0]. */
static rp_status attribute(rp_template_parser *p, rp_node *node)
{
    if (p->at->kind == RP_T_INT) {
        node->kind = RP_N_ITEM;
        return primary(p, &node->b);
    }
    node->name = p->at->text;
    return rp__template_expect(p, RP_T_NAME, NULL);
}

static rp_status postfix(rp_template_parser *p, rp_node **node)
{
    int links = 0;

    for (;;) {
        if (rp__template_take(p, RP_T_SIGN, ".")) {
            RP_TRY(wrap(p, RP_N_ATTRIBUTE, node, &links));
            RP_TRY(attribute(p, *node));
        } else if (rp__template_take(p, RP_T_SIGN, "[")) {
            RP_TRY(wrap(p, RP_N_ITEM, node, &links));
            RP_TRY(subscript(p, *node));
        } else if (rp__template_take(p, RP_T_SIGN, "(")) {
            RP_TRY(wrap(p, RP_N_CALL, node, &links));
            RP_TRY(arguments(p, &(*node)->body));
        } else return RP_OK;
    }
}

/* Can the next token be a test's argument without parentheses, as in `is divisibleby 3`? */
static bool bare_argument(const rp_template_parser *p)
{
    static const char *const not_one[] = { "else", "or", "and", "is", "if", "in", "not" };

    if (p->at->kind == RP_T_STRING || p->at->kind == RP_T_INT || p->at->kind == RP_T_FLOAT) return true;
    if (p->at->kind != RP_T_NAME) return rp__template_is(p, RP_T_SIGN, "[") || rp__template_is(p, RP_T_SIGN, "{");
    for (int i = 0; i < RP_COUNT(not_one); i++)
        if (rp__text_is(p->at->text, not_one[i])) return false;
    return true;
}

static rp_status test(rp_template_parser *p, rp_node *node)
{
    node->flag = rp__template_take(p, RP_T_NAME, "not");
    node->name = p->at->text;
    RP_TRY(rp__template_expect(p, RP_T_NAME, NULL));
    if (rp__template_take(p, RP_T_SIGN, "(")) return arguments(p, &node->body);
    if (!bare_argument(p)) return RP_OK;
    RP_TRY(primary(p, &node->body));
    return postfix(p, &node->body);
}

static rp_status filter(rp_template_parser *p, rp_node *node)
{
    node->name = p->at->text;
    RP_TRY(rp__template_expect(p, RP_T_NAME, NULL));
    return rp__template_take(p, RP_T_SIGN, "(") ? arguments(p, &node->body) : RP_OK;
}

rp_status rp__template_filters(rp_template_parser *p, rp_node **node)
{
    int links = 0;

    for (;;) {
        if (rp__template_take(p, RP_T_SIGN, "|")) {
            RP_TRY(wrap(p, RP_N_FILTER, node, &links));
            RP_TRY(filter(p, *node));
        } else if (rp__template_take(p, RP_T_NAME, "is")) {
            RP_TRY(wrap(p, RP_N_TEST, node, &links));
            RP_TRY(test(p, *node));
        } else if (links && rp__template_take(p, RP_T_SIGN, "(")) {
            RP_TRY(wrap(p, RP_N_CALL, node, &links));
            RP_TRY(arguments(p, &(*node)->body));
        } else return RP_OK;
    }
}

/* ---- operators ---- */

static rp_status unary_sign(rp_template_parser *p, rp_node **out)
{
    RP_TRY(rp__template_node(p, rp__template_is(p, RP_T_SIGN, "-") ? RP_N_NEGATIVE : RP_N_POSITIVE, out));
    p->at++;
    return unary(p, false, &(*out)->a);
}

static rp_status unary(rp_template_parser *p, bool filters, rp_node **out)
{
    bool sign = rp__template_is(p, RP_T_SIGN, "-") || rp__template_is(p, RP_T_SIGN, "+");

    RP_TRY(nest(p, sign ? unary_sign : primary, out));
    RP_TRY(postfix(p, out));
    return filters ? rp__template_filters(p, out) : RP_OK;
}

static rp_status filtered(rp_template_parser *p, rp_node **out) { return unary(p, true, out); }

/* Operators of one precedence, left-associative. */
static rp_status binary(rp_template_parser *p, const char *const *signs, rp_status (*next)(rp_template_parser *, rp_node **), rp_node **out)
{
    int links = 0;

    RP_TRY(next(p, out));
    for (int i = 0; signs[i]; i++) {
        rp_text sign = p->at->text;
        if (!rp__template_take(p, RP_T_SIGN, signs[i])) continue;
        RP_TRY(wrap(p, RP_N_ARITHMETIC, out, &links));
        (*out)->name = sign;
        RP_TRY(next(p, &(*out)->b));
        i = -1;
    }
    return RP_OK;
}

static rp_status power(rp_template_parser *p, rp_node **out) { return binary(p, (const char *const[]){ "**", NULL }, filtered, out); }
static rp_status product(rp_template_parser *p, rp_node **out)
{
    return binary(p, (const char *const[]){ "*", "/", "//", "%", NULL }, power, out);
}

/* Replaces *first by a new node whose body begins with *first; *last: where to append the next one. */
static rp_status begin_row(rp_template_parser *p, rp_node_kind kind, rp_node **first, rp_node ***last)
{
    rp_node *body = *first;

    RP_TRY(rp__template_node(p, kind, first));
    (*first)->body = body;
    *last          = &body->next;
    return RP_OK;
}

static rp_status concat(rp_template_parser *p, rp_node **out)
{
    rp_node **last;

    RP_TRY(product(p, out));
    if (!rp__template_is(p, RP_T_SIGN, "~")) return RP_OK;
    RP_TRY(begin_row(p, RP_N_CONCAT, out, &last));
    while (rp__template_take(p, RP_T_SIGN, "~")) {
        RP_TRY(product(p, last));
        last = &(*last)->next;
    }
    return RP_OK;
}

static rp_status sum(rp_template_parser *p, rp_node **out) { return binary(p, (const char *const[]){ "+", "-", NULL }, concat, out); }

static bool comparison(rp_template_parser *p, rp_text *sign)
{
    static const char *const signs[] = { "==", "!=", "<=", ">=", "<", ">" };

    *sign = p->at->text;
    for (int i = 0; i < RP_COUNT(signs); i++)
        if (rp__template_take(p, RP_T_SIGN, signs[i])) return true;
    if (rp__template_take(p, RP_T_NAME, "in")) return true;
    if (!rp__template_is(p, RP_T_NAME, "not") || p->at[1].kind != RP_T_NAME || !rp__text_is(p->at[1].text, "in")) return false;
    *sign = (rp_text){ "not in", 6 };
    p->at += 2;
    return true;
}

static rp_status compare(rp_template_parser *p, rp_node **out)
{
    rp_node **last = NULL;
    rp_text sign;

    RP_TRY(sum(p, out));
    while (comparison(p, &sign)) {
        int links = 0;
        if (!last) {
            RP_TRY(wrap(p, RP_N_COMPARE, out, &links));
            last = &(*out)->body;
        }
        RP_TRY(rp__template_node(p, RP_N_KEYWORD, last));
        (*last)->name = sign;
        RP_TRY(sum(p, &(*last)->a));
        last = &(*last)->next;
    }
    return RP_OK;
}

static rp_status negation(rp_template_parser *p, rp_node **out)
{
    if (!rp__template_take(p, RP_T_NAME, "not")) return compare(p, out);
    RP_TRY(rp__template_node(p, RP_N_NOT, out));
    return nest(p, negation, &(*out)->a);
}

static rp_status logic(rp_template_parser *p, const char *word, rp_node_kind kind, rp_status (*next)(rp_template_parser *, rp_node **), rp_node **out)
{
    int links = 0;

    RP_TRY(next(p, out));
    while (rp__template_take(p, RP_T_NAME, word)) {
        RP_TRY(wrap(p, kind, out, &links));
        RP_TRY(next(p, &(*out)->b));
    }
    return RP_OK;
}

static rp_status both(rp_template_parser *p, rp_node **out) { return logic(p, "and", RP_N_AND, negation, out); }
static rp_status either(rp_template_parser *p, rp_node **out) { return logic(p, "or", RP_N_OR, both, out); }

static rp_status simple(rp_template_parser *p, rp_node **out) { return nest(p, either, out); }

static rp_status choice(rp_template_parser *p, rp_node **out)
{
    int links = 0;

    RP_TRY(simple(p, out));
    while (rp__template_take(p, RP_T_NAME, "if")) {
        RP_TRY(wrap(p, RP_N_CHOICE, out, &links));
        RP_TRY(either(p, &(*out)->b));
        if (rp__template_take(p, RP_T_NAME, "else")) RP_TRY(nest(p, choice, &(*out)->c));
    }
    return RP_OK;
}

rp_status rp__template_expression(rp_template_parser *p, bool tuples, bool choices, rp_node **out)
{
    rp_status (*part)(rp_template_parser *, rp_node **) = choices ? choice : simple;
    rp_node **last;

    RP_TRY(part(p, out));
    if (!tuples || !rp__template_is(p, RP_T_SIGN, ",")) return RP_OK;
    RP_TRY(begin_row(p, RP_N_TUPLE, out, &last));
    while (rp__template_take(p, RP_T_SIGN, ",")) {
        if (rp__template_is(p, RP_T_SIGN, ")") || rp__template_is(p, RP_T_BLOCK_END, NULL) || rp__template_is(p, RP_T_PRINT_END, NULL)) break;
        RP_TRY(part(p, last));
        last = &(*last)->next;
    }
    return RP_OK;
}
