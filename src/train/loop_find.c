/* train/loop_find.c -- the fastest way to take a recipe's step within so much memory a rank: each setting planned, none run.
 *
 *   ranks        those of the recipe, and halves of them for as long as that comes out even
 *   wrapping     as the recipe says, and with embedding and head in units of their own, and without
 *   reshard      gathered weights go after the forward, or stay
 *   sums         over ranks wait for themselves, or are left to come while a block runs backward (as many blocks as the recipe says)
 *   batch        whatever divides the samples of a rank, the rest by accumulation: the samples of a step stay what they are
 *   fates        a plan's, for the memory that is there
 *
 * More samples at once take more memory, so where a batch does not fit no larger one is tried.
 */
#include <stdlib.h>

#include "train/loop_inside.h"

enum { MOST_BATCHES = 64 };

typedef struct {
    rp_stage *stage;
    const rp_recipe *recipe;            /* the caller's */
    rp_find *out;
    int room;
    int64_t least;                      /* of those that do not fit; INT64_MAX: all do */
    rp_setting smallest;                /* that one */
} search;

/* ---- one setting ---- */

static const char *two_units[] = { "tok_embeddings", "output" };

static rp_text_list wrapping(const rp_recipe *r, const rp_setting *s)
{
    return s->own_units ? (rp_text_list){ RP_COUNT(two_units), two_units } : s->recipes_units ? r->dist.custom_sharded_layers : (rp_text_list){ 0 };
}

static rp_recipe recipe_of(const rp_recipe *recipe, const rp_setting *s)
{
    rp_recipe r = *recipe;

    r.batch_size                            = s->batch_size;
    r.gradient_accumulation_steps           = s->accumulation;
    r.dist.ranks                            = (rp_opt_int){ true, s->ranks };
    r.dist.custom_sharded_layers            = wrapping(recipe, s);
    r.dist.reshard_after_forward.kind       = s->reshard ? RP_RESHARD_YES : RP_RESHARD_NO;
    r.dist.reduce_behind                    = s->behind;
    r.activation_checkpointing.mode         = RP_MODE_AUTO;
    r.activation_checkpointing.n_conditions = 0;
    return r;
}

static rp_status plan(rp_stage *stage)
{
    RP_TRY(rp__engine_ready(&stage->engine));
    RP_TRY(rp__stage_plan(stage, stage->budget, &stage->steps, &stage->own_bytes));
    return stage->steps ? RP_OK : rp__stage_least(stage, &stage->steps);
}

static void tell(const search *x, rp_setting *s)
{
    const rp_step_plan *p = x->stage->steps;
    int64_t tokens        = s->ranks * s->batch_size * s->accumulation * x->recipe->max_seq_len;

    s->fits              = p->placement.height <= x->stage->budget;
    s->reserved          = p->placement.height;
    s->peak              = p->found.memory.peak_bytes;
    s->seconds           = p->seconds + p->again_seconds;
    s->overhead          = rp__overhead(p->base_seconds, p->seconds, p->again_seconds);
    s->comm_bytes        = p->comm_bytes;
    s->variant           = p->variant;
    s->tokens_per_second = s->seconds > 0 ? (double)tokens / s->seconds : 0;
}

static rp_status try_setting(search *x, rp_setting *s)
{
    rp_stage *stage  = x->stage;
    stage->open      = recipe_of(x->recipe, s);
    stage->recipe    = &stage->open;
    rp_status status = rp__stage_renew(stage, NULL);

    if (status == RP_OK) status = rp__stage_run(stage, plan);
    if (status == RP_OK) tell(x, s);
    rp__step_plan_free(stage->steps);
    stage->steps  = NULL;
    stage->recipe = x->recipe;
    return status;
}

/* ---- all of them ---- */

static rp_status note(search *x, const rp_setting *s)
{
    x->out->n_tried++;
    if (!s->fits) {
        if (s->reserved < x->least) x->smallest = *s;
        if (s->reserved < x->least) x->least = s->reserved;
        return RP_OK;
    }
    if (x->out->n == x->room) {
        int64_t each = (int64_t)sizeof *x->out->setting, room = x->room ? 2 * x->room : 16;
        rp_setting *more = rp__host_grow(x->stage->caller, x->out->setting, x->room * each, room * each);
        if (!more) return RP_ERR_MEMORY;
        x->out->setting = more;
        x->room         = (int)room;
    }
    x->out->setting[x->out->n++] = *s;
    return RP_OK;
}

/* A batch of 1 first; `samples`: of a rank in a step. */
static rp_status try_batches(search *x, rp_setting s, int64_t samples)
{
    for (int64_t batch = 1; batch <= samples && batch <= MOST_BATCHES; batch++) {
        if (samples % batch) continue;
        s.batch_size   = batch;
        s.accumulation = samples / batch;
        RP_TRY(try_setting(x, &s));
        RP_TRY(note(x, &s));
        if (!s.fits) return RP_OK;
    }
    return RP_OK;
}

static bool names_both(const rp_text_list *list) { return list->n == 2 && !strcmp(list->item[0], two_units[0]) && !strcmp(list->item[1], two_units[1]); }

/* Alone there is nothing to gather. */
static rp_status try_ranks(search *x, int64_t ranks, int64_t samples)
{
    int64_t behind          = x->recipe->dist.reduce_behind ? x->recipe->dist.reduce_behind : 1;
    const rp_text_list *own = &x->recipe->dist.custom_sharded_layers;
    const rp_setting wraps[] = { { .own_units = true }, { .own_units = false }, { .recipes_units = true } };
    int n = own->n && !names_both(own) ? 3 : 2;

    if (ranks == 1) return try_batches(x, (rp_setting){ .ranks = 1, .reshard = true }, samples);
    for (int w = 0; w < n; w++)
        for (int i = 0; i < 4; i++) {
            rp_setting s = wraps[w];
            s.ranks      = ranks;
            s.reshard    = i < 2;
            s.behind     = i % 2 ? behind : 0;
            RP_TRY(try_batches(x, s, samples));
        }
    return RP_OK;
}

static rp_status try_all(search *x)
{
    const rp_recipe *r = x->recipe;
    int64_t ranks      = r->dist.ranks.set ? r->dist.ranks.value : 1, samples = ranks * r->batch_size * r->gradient_accumulation_steps;

    x->out->samples = samples;
    for (;; ranks /= 2) {
        RP_TRY(try_ranks(x, ranks, samples / ranks));
        if (ranks % 2 || ranks / 2 % r->dist.replicate_dim) return RP_OK;
    }
}

/* The fastest first; of equally fast ones that with fewer ranks, then that which takes less. */
static int faster(const void *a, const void *b)
{
    const rp_setting *x = a, *y = b;

    if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
    if (x->ranks != y->ranks) return x->ranks < y->ranks ? -1 : 1;
    return (x->reserved > y->reserved) - (x->reserved < y->reserved);
}

static rp_status refuse(const search *x)
{
    char asked[RP_SIZE_CHARS], least[RP_SIZE_CHARS];

    return rp_fail(x->stage->caller, RP_ERR_BUDGET, "no setting fits a memory budget of %s; the least that one fits is %s, with dist.ranks=%" PRId64
                   " batch_size=%" PRId64 "%s: raise 'memory_budget' or 'dist.ranks', or lower 'max_seq_len'", rp__size_text(asked, x->stage->budget),
                   rp__size_text(least, x->least), x->smallest.ranks, x->smallest.batch_size,
                   x->smallest.own_units ? " 'dist.custom_sharded_layers=[tok_embeddings, output]'" : "");
}

static rp_status find(search *x, const rp_find_options *options, rp_report *report)
{
    rp_stage *stage  = x->stage;
    rp_status status = rp__stage_check_names(stage, report);

    if (status == RP_OK) status = rp__report_status(report, RP_ERR_CONFIG);
    if (status != RP_OK) return status;
    stage->device = options->device;
    stage->budget = stage->caller->options.memory_limit_bytes;
    x->out->budget = stage->budget;
    RP_CHECK(stage->caller, stage->budget > 0, RP_ERR_CONFIG, "nothing says what to fit: set 'memory_budget', of each rank, or name a device with memory");
    RP_TRY(try_all(x));
    snprintf(x->out->machine, sizeof x->out->machine, "%s", rp__cost_machine(stage->costs));
    x->out->measured = rp__cost_measured(stage->costs);
    if (!x->out->n) return refuse(x);
    qsort(x->out->setting, (size_t)x->out->n, sizeof *x->out->setting, faster);
    return RP_OK;
}

rp_status rp__recipe_find(rp_ctx *ctx, const rp_recipe *recipe, const rp_find_options *options, rp_report *report, rp_find *out)
{
    rp_stage stage;
    search x = { .stage = &stage, .recipe = recipe, .out = out, .least = INT64_MAX };

    *out             = (rp_find){ 0 };
    rp_status status = rp__stage_open(ctx, recipe, report, &stage);
    if (status == RP_OK) status = find(&x, options, report);
    rp__stage_close(&stage);
    if (status != RP_OK) rp__find_close(out);
    return status;
}

void rp__find_close(rp_find *found)
{
    rp__release(found->setting);
    *found = (rp_find){ 0 };
}
