/* template/template.h -- chat templates: render a conversation as the text that a model was trained to read.
 *
 * Models come with a template in Jinja's language (tokenizer_config.json, chat_template.jinja, GGUF). This is the part of Jinja that chat templates
 * use, with the settings of transformers: the newline after a block and the white space before one are removed, methods cannot modify variables,
 * `break` and `continue` exist.
 *
 *   text ─ lex.c ─▶ tokens ─ parse.c, expression.c ─▶ nodes ──┐
 *                                            variables (JSON) ┴─ run.c, eval.c ─▶ text, spans of answers
 *
 * statements   if elif else · for (… if …, else, unpacking) · break continue · set (names, namespaces, blocks) · macro · generation
 * expressions  as in Jinja, with slices, chained comparisons and conditional expressions; whole numbers have 64 bits
 * names        the keys of `variables` · range dict namespace raise_exception strftime_now · loop
 * filters, tests, methods of texts, maps and lists: the tables at the ends of filters.c, lists.c, tests.c and methods.c
 *
 * Other features (extends, include, import, call, filter blocks, raw) are errors that name the feature: a statement when the template is read,
 * a filter, test or method when it is reached.
 *
 * Templates are untrusted: depth, steps, time and memory are limited. A run may take 4,000,000 steps and 1 s of CPU time, and may hold 64 MiB
 * in addition to its variables.
 */
#ifndef RP_TEMPLATE_H
#define RP_TEMPLATE_H

#include <jansson.h>

#include "base/base.h"

typedef struct rp_template rp_template;

typedef struct { int64_t from, to; } rp_template_span;     /* byte offsets in the text */

typedef struct {
    char *text;                         /* zero-terminated */
    int64_t bytes;
    rp_template_span *span;             /* texts between {% generation %} and {% endgeneration %}, in order */
    int64_t n_spans;
    int64_t steps, peak_bytes;          /* cost of the run: steps, and the most memory held at once */
} rp_template_text;

/* Parse a template. `name` is its origin in messages. The arguments are copied.
 * owner   yours: rp__template_free
 * errors  RP_ERR_FORMAT malformed, with the line · RP_ERR_UNSUPPORTED a statement that is not supported · RP_ERR_MEMORY */
rp_status rp__template_new(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, rp_template **out);
void rp__template_free(rp_template *template);

/* Does it mark answers with {% generation %}? */
bool rp__template_marks_answers(const rp_template *template);

/* Run the template. `variables` is a JSON object; `date` is the time that strftime_now formats, in seconds since 1970, UTC.
 * owner   the text is yours: rp__template_text_free
 * errors  RP_ERR_FORMAT the template fails on these variables or refuses them (raise_exception), with the line · RP_ERR_UNSUPPORTED a limit is
 *         exceeded, or a filter, test or method is unknown · RP_ERR_MEMORY */
rp_status rp__template_render(rp_template *template, const json_t *variables, int64_t date, rp_template_text *out);
void rp__template_text_free(rp_template_text *text);

#endif
