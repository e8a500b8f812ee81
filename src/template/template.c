/* template/template.c -- the interface: reads a template and runs it. */
#include "template/internal.h"
#include "text/utf8.h"

static rp_status read_text(rp_template *t, const char *text, int64_t bytes)
{
    rp_template_tokens tokens = { .of = t };

    if (bytes > RP_TEMPLATE_SOURCE_BYTES)
        return rp__template_wrong(t, 1, RP_ERR_FORMAT, "it has %" PRId64 " bytes; at most %" PRId64 " are read", bytes, RP_TEMPLATE_SOURCE_BYTES);
    int64_t valid    = rp__utf8_valid(text, bytes);
    rp_status status = valid < bytes ? rp__template_wrong(t, 1, RP_ERR_FORMAT, "byte %" PRId64 " is not UTF-8", valid) : RP_OK;
    if (status == RP_OK) status = rp__template_lex(t, text, bytes, &tokens);
    if (status == RP_OK) status = rp__template_parse(t, &tokens);
    rp__release(tokens.token);
    return status;
}

rp_status rp__template_new(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, rp_template **out)
{
    rp_template *t = rp__host_alloc(ctx, sizeof *t);

    if (!t) return RP_ERR_MEMORY;
    *t               = (rp_template){ .ctx = ctx, .bump = { .ctx = ctx }, .most_seconds = RP_TEMPLATE_SECONDS, .name = rp__host_text(ctx, name) };
    rp_status status = t->name ? read_text(t, text, bytes) : RP_ERR_MEMORY;
    if (status == RP_OK) *out = t;
    else rp__template_free(t);
    return status;
}

void rp__template_free(rp_template *t)
{
    if (!t) return;
    rp__bump_free(&t->bump);
    RP_RELEASE(t->name, t);
}

bool rp__template_marks_answers(const rp_template *t) { return t->marks_answers; }

static rp_status run_all(rp_run *run, const json_t *variables)
{
    rp_value all;

    RP_TRY(rp__value_from_json(run, variables, &all));
    if (all.kind == RP_V_MAP) run->top.names = *all.map;
    run->frame = &run->top;
    return rp__run_body(run, run->of->body);
}

rp_status rp__template_render(rp_template *t, const json_t *variables, int64_t date, rp_template_text *out)
{
    rp_template_text result = { 0 };
    rp_bytes text           = { 0 };
    rp_run run = { .of = t, .ctx = t->ctx, .bump = { .ctx = t->ctx }, .date = date, .out = &text, .result = &result, .line = 1,
                   .began = rp__cpu_seconds(), .clock_step = RP_CLOCK_STEPS };
    rp_status status = run_all(&run, variables);

    if (status == RP_OK) status = rp__run_push(&run, &text, "", 1);
    if (status == RP_ERR_MEMORY && run.over) status = RP_TEMPLATE_LIMIT;
    rp__bump_free(&run.bump);
    result.text       = text.at;
    result.bytes      = text.n - 1;
    result.steps      = run.steps;
    result.peak_bytes = run.peak_bytes;
    if (status == RP_OK) *out = result;
    else rp__template_text_free(&result);
    return status;
}

void rp__template_text_free(rp_template_text *text)
{
    RP_RELEASE(text->text, text->span);
    *text = (rp_template_text){ 0 };
}
