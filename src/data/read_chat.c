/* data/read_chat.c -- reads one conversation per JSON object (read_json.c) and formats it with the model's chat template.
 *
 *   {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}
 *   {"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}]}
 *
 * Messages of the first kind are passed to the template unchanged; the second kind is converted to the first. The template writes the begin and
 * end of a text, so no bos or eos is added. Without train_on_input only answers are targets (template/chat.h), and a conversation without an
 * answer is skipped.
 */
#include "data/store.h"

#include <string.h>

#include "template/chat.h"

typedef struct { const rp_read_job *job; const char *place, *why; } reader;      /* why: the reason to report if a text has no target */

/* ---- tokens ---- */

typedef struct { int32_t *id; int64_t n; } ids;

static rp_status encode(const rp_read_job *job, const char *text, int64_t bytes, ids *out)
{
    *out = (ids){ 0 };
    return job->source->encode(job->source->user, text, bytes, RP_TEXT_WHOLE, &out->id, &out->n);
}

/* Index of the first token that ends after byte `at`. Tokens before it are those that the text cut at `at` and the whole text have in common. A
 * token that spans the border belongs to the part after it, as in the assistant mask of transformers. */
static rp_status token_at(const rp_read_job *job, const rp_template_text *text, int64_t at, const ids *all, int64_t *out)
{
    ids before;

    RP_TRY(encode(job, text->text, at, &before));
    for (*out = 0; *out < before.n && *out < all->n && before.id[*out] == all->id[*out];) ++*out;
    rp__release(before.id);
    return RP_OK;
}

static rp_status put_ids(const reader *r, const ids *all, int64_t from, int64_t to, bool targets)
{
    for (int64_t i = from; i < to; i++) RP_TRY(rp__read_id(r->job, r->place, all->id[i], targets));
    return RP_OK;
}

static rp_status put_answers(const reader *r, const rp_template_text *text, const ids *all)
{
    int64_t done = 0, from, to;

    for (int64_t i = 0; i < text->n_spans; i++) {
        RP_TRY(token_at(r->job, text, text->span[i].from, all, &from));
        RP_TRY(token_at(r->job, text, text->span[i].to, all, &to));
        if (from < done) from = done;
        if (to < from) to = from;
        RP_TRY(put_ids(r, all, done, from, false));
        RP_TRY(put_ids(r, all, from, to, true));
        done = to;
    }
    return put_ids(r, all, done, all->n, false);
}

static rp_status put_text(void *user, const rp_template_text *text)
{
    const reader *r = user;
    ids all;

    RP_TRY(encode(r->job, text->text, text->bytes, &all));
    rp_status status = rp__store_begin(r->job->store, r->job->path, r->place);
    rp__store_why(r->job->store, r->why);
    if (status == RP_OK) status = r->job->config->train_on_input ? put_ids(r, &all, 0, all.n, true) : put_answers(r, text, &all);
    rp__release(all.id);
    return status;
}

/* ---- lines ---- */

#define WRONG(r, ...) rp_fail((r)->job->ctx, RP_ERR_FORMAT, __VA_ARGS__)

/* The column that the recipe names. If that is the default, `text`, and it holds no list, the usual columns of such files are tried. */
static const json_t *conversation(const rp_read_job *job, const json_t *line, const char **name)
{
    static const char *const usual[] = { "messages", "conversations" };
    const json_t *found              = json_object_get(line, job->config->column);

    *name = job->config->column;
    if (json_is_array(found) || strcmp(*name, "text")) return found;
    for (int i = 0; i < RP_COUNT(usual); i++) {
        *name = usual[i];
        found = json_object_get(line, usual[i]);
        if (found) return found;
    }
    *name = usual[0];
    return NULL;
}

static const char *role_of(const char *from)
{
    static const char *const roles[][2] = {
        { "human", "user" }, { "gpt", "assistant" }, { "chatgpt", "assistant" }, { "bard", "assistant" }, { "model", "assistant" },
        { "observation", "tool" },
    };

    for (int i = 0; i < RP_COUNT(roles); i++)
        if (!strcmp(from, roles[i][0])) return roles[i][1];
    return from;
}

/* {"from", "value"} becomes {"role", "content"}. */
static rp_status add_message(const reader *r, const json_t *message, size_t i, json_t *out)
{
    const char *from = json_string_value(json_object_get(message, "from"));
    const char *role = json_string_value(json_object_get(message, "role"));

    if (role || !from) {
        RP_CHECK(r->job->ctx, role, RP_ERR_FORMAT, "'%s'%s: message %zu has no 'role'", r->job->path, r->place, i + 1);
        return json_array_append(out, (json_t *)message) ? rp_fail(r->job->ctx, RP_ERR_MEMORY, "cannot allocate a conversation") : RP_OK;
    }
    json_t *value = json_object_get(message, "value");
    RP_CHECK(r->job->ctx, json_is_string(value), RP_ERR_FORMAT, "'%s'%s: message %zu has no text 'value'", r->job->path, r->place, i + 1);
    json_t *made = json_pack("{s:s, s:O}", "role", role_of(from), "content", value);
    RP_CHECK(r->job->ctx, made && !json_array_append_new(out, made), RP_ERR_MEMORY, "cannot allocate a conversation");
    return RP_OK;
}

/* ---- nothing to learn ---- */

static bool says_nothing(const json_t *message)
{
    const json_t *content = json_object_get(message, "content");

    return json_is_string(content) && !json_string_length(content) && !json_object_get(message, "tool_calls");
}

/* Writes a reason that lists the roles found instead of 'assistant'. */
static void name_roles(const json_t *messages, char *out, size_t chars)
{
    size_t i, used = (size_t)snprintf(out, chars, "no message has the role 'assistant', there is");
    const json_t *message;

    json_array_foreach((json_t *)messages, i, message) {
        char each[64];
        const char *role = json_string_value(json_object_get(message, "role"));
        int n            = snprintf(each, sizeof each, " '%.40s'", role ? role : "");
        if (strstr(out, each)) continue;
        if (used + (size_t)n + 1 > chars) return;
        memcpy(out + used, each, (size_t)n + 1);
        used += (size_t)n;
    }
}

/* Writes the reason to report if the conversation gives no target. *all_empty: all its answers are empty, so it is not rendered. */
static void foresee(const rp_read_job *job, const json_t *messages, char *out, size_t chars, bool *all_empty)
{
    size_t i, n_answers = 0, n_empty = 0;
    const json_t *message;

    json_array_foreach((json_t *)messages, i, message) {
        n_answers += rp__chat_is_answer(message);
        n_empty += rp__chat_is_answer(message) && says_nothing(message);
    }
    *all_empty = !job->config->train_on_input && n_answers && n_empty == n_answers;
    if (job->config->train_on_input) snprintf(out, chars, "the chat template leaves it out");
    else if (!n_answers) name_roles(messages, out, chars);
    else snprintf(out, chars, "%s", *all_empty ? "its answers are empty" : "the chat template leaves its answers out");
}

static rp_status render(reader *r, const json_t *messages, const json_t *tools)
{
    char why[RP_ERROR_CHARS];
    rp_status status = rp__chat_render(r->job->source->chat, messages, tools, !r->job->config->train_on_input, put_text, r);

    if (status != RP_ERR_FORMAT && status != RP_ERR_UNSUPPORTED) return status;
    memcpy(why, r->job->ctx->error, sizeof why);
    return rp_fail(r->job->ctx, status, "'%s'%s: %s", r->job->path, r->place, why);
}

rp_status rp__read_messages(const rp_read_job *job, const char *place, const json_t *messages, const json_t *tools)
{
    rp_store *store = job->store;
    char why[160];
    reader r = { job, place, why };
    bool all_empty;

    foresee(job, messages, why, sizeof why, &all_empty);
    int64_t before = rp__store_counts(store).tokens;
    if (!all_empty) RP_TRY(render(&r, messages, tools));
    return rp__store_counts(store).tokens > before ? RP_OK : rp__store_skip(store, job->path, place, why);
}

/* ---- a conversation ---- */

static rp_status put_messages(const reader *r, const json_t *line, const json_t *list, json_t *messages)
{
    const json_t *message, *tools = json_object_get(line, "tools");
    size_t i;

    json_array_foreach((json_t *)list, i, message) RP_TRY(add_message(r, message, i, messages));
    return rp__read_messages(r->job, r->place, messages, json_is_array(tools) ? tools : NULL);
}

static rp_status put_conversation(const rp_read_job *job, const char *place, const json_t *line)
{
    reader r = { .job = job, .place = place };
    const char *name;
    const json_t *list = conversation(job, line, &name);

    if (!list) return rp__read_no_column(job, place, line, name, "column");
    if (!json_is_array(list) || !json_array_size(list))
        return WRONG(&r, "'%s'%s: the column '%s' is not a list of messages", job->path, place, name);
    json_t *messages = json_array();
    RP_CHECK(job->ctx, messages, RP_ERR_MEMORY, "cannot allocate a conversation");
    rp_status status = put_messages(&r, line, list, messages);
    json_decref(messages);
    return status;
}

rp_status rp__read_chat(const rp_read_job *job) { return rp__read_json(job, put_conversation); }
