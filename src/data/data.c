/* data/data.c -- fills a store from files and makes batches from it; see data.h. */
#include "data/data.h"

#include <string.h>

#include "data/files.h"
#include "data/shuffle.h"
#include "data/store.h"

struct rp_data {
    rp_ctx *ctx;
    rp_data_config config;              /* its strings are invalid after open */
    rp_store *store;
    rp_store_counts n;
    bool by_template;
    int64_t n_files, steps_per_epoch, step_samples;         /* step_samples: samples of a global step */
    int64_t counted_step;               /* step that `counted` belongs to; -1: none */
    rp_data_step counted;
    uint32_t *words;                    /* tokens of one sample */
    uint64_t *places;                   /* its positions that may be masked */
    int32_t *arrays;                    /* four arrays of batch_size * max_seq_len elements */
};

typedef struct { const char *name; rp_status (*read)(const rp_read_job *job); } format;

static const format formats[] = {
#define RP_DATA_FORMAT(name, extensions) { #name, rp__read_##name },
#include "data/formats.def"
#undef RP_DATA_FORMAT
};

static rp_status find_format(rp_ctx *ctx, const char *key, const char *name, const format **out)
{
    const char *names[RP_COUNT(formats) + 1] = { 0 };

    for (int i = 0; i < RP_COUNT(formats); i++) {
        names[i] = formats[i].name;
        *out     = &formats[i];
        if (!strcmp(formats[i].name, name)) return RP_OK;
    }
    const char *near = rp__nearest(name, names);
    return rp_fail(ctx, RP_ERR_CONFIG, "%s.format: unknown format '%s'%s%s%s", key, name, near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
}

static rp_status check_format(rp_ctx *ctx, const char *key, const rp_data_config *c, const rp_data_source *s)
{
    bool jsonl = !strcmp(c->format, "jsonl"), tokens = !strcmp(c->format, "tokens"), chat = !strcmp(c->format, "chat");
    bool alpaca = !strcmp(c->format, "alpaca");

    RP_CHECK(ctx, c->n_paths || (c->path && *c->path), RP_ERR_CONFIG, "%s.path is not set", key);
    RP_CHECK(ctx, tokens || s->encode, RP_ERR_CONFIG, "%s.format: %s needs a tokenizer; set tokenizer.path", key,
             c->format);
    RP_CHECK(ctx, jsonl || !c->prompt_column, RP_ERR_CONFIG, "%s.prompt_column needs format jsonl, not %s", key, c->format);
    RP_CHECK(ctx, c->train_on_input || c->prompt_column || chat || alpaca, RP_ERR_CONFIG, "%s.train_on_input: false needs %s.prompt_column",
             key, key);
    RP_CHECK(ctx, !chat || s->chat, RP_ERR_CONFIG,
             "%s.format: chat needs a chat template, and the model's tokenizer has none; set tokenizer.chat_template", key);
    RP_CHECK(ctx, !(jsonl || chat) || c->column, RP_ERR_CONFIG, "%s.column is not set", key);
    return RP_OK;
}

static rp_status check_config(rp_ctx *ctx, const char *key, const rp_data_config *c, const rp_data_source *s)
{
    int64_t samples;

    if (!c->documents.read) RP_TRY(check_format(ctx, key, c, s));
    RP_CHECK(ctx, c->masking.probability == 0 || (c->masking.mask_id >= 0 && c->masking.mask_id < s->vocab), RP_ERR_CONFIG,
             "the tokenizer has no '[MASK]' token; set loss.mask_token_id to an id below %" PRId32, s->vocab);
    RP_CHECK(ctx, c->max_seq_len >= 2, RP_ERR_CONFIG, "max_seq_len: %" PRId64 " leaves no target; at least 2 are needed",
             c->max_seq_len);
    RP_CHECK(ctx, c->batch_size >= 1 && c->accumulation >= 1 && c->ranks >= 1 && c->rank >= 0 && c->rank < c->ranks,
             RP_ERR_CONFIG,
             "batch_size %" PRId64 ", gradient_accumulation_steps %" PRId64 ", rank %d of %d: each must be at least 1",
             c->batch_size, c->accumulation, c->rank, c->ranks);
    RP_CHECK(ctx,
             !__builtin_mul_overflow(c->batch_size, c->accumulation, &samples) &&
                 !__builtin_mul_overflow(samples, (int64_t)c->ranks, &samples),
             RP_ERR_CONFIG,
             "a step of batch_size %" PRId64 ", gradient_accumulation_steps %" PRId64 " and %d ranks is too large",
             c->batch_size, c->accumulation, c->ranks);
    RP_CHECK(ctx, s->vocab > 0 && (uint32_t)s->vocab <= RP_TOKEN_ID, RP_ERR_CONFIG,
             "a vocabulary of %" PRId32 " ids is not supported", s->vocab);
    return RP_OK;
}

/* ---- files ---- */

/* A file that added no tokens and no skipped documents is counted as skipped itself. */
static rp_status read_file(const rp_read_job *job, const format *f)
{
    rp_store_counts before = rp__store_counts(job->store);

    RP_TRY(f->read(job));
    RP_TRY(rp__store_end(job->store));
    rp_store_counts after = rp__store_counts(job->store);
    if (after.tokens > before.tokens || after.skipped > before.skipped) return RP_OK;
    return rp__store_skip(job->store, job->path, "", "it is empty");
}

/* ---- documents of a program ---- */

static rp_status put_document(const rp_read_job *job, int64_t i, const int32_t *ids, int64_t n)
{
    char place[48];

    snprintf(place, sizeof place, ", document %" PRId64, i);
    RP_CHECK(job->ctx, n >= 0, RP_ERR_ARG, "document %" PRId64 " of the program has %" PRId64 " ids", i, n);
    if (!n) return rp__store_skip(job->store, job->path, place, "it is empty");
    RP_TRY(rp__store_begin(job->store, job->path, place));
    for (int64_t k = 0; k < n; k++) {
        RP_CHECK(job->ctx, ids[k] >= 0 && ids[k] < job->source->vocab, RP_ERR_ARG,
                 "document %" PRId64 " of the program: id %" PRId64 " is %" PRId32 ", beyond the model's vocabulary of %" PRId32, i, k, ids[k],
                 job->source->vocab);
        RP_TRY(rp__read_put(job, ids[k], true));
    }
    return RP_OK;
}

static rp_status read_documents(rp_data *d, rp_read_job *job)
{
    const rp_data_documents *own = &d->config.documents;

    job->path = "the program";
    for (int64_t i = 0;; i++) {
        const int32_t *ids = NULL;
        int64_t n = 0, errors = d->ctx->n_errors;
        rp_status status = own->read(d->ctx, own->user, i, &ids, &n);
        if (status != RP_OK && d->ctx->n_errors == errors) rp_fail(d->ctx, status, "document %" PRId64 " of the program: %s", i, rp_status_text(status));
        RP_TRY(status);
        if (!ids) return rp__store_end(job->store);
        RP_TRY(put_document(job, i, ids, n));
    }
}

/* ---- files and documents ---- */

static rp_status data_read_all(rp_data *d, rp_read_job *job, const format *f)
{
    if (d->config.documents.read) return read_documents(d, job);
    rp_data_files files;
    rp_status status = rp__data_files(d->ctx, job->key, job->config, &files);

    d->n_files = files.n;
    for (int64_t i = 0; i < files.n && status == RP_OK; i++) {
        job->path = files.path[i];
        status    = read_file(job, f);
    }
    rp__data_files_free(&files);
    return status;
}

/* ---- opening ---- */

static const char *s_of(int64_t n) { return n == 1 ? "" : "s"; }

/* "; 3 were skipped, the first is …" */
static void say_skipped(const rp_data *d, char out[RP_ERROR_CHARS])
{
    out[0] = 0;
    if (d->n.skipped)
        snprintf(out, RP_ERROR_CHARS, "; %" PRId64 " %s skipped, the first: %s", d->n.skipped, d->n.skipped == 1 ? "was" : "were",
                 rp__store_first_skipped(d->store));
}

static rp_status too_little(const rp_data *d, const char *key)
{
    char wants[160] = "one is needed", skipped[RP_ERROR_CHARS];
    const rp_data_config *c = &d->config;
    const rp_store_counts *n = &d->n;

    say_skipped(d, skipped);
    if (n->skipped && !n->samples)
        return rp_fail(d->ctx, RP_ERR_CONFIG, "%s has nothing to learn from: no sample has a target%s", key, skipped);
    if (d->step_samples > 1)
        snprintf(wants, sizeof wants, "a step takes %" PRId64 " (batch_size %" PRId64 " x gradient_accumulation_steps %" PRId64 " x %d rank%s)",
                 d->step_samples, c->batch_size, c->accumulation, c->ranks, s_of(c->ranks));
    return rp_fail(d->ctx, RP_ERR_CONFIG, "%s has too little data: %" PRId64 " token%s in %" PRId64 " document%s make %" PRId64
                   " sample%s of max_seq_len %" PRId64 ", %s%s", key, n->tokens, s_of(n->tokens), n->documents, s_of(n->documents), n->samples,
                   s_of(n->samples), c->max_seq_len, wants, skipped);
}

static rp_status count_samples(rp_data *d, const char *key)
{
    const rp_data_config *c = &d->config;

    d->n               = rp__store_counts(d->store);
    d->step_samples    = c->batch_size * c->accumulation * c->ranks;
    d->steps_per_epoch = d->n.samples / d->step_samples;
    return d->steps_per_epoch >= 1 ? RP_OK : too_little(d, key);
}

static rp_status data_make_room(rp_data *d)
{
    const rp_data_config *c = &d->config;
    int64_t places;

    RP_CHECK(d->ctx, !__builtin_mul_overflow(c->batch_size, c->max_seq_len, &places) && places < INT64_MAX / 16,
             RP_ERR_CONFIG, "a batch of %" PRId64 " samples of %" PRId64 " tokens is too large", c->batch_size,
             c->max_seq_len);
    d->words  = rp__host_alloc(d->ctx, c->max_seq_len * (int64_t)sizeof *d->words);
    d->places = d->words ? rp__host_alloc(d->ctx, c->max_seq_len * (int64_t)sizeof *d->places) : NULL;
    d->arrays = d->places ? rp__host_alloc(d->ctx, 4 * places * (int64_t)sizeof *d->arrays) : NULL;
    return d->arrays ? RP_OK : RP_ERR_MEMORY;
}

static rp_status fill_store(rp_data *d, const char *key, const rp_data_config *config, const rp_data_source *source)
{
    const format *f;

    RP_TRY(find_format(d->ctx, key, config->format, &f));
    RP_TRY(check_config(d->ctx, key, config, source));
    RP_TRY(rp__store_new(d->ctx, config, &d->store));
    rp_read_job job = { d->ctx, key, config->path, config, source, d->store, 0 };
    RP_TRY(data_read_all(d, &job, f));
    RP_TRY(rp__store_finish(d->store));
    RP_TRY(count_samples(d, key));
    return data_make_room(d);
}

static rp_status look(const rp_read_job *job, const format *f)
{
    rp_data_files files;
    rp_read_job each = *job;
    rp_status status = rp__data_files(job->ctx, job->key, job->config, &files);

    for (int64_t i = 0; i < files.n && i < job->most && status == RP_OK; i++) {
        each.path = files.path[i];
        status    = f->read(&each);
        if (status == RP_OK) status = rp__store_end(job->store);
    }
    rp__data_files_free(&files);
    return status;
}

rp_status rp__data_look(rp_ctx *ctx, const char *key, const rp_data_config *config, const rp_data_source *source, int64_t most, bool *looked)
{
    rp_store *store = NULL;
    const format *f;

    RP_TRY(find_format(ctx, key, config->format, &f));
    RP_TRY(check_config(ctx, key, config, source));
    *looked = strcmp(f->name, "text") && strcmp(f->name, "tokens");
    if (!*looked) return RP_OK;
    RP_TRY(rp__store_new(ctx, config, &store));
    rp_status status = look(&(rp_read_job){ ctx, key, NULL, config, source, store, most }, f);
    rp__store_free(store);
    return status;
}

rp_status rp__data_open(rp_ctx *ctx, const char *key, const rp_data_config *config, const rp_data_source *source,
                        rp_data **out)
{
    rp_data *d = rp__host_alloc(ctx, sizeof *d);

    if (!d) return RP_ERR_MEMORY;
    *d               = (rp_data){ .ctx = ctx, .config = *config, .counted_step = -1 };
    rp_status status = fill_store(d, key, config, source);
    d->by_template   = config->by_template && source->chat && strcmp(config->format, "chat");
    if (status != RP_OK) rp__data_close(d);
    else *out = d;
    return status;
}

void rp__data_close(rp_data *d)
{
    if (!d) return;
    rp__store_free(d->store);
    RP_RELEASE(d->words, d->places, d->arrays, d);
}

rp_data_info rp__data_info(const rp_data *d)
{
    const rp_store_counts *n = &d->n;

    return (rp_data_info){ d->n_files, n->documents, n->tokens, n->targets, n->samples, n->truncated, n->skipped, d->steps_per_epoch,
                           rp__store_hash(d->store), d->config.masking.probability > 0, d->by_template, rp__store_first_skipped(d->store) };
}

const char *rp__data_text(const rp_data_info *i, const char *path, int n_paths, char out[RP_DATA_TEXT_CHARS])
{
    snprintf(out, RP_DATA_TEXT_CHARS, "%s%s: %" PRId64 " file%s, %" PRId64 " document%s, %" PRId64 " tokens, %" PRId64 " %s; %" PRId64
             " sample%s, %" PRId64 " truncated, %" PRId64 " skipped%s", path, n_paths > 1 ? " and others" : "", i->n_files, s_of(i->n_files),
             i->n_documents, s_of(i->n_documents), i->n_tokens, i->n_targets, i->masked ? "of them may be hidden" : "targets", i->n_samples,
             s_of(i->n_samples), i->n_truncated, i->n_skipped, i->by_template ? "; formatted by the model's chat template" : "");
    return out;
}

/* ---- batches ---- */

/* Find sample i of a step in the store. */
static rp_status locate(rp_data *d, int64_t step, int64_t i, int64_t *first, int64_t *count)
{
    int64_t epoch = step / d->steps_per_epoch, place = step % d->steps_per_epoch * d->step_samples + i;

    RP_BUG_IF(step < 0 || i < 0 || i >= d->step_samples);
    if (d->config.shuffle) place = rp__shuffled(d->config.seed, epoch, d->n.samples, place);
    return rp__store_sample(d->store, place, first, count);
}

static rp_status read_sample(rp_data *d, int64_t step, int64_t i, int64_t *count)
{
    int64_t first;

    RP_TRY(locate(d, step, i, &first, count));
    return rp__store_words(d->store, first, *count, d->words);
}

static int32_t label_of(const rp_data *d, uint32_t word)
{
    return word & RP_TOKEN_NO_TARGET ? d->config.ignore_index : (int32_t)(word & RP_TOKEN_ID);
}

static bool may_be_target(const rp_data *d, uint32_t word) { return label_of(d, word) != d->config.ignore_index; }

/* The sample number that the masks depend on. */
static int64_t masked_as(const rp_data *d, int64_t step, int64_t i)
{
    return d->config.masking.fixed ? step % d->steps_per_epoch * d->step_samples + i : i;
}

/* Number of targets of the sample in d->words. */
static int64_t count_targets(const rp_data *d, int64_t step, int64_t i, int64_t n)
{
    bool masks     = d->config.masking.probability > 0;
    int64_t may_be = 0;

    for (int64_t k = !masks; k < n; k++) may_be += may_be_target(d, d->words[k]);
    return masks ? rp__masking_count(&d->config.masking, step, masked_as(d, step, i), may_be) : may_be;
}

rp_status rp__data_sample(rp_data *d, int64_t i, int32_t *ids, bool *target, int64_t *count)
{
    int64_t first;

    RP_BUG_IF(i < 0 || i >= d->n.samples);
    RP_TRY(rp__store_sample(d->store, i, &first, count));
    RP_TRY(rp__store_words(d->store, first, *count, d->words));
    for (int64_t k = 0; k < *count; k++) {
        ids[k]    = (int32_t)(d->words[k] & RP_TOKEN_ID);
        target[k] = may_be_target(d, d->words[k]) && (k || d->config.masking.probability > 0);
    }
    return RP_OK;
}

rp_status rp__data_step(rp_data *d, int64_t step, rp_data_step *out)
{
    rp_data_step sum = { 0 };

    if (step == d->counted_step) {
        *out = d->counted;
        return RP_OK;
    }
    for (int64_t i = 0; i < d->step_samples; i++) {
        int64_t n;
        RP_TRY(read_sample(d, step, i, &n));
        sum.tokens += n;
        sum.targets += count_targets(d, step, i, n);
    }
    RP_BUG_IF(sum.targets < d->step_samples);       /* each sample has at least one target */
    d->counted_step = step;
    d->counted      = sum;
    *out            = sum;
    return RP_OK;
}

typedef struct { int32_t *tokens, *labels, *positions, *doc_start; } row;

/* Padding forms a document of its own at the end of the row, so nothing before it attends to it. It has no labels. */
static void fill_row(const rp_data *d, const row *r, int64_t count, int64_t length)
{
    int32_t start = 0;

    for (int64_t k = 0; k < length; k++) {
        bool padding = k >= count;
        if (k == count || (k && !padding && !d->config.cross_documents && d->words[k] & RP_TOKEN_FIRST)) start = (int32_t)k;
        r->tokens[k]    = padding ? 0 : (int32_t)(d->words[k] & RP_TOKEN_ID);
        r->labels[k]    = k + 1 < count ? label_of(d, d->words[k + 1]) : d->config.ignore_index;
        r->positions[k] = (int32_t)k - start;
        r->doc_start[k] = start;
    }
}

/* Replace the shifted labels by masked targets. */
static void mask_row(const rp_data *d, const row *r, int64_t step, int64_t sample, int64_t count, int64_t length)
{
    int64_t n = 0;

    for (int64_t k = 0; k < length; k++) r->labels[k] = d->config.ignore_index;
    for (int64_t k = 0; k < count; k++)
        if (may_be_target(d, d->words[k])) d->places[n++] = (uint64_t)k;
    n = rp__masking_choose(&d->config.masking, step, sample, d->places, n);
    for (int64_t i = 0; i < n; i++) {
        int64_t k    = (int64_t)d->places[i];
        r->labels[k] = r->tokens[k];
        r->tokens[k] = rp__masking_seen(&d->config.masking, step, sample, k, r->tokens[k]);
    }
}

/* Longest sample of the micro-batch over all ranks: ranks that share one model must run the same shapes. */
static rp_status longest(rp_data *d, int64_t step, int64_t micro, int64_t *length)
{
    int64_t all = d->config.ranks * d->config.batch_size;

    *length = 0;
    for (int64_t i = 0; i < all; i++) {
        int64_t first, n;
        RP_TRY(locate(d, step, micro * all + i, &first, &n));
        if (n > *length) *length = n;
    }
    return RP_OK;
}

rp_status rp__data_batch(rp_data *d, int64_t step, int64_t micro, rp_data_batch *out)
{
    int64_t rows = d->config.batch_size, base = (micro * d->config.ranks + d->config.rank) * rows, length;

    RP_BUG_IF(micro < 0 || micro >= d->config.accumulation);
    RP_TRY(longest(d, step, micro, &length));
    int32_t *tokens = d->arrays, *labels = tokens + rows * length, *positions = labels + rows * length,
            *doc_start = positions + rows * length;
    for (int64_t i = 0; i < rows; i++) {
        int64_t count, at = i * length;
        RP_TRY(read_sample(d, step, base + i, &count));
        row r = { tokens + at, labels + at, positions + at, doc_start + at };
        fill_row(d, &r, count, length);
        if (d->config.masking.probability > 0) mask_row(d, &r, step, masked_as(d, step, base + i), count, length);
    }
    *out = (rp_data_batch){ rows, length, !d->config.packed, tokens, labels, positions, doc_start, base };
    return RP_OK;
}
