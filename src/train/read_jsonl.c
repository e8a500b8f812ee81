/* train/read_jsonl.c -- one JSON object a line; `column` is the document, `prompt_column` a prompt before it.
 *
 *   [bos] prompt answer [eos]     prompt and answer are tokenised apart, so the border between them is exact. Without
 *                                 train_on_input, bos and prompt are no targets; the eos is, a model must learn to stop
 * Blank lines are passed over. CR before the newline is allowed.
 */
#include "train/data_store.h"

#include <stdio.h>
#include <string.h>

#include "io/text_file.h"

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
    rp__store_begin(job->store);
    RP_TRY(rp__read_bos(job, input_counts));
    if (c->prompt_column) {
        RP_TRY(column_of(job, place, line, c->prompt_column, "prompt_column", &prompt));
        RP_TRY(rp__read_piece(job, place, prompt.text, prompt.bytes, input_counts));
    }
    RP_TRY(rp__read_piece(job, place, answer.text, answer.bytes, true));
    return rp__read_eos(job);
}

/* Integers past 64 bits may stand in columns nobody asked for, NUL characters in text. */
static rp_status put_line(const rp_read_job *job, int64_t number, const char *text, int64_t bytes, rp_json_line_fn put)
{
    char place[48];
    json_error_t e;

    while (bytes && strchr(" \t\r\n", text[bytes - 1]) && text[bytes - 1]) bytes--;
    if (!bytes) return RP_OK;
    snprintf(place, sizeof place, ", line %" PRId64, number);
    json_t *line = json_loadb(text, (size_t)bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &e);
    if (!line && json_error_code(&e) == json_error_out_of_memory)
        return rp_fail(job->ctx, RP_ERR_MEMORY, "cannot parse '%s'%s: memory ran out", job->path, place);
    RP_CHECK(job->ctx, line, RP_ERR_FORMAT, "'%s'%s, column %d: %s", job->path, place, e.column, e.text);
    rp_status status = json_is_object(line)
                           ? put(job, place, line)
                           : rp_fail(job->ctx, RP_ERR_FORMAT, "'%s'%s: not a JSON object", job->path, place);
    json_decref(line);
    return status;
}

static rp_status put_lines(const rp_read_job *job, rp_text_file *file, rp_json_line_fn put)
{
    const char *line;
    int64_t bytes;

    for (int64_t number = 1;; number++) {
        RP_TRY(rp__text_file_line(file, &line, &bytes));
        if (!line) return RP_OK;
        RP_TRY(put_line(job, number, line, bytes, put));
    }
}

rp_status rp__read_json_lines(const rp_read_job *job, rp_json_line_fn put)
{
    rp_text_file *file;

    RP_TRY(rp__text_file_open(job->ctx, job->path, &file));
    rp_status status = rp__text_file_check(file);
    if (status == RP_OK) status = put_lines(job, file, put);
    rp__text_file_close(file);
    return status;
}

rp_status rp__read_jsonl(const rp_read_job *job) { return rp__read_json_lines(job, put_document); }
