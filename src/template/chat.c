/* template/chat.c -- renders conversations and finds the answers in the text: see chat.h. */
#include "template/chat.h"

#include <string.h>

#include "base/json_text.h"
#include "base/list.h"

struct rp_chat {
    rp_ctx *ctx;
    rp_template *template;
    json_t *variables;                  /* special tokens, and names that templates expect to exist */
};

static rp_status set(rp_chat *c, const char *name, json_t *value)
{
    RP_CHECK(c->ctx, value && !json_object_set_new(c->variables, name, value), RP_ERR_MEMORY, "cannot allocate a chat template's variables");
    return RP_OK;
}

static rp_status set_up(rp_chat *c, const json_t *tokens)
{
    const char *key;
    json_t *value;

    c->variables = json_object();
    RP_TRY(set(c, "documents", json_null()));       /* fails without an object */
    json_object_foreach((json_t *)tokens, key, value) RP_TRY(set(c, key, json_incref(value)));
    return RP_OK;
}

rp_status rp__chat_new(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, const json_t *tokens, rp_chat **out)
{
    rp_chat *c = rp__host_alloc(ctx, sizeof *c);

    if (!c) return RP_ERR_MEMORY;
    *c               = (rp_chat){ .ctx = ctx };
    rp_status status = rp__template_new(ctx, name, text, bytes, &c->template);
    if (status == RP_OK) status = set_up(c, tokens);
    if (status == RP_OK) *out = c;
    else rp__chat_free(c);
    return status;
}

void rp__chat_free(rp_chat *c)
{
    if (!c) return;
    rp__template_free(c->template);
    json_decref(c->variables);
    rp__release(c);
}

/* ---- rendering a conversation or its beginning ---- */

typedef struct { rp_chat *chat; const json_t *messages, *tools; size_t n; } talk;

/* Renders the first n messages; `ask`: also the beginning of an answer (add_generation_prompt). */
static rp_status render(const talk *t, const json_t *messages, size_t n, bool ask, rp_template_text *out)
{
    rp_chat *c    = t->chat;
    json_t *first = json_array();
    bool held     = first != NULL;

    for (size_t i = 0; i < n && held; i++) held = !json_array_append(first, json_array_get(messages, i));
    if (!held) json_decref(first);
    RP_TRY(set(c, "messages", held ? first : NULL));
    RP_TRY(set(c, "tools", t->tools ? json_incref((json_t *)t->tools) : json_null()));
    RP_TRY(set(c, "add_generation_prompt", json_boolean(ask)));
    return rp__template_render(c->template, c->variables, RP_CHAT_DATE, out);
}

bool rp__chat_is_answer(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));

    return role && (!strcmp(role, "assistant") || !strcmp(role, "model"));
}

/* Length of the common beginning of two texts, cut at a whole character. */
static int64_t common(const rp_template_text *a, const rp_template_text *b)
{
    int64_t n = 0, most = a->bytes < b->bytes ? a->bytes : b->bytes;

    while (n < most && a->text[n] == b->text[n]) n++;
    while (n > 0 && n < b->bytes && ((uint8_t)b->text[n] & 0xc0) == 0x80) n--;
    return n;
}

/* Finds the beginning of answer i by rendering the conversation up to it a second time with another text as its content. */
static rp_status begin_by_content(const talk *t, size_t i, const rp_template_text *text, int64_t *begin)
{
    const char *content = json_string_value(json_object_get(json_array_get(t->messages, i), "content"));
    json_t *copy        = rp__json_deep_copy(t->messages);
    json_t *other       = json_string(content && content[strspn(content, " \t\r\n")] == 'X' ? "Y" : "X");
    rp_template_text changed = { 0 };
    rp_status status         = RP_ERR_MEMORY;

    if (!copy || !other || json_object_set(json_array_get(copy, i), "content", other))
        rp_fail(t->chat->ctx, RP_ERR_MEMORY, "cannot allocate a conversation");
    else status = render(t, copy, i + 1, false, &changed);
    json_decref(other);
    json_decref(copy);
    if (status != RP_OK) return status;
    *begin = common(&changed, text);
    rp__template_text_free(&changed);
    return RP_OK;
}

/* Finds where the answer of message i begins within `text`, which ends with that answer. Templates may refuse to render only the messages before the
 * answer, in particular an empty conversation; then begin_by_content is used. */
static rp_status find_begin(const talk *t, size_t i, const rp_template_text *text, int64_t *begin)
{
    rp_template_text before = { 0 };
    rp_status status        = i ? render(t, t->messages, i, true, &before) : RP_ERR_FORMAT;

    if (status == RP_ERR_FORMAT) return begin_by_content(t, i, text, begin);
    RP_TRY(status);
    *begin = common(&before, text);
    rp__template_text_free(&before);
    return RP_OK;
}

/* ---- answers ---- */

static rp_status add_span(rp_ctx *ctx, rp_template_text *text, int64_t from, int64_t to)
{
    int64_t room = text->n_spans;

    RP_TRY(RP_RESIZE(ctx, text->span, room, text->n_spans + 1));
    text->span[text->n_spans++] = (rp_template_span){ from, to };
    return RP_OK;
}

/* Adds the span of each answer to `whole`. *consistent: the text up to each answer is a prefix of `whole`; false: some spans are missing. */
static rp_status find_in_whole(const talk *t, rp_template_text *whole, bool *consistent)
{
    *consistent = true;
    for (size_t i = 0; i < t->n && *consistent; i++) {
        rp_template_text text = { 0 };
        int64_t begin;
        if (!rp__chat_is_answer(json_array_get(t->messages, i))) continue;
        RP_TRY(render(t, t->messages, i + 1, false, &text));
        *consistent      = text.bytes <= whole->bytes && !memcmp(text.text, whole->text, (size_t)text.bytes);
        rp_status status = *consistent ? find_begin(t, i, &text, &begin) : RP_OK;
        if (status == RP_OK && *consistent) status = add_span(t->chat->ctx, whole, begin, text.bytes);
        rp__template_text_free(&text);
        RP_TRY(status);
    }
    return RP_OK;
}

/* Calls fn for each answer with the text that ends with it; only that answer is a span. */
static rp_status call_for_each_answer(const talk *t, rp_chat_fn fn, void *user)
{
    for (size_t i = 0; i < t->n; i++) {
        rp_template_text text = { 0 };
        int64_t begin;
        if (!rp__chat_is_answer(json_array_get(t->messages, i))) continue;
        RP_TRY(render(t, t->messages, i + 1, false, &text));
        rp_status status = find_begin(t, i, &text, &begin);
        if (status == RP_OK) status = add_span(t->chat->ctx, &text, begin, text.bytes);
        if (status == RP_OK) status = fn(user, &text);
        rp__template_text_free(&text);
        RP_TRY(status);
    }
    return RP_OK;
}

rp_status rp__chat_render(rp_chat *c, const json_t *messages, const json_t *tools, bool answers, rp_chat_fn fn, void *user)
{
    talk t                 = { c, messages, tools, json_array_size(messages) };
    rp_template_text whole = { 0 };
    bool consistent        = true, marked = rp__template_marks_answers(c->template);

    RP_TRY(render(&t, messages, t.n, false, &whole));
    if (!answers) whole.n_spans = 0;
    rp_status status = answers && !marked ? find_in_whole(&t, &whole, &consistent) : RP_OK;
    if (status == RP_OK) status = consistent ? fn(user, &whole) : call_for_each_answer(&t, fn, user);
    rp__template_text_free(&whole);
    return status;
}

rp_status rp__chat_ask(rp_chat *c, const json_t *messages, rp_template_text *out)
{
    return render(&(talk){ .chat = c }, messages, json_array_size(messages), true, out);
}
