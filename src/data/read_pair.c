/* data/read_pair.c -- adds a prompt and its answer as one document.
 *
 *   with a chat template       [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}], formatted by the template
 *   without                    [bos] prompt answer [eos]     prompt and answer are tokenised separately, so the border is exact
 *
 * Without train_on_input only the answer and eos are targets; eos is one so that the model learns to stop. A pair without an answer is skipped,
 * unless train_on_input is set and the prompt has text.
 */
#include "data/store.h"

rp_status rp__read_column(const rp_read_job *job, const char *place, const json_t *object, const char *column, rp_read_span *out)
{
    const json_t *value = json_object_get(object, column);

    RP_CHECK(job->ctx, !value || json_is_string(value), RP_ERR_FORMAT, "'%s'%s: the column '%s' is not a string", job->path, place, column);
    *out = (rp_read_span){ json_string_value(value), (int64_t)json_string_length(value) };
    return RP_OK;
}

static rp_status by_template(const rp_read_job *job, const char *place, rp_read_span prompt, rp_read_span answer)
{
    json_t *messages = json_pack("[{s:s, s:s%}, {s:s, s:s%}]", "role", "user", "content", prompt.text, (size_t)prompt.bytes, "role", "assistant",
                                 "content", answer.text, (size_t)answer.bytes);

    RP_CHECK(job->ctx, messages, RP_ERR_MEMORY, "cannot allocate a conversation");
    rp_status status = rp__read_messages(job, place, messages, NULL);
    json_decref(messages);
    return status;
}

rp_status rp__read_pair(const rp_read_job *job, const char *place, rp_read_span prompt, rp_read_span answer)
{
    bool input_counts = job->config->train_on_input;

    if (!answer.bytes && !(input_counts && prompt.bytes)) return rp__store_skip(job->store, job->path, place, "its answer is empty");
    if (job->config->by_template && job->source->chat) return by_template(job, place, prompt, answer);
    RP_TRY(rp__store_begin(job->store, job->path, place));
    RP_TRY(rp__read_bos(job, input_counts));
    RP_TRY(rp__read_piece(job, place, prompt.text, prompt.bytes, input_counts));
    RP_TRY(rp__read_piece(job, place, answer.text, answer.bytes, true));
    return rp__read_eos(job);
}
