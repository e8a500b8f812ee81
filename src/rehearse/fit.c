/* rehearse/fit.c -- plan --fit: the ways to train a recipe's model that fit a memory budget. Each is planned, none is run.
 *
 *   way      all weights · adapters on the frozen model · on the frozen model in 8 bits, in 4 bits
 *   states   the dtypes that the optimizer's states can have
 *   length   that of the recipe, up to four times as long within the model's context, and down to a quarter
 *   batch    the largest one, from the recipe's down, that fits; a step has as many samples as the recipe's
 *   fates    planned for the memory available
 *
 * A way with one dtype and length is one row. Lengths are tried from the shortest up, until one does not fit with one sample at a time.
 */
#include <stdlib.h>

#include "rehearse/rehearsal.h"

#include "base/list.h"
#include "base/report.h"
#include "plan/plan.h"

enum { LEAST_LENGTH = 64 };

/* ---- the table of ways ---- */

typedef struct {
    const char *name;
    int64_t rank;                       /* of adapters; 0: all weights are trained */
    int quantize;                       /* model.quantize … */
    const char *type;                   /* … and its name; NULL: none */
} way;

static const way ways[] = {
    { "all weights", 0, RP_QUANTIZE_NO, NULL },
    { "LoRA", 16, RP_QUANTIZE_NO, NULL },
    { "LoRA on q8_0", 16, RP_QUANTIZE_Q8_0, "q8_0" },
    { "LoRA on nf4", 16, RP_QUANTIZE_NF4, "nf4" },
};

static const struct { const char *name; int dtype; } states[] = { { "fp32", RP_STATE_FP32 }, { "bf16", RP_STATE_BF16 }, { "int8", RP_STATE_INT8 } };

typedef struct {
    rp_rehearsal *base;                 /* of the recipe itself */
    const rp_recipe *recipe;
    rp_fit *out;
    int room;
} fitting;

static bool has_states(const rp_recipe *r) { return r->optimizer.name == RP_OPTIMIZER_ADAMW || r->optimizer.momentum > 0 || r->optimizer.master_weights; }

/* A recipe's own adapter keeps its rank, and the adapter of a folder its way. Random weights are not quantised. */
static bool may_go(const rp_recipe *r, const way *w) { return w->quantize ? r->model.path || r->model.stand_in : w->rank || !r->model.adapter; }

static rp_recipe recipe_of(const rp_recipe *recipe, const way *w, int64_t length)
{
    rp_recipe r = *recipe;

    if (!w->rank) r.lora.rank.set = false;
    else if (!r.lora.rank.set && !r.model.adapter) r.lora.rank = (rp_opt_int){ true, w->rank };
    r.model.quantize                        = w->quantize;
    r.max_seq_len                           = length;
    r.activation_checkpointing.mode         = RP_MODE_AUTO;
    r.activation_checkpointing.n_conditions = 0;
    return r;
}

/* ---- one row ---- */

/* As in the recipe, but for the batch. */
static bool is_own(const rp_recipe *own, const way *w, const rp_recipe *r)
{
    bool adapts = own->lora.rank.set || own->model.adapter;

    return !w->rank == !adapts && w->quantize == own->model.quantize && r->max_seq_len == own->max_seq_len &&
           r->optimizer.state_dtype == own->optimizer.state_dtype;
}

static void fill_row(fitting *x, const way *w, const rp_recipe *r, const rp_plan *p, rp_fit_row *row)
{
    double tokens = (double)(r->batch_size * r->gradient_accumulation_steps * r->max_seq_len) * (r->dist.ranks.set ? (double)r->dist.ranks.value : 1);

    *row = (rp_fit_row){ .way = w->name, .quantize = w->type, .rank = r->lora.rank.set ? r->lora.rank.value : 0, .own = is_own(x->recipe, w, r),
                         .length = r->max_seq_len, .batch_size = r->batch_size, .accumulation = r->gradient_accumulation_steps,
                         .reserved = p->placement.height, .seconds = p->seconds + p->recompute_seconds };
    for (int i = 0; has_states(r) && i < RP_COUNT(states); i++)
        if (states[i].dtype == r->optimizer.state_dtype) row->states = states[i].name;
    snprintf(x->out->machine, sizeof x->out->machine, "%s", p->machine);
    x->out->measured       = p->measured;
    row->overhead          = p->seconds > 0 ? p->recompute_seconds / p->seconds : 0;
    row->tokens_per_second = row->seconds > 0 ? tokens / row->seconds : 0;
}

/* The largest batch that fits. With an update in backward a step has one micro-batch. */
static rp_status try_batches(fitting *x, rp_rehearsal *other, const way *w, rp_recipe *r, bool *fits)
{
    int64_t samples = r->batch_size * r->gradient_accumulation_steps, most = r->optimizer_in_bwd == RP_YES ? 1 : samples;

    *fits = false;
    for (int64_t parts = r->gradient_accumulation_steps; parts <= most && !*fits; parts++) {
        rp_plan *p = NULL;
        if (samples % parts) continue;
        r->batch_size                  = samples / parts;
        r->gradient_accumulation_steps = parts;
        RP_TRY(rp__rehearsal_begin(other, r, RP_ANEW_STATES));
        RP_TRY(rp__rehearsal_plan(other, x->base->budget, &p, &other->own_bytes));
        x->out->n_planned++;
        *fits = p && p->placement.height <= x->base->budget;
        if (*fits) fill_row(x, w, r, p, &x->out->row[x->out->n++]);
        rp__plan_free(p);
    }
    return RP_OK;
}

static rp_status try_states(fitting *x, rp_rehearsal *other, const way *w, const rp_recipe *recipe, bool fits[RP_COUNT(states)])
{
    for (int i = 0; i < RP_COUNT(states); i++) {
        rp_recipe r = *recipe;
        if (!fits[i] || (!has_states(recipe) && states[i].dtype != recipe->optimizer.state_dtype)) continue;
        r.optimizer.state_dtype = states[i].dtype;
        RP_TRY(try_batches(x, other, w, &r, &fits[i]));
    }
    return RP_OK;
}

/* A way and a length need a model of their own. */
static rp_status try_length(fitting *x, const way *w, int64_t length, bool *fits)
{
    rp_recipe recipe = recipe_of(x->recipe, w, length);
    rp_rehearsal other;

    RP_TRY(RP_GROW(x->base->caller, x->out->row, x->room, x->out->n + RP_COUNT(states)));
    rp_model_config config = rp__config_share(&x->base->source.config);
    if (!x->recipe->model.adapter) config.adapter = (rp_adapter_config){ 0 };
    rp__source_quantise_config(&recipe, &config);
    rp_status status = recipe.lora.rank.set ? rp__source_adapt(x->base->caller, &recipe, &config) : RP_OK;
    if (status == RP_OK) {
        status       = rp__rehearsal_open_like(x->base->caller, &recipe, NULL, &config, &other);
        other.device = x->base->device;
        if (status == RP_OK) status = try_states(x, &other, w, &recipe, fits);
        rp__rehearsal_close(&other);
    }
    rp__model_config_drop(&config);
    return status;
}

static rp_status try_way(fitting *x, const way *w)
{
    int64_t context = x->base->source.config.context, length = x->recipe->max_seq_len, longest = context ? context : length;
    bool fits[RP_COUNT(states)];

    for (int i = 0; i < RP_COUNT(states); i++) fits[i] = true;
    for (int64_t n = length / 4 >= LEAST_LENGTH ? length / 4 : length; n <= 4 * length && n <= longest; n *= 2) RP_TRY(try_length(x, w, n, fits));
    return RP_OK;
}

/* ---- all rows ---- */

/* All weights come before adapters, a longer text before a shorter one, a model as it is before a quantised one; then the faster row. */
static int better(const void *a, const void *b)
{
    const rp_fit_row *x = a, *y = b;

    if (!x->rank != !y->rank) return x->rank ? 1 : -1;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    if (!x->quantize != !y->quantize) return x->quantize ? 1 : -1;
    return (x->tokens_per_second < y->tokens_per_second) - (x->tokens_per_second > y->tokens_per_second);
}

static rp_status fit_all(fitting *x, rp_report *report)
{
    rp_rehearsal *r = x->base;
    char text[RP_SIZE_CHARS];

    RP_TRY(rp__rehearsal_check_names(r, report));
    RP_TRY(rp__report_status(report, RP_ERR_CONFIG));
    rp__rehearsal_bound(r);
    x->out->budget = r->budget;
    RP_CHECK(r->caller, r->budget > 0, RP_ERR_CONFIG, "no memory budget to fit: set 'memory_budget' or 'memory_limit', or name a device with memory");
    for (int i = 0; i < RP_COUNT(ways); i++)
        if (may_go(x->recipe, &ways[i])) RP_TRY(try_way(x, &ways[i]));
    RP_CHECK(r->caller, x->out->n, RP_ERR_BUDGET, "no way to train this model fits a memory budget of %s: 'reprise plan' prints the least budget",
             rp__size_text(text, r->budget));
    qsort(x->out->row, (size_t)x->out->n, sizeof *x->out->row, better);
    return RP_OK;
}

rp_status rp__recipe_fit(rp_ctx *ctx, const rp_recipe *recipe, const char *device, rp_report *report, rp_fit *out)
{
    rp_rehearsal r;
    fitting x = { .base = &r, .recipe = recipe, .out = out };

    *out             = (rp_fit){ 0 };
    rp_status status = rp__rehearsal_open(ctx, recipe, NULL, report, &r);
    r.device         = device;
    if (status == RP_OK) status = fit_all(&x, report);
    rp__rehearsal_close(&r);
    if (status != RP_OK) rp__fit_close(out);
    return status;
}

void rp__fit_close(rp_fit *fit)
{
    rp__release(fit->row);
    *fit = (rp_fit){ 0 };
}
