/* train/read_text.c -- a text file is a document; and the steps that readers of text share. */
#include "train/data_store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool inert(const rp_data_source *s, int32_t id) { return id < 0 || id >= s->vocab; }

rp_status rp__read_bos(const rp_read_job *job, bool target)
{
    if (!job->source->adds_bos || inert(job->source, job->source->bos)) return RP_OK;
    return rp__store_put(job->store, job->source->bos, target);
}

rp_status rp__read_eos(const rp_read_job *job)
{
    return inert(job->source, job->source->eos) ? RP_OK : rp__store_put(job->store, job->source->eos, true);
}

rp_status rp__read_piece(const rp_read_job *job, const char *place, const char *text, int64_t bytes, bool target)
{
    int32_t *ids     = NULL;
    int64_t n        = 0;
    rp_status status = job->source->encode(job->source->user, text, bytes, &ids, &n);

    for (int64_t i = 0; i < n && status == RP_OK; i++) {
        if (inert(job->source, ids[i]))
            status = rp__fail(job->ctx, RP_ERR_CONFIG,
                              "'%s'%s: the tokenizer gives id %" PRId32 ", beyond the model's vocabulary of %" PRId32,
                              job->path, place, ids[i], job->source->vocab);
        else
            status = rp__store_put(job->store, ids[i], target);
    }
    rp__release(ids);
    return status;
}

/* Sizes of special files are no use and files may grow: read until the end. */
static rp_status read_whole(const rp_read_job *job, FILE *f, char **text, int64_t *bytes)
{
    struct stat info;
    int64_t room = 0, used = 0, next = fstat(fileno(f), &info) ? 0 : (int64_t)info.st_size;
    char *held = NULL;

    for (;;) {
        if (used == room) {
            next        = (next > room ? next : room + room / 2) + 4096;
            char *grown = rp__host_grow(job->ctx, held, room, next);
            if (!grown) break;
            held = grown;
            room = next;
        }
        size_t n = fread(held + used, 1, (size_t)(room - used), f);
        used += (int64_t)n;
        if (n) continue;
        *text  = held;
        *bytes = used;
        if (!ferror(f)) return RP_OK;
        rp__release(held);
        return rp__fail(job->ctx, RP_ERR_IO, "cannot read '%s': %s", job->path, strerror(errno));
    }
    rp__release(held);
    return RP_ERR_MEMORY;
}

rp_status rp__read_text(const rp_read_job *job)
{
    FILE *f = fopen(job->path, "re");
    char *text;
    int64_t bytes;

    RP_CHECK(job->ctx, f, RP_ERR_CONFIG, "cannot open '%s': %s", job->path, strerror(errno));
    rp_status status = read_whole(job, f, &text, &bytes);
    fclose(f);
    RP_TRY(status);
    rp__store_begin(job->store);
    status = rp__read_bos(job, true);
    if (status == RP_OK) status = rp__read_piece(job, "", text, bytes, true);
    rp__release(text);
    return status == RP_OK ? rp__read_eos(job) : status;
}
