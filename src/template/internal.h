/* template/internal.h -- tokens, nodes and values of a chat template; only the files of src/template include it.
 *
 * A template is allocated in one bump and a run in another: no part is released alone. A run that needs more than its limit ends with an error.
 * Values are immutable except namespaces, so lists and maps share their items.
 *
 * A run pays for its work in steps, before it does it: one for each node, comparison or item, and for bytes as below. A step takes at most 0.1 us on
 * the slowest CPU measured, so RP_TEMPLATE_STEPS steps take less than a second. On a slower CPU the thread's CPU time, read every RP_CLOCK_STEPS
 * steps, ends the run.
 *
 * Errors of all functions that take a run: RP_ERR_FORMAT the template fails · RP_ERR_UNSUPPORTED an unknown feature, or RP_TEMPLATE_LIMIT ·
 * RP_ERR_MEMORY. Errors of the functions that take a parser: RP_ERR_FORMAT · RP_ERR_UNSUPPORTED · RP_ERR_MEMORY.
 */
#ifndef RP_TEMPLATE_INTERNAL_H
#define RP_TEMPLATE_INTERNAL_H

#include <string.h>

#include "base/bump.h"
#include "template/template.h"
#include "tokenizer/internal.h"

enum { RP_TEMPLATE_DEPTH = 100, RP_TEMPLATE_RUN_DEPTH = 400, RP_TEMPLATE_RANGE = 100000 };
#define RP_TEMPLATE_SOURCE_BYTES (INT64_C(1) << 20)
#ifdef RP_FUZZING                                   /* lower limits: an input that only runs long finds nothing new */
#define RP_TEMPLATE_STEPS INT64_C(200000)
#define RP_TEMPLATE_BYTES (INT64_C(4) << 20)
#else
#define RP_TEMPLATE_STEPS INT64_C(4000000)
#define RP_TEMPLATE_BYTES (INT64_C(64) << 20)       /* held by a run at once, its output included */
#endif
#define RP_TEMPLATE_SECONDS 1.0                     /* of CPU time */
enum { RP_CLOCK_STEPS = 1 << 14 };
#define RP_TEMPLATE_LIMIT RP_ERR_UNSUPPORTED        /* status of a run that exceeds a limit */

/* Bytes per step: copied, compared or zeroed · examined one by one or searched · produced one by one. */
enum { RP_BYTES_MOVED = 64, RP_BYTES_SEEN = 8, RP_BYTES_MADE = 2 };
enum { RP_STEPS_CALL = 8, RP_STEPS_NUMBER = 100, RP_STEPS_DATE = 100 };     /* steps of a macro's call · a number as text · a date as text */

typedef struct { const char *at; int64_t bytes; } rp_text;

/* ---- tokens ---- */

typedef enum {
    RP_T_DATA, RP_T_BLOCK, RP_T_BLOCK_END, RP_T_PRINT, RP_T_PRINT_END, RP_T_NAME, RP_T_STRING, RP_T_INT, RP_T_FLOAT, RP_T_SIGN, RP_T_END
} rp_token_kind;

typedef struct {
    rp_token_kind kind;
    int line;
    rp_text text;                       /* of data, a name or a sign; of a string after unescaping */
    int64_t i;
    double f;
} rp_template_token;

/* Split the whole text into tokens; the last is RP_T_END. errors RP_ERR_FORMAT · RP_ERR_MEMORY */
typedef struct { rp_template *of; rp_template_token *token; int64_t n, room; } rp_template_tokens;
rp_status rp__template_lex(rp_template *template, const char *text, int64_t bytes, rp_template_tokens *out);

/* ---- values ---- */

typedef enum {
    RP_V_UNDEFINED, RP_V_NONE, RP_V_BOOL, RP_V_INT, RP_V_FLOAT, RP_V_TEXT, RP_V_LIST, RP_V_MAP, RP_V_NAMESPACE, RP_V_MACRO,
    RP_V_FUNCTION, RP_V_METHOD
} rp_value_kind;

typedef struct rp_value rp_value;
typedef struct rp_pair rp_pair;
typedef struct rp_node rp_node;
typedef struct rp_run rp_run;
typedef struct { int64_t n, room; rp_value *item; } rp_list;
typedef struct { int64_t n, room; rp_pair *pair; } rp_map;     /* in insertion order */
typedef struct rp_bound rp_bound;
typedef struct rp_macro rp_macro;

struct rp_value {
    rp_value_kind kind;
    bool tuple;                         /* a tuple: prints in parentheses */
    union {
        bool b;
        int64_t i;
        double f;
        rp_text text;                   /* UNDEFINED: the name without a value, for messages */
        rp_list *list;
        rp_map *map;                    /* of a namespace, too */
        const rp_macro *macro;
        const struct rp_named_call *function;
        const rp_bound *method;
    };
};
struct rp_pair { rp_value key, value; };

/* The arguments of a call. */
typedef struct { rp_text name; rp_value value; } rp_keyword;
typedef struct { int n; rp_value *item; int n_keywords; rp_keyword *keyword; } rp_arguments;

/* Functions, filters, tests and methods are entries of tables. self: the value before the bar, `is` or dot; NULL for functions. */
typedef rp_status (*rp_call_fn)(rp_run *run, const rp_value *self, const rp_arguments *a, rp_value *out);
typedef struct rp_named_call { const char *name; rp_call_fn call; } rp_named_call;
struct rp_bound { rp_value self; const rp_named_call *method; };

#define RP_NONE_VALUE ((rp_value){ .kind = RP_V_NONE })
#define RP_BOOL_VALUE(x) ((rp_value){ .kind = RP_V_BOOL, .b = (x) })
#define RP_INT_VALUE(x) ((rp_value){ .kind = RP_V_INT, .i = (x) })
#define RP_FLOAT_VALUE(x) ((rp_value){ .kind = RP_V_FLOAT, .f = (x) })
#define RP_TEXT_VALUE(p, n) ((rp_value){ .kind = RP_V_TEXT, .text = { (p), (n) } })

/* ---- nodes ---- */

typedef enum {
    RP_N_DATA, RP_N_PRINT, RP_N_IF, RP_N_FOR, RP_N_SET, RP_N_SET_BLOCK, RP_N_MACRO, RP_N_GENERATION, RP_N_BREAK, RP_N_CONTINUE,
    RP_N_CONSTANT, RP_N_NAME, RP_N_LIST, RP_N_TUPLE, RP_N_MAP, RP_N_ATTRIBUTE, RP_N_ITEM, RP_N_SLICE, RP_N_CALL, RP_N_FILTER, RP_N_TEST,
    RP_N_NOT, RP_N_NEGATIVE, RP_N_POSITIVE, RP_N_AND, RP_N_OR, RP_N_COMPARE, RP_N_ARITHMETIC, RP_N_CONCAT, RP_N_CHOICE, RP_N_KEYWORD
} rp_node_kind;

/* One struct for all kinds. The use of a, b, c and the lists is documented where nodes are created: parse.c, expression.c. */
struct rp_node {
    rp_node_kind kind;
    int line;
    bool flag;
    rp_text name;
    rp_value constant;
    rp_node *a, *b, *c;
    rp_node *body, *other;              /* heads of lists */
    rp_node *next;                      /* in the list that contains the node */
};

struct rp_template {
    rp_ctx *ctx;
    char *name;
    rp_bump bump;
    rp_node *body;
    bool marks_answers;
    double most_seconds;                /* of CPU time, per run */
};

typedef struct {
    rp_template *of;
    const rp_template_token *at;
    int depth, loops;                   /* nesting of expressions and statements · enclosing loops */
} rp_template_parser;

rp_status rp__template_parse(rp_template *template, const rp_template_tokens *tokens);
rp_status rp__template_node(rp_template_parser *p, rp_node_kind kind, rp_node **out);
/* Parse an expression. `tuples`: commas make a tuple, as in `set a, b = 1, 2`. `choices`: allow the conditional form. */
rp_status rp__template_expression(rp_template_parser *p, bool tuples, bool choices, rp_node **out);
rp_status rp__template_filters(rp_template_parser *p, rp_node **node);     /* parse the filters and tests after a value */
bool rp__template_is(const rp_template_parser *p, rp_token_kind kind, const char *text);       /* text NULL: any text */
bool rp__template_take(rp_template_parser *p, rp_token_kind kind, const char *text);
rp_status rp__template_expect(rp_template_parser *p, rp_token_kind kind, const char *text);
rp_status rp__template_enter(rp_template_parser *p);       /* increments depth, or fails */
rp_status rp__template_wrong(const rp_template *t, int line, rp_status status, const char *fmt, ...) RP_PRINTF(4, 5);

/* ---- a run ---- */

typedef struct rp_scope_frame rp_scope_frame;
struct rp_scope_frame { rp_map names; rp_scope_frame *outer; };
struct rp_macro { const rp_node *node; rp_scope_frame *frame; };

typedef enum { RP_FLOW_ON, RP_FLOW_BREAK, RP_FLOW_CONTINUE } rp_flow;

struct rp_run {
    rp_template *of;
    rp_ctx *ctx;
    rp_bump bump;
    int64_t steps, date;
    double began;                       /* rp__cpu_seconds at the start */
    int64_t clock_step;                 /* step at which the clock is read next */
    int64_t loose;                      /* bytes held outside the bump: growing texts */
    int depth, line, captures;          /* captures: enclosing macros and set blocks */
    rp_flow flow;
    bool over;                          /* the limit, not the machine, refused an allocation */
    int64_t peak_bytes;                 /* most bytes held at once */
    rp_scope_frame top, *frame;         /* the template's own frame · the innermost frame */
    rp_bytes *out;                      /* receives text: the output or a captured text */
    rp_template_text *result;
    int64_t span_room;
};

rp_status rp__run_fail(rp_run *run, rp_status status, const char *fmt, ...) RP_PRINTF(3, 4);
void *rp__run_alloc(rp_run *run, int64_t bytes);           /* NULL after reporting an error */
rp_status rp__run_copy(rp_run *run, const char *at, int64_t bytes, rp_value *out);
rp_status rp__run_step(rp_run *run, int64_t steps);
/* Pay for `bytes` bytes at `each` bytes per step. */
static inline rp_status rp__run_bytes(rp_run *run, int64_t bytes, int64_t each) { return rp__run_step(run, bytes / each); }
/* Append to a growing text, within the limits. The run owns the text until rp__bytes_value or rp__run_drop. */
rp_status rp__run_push(rp_run *run, rp_bytes *to, const char *at, int64_t bytes);
void rp__run_drop(rp_run *run, rp_bytes *bytes);
rp_status rp__run_put(rp_run *run, const char *at, int64_t bytes);         /* appends to run->out */
rp_status rp__run_body(rp_run *run, const rp_node *body);
/* Run the body and return its text instead of printing it. */
rp_status rp__run_captured(rp_run *run, const rp_node *body, rp_value *out);
rp_status rp__run_eval(rp_run *run, const rp_node *node, rp_value *out);
rp_status rp__run_call_macro(rp_run *run, const rp_macro *macro, const rp_arguments *a, rp_value *out);
rp_status rp__run_attribute(rp_run *run, const rp_value *of, rp_text name, rp_value *out);
rp_status rp__run_item(rp_run *run, const rp_value *of, const rp_value *key, rp_value *out);
/* `sign` is one of + - * / // % **. + also joins texts and lists, * repeats them, and % formats a text. */
rp_status rp__run_arithmetic(rp_run *run, rp_text sign, const rp_value *a, const rp_value *b, rp_value *out);
/* Report a whole number that does not fit 64 bits. Returns RP_ERR_FORMAT. */
rp_status rp__run_overflow(rp_run *run);
/* Look up a name: frames from the innermost outwards, then functions. The result is undefined if none has it. */
rp_status rp__run_lookup(rp_run *run, rp_text name, rp_value *out);

/* ---- values (value.c, print.c) ---- */

bool rp__text_is(rp_text text, const char *other);
bool rp__value_true(const rp_value *v);
bool rp__value_is_number(const rp_value *v);               /* booleans are numbers, too */
double rp__value_number(const rp_value *v);
rp_status rp__value_equal(rp_run *run, const rp_value *a, const rp_value *b, bool *out);
/* Order of two values: -1, 0 or 1. errors RP_ERR_FORMAT they have no order · RP_TEMPLATE_LIMIT */
rp_status rp__value_compare(rp_run *run, const rp_value *a, const rp_value *b, int *out);
rp_status rp__value_contains(rp_run *run, const rp_value *in, const rp_value *item, bool *out);
const char *rp__value_kind_name(const rp_value *v);
rp_status rp__list_new(rp_run *run, rp_value *out);
rp_status rp__list_add(rp_run *run, rp_list *list, const rp_value *v);
rp_status rp__map_new(rp_run *run, rp_value *out);
rp_status rp__map_put(rp_run *run, rp_map *map, const rp_value *key, const rp_value *v);
/* *out is NULL if the map lacks the key. */
rp_status rp__map_find(rp_run *run, const rp_map *map, rp_text key, const rp_value **out);
rp_status rp__map_get(rp_run *run, const rp_map *map, const rp_value *key, const rp_value **out);
rp_status rp__value_from_json(rp_run *run, const json_t *json, rp_value *out);
/* The items that a loop visits: characters of a text, keys of a map, nothing for an undefined value. */
rp_status rp__value_items(rp_run *run, const rp_value *v, rp_list **out);
/* Length of a text in characters / byte offset of character i. */
rp_status rp__text_chars(rp_run *run, rp_text text, int64_t *out);
rp_status rp__text_at(rp_run *run, rp_text text, int64_t i, int64_t *out);
/* A value as {{ v }} prints it / as it appears in a printed list / as JSON (indent < 0: on one line). */
rp_status rp__value_text(rp_run *run, const rp_value *v, rp_value *out);
rp_status rp__value_repr(rp_run *run, const rp_value *v, rp_bytes *out);
rp_status rp__value_json(rp_run *run, const rp_value *v, int64_t indent, bool ascii, bool sorted, rp_bytes *out);
/* Turn the collected bytes into a value of the run. The bytes are released whatever the status. */
rp_status rp__bytes_value(rp_run *run, rp_bytes *bytes, rp_status status, rp_value *out);

/* ---- tables ---- */

extern const rp_named_call rp__template_filter_table[], rp__template_list_filter_table[], rp__template_test_table[];
extern const rp_named_call rp__template_text_methods[], rp__template_map_methods[], rp__template_list_methods[];
extern const rp_named_call rp__template_functions[];
const rp_named_call *rp__named_call(const rp_named_call *table, rp_text name);     /* NULL if absent; a table ends with a NULL name */
rp_status rp__run_filter(rp_run *run, rp_text name, const rp_value *self, const rp_arguments *a, rp_value *out);
rp_status rp__run_test(rp_run *run, rp_text name, const rp_value *self, const rp_arguments *a, bool *out);

/* Argument i, or the one named `name`; NULL if it is not given. */
const rp_value *rp__argument(const rp_arguments *a, int i, const char *name);
/* The argument as a text / whole number / boolean, or `fallback` if it is not given. A text is required if `fallback` is { 0 }.
 * errors  RP_ERR_FORMAT an argument of another kind, or a missing required one */
rp_status rp__argument_text(rp_run *run, const rp_arguments *a, int i, const char *name, rp_text fallback, rp_text *out);
rp_status rp__argument_int(rp_run *run, const rp_arguments *a, int i, const char *name, int64_t fallback, int64_t *out);
bool rp__argument_true(const rp_arguments *a, int i, const char *name, bool fallback);

/* Python's operations on texts, for filters and methods. */
rp_status rp__text_strip(rp_run *run, rp_text text, const rp_text *chars, bool left, bool right, rp_text *out);
rp_status rp__text_replace(rp_run *run, rp_text text, rp_text old, rp_text new, int64_t most, rp_value *out);
rp_status rp__text_find(rp_run *run, rp_text text, rp_text part, int64_t from, int64_t *out);      /* byte offset; -1: not found */
typedef enum { RP_CASE_UPPER, RP_CASE_LOWER, RP_CASE_TITLE, RP_CASE_CAPITAL } rp_case;
rp_status rp__text_case(rp_run *run, rp_text text, rp_case to, rp_value *out);
rp_status rp__text_join(rp_run *run, rp_text between, const rp_list *list, bool strict, rp_value *out);
bool rp__is_python_space(uint32_t point);

#endif
