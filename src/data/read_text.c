/* data/read_text.c -- reads a text file as one document; also the functions that add tokens, shared by all readers. */
#include "data/store.h"

#include "text/file.h"

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

static rp_status read_ids(const rp_read_job *job, const char *place, const int32_t *ids, int64_t n_ids, bool target)
{
    rp_status status = RP_OK;

    for (int64_t i = 0; i < n_ids && status == RP_OK; i++) status = rp__read_id(job, place, ids[i], target);
    return status;
}

rp_status rp__read_piece(const rp_read_job *job, const char *place, const char *text, int64_t bytes, bool target)
{
    int32_t *ids     = NULL;
    int64_t n        = 0;
    rp_status status = job->source->encode(job->source->user, text, bytes, RP_TEXT_WHOLE, &ids, &n);

    if (status == RP_OK) status = read_ids(job, place, ids, n, target);
    rp__release(ids);
    return status;
}

/* ---- a text file ---- */

static rp_status read_text_take(void *user, const int32_t *ids, int64_t n_ids) { return read_ids(user, "", ids, n_ids, true); }

static rp_status read_document(const rp_read_job *job, rp_text_file *file)
{
    rp_read_job taker = *job;
    bool empty;

    RP_TRY(rp__text_file_check(file));
    RP_TRY(rp__text_file_empty(file, &empty));
    if (empty) return RP_OK;
    RP_TRY(rp__store_begin(job->store, job->path, ""));
    RP_TRY(rp__read_bos(job, true));
    RP_TRY(rp__text_ids(job->ctx, file, job->source->encode, job->source->user, read_text_take, &taker));
    return rp__read_eos(job);
}

rp_status rp__read_text(const rp_read_job *job)
{
    rp_text_file *file = NULL;

    RP_TRY(rp__text_file_open(job->ctx, job->path, &file));
    rp_status status = read_document(job, file);
    rp__text_file_close(file);
    return status;
}
