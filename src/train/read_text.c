/* train/read_text.c -- a text file is a document; and the steps that readers of text share. */
#include "train/data_store.h"

#include "io/text_file.h"

enum { WINDOW_BYTES = 1 << 16 };

static bool inert(const rp_data_source *s, int32_t id) { return id < 0 || id >= s->vocab; }

static bool is_special(const rp_data_source *s, int32_t id)
{
    return id == s->bos || id == s->eos || (s->is_special && s->is_special(s->user, id));
}

rp_status rp__read_put(const rp_read_job *job, int32_t id, bool target)
{
    bool masked = job->config->masking.probability > 0;

    return rp__store_put(job->store, id, target && !(masked && (id == job->config->masking.mask_id || is_special(job->source, id))));
}

rp_status rp__read_bos(const rp_read_job *job, bool target)
{
    if (!job->source->adds_bos || inert(job->source, job->source->bos)) return RP_OK;
    return rp__read_put(job, job->source->bos, target);
}

rp_status rp__read_eos(const rp_read_job *job)
{
    return inert(job->source, job->source->eos) ? RP_OK : rp__read_put(job, job->source->eos, true);
}

rp_status rp__read_id(const rp_read_job *job, const char *place, int32_t id, bool target)
{
    RP_CHECK(job->ctx, !inert(job->source, id), RP_ERR_CONFIG,
             "'%s'%s: the tokenizer gives id %" PRId32 ", beyond the model's vocabulary of %" PRId32, job->path, place, id,
             job->source->vocab);
    return rp__read_put(job, id, target);
}

static rp_status put_part(const rp_read_job *job, const char *place, const char *text, int64_t bytes, rp_text_part part, bool target)
{
    int32_t *ids     = NULL;
    int64_t n        = 0;
    rp_status status = job->source->encode(job->source->user, text, bytes, part, &ids, &n);

    for (int64_t i = 0; i < n && status == RP_OK; i++) status = rp__read_id(job, place, ids[i], target);
    rp__release(ids);
    return status;
}

rp_status rp__read_piece(const rp_read_job *job, const char *place, const char *text, int64_t bytes, bool target)
{
    return put_part(job, place, text, bytes, RP_TEXT_WHOLE, target);
}

/* The tokenizer is given what there is, and the end of the text once there is no more. */
static rp_status put_document(const rp_read_job *job, rp_text_file *file, char *window)
{
    int part  = RP_TEXT_BEGINS;
    int64_t n = 0;

    rp__store_begin(job->store);
    RP_TRY(rp__read_bos(job, true));
    for (; !(part & RP_TEXT_ENDS); part &= ~RP_TEXT_BEGINS) {
        RP_TRY(rp__text_file_read(file, window, WINDOW_BYTES, &n));
        if (!n) part |= RP_TEXT_ENDS;
        RP_TRY(put_part(job, "", window, n, (rp_text_part)part, true));
    }
    return rp__read_eos(job);
}

rp_status rp__read_text(const rp_read_job *job)
{
    rp_text_file *file = NULL;
    char *window       = rp__host_alloc(job->ctx, WINDOW_BYTES);
    rp_status status   = window ? rp__text_file_open(job->ctx, job->path, &file) : RP_ERR_MEMORY;

    if (status == RP_OK) status = put_document(job, file, window);
    rp__text_file_close(file);
    rp__release(window);
    return status;
}
