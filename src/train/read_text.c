/* train/read_text.c -- a text file is a document; and the steps that readers of text share. */
#include "train/data_store.h"

#include <sys/stat.h>

#include "io/text_file.h"

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

rp_status rp__read_piece(const rp_read_job *job, const char *place, const char *text, int64_t bytes, bool target)
{
    int32_t *ids     = NULL;
    int64_t n        = 0;
    rp_status status = job->source->encode(job->source->user, text, bytes, &ids, &n);

    for (int64_t i = 0; i < n && status == RP_OK; i++) status = rp__read_id(job, place, ids[i], target);
    rp__release(ids);
    return status;
}

/* Sizes of special files are no use, packed ones are larger than they look, and files may grow: read until the end. */
static rp_status read_whole(const rp_read_job *job, rp_text_file *file, char **text, int64_t *bytes)
{
    struct stat info;
    int64_t room = 0, used = 0, n = 1, next = stat(job->path, &info) ? 0 : (int64_t)info.st_size;
    rp_status status = RP_OK;

    *text = NULL;
    while (n && status == RP_OK) {
        if (used == room) {
            next        = (next > room ? next : room + room / 2) + 4096;
            char *grown = rp__host_grow(job->ctx, *text, room, next);
            if (!grown) return RP_ERR_MEMORY;
            *text = grown;
            room  = next;
        }
        status = rp__text_file_read(file, *text + used, room - used, &n);
        if (status == RP_OK) used += n;
    }
    *bytes = used;
    return status;
}

static rp_status put_document(const rp_read_job *job, const char *text, int64_t bytes)
{
    rp__store_begin(job->store);
    RP_TRY(rp__read_bos(job, true));
    RP_TRY(rp__read_piece(job, "", text, bytes, true));
    return rp__read_eos(job);
}

rp_status rp__read_text(const rp_read_job *job)
{
    rp_text_file *file;
    char *text;
    int64_t bytes;

    RP_TRY(rp__text_file_open(job->ctx, job->path, &file));
    rp_status status = read_whole(job, file, &text, &bytes);
    rp__text_file_close(file);
    if (status == RP_OK) status = put_document(job, text, bytes);
    rp__release(text);
    return status;
}
