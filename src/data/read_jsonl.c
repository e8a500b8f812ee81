/* data/read_jsonl.c -- reads one document per JSON object (read_json.c): `column` is its text, or the answer to `prompt_column` (read_pair.c).
 *
 *   [bos] text [eos]
 *
 * A document with an empty text is skipped, because only its eos could be learned.
 */
#include "data/store.h"

#include <stdio.h>
#include <string.h>

rp_status rp__read_no_column(const rp_read_job *job, const char *place, const json_t *line, const char *column, const char *key_of_it)
{
    bool plain      = !strcmp(job->config->format, "jsonl");
    bool talk       = plain && (json_object_get(line, "messages") || json_object_get(line, "conversations"));
    bool alpaca     = plain && json_object_get(line, "instruction") && json_object_get(line, "output");
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
    if (alpaca) key_of_it = "format: alpaca";
    return rp_fail(job->ctx, RP_ERR_FORMAT, "'%s'%s: no column '%s', there is %s: set '%s.%s'", job->path, place, column, names, job->key,
                   key_of_it);
}

static rp_status column_of(const rp_read_job *job, const char *place, const json_t *line, const char *column, const char *key_of_it,
                           rp_read_span *out)
{
    RP_TRY(rp__read_column(job, place, line, column, out));
    return out->text ? RP_OK : rp__read_no_column(job, place, line, column, key_of_it);
}

static rp_status put_document(const rp_read_job *job, const char *place, const json_t *line)
{
    const rp_data_config *c = job->config;
    rp_read_span text, prompt;

    RP_TRY(column_of(job, place, line, c->column, "column", &text));
    if (c->prompt_column) {
        RP_TRY(column_of(job, place, line, c->prompt_column, "prompt_column", &prompt));
        return rp__read_pair(job, place, prompt, text);
    }
    if (!text.bytes) return rp__store_skip(job->store, job->path, place, "its text is empty");
    RP_TRY(rp__store_begin(job->store, job->path, place));
    RP_TRY(rp__read_bos(job, true));
    RP_TRY(rp__read_piece(job, place, text.text, text.bytes, true));
    return rp__read_eos(job);
}

rp_status rp__read_jsonl(const rp_read_job *job) { return rp__read_json(job, put_document); }
