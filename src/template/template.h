/* template/template.h -- chat templates: a conversation as the text a model was trained to read.
 *
 * Models carry a template in the language of Jinja (tokenizer_config.json, chat_template.jinja, GGUF). Run is what chat templates
 * use of it, as transformers sets it up: the newline after a block and the blanks before one go, variables cannot be changed by
 * methods, `break` and `continue` are there.
 *
 *   text ─ lex.c ─▶ tokens ─ parse.c, expression.c ─▶ nodes
 *                                                                                 │   variables (JSON)
 *                            text, spans of answers ◀─ run.c, eval.c ◀──┘
 *
 * statements   if elif else · for (… if …, else, unpacking) · break continue · set, of names, of namespaces, of blocks · macro ·
 *              generation
 * expressions  as Jinja's, with slices, chained comparisons and conditional expressions; whole numbers have 64 bits
 * names        what `variables` holds · range dict namespace raise_exception strftime_now · loop
 * filters, tests, methods of texts, maps and lists: the tables at the ends of filters.c, lists.c,
 *              tests.c and methods.c
 * What is not there (extends, include, import, call, filter blocks, raw) is an error that names it: of a statement when the
 * template is read, of a filter, test or method when it is reached.
 *
 * A template is not trusted: depth, steps, time and memory have limits. A run ends after 4,000,000 steps or 1 s of the processor's time,
 * and holds at most 64 MiB beside its variables.
 */
#ifndef RP_TEMPLATE_H
#define RP_TEMPLATE_H

#include <jansson.h>

#include "base/base.h"

typedef struct rp_template rp_template;

typedef struct { int64_t from, to; } rp_template_span;     /* bytes of the text */

typedef struct {
    char *text;                         /* terminated */
    int64_t bytes;
    rp_template_span *span;             /* what stood between {% generation %} and {% endgeneration %}, in order */
    int64_t n_spans;
    int64_t steps, peak_bytes;          /* what the run took: work, and memory at once */
} rp_template_text;

/* `name` says in messages whose template it is. Nothing of the arguments is kept.
 * errors  RP_ERR_FORMAT it is malformed, with its line · RP_ERR_UNSUPPORTED a statement that is not known · RP_ERR_MEMORY */
rp_status rp__template_new(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, rp_template **out);
void rp__template_free(rp_template *template);

/* Does it mark answers with {% generation %}? */
bool rp__template_marks_answers(const rp_template *template);

/* `variables` is a JSON object; `date` is the second since 1970 that strftime_now tells, in UTC.
 * owner   the text is yours: rp__template_text_free
 * errors  RP_ERR_FORMAT it fails on these variables or refuses them (raise_exception), with its line · RP_ERR_UNSUPPORTED it exceeds a limit,
 *         or a filter, test, method is not known · RP_ERR_MEMORY */
rp_status rp__template_render(rp_template *template, const json_t *variables, int64_t date, rp_template_text *out);
void rp__template_text_free(rp_template_text *text);

#endif
