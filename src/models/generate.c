/* models/generate.c -- generates tokens one by one with a cache. */
#include "models/generate.h"

#include <math.h>

#include "base/file.h"
#include "base/philox.h"
#include "ops/prefetch.h"
#include "tape/tape.h"
#include "tensor/tensor.h"

typedef struct {
    rp_model *model;
    rp_ctx *ctx;
    const rp_generate_options *o;
    int64_t vocab, n_kept;
    uint64_t key;
    double *logit, *weight;
    int32_t *kept;                              /* ids that can be drawn */
} generator;

/* ---- choosing a token ---- */

static int32_t likeliest(const generator *g)
{
    int64_t best = 0;

    for (int64_t i = 1; i < g->vocab; i++)
        if (g->logit[i] > g->logit[best]) best = i;
    return (int32_t)best;
}

static bool before(const generator *g, int32_t a, int32_t b)
{
    return g->logit[a] < g->logit[b] || (g->logit[a] == g->logit[b] && a > b);
}

/* The ids kept form a heap with the least likely one at the top. */
static void sift_down(generator *g, int64_t at)
{
    for (int64_t child; (child = 2 * at + 1) < g->n_kept; at = child) {
        if (child + 1 < g->n_kept && before(g, g->kept[child + 1], g->kept[child])) child++;
        if (!before(g, g->kept[child], g->kept[at])) return;
        int32_t id     = g->kept[at];
        g->kept[at]    = g->kept[child];
        g->kept[child] = id;
    }
}

static void keep_likeliest(generator *g)
{
    for (int64_t i = 0; i < g->n_kept; i++) g->kept[i] = (int32_t)i;
    if (g->n_kept == g->vocab) return;
    for (int64_t i = g->n_kept / 2; i-- > 0;) sift_down(g, i);
    for (int64_t id = g->n_kept; id < g->vocab; id++) {
        if (!before(g, g->kept[0], (int32_t)id)) continue;
        g->kept[0] = (int32_t)id;
        sift_down(g, 0);
    }
}

/* Uniform in [0, 1) with 53 bits, for the token with this number. */
static double uniform(const generator *g, int64_t number)
{
    rp_philox block = rp__philox(g->key, (uint32_t)number, (uint32_t)((uint64_t)number >> 32), 0, 0);

    return ((double)(block.word[0] >> 5) * 67108864.0 + (double)(block.word[1] >> 6)) * 0x1p-53;
}

static int32_t generate_draw(generator *g, int64_t number)
{
    double sum = 0, most = g->logit[likeliest(g)];
    int64_t i  = 0;

    keep_likeliest(g);
    for (int64_t j = 0; j < g->n_kept; j++) sum += g->weight[j] = exp((g->logit[g->kept[j]] - most) / g->o->temperature);
    for (double left = uniform(g, number) * sum; i < g->n_kept - 1; i++)
        if ((left -= g->weight[i]) < 0) break;
    return g->kept[i];
}

static rp_status generate_choose(generator *g, int64_t number, int32_t *id)
{
    for (int64_t i = 0; i < g->vocab; i++)
        RP_CHECK(g->ctx, isfinite(g->logit[i]), RP_ERR_NONFINITE, "token %" PRId64 " of the continuation: the logit of id %" PRId64
                 " is not finite", number + 1, i);
    *id = g->o->temperature == 0 || g->n_kept == 1 ? likeliest(g) : generate_draw(g, number);
    return RP_OK;
}

/* ---- the model ---- */

/* ids NULL: on shapes alone, without a result. */
static rp_status feed(generator *g, const int32_t *ids, int64_t n)
{
    rp_meta meta         = rp_meta_2d(RP_I32, 1, n);
    rp_model_batch batch = { 0 };
    rp_tensor *logits    = NULL;
    rp_status status;

    RP_TRY(rp__tensor_new_named(g->ctx, &meta, RP_MEM_TEMP, "tokens", &batch.tokens));
    if (ids) RP_TRY_GOTO(rp_tensor_write_i32(batch.tokens, ids, n));
    RP_TRY_GOTO(rp__prefetch_pass(g->ctx));
    RP_TRY_GOTO(rp__model_next_logits(g->model, &batch, &logits));
    status = ids ? rp__file_pages_after(g->ctx, rp_tensor_read(logits, g->logit, g->vocab)) : RP_OK;
    rp_tensor_unref(logits);
done:
    rp_tensor_unref(batch.tokens);
    return status;
}

/* The passes of a whole text, without choosing tokens. */
static rp_status feed_shapes(generator *g, int64_t n_prompt)
{
    RP_TRY(feed(g, NULL, n_prompt));
    for (int64_t i = 1; i < g->o->max_new_tokens; i++) RP_TRY(feed(g, NULL, 1));
    return RP_OK;
}

static bool is_stop(const rp_generate_options *o, int32_t id)
{
    for (int i = 0; i < o->n_stop; i++)
        if (o->stop[i] == id) return true;
    return false;
}

static rp_status go_on(generator *g, const int32_t *prompt, int64_t n_prompt, rp_generate_sink sink, void *user, rp_generate_end *end)
{
    int64_t context = rp__model_config(g->model)->context;
    int32_t id;

    *end = RP_GENERATED_ALL;
    for (int64_t i = 0; i < g->o->max_new_tokens; i++) {
        if (rp__model_cache_used(g->model) == context) {
            *end = RP_GENERATED_CONTEXT;
            return RP_OK;
        }
        RP_TRY(i ? feed(g, &id, 1) : feed(g, prompt, n_prompt));
        RP_TRY(generate_choose(g, i, &id));
        *end = is_stop(g->o, id) ? RP_GENERATED_STOP : sink(user, id) ? RP_GENERATED_ALL : RP_GENERATED_ENOUGH;
        if (*end != RP_GENERATED_ALL) return RP_OK;
    }
    return RP_OK;
}

static rp_status start(generator *g, int64_t n_prompt)
{
    const rp_generate_options *o = g->o;
    int64_t context = rp__model_config(g->model)->context, room = context - n_prompt;

    RP_CHECK(g->ctx, n_prompt > 0, RP_ERR_ARG, "the prompt is empty");
    RP_CHECK(g->ctx, room >= 0, RP_ERR_ARG, "the prompt has %" PRId64 " tokens, more than the model's context of %" PRId64, n_prompt,
             context);
    g->n_kept = o->top_k > 0 && o->top_k < g->vocab ? o->top_k : g->vocab;
    g->key    = rp__hash(&o->seed, sizeof o->seed, rp__hash("generate", 8, RP_HASH_START));
    g->logit  = rp__host_alloc(g->ctx, g->vocab * (int64_t)sizeof *g->logit);
    g->weight = g->logit ? rp__host_alloc(g->ctx, g->n_kept * (int64_t)sizeof *g->weight) : NULL;
    g->kept   = g->weight ? rp__host_alloc(g->ctx, g->n_kept * (int64_t)sizeof *g->kept) : NULL;
    if (!g->kept) return RP_ERR_MEMORY;
    rp__tape_ctx(g->ctx)->no_grad = true;
    return rp__model_cache_new(g->model, 1, o->max_new_tokens < room ? n_prompt + o->max_new_tokens : context);
}

rp_status rp__generate(rp_model *model, const int32_t *prompt, int64_t n_prompt, const rp_generate_options *options,
                       rp_generate_sink sink, void *user, rp_generate_end *end)
{
    rp_ctx *ctx = rp__model_ctx(model);
    generator g = { .model = model, .ctx = ctx, .o = options, .vocab = rp__model_config(model)->vocab };
    rp_tape_ctx *mode = rp__tape_ctx(ctx);
    bool eval         = mode->eval;

    RP_CHECK(ctx, !rp__model_config(model)->both_ways, RP_ERR_UNSUPPORTED, "a model of type '%s' is an encoder: it predicts masked tokens and "
             "cannot generate text", rp__model_type(rp__model_config(model)));
    mode->eval       = true;
    rp_status status = start(&g, n_prompt);
    if (status == RP_OK) status = prompt ? go_on(&g, prompt, n_prompt, sink, user, end) : feed_shapes(&g, n_prompt);
    rp__model_cache_drop(model);
    mode->no_grad = false;
    mode->eval    = eval;
    RP_RELEASE(g.kept, g.weight, g.logit);
    return status;
}
