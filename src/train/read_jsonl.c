/* train/read_jsonl.c -- a JSON object (read_json.c) is a document: `column` is its text, `prompt_column` a prompt before it.
 *
 *   [bos] prompt answer [eos]     prompt and answer are tokenised apart, so the border between them is exact. Without
 *                                 train_on_input, bos and prompt are no targets; the eos is, a model must learn to stop
 * A text or an answer that is empty is skipped: its eos alone would be all there is to learn.
 */
#include "train/data_store.h"

#include <stdio.h>
#include <string.h>

typedef struct { const char *text; int64_t bytes; } span;

rp_status rp__read_no_column(const rp_read_job *job, const char *place, const json_t *line, const char *column, const char *key_of_it)
{
    bool talk       = !strcmp(job->config->format, "jsonl") && (json_object_get(line, "messages") || json_object_get(line, "conversations"));
    char names[160] = "none";
    const char *key;
    json_t *value;
    size_t used = 0;

    json_object_foreach((json_t *)line, key, value) {
        int n = snprintf(names + used, sizeof names - used, "%s'%s'", used ? ", " : "", key);
        if (n >= (int)(sizeof names - used)) break;
        used += (size_t)n;
    }
    if (used) names[used] = '\0';
    if (talk) key_of_it = "format: chat";
    return rp_fail(job->ctx, RP_ERR_FORMAT, "'%s'%s: no column '%s', there is %s: set '%s.%s'", job->path, place, column, names, job->what,
                   key_of_it);
}

static rp_status column_of(const rp_read_job *job, const char *place, const json_t *line, const char *column,
                           const char *key_of_it, span *out)
{
    const json_t *value = json_object_get(line, column);

    if (!value) return rp__read_no_column(job, place, line, column, key_of_it);
    RP_CHECK(job->ctx, json_is_string(value), RP_ERR_FORMAT, "'%s'%s: the column '%s' is not a string", job->path, place,
             column);
    *out = (span){ json_string_value(value), (int64_t)json_string_length(value) };
    return RP_OK;
}

static rp_status put_document(const rp_read_job *job, const char *place, const json_t *line)
{
    const rp_data_config *c = job->config;
    bool input_counts       = c->train_on_input || !c->prompt_column;
    span answer = { 0 }, prompt = { 0 };

    RP_TRY(column_of(job, place, line, c->column, "column", &answer));
    if (c->prompt_column) RP_TRY(column_of(job, place, line, c->prompt_column, "prompt_column", &prompt));
    if (!answer.bytes && !(input_counts && prompt.bytes))
        return rp__store_skip(job->store, job->path, place, c->prompt_column ? "its answer is empty" : "its text is empty");
    RP_TRY(rp__store_begin(job->store, job->path, place));
    RP_TRY(rp__read_bos(job, input_counts));
    RP_TRY(rp__read_piece(job, place, prompt.text, prompt.bytes, input_counts));
    RP_TRY(rp__read_piece(job, place, answer.text, answer.bytes, true));
    return rp__read_eos(job);
}

rp_status rp__read_jsonl(const rp_read_job *job) { return rp__read_json(job, put_document); }
