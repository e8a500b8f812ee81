/* train/prompts.c -- continues the prompts of a recipe with the present weights, after some steps.
 *
 *   open    prompts, or messages by the chat template ─▶ ids          before the rehearsal, which runs passes of these lengths
 *   take    ids ─▶ the likeliest tokens ─▶ UTF-8, and one JSON array for metrics.jsonl
 *
 * Generating reads the weights and draws no random number, so it changes no bit of the training. Its memory comes from the pool between two
 * steps, and is part of the rehearsal.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "models/generate.h"
#include "template/chat.h"
#include "text/bytes.h"
#include "text/utf8.h"
#include "train/internal.h"

typedef struct { int32_t *ids; rp_bytes text; } prompt;

typedef struct rp_samples {
    rp_ctx *ctx;
    int n;
    int32_t stop[2];
    prompt *at;
    rp_sampled *length;
    char *json;
} rp_samples;

/* ---- prompts to ids ---- */

/* *text NULL: the prompt is its own text. */
static rp_status ask(rp_ctx *ctx, rp_chat *chat, const char *says, char **text)
{
    rp_template_text all = { 0 };

    if (!chat) return RP_OK;
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", says);
    rp_status status = messages ? rp__chat_ask(chat, messages, &all) : rp_fail(ctx, RP_ERR_MEMORY, "cannot allocate a conversation");
    json_decref(messages);
    if (status == RP_OK) *text = all.text;
    rp__release(all.span);
    return status;
}

/* A text begins with bos if the tokenizer adds it, or if it is empty. A chat template writes bos itself. */
static rp_status put_ids(rp_trainer *t, const rp_model_config *config, int i, const int32_t *ids, int64_t n, bool chat)
{
    rp_samples *s = t->samples;
    int32_t bos   = rp__tokenizer_bos(t->tokenizer);
    bool begins   = !chat && bos >= 0 && bos < config->vocab && (!n || rp__tokenizer_adds_bos(t->tokenizer));
    int64_t room  = t->recipe->max_seq_len - n - begins;

    RP_CHECK(t->ctx, n + begins > 0, RP_ERR_CONFIG, "sample_prompts: prompt %d is empty, and the tokenizer has no bos to begin with", i + 1);
    RP_CHECK(t->ctx, room > 0, RP_ERR_CONFIG, "sample_prompts: prompt %d has %" PRId64 " tokens, and max_seq_len of %" PRId64
             " leaves no room for a continuation", i + 1, n + begins, t->recipe->max_seq_len);
    s->at[i].ids = rp__host_alloc(t->ctx, (n + begins) * (int64_t)sizeof *s->at[i].ids);
    if (!s->at[i].ids) return RP_ERR_MEMORY;
    if (begins) s->at[i].ids[0] = bos;
    for (int64_t k = 0; k < n; k++) {
        RP_CHECK(t->ctx, ids[k] < config->vocab, RP_ERR_CONFIG, "sample_prompts: prompt %d has the token %" PRId32 ", and the model's vocabulary has %"
                 PRId64, i + 1, ids[k], config->vocab);
        s->at[i].ids[begins + k] = ids[k];
    }
    s->length[i] = (rp_sampled){ n + begins, room < t->recipe->sample_tokens ? room : t->recipe->sample_tokens };
    return RP_OK;
}

static rp_status encode_prompt(rp_trainer *t, const rp_model_config *config, int i, rp_chat *chat)
{
    const char *says = t->recipe->sample_prompts.item[i];
    char *asked      = NULL;
    int32_t *ids     = NULL;
    int64_t n        = 0;

    RP_TRY(ask(t->ctx, chat, says, &asked));
    const char *text = asked ? asked : says;
    rp_status status = rp__tokenizer_encode(t->tokenizer, text, (int64_t)strlen(text), &ids, &n);
    if (status == RP_OK) status = put_ids(t, config, i, ids, n, chat != NULL);
    rp__release(ids);
    rp__release(asked);
    return status;
}

static rp_status make_room(rp_trainer *t, const rp_model_config *config)
{
    int n         = t->recipe->sample_prompts.n;
    rp_samples *s = t->samples = rp__host_alloc(t->ctx, sizeof *s);

    if (!s) return RP_ERR_MEMORY;
    *s = (rp_samples){ .ctx = t->ctx, .n = n, .stop = { rp__tokenizer_eos(t->tokenizer), config->eos } };
    s->at     = rp__host_alloc(t->ctx, n * (int64_t)sizeof *s->at);
    s->length = s->at ? rp__host_alloc(t->ctx, n * (int64_t)sizeof *s->length) : NULL;
    return s->length ? RP_OK : RP_ERR_MEMORY;
}

rp_status rp__samples_open(rp_trainer *t, const rp_model_config *config, rp_chat *chat)
{
    if (!t->recipe->sample_prompts.n) return RP_OK;
    RP_CHECK(t->ctx, !config->both_ways, RP_ERR_CONFIG, "'sample_prompts' needs a model that generates text, and an encoder does not");
    RP_TRY(make_room(t, config));
    for (int i = 0; i < t->samples->n; i++) RP_TRY(encode_prompt(t, config, i, chat));
    return RP_OK;
}

void rp__samples_close(rp_samples *s)
{
    if (!s) return;
    for (int i = 0; s->at && i < s->n; i++) RP_RELEASE(s->at[i].ids, s->at[i].text.at);
    free(s->json);
    RP_RELEASE(s->length, s->at, s);
}

int rp__samples_lengths(const rp_samples *s, const rp_sampled **out)
{
    *out = s ? s->length : NULL;
    return s ? s->n : 0;
}

/* ---- continuations ---- */

typedef struct { int32_t *ids; int64_t n; } taken;

static bool take_id(void *user, int32_t id)
{
    taken *all = user;

    all->ids[all->n++] = id;
    return true;
}

/* The text that the ids after the first `from` add. Ids that the tokenizer does not have add nothing: vocabularies are often padded. */
static rp_status decode(rp_trainer *t, const taken *all, int64_t from, rp_bytes *out)
{
    int64_t n = 0, n_before = 0, n_text = 0;
    char *before = NULL, *text = NULL;

    for (int64_t k = 0; k < all->n; k++) {
        if (k == from) from = n;
        if (all->ids[k] < rp__tokenizer_vocab(t->tokenizer)) all->ids[n++] = all->ids[k];
    }
    if (from > n) from = n;
    RP_TRY(rp__tokenizer_decode(t->tokenizer, all->ids, from, true, &before, &n_before));
    rp__release(before);
    RP_TRY(rp__tokenizer_decode(t->tokenizer, all->ids, n, true, &text, &n_text));
    rp_status status = n_text > n_before ? rp__utf8_repair(t->ctx, text + n_before, n_text - n_before, out) : RP_OK;
    rp__release(text);
    return status;
}

static rp_status continue_prompt(rp_trainer *t, int i)
{
    rp_samples *s               = t->samples;
    const rp_sampled *length    = &s->length[i];
    const rp_generate_options o = { .max_new_tokens = length->tokens, .stop = s->stop, .n_stop = RP_COUNT(s->stop) };
    taken all                   = { .ids = rp__host_alloc(t->ctx, (length->prompt + length->tokens) * (int64_t)sizeof *all.ids), .n = length->prompt };
    rp_generate_end end;

    if (!all.ids) return RP_ERR_MEMORY;
    memcpy(all.ids, s->at[i].ids, (size_t)length->prompt * sizeof *all.ids);
    s->at[i].text.n  = 0;
    rp_status status = rp__generate(t->engine.model, s->at[i].ids, length->prompt, &o, take_id, &all, &end);
    if (status == RP_OK) status = decode(t, &all, length->prompt, &s->at[i].text);
    if (status == RP_OK) status = rp__bytes_push(t->ctx, &s->at[i].text, "", 1);
    rp__release(all.ids);
    return status;
}

static rp_status write_json(rp_trainer *t)
{
    rp_samples *s = t->samples;
    json_t *all   = json_array();
    bool failed   = !all;

    for (int i = 0; i < s->n && !failed; i++)
        failed = json_array_append_new(all, json_pack("{s:s, s:s}", "prompt", t->recipe->sample_prompts.item[i], "text", rp__samples_text(s, i))) != 0;
    free(s->json);
    s->json = failed ? NULL : rp__json_text(all, 0);
    json_decref(all);
    return s->json ? RP_OK : rp_fail(t->ctx, RP_ERR_MEMORY, "cannot allocate the continuations of 'sample_prompts'");
}

rp_status rp__samples_take(rp_trainer *t)
{
    for (int i = 0; i < t->samples->n; i++) RP_TRY(continue_prompt(t, i));
    return write_json(t);
}

const char *rp__samples_text(const rp_samples *s, int i) { return s->at[i].text.at; }
const char *rp__samples_json(const rp_samples *s) { return s->json; }
