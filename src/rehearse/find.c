/* rehearse/find.c -- finds the fastest settings for a recipe's step within a memory budget per rank. Settings are planned, not run.
 *
 *   ranks        those of the recipe, halved as long as the division leaves no remainder
 *   copies       as in the recipe, and one in each node of the device (replicate_dim)
 *   wrapping     as in the recipe, with embedding and head in units of their own, and without such units
 *   reshard      gathered weights are freed after the forward, or stay, or stay in parts (of a node, of half a copy's ranks, as in the recipe)
 *   sums         over ranks are waited for, or run while blocks run backward (as many blocks as in the recipe)
 *   batch        all divisors of a rank's samples, with gradient accumulation: the samples of a step do not change
 *   fates        planned for the memory available
 *
 * Each setting has lower bounds on its seconds and bytes (find.h), which need no plan. Settings are planned in the order of their bounds on
 * seconds. A setting that by its bounds cannot be among the LISTED fastest, or cannot fit the budget, is not planned. More samples at once
 * need more memory, so if a batch does not fit, no larger one is tried.
 */
#include <math.h>
#include <stdlib.h>

#include "rehearse/find.h"

#include "base/list.h"
#include "base/report.h"
#include "cost/cost.h"
#include "plan/plan.h"

enum { LISTED = 4 };

typedef struct {
    rp_setting setting;                 /* with its bounds */
    int family;                         /* number shared by settings that differ only in the batch */
} candidate;

typedef struct {
    rp_rehearsal *rehearsal;
    int family;                         /* whose model the rehearsal has */
    const rp_recipe *recipe;            /* the caller's */
    const rp_find_options *options;
    rp_find_bounds *bounds;
    rp_find *out;
    candidate *at;
    int n, room, families;
    int64_t *refused;                   /* of each family: the smallest batch that did not fit */
    double best[LISTED];                /* seconds of the fastest settings that fit */
} search;

/* ---- one setting ---- */

static const char *two_units[] = { "tok_embeddings", "output" };

static rp_text_list wrapping(const rp_recipe *r, const rp_setting *s)
{
    return s->own_units ? (rp_text_list){ RP_COUNT(two_units), two_units } : s->recipes_units ? r->dist.custom_sharded_layers : (rp_text_list){ 0 };
}

rp_recipe rp__find_recipe(const rp_recipe *recipe, const rp_setting *s)
{
    rp_recipe r = *recipe;

    r.batch_size                            = s->batch_size;
    r.gradient_accumulation_steps           = s->accumulation;
    r.dist.ranks                            = (rp_opt_int){ true, s->ranks };
    r.dist.replicate_dim                    = s->copies;
    r.dist.custom_sharded_layers            = wrapping(recipe, s);
    r.dist.reshard_after_forward.kind       = s->stay ? RP_RESHARD_GROUP : s->reshard ? RP_RESHARD_YES : RP_RESHARD_NO;
    r.dist.reshard_after_forward.ranks      = s->stay;
    r.dist.reduce_behind                    = s->reduce_async;
    r.activation_checkpointing.mode         = RP_MODE_AUTO;
    r.activation_checkpointing.n_conditions = 0;
    return r;
}

static void fill_setting(const search *x, const rp_plan *p, rp_setting *s)
{
    int64_t tokens       = s->ranks * s->batch_size * s->accumulation * x->recipe->max_seq_len;

    s->fits              = p->placement.height <= x->rehearsal->budget;
    s->reserved          = p->placement.height;
    s->peak              = p->found.memory.peak_bytes;
    s->seconds           = p->seconds + p->recompute_seconds;
    s->overhead          = p->seconds > 0 ? p->recompute_seconds / p->seconds : 0;
    s->comm_bytes        = p->comm_bytes;
    s->variant           = p->variant;
    s->tokens_per_second = s->seconds > 0 ? (double)tokens / s->seconds : 0;
}

/* Settings of one family share the model of a rank. */
static rp_status find_begin(search *x, const candidate *c)
{
    const rp_recipe recipe = rp__find_recipe(x->recipe, &c->setting);

    RP_TRY(rp__rehearsal_begin(x->rehearsal, &recipe, c->family == x->family ? RP_ANEW_FATES : RP_ANEW_MODEL));
    x->family = c->family;
    return RP_OK;
}

static rp_status try_setting(search *x, candidate *c, bool least)
{
    rp_rehearsal *r = x->rehearsal;
    rp_plan *p = NULL;

    RP_TRY(find_begin(x, c));
    RP_TRY(least ? rp__rehearsal_least(r, &p) : rp__rehearsal_plan(r, r->budget, &p, &r->own_bytes));
    if (p) fill_setting(x, p, &c->setting);
    rp__plan_free(p);
    return RP_OK;
}

/* ---- all settings with their bounds ---- */

static rp_status find_add(search *x, const rp_setting *s)
{
    RP_TRY(RP_GROW(x->rehearsal->caller, x->at, x->room, x->n + 1));
    x->at[x->n++] = (candidate){ *s, x->families };
    return RP_OK;
}

/* `samples`: of a rank in a step. */
static rp_status add_batches(search *x, rp_setting s)
{
    int64_t samples = x->out->samples / s.ranks;

    for (int64_t batch = 1; batch <= samples && batch <= RP_FIND_MOST_BATCH; batch++) {
        if (samples % batch) continue;
        s.batch_size   = batch;
        s.accumulation = samples / batch;
        RP_TRY(rp__find_bound(x->bounds, &s, &s.bound_seconds, &s.bound_bytes));
        RP_TRY(find_add(x, &s));
    }
    x->families++;
    return RP_OK;
}

static bool names_both(const rp_text_list *list) { return list->n == 2 && !strcmp(list->item[0], two_units[0]) && !strcmp(list->item[1], two_units[1]); }

static rp_status add_wraps(search *x, rp_setting s)
{
    int64_t reduce_async          = x->recipe->dist.reduce_behind ? x->recipe->dist.reduce_behind : 1;
    const rp_text_list *own = &x->recipe->dist.custom_sharded_layers;
    int n = own->n && !names_both(own) ? 3 : 2;

    for (int w = 0; w < n; w++)
        for (int i = 0; i < 2; i++) {
            s.own_units     = w == 0;
            s.recipes_units = w == 2;
            s.reduce_async        = i ? reduce_async : 0;
            RP_TRY(add_batches(x, s));
        }
    return RP_OK;
}

/* Whether stay[i] is a proper group of the ranks that share a copy, and differs from the groups before it. */
static bool may_stay(const int64_t *stay, int i, int64_t together)
{
    for (int k = 0; k < i; k++)
        if (stay[k] == stay[i]) return false;
    return stay[i] > 1 && stay[i] < together && together % stay[i] == 0;
}

static rp_status add_reshards(search *x, rp_setting s)
{
    int64_t together = s.ranks / s.copies, stay[] = { rp__cost_links(x->rehearsal->costs).node, together / 2, rp__recipe_stay(x->recipe) };

    for (int i = -2; i < RP_COUNT(stay); i++) {
        if (i >= 0 && !may_stay(stay, i, together)) continue;
        s.reshard = i != -1;
        s.stay    = i < 0 ? 0 : stay[i];
        RP_TRY(add_wraps(x, s));
    }
    return RP_OK;
}

/* One rank has nothing to gather. */
static rp_status add_ranks(search *x, int64_t ranks)
{
    int64_t own = x->recipe->dist.replicate_dim, node = rp__cost_links(x->rehearsal->costs).node, nodes = node && ranks % node == 0 ? ranks / node : 0;

    if (ranks == 1) return add_batches(x, (rp_setting){ .ranks = 1, .copies = 1, .reshard = true });
    if (ranks % own == 0) RP_TRY(add_reshards(x, (rp_setting){ .ranks = ranks, .copies = own }));
    return nodes > 1 && nodes < ranks && nodes != own ? add_reshards(x, (rp_setting){ .ranks = ranks, .copies = nodes }) : RP_OK;
}

static rp_status add_all(search *x)
{
    const rp_recipe *r = x->recipe;
    int64_t ranks      = r->dist.ranks.set ? r->dist.ranks.value : 1;

    x->out->samples = ranks * r->batch_size * r->gradient_accumulation_steps;
    for (;; ranks /= 2) {
        RP_TRY(add_ranks(x, ranks));
        if (ranks % 2 || ranks / 2 % r->dist.replicate_dim) return RP_OK;
    }
}

/* ---- planning, in the order of the bounds ---- */

static int by_bound(const void *a, const void *b)
{
    const candidate *x = a, *y = b;

    if (x->setting.bound_seconds != y->setting.bound_seconds) return x->setting.bound_seconds < y->setting.bound_seconds ? -1 : 1;
    return x->family != y->family ? (x->family > y->family) - (x->family < y->family)
                                  : (x->setting.batch_size > y->setting.batch_size) - (x->setting.batch_size < y->setting.batch_size);
}

static bool is_out(const search *x, const candidate *c)
{
    if (x->options->all) return false;
    return c->setting.bound_bytes > x->rehearsal->budget || c->setting.batch_size >= x->refused[c->family] || c->setting.bound_seconds > x->best[LISTED - 1];
}

static rp_status find_note(search *x, const candidate *c)
{
    const rp_setting *s = &c->setting;

    x->out->n_tried++;
    if (!s->fits) {
        if (s->batch_size < x->refused[c->family]) x->refused[c->family] = s->batch_size;
        return RP_OK;
    }
    for (int i = 0; i < LISTED; i++) {
        if (s->seconds >= x->best[i]) continue;
        memmove(&x->best[i + 1], &x->best[i], (size_t)(LISTED - 1 - i) * sizeof *x->best);
        x->best[i] = s->seconds;
        break;
    }
    x->out->setting[x->out->n++] = *s;
    return RP_OK;
}

static rp_status plan_all(search *x)
{
    x->refused      = rp__host_alloc(x->rehearsal->caller, (x->families + 1) * (int64_t)sizeof *x->refused);
    x->out->setting = rp__host_alloc(x->rehearsal->caller, (x->n + 1) * (int64_t)sizeof *x->out->setting);
    if (!x->refused || !x->out->setting) return RP_ERR_MEMORY;
    for (int i = 0; i < x->families; i++) x->refused[i] = INT64_MAX;
    for (int i = 0; i < LISTED; i++) x->best[i] = INFINITY;
    qsort(x->at, (size_t)x->n, sizeof *x->at, by_bound);
    for (int i = 0; i < x->n; i++) {
        if (is_out(x, &x->at[i])) {
            x->out->n_discarded++;
            continue;
        }
        RP_TRY(try_setting(x, &x->at[i], false));
        RP_TRY(find_note(x, &x->at[i]));
    }
    return RP_OK;
}

/* The fastest first; of equally fast settings the one with fewer ranks, then the one with fewer bytes. */
static int faster(const void *a, const void *b)
{
    const rp_setting *x = a, *y = b;

    if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
    if (x->ranks != y->ranks) return x->ranks < y->ranks ? -1 : 1;
    return (x->reserved > y->reserved) - (x->reserved < y->reserved);
}

/* Settings that may need the fewest bytes: most ranks, fewest copies, one sample at a time, weights freed after the forward, and sums waited for. */
static bool takes_little(const search *x, const rp_setting *s)
{
    int64_t ranks = x->recipe->dist.ranks.set ? x->recipe->dist.ranks.value : 1;

    return s->ranks == ranks && s->copies == x->recipe->dist.replicate_dim && s->batch_size == 1 && s->reshard && !s->stay && !s->reduce_async;
}

static rp_status find_refuse(search *x)
{
    char asked[RP_SIZE_CHARS], text[RP_SIZE_CHARS];
    rp_setting smallest = { .reserved = INT64_MAX };

    for (int i = 0; i < x->n; i++) {
        rp_setting *s = &x->at[i].setting;
        if (!takes_little(x, s)) continue;
        RP_TRY(try_setting(x, &x->at[i], true));
        if (s->reserved < smallest.reserved) smallest = *s;
    }
    return rp_fail(x->rehearsal->caller, RP_ERR_BUDGET, "no setting fits a memory budget of %s; the least budget that fits is %s, with dist.ranks=%" PRId64
                   " batch_size=%" PRId64 "%s: raise 'memory_budget' or 'dist.ranks', or lower 'max_seq_len'", rp__size_text(asked, x->rehearsal->budget),
                   rp__size_text_up(text, smallest.reserved), smallest.ranks, smallest.batch_size,
                   smallest.own_units ? " 'dist.custom_sharded_layers=[tok_embeddings, output]'" : "");
}

static rp_status find_find(search *x, rp_report *report)
{
    rp_rehearsal *r  = x->rehearsal;
    rp_status status = rp__rehearsal_check_names(r, report);

    if (status == RP_OK) status = rp__report_status(report, RP_ERR_CONFIG);
    if (status != RP_OK) return status;
    r->device = x->options->device;
    rp__rehearsal_bound(r);
    x->out->budget = r->budget;
    RP_CHECK(r->caller, r->budget > 0, RP_ERR_CONFIG,
             "no memory budget to fit: set 'memory_budget' or 'memory_limit' (per rank), or name a device with memory");
    RP_TRY(rp__find_bounds_open(r, x->recipe, &x->bounds));
    RP_TRY(add_all(x));
    RP_TRY(plan_all(x));
    snprintf(x->out->machine, sizeof x->out->machine, "%s", rp__cost_machine(r->costs));
    x->out->measured = rp__cost_measured(r->costs);
    x->out->links    = rp__cost_links(r->costs);
    if (!x->out->n) return find_refuse(x);
    qsort(x->out->setting, (size_t)x->out->n, sizeof *x->out->setting, faster);
    return RP_OK;
}

rp_status rp__recipe_find(rp_ctx *ctx, const rp_recipe *recipe, const rp_find_options *options, rp_report *report, rp_find *out)
{
    rp_rehearsal r;
    search x = { .rehearsal = &r, .family = -1, .recipe = recipe, .options = options, .out = out };

    *out             = (rp_find){ 0 };
    rp_status status = rp__rehearsal_open(ctx, recipe, NULL, report, &r);
    if (status == RP_OK) status = find_find(&x, report);
    rp__find_bounds_close(x.bounds);
    RP_RELEASE(x.at, x.refused);
    rp__rehearsal_close(&r);
    if (status != RP_OK) rp__find_close(out);
    return status;
}

void rp__find_close(rp_find *found)
{
    rp__release(found->setting);
    *found = (rp_find){ 0 };
}
