/* Templates run for tools/goldens_chat.py: lines of {"template", "vars"} in, lines of {"text", "spans"} or {"error"} out. */
#include <stdio.h>
#include <stdlib.h>

#include "template/chat.h"

static json_t *outcome(rp_ctx *ctx, const json_t *line)
{
    const json_t *text    = json_object_get(line, "template");
    json_t *made          = json_object(), *spans;
    rp_template *template = NULL;
    rp_template_text out  = { 0 };
    rp_status status      = rp__template_new(ctx, "stdin", json_string_value(text), (int64_t)json_string_length(text), &template);

    if (status == RP_OK) status = rp__template_render(template, json_object_get(line, "vars"), RP_CHAT_DATE, &out);
    if (status != RP_OK) json_object_set_new(made, "error", json_string(rp_error(ctx)));
    else {
        json_object_set_new(made, "text", json_stringn(out.text, (size_t)out.bytes));
        json_object_set_new(made, "spans", spans = json_array());
        for (int64_t i = 0; i < out.n_spans; i++)
            json_array_append_new(spans, json_pack("[II]", (json_int_t)out.span[i].from, (json_int_t)out.span[i].to));
        rp__template_text_free(&out);
    }
    rp__template_free(template);
    return made;
}

int main(void)
{
    char *text = NULL;
    size_t room = 0;
    ssize_t bytes;
    rp_ctx *ctx;

    if (rp_ctx_new(&(rp_ctx_options){ .threads = 1 }, &ctx) != RP_OK) return 1;
    while ((bytes = getline(&text, &room, stdin)) > 0) {
        json_t *line = json_loadb(text, (size_t)bytes, JSON_ALLOW_NUL, NULL);
        json_t *made = outcome(ctx, line);
        json_dumpf(made, stdout, 0);
        putchar('\n');
        json_decref(made);
        json_decref(line);
    }
    free(text);
    rp_ctx_free(ctx);
    return 0;
}
