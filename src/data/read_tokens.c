/* data/read_tokens.c -- reads token ids, u16 or u32, little-endian. A document ends after eos and at the end of the file. */
#include "data/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 16 };

static uint32_t id_at(const uint8_t *p, int size)
{
    uint32_t low = (uint32_t)p[0] | (uint32_t)p[1] << 8;

    return size == 2 ? low : low | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static rp_status begin_at(const rp_read_job *job, int64_t offset)
{
    char place[48];

    snprintf(place, sizeof place, ", byte %" PRId64, offset);
    return rp__store_begin(job->store, job->path, place);
}

static rp_status put_chunk(const rp_read_job *job, const uint8_t *chunk, int64_t bytes, int size, int64_t offset)
{
    const rp_data_source *s = job->source;

    for (int64_t i = 0; i < bytes; i += size) {
        uint32_t id = id_at(chunk + i, size);
        RP_CHECK(job->ctx, id < (uint32_t)s->vocab, RP_ERR_FORMAT,
                 "'%s': the token %" PRIu32 " at byte %" PRId64 " is beyond the model's vocabulary of %" PRId32, job->path,
                 id, offset + i, s->vocab);
        RP_TRY(rp__read_put(job, (int32_t)id, true));
        if (s->eos >= 0 && id == (uint32_t)s->eos) RP_TRY(begin_at(job, offset + i + size));
    }
    return RP_OK;
}

static rp_status put_file(const rp_read_job *job, FILE *f)
{
    int size = job->config->wide_tokens ? 4 : 2;
    uint8_t chunk[CHUNK_BYTES];
    int64_t offset = 0;

    for (;;) {
        int64_t n = (int64_t)fread(chunk, 1, sizeof chunk, f);
        RP_CHECK(job->ctx, !ferror(f), RP_ERR_IO, "cannot read '%s': %s", job->path, strerror(errno));
        RP_CHECK(job->ctx, n % size == 0, RP_ERR_FORMAT, "'%s' has %" PRId64 " bytes: not a whole number of u%d tokens",
                 job->path, offset + n, 8 * size);
        RP_TRY(put_chunk(job, chunk, n, size, offset));
        if (n < CHUNK_BYTES) return RP_OK;
        offset += n;
    }
}

rp_status rp__read_tokens(const rp_read_job *job)
{
    FILE *f = fopen(job->path, "re");

    RP_CHECK(job->ctx, f, RP_ERR_CONFIG, "cannot open '%s': %s", job->path, strerror(errno));
    rp_status status = begin_at(job, 0);
    if (status == RP_OK) status = put_file(job, f);
    fclose(f);
    return status;
}
