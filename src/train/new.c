/* train/new.c -- everything before the first step. Nothing is written until all checks have passed.
 *
 *   recipe ─ config ─ names ─ output_dir ─ data ─ state ─ rehearsal ─▶ pool ─ model ─ optimizer ─ bytes of the state ─▶ output_dir
 *   └────────── only reads; uses a second, shapes-only context ────┘   └────── the context of the run ────────┘
 */
#include "base/bump.h"
#include "base/file.h"
#include "base/machine.h"
#include "base/quant.h"
#include "base/report.h"
#include "comm/comm.h"
#include "models/adapter.h"
#include "models/weights.h"
#include "optim/optim.h"
#include "plan/plan.h"
#include "recipe/recipe.h"
#include "rehearse/allowance.h"
#include "rehearse/engine.h"
#include "shard/ranks.h"
#include "tensor/tensor.h"
#include "train/internal.h"

typedef struct {                        /* closed when the trainer is built */
    rp_rehearsal rehearsal;
    rp_state *state;                    /* to resume from; NULL: a fresh start */
} opening;

/* Bytes of free memory that `memory_budget: auto` leaves outside the arena: to the process, and to the driver for its graphs. */
enum { BESIDE = 64 << 20, BESIDE_OF_GPU = 256 << 20 };

const char *rp__recipe_device(const rp_recipe *recipe)
{
    static const char *const names[] = { [RP_DEVICE_CPU] = NULL, [RP_DEVICE_SIM] = "sim", [RP_DEVICE_EMU] = "emu", [RP_DEVICE_CUDA] = "cuda" };

    return names[recipe->device];
}

static int64_t budget_of(const rp_recipe *recipe)
{
    if (recipe->memory_budget.kind == RP_BUDGET_BYTES) return recipe->memory_budget.bytes;
    if (recipe->memory_budget.kind == RP_BUDGET_NONE) return 0;
    int64_t left = rp__device_left(rp__recipe_device(recipe)) - (recipe->device == RP_DEVICE_CUDA ? BESIDE_OF_GPU : BESIDE);
    return left > 1 ? left : 1;
}

rp_ctx_options rp__recipe_ctx_options(const rp_recipe *recipe)
{
    return (rp_ctx_options){
        .memory_limit_bytes = budget_of(recipe),
        .threads = (int)recipe->threads, .seed = (uint64_t)recipe->seed, .device = rp__recipe_device(recipe),
    };
}

/* Collect all messages about the recipe before any of them ends the run. */
static rp_status check_recipe(rp_trainer *t, opening *o, rp_report *report)
{
    rp__recipe_check_train(t->recipe, report);
    rp_status opened = rp__recipe_open_plugins(t->recipe, report);
    rp_status status = rp__rehearsal_open(t->ctx, t->recipe, NULL, report, &o->rehearsal);
    if (status == RP_OK) status = rp__rehearsal_check_names(&o->rehearsal, report);
    t->info.n_params = o->rehearsal.n_params;
    if (status == RP_OK) status = opened;
    if (status == RP_OK || (report->n_errors && status != RP_ERR_MEMORY))
        return rp__report_status(report, status == RP_OK ? RP_ERR_CONFIG : status);
    return status;
}

/* A limit does not apply to host buffers if the host is a separate device. */
static bool is_limited(const rp_ctx *ctx, int device) { return !device || device != ctx->host; }

/* With memory_limit, the budget is known only when the step is planned. Until then the pool gives up its addresses, so that the model's files fit. */
static rp_status yield_pool(rp_trainer *t)
{
    for (int i = 0; i < t->ctx->n_devices && t->recipe->memory_limit.kind != RP_BUDGET_NONE; i++)
        if (is_limited(t->ctx, i)) RP_TRY(rp__mem_yield(t->ctx, t->ctx->space[i]));
    return RP_OK;
}

/* Limit the pool to the budget that memory_limit, or mapped weights, leave for it. */
static rp_status keep_limit(rp_trainer *t, const rp_rehearsal *r)
{
    t->info.limit     = r->limit;
    t->info.allowance = r->limit ? r->limit - r->budget : 0;
    if (!r->limit && (!r->budget || r->budget == t->ctx->options.memory_limit_bytes)) return RP_OK;
    t->ctx->options.memory_limit_bytes = r->budget;
    for (int i = 0; i < t->ctx->n_devices; i++)
        if (is_limited(t->ctx, i)) RP_TRY(rp__mem_limit(t->ctx, t->ctx->space[i], r->budget));
    return RP_OK;
}

static rp_status rehearse(rp_trainer *t, opening *o, rp_report *report)
{
    o->rehearsal.n_sampled = rp__samples_lengths(t->samples, &o->rehearsal.sampled);
    RP_TRY(rp__rehearsal_rehearse(&o->rehearsal, t->val ? t->val_rows : 0, report));
    t->steps          = o->rehearsal.steps;
    o->rehearsal.steps    = NULL;
    t->info.rehearsal = t->steps->found;
    return keep_limit(t, &o->rehearsal);
}

/* Everything but the arena is allocated by now. */
static rp_status check_own(rp_trainer *t)
{
    char own[RP_SIZE_CHARS], more[RP_SIZE_CHARS], allowed[RP_SIZE_CHARS], limit[RP_SIZE_CHARS];
    int64_t taken = rp__process_own(t->ctx);

    if (!t->info.limit || taken <= t->info.allowance) return RP_OK;
    return rp_fail(t->ctx, RP_ERR_MEMORY, "the process needs %s outside its arena, %s more than the %s that 'memory_limit' of %s allows: set "
                   "'memory_budget' to at most the rest", rp__size_text(own, taken), rp__size_text(more, taken - t->info.allowance),
                   rp__size_text(allowed, t->info.allowance), rp__size_text(limit, t->info.limit));
}

/* ---- the length of the run ---- */

rp_schedule rp__recipe_schedule(const rp_recipe *r, int64_t steps_per_epoch)
{
    static const char *const schedules[] = {
        [RP_LR_CONSTANT] = "constant", [RP_LR_COSINE] = "cosine", [RP_LR_LINEAR] = "linear",
    };
    int64_t steps;

    if (__builtin_mul_overflow(r->epochs, steps_per_epoch, &steps)) steps = INT64_MAX;
    if (r->max_steps.set && r->max_steps.value < steps) steps = r->max_steps.value;
    return (rp_schedule){ schedules[r->lr_scheduler.name], r->lr_scheduler.num_warmup_steps, steps };
}

static rp_status set_length(rp_trainer *t)
{
    t->info.data = rp__data_info(t->data);
    if (t->val) t->info.val = rp__data_info(t->val);
    t->schedule     = rp__recipe_schedule(t->recipe, t->info.data.steps_per_epoch);
    t->info.n_steps = t->schedule.n_steps;
    return rp__schedule_check(t->ctx, &t->schedule);
}

/* ---- the run itself ---- */

static rp_state_tensor of_param(const rp_param *p)
{
    return (rp_state_tensor){ .name = p->path, .tensor = p->tensor, .whole = p->whole, .slice = p->slice };
}

/* Tensor `at` of the optimizer's states. */
static rp_state_tensor of_optim(const rp_trainer *t, int at)
{
    rp_optim *optim     = t->engine.optim;
    rp_state_tensor out = of_param(rp__model_param(t->engine.model, rp__optim_tensor_param(optim, at)));

    out.tensor      = rp__optim_tensor(optim, at, &out.name);
    out.whole       = rp__optim_tensor_whole(optim, at, &out.whole);
    out.slice       = rp__optim_tensor_slice(optim, at, out.slice);
    out.optim       = optim;
    out.at          = at;
    return out;
}

/* List the tensors that training changes. Frozen weights are read from the model again, not from a state. */
static rp_status list_tensors(rp_trainer *t)
{
    int n_params = rp__model_n_params(t->engine.model), n_optim = rp__optim_n_tensors(t->engine.optim);

    t->tensors = rp__host_alloc(t->ctx, (n_params + n_optim) * (int64_t)sizeof *t->tensors);
    if (!t->tensors) return RP_ERR_MEMORY;
    for (int i = 0; i < n_params; i++) {
        const rp_param *p = rp__model_param(t->engine.model, i);
        if (rp__is_quant(p->whole.dtype)) {
            t->info.n_quantised += rp_meta_elems(&p->whole);
            t->info.quantised_bytes += rp_meta_bytes(&p->whole);
        }
        if (!p->tensor->requires_grad) continue;
        t->tensors[t->n_tensors++] = of_param(p);
        t->info.n_trained += rp_meta_elems(&p->whole);
    }
    t->info.mapped_bytes = rp__model_mapped_bytes(t->engine.model);
    t->info.device       = rp__mem_about(t->ctx);
    for (int i = 0; i < n_optim; i++) t->tensors[t->n_tensors++] = of_optim(t, i);
    return RP_OK;
}

/* Reserve the pool first: if the limit is too low, this fails before any weights are read. */
static rp_status open_filled(rp_trainer *t, int64_t reserved, rp_model_source *source, bool weights)
{
    RP_TRY(rp__mem_reserve(t->ctx, t->ctx->space[0], reserved));
    RP_TRY(rp__engine_open(&t->engine, t->ctx, t->recipe, &source->config));
    if (weights && source->files) return rp__model_load(t->engine.model, source->files);
    if (weights) rp__model_init(t->engine.model, t->ctx->seed);
    return RP_OK;
}

/* DoRA magnitudes are computed from gathered weights, so all ranks must have read theirs first. */
rp_status rp__trainer_stand(rp_trainer *t, int64_t reserved, rp_model_source *source, bool weights)
{
    rp_status status = open_filled(t, reserved, source, weights);

    if (weights && t->recipe->lora.rank.set && t->recipe->lora.dora) {
        RP_TRY(rp__comm_agree(t->ctx, rp__world(t->ctx), status));
        status = rp__magnitudes_init(t->engine.model);
    }
    return status == RP_OK ? rp__engine_ready(&t->engine) : status;
}

static rp_status note_base(rp_trainer *t, const rp_model_source *source)
{
    const char *base = source->files ? rp__model_files_base(source->files) : NULL;

    if (base) t->base = rp__bump_text(&t->texts, base, (int64_t)strlen(base));
    return base && !t->base ? RP_ERR_MEMORY : RP_OK;
}

static rp_status stand(rp_trainer *t, opening *o)
{
    bool weights = !o->state || rp__model_is_frozen(o->rehearsal.engine.model);      /* a state contains the trained weights only */

    RP_TRY(check_own(t));
    RP_TRY(rp__trainer_stand(t, t->info.rehearsal.memory.reserved_bytes, &o->rehearsal.source, weights));
    t->engine.follow = t->steps;
    RP_TRY(note_base(t, &o->rehearsal.source));
    return list_tensors(t);
}

static rp_status new_build(rp_trainer *t, opening *o)
{
    RP_TRY(rp__comm_agree(t->ctx, rp__world(t->ctx), stand(t, o)));
    RP_TRY(rp__frozen_mark(t));
    if (o->state) RP_TRY(rp__resume_load(t, o->state));
    rp__mem_populate(t->ctx, t->ctx->space[0]);         /* last, because reading weights needs memory of its own */
    return RP_OK;
}

static void note_fresh_head(rp_trainer *t, const opening *o, rp_report *report)
{
    if (!o->state && o->rehearsal.source.files && rp__model_files_fresh_head(o->rehearsal.source.files))
        rp__report_note(report, rp__recipe_place(t->recipe, "model.path"), "'%s' has no masked-language head: the run begins with a fresh one",
                        t->recipe->model.path);
}

static void note_left_out(rp_trainer *t, const opening *o, rp_report *report)
{
    char text[RP_LEFT_OUT_CHARS];

    if (o->rehearsal.source.files && rp__model_left_out_text(t->engine.model, rp__model_files_left_out(o->rehearsal.source.files), text))
        rp__report_note(report, rp__recipe_place(t->recipe, "model.path"), "%s", text);
}

/* Look at the data of a recipe that has errors, and return the first of them. */
static rp_status refuse_all(rp_trainer *t, rp_status first, rp_report *report)
{
    rp_recipe_data data;

    if (first == RP_ERR_MEMORY || !report->n_errors) return first;
    if (rp__recipe_try_data(t->ctx, t->recipe, RP_LOOK_BYTES, report, &data) == RP_ERR_MEMORY) return RP_ERR_MEMORY;
    return rp__report_status(report, first);
}

/* Checks that write nothing and wait for no other rank. All errors of the recipe, its folders and its data are reported at once. */
static rp_status look(rp_trainer *t, opening *o, rp_report *report)
{
    RP_CHECK(t->ctx, !t->recipe->threads || t->recipe->threads == t->ctx->threads, RP_ERR_CONFIG, "the recipe's threads are %" PRId64
             ", the context's %d: they are part of the bits", t->recipe->threads, t->ctx->threads);
    rp_status recipe  = check_recipe(t, o, report);
    rp_status folders = recipe == RP_ERR_MEMORY ? recipe : rp__run_dir_check(t, report);
    if (recipe != RP_OK || folders != RP_OK) return refuse_all(t, recipe == RP_OK ? folders : recipe, report);
    RP_TRY(rp__inputs_open(t, rp__model_config(o->rehearsal.engine.model)));
    return set_length(t);
}

static rp_status agreed(rp_trainer *t, rp_status mine) { return rp__comm_agree(t->ctx, rp__world(t->ctx), mine); }

static rp_status open_all(rp_trainer *t, rp_report *report, opening *o)
{
    RP_TRY(yield_pool(t));
    RP_TRY(rp__recipe_write(t->recipe, &t->texts, &t->recipe_text));
    rp__comm_timeout(rp__world(t->ctx), (double)t->recipe->dist.timeout);
    RP_TRY(rp__trainer_join(t));
    t->info.n_ranks = rp__comm_ranks(rp__world(t->ctx));
    RP_TRY(agreed(t, look(t, o, report)));
    RP_TRY(agreed(t, rp__resume_find(t, report, &o->state)));
    RP_TRY(agreed(t, rehearse(t, o, report)));
    RP_TRY(agreed(t, rp__trainer_alike(t, &o->rehearsal.source, rp__model_config(o->rehearsal.engine.model))));
    RP_TRY(agreed(t, new_build(t, o)));
    note_fresh_head(t, o, report);
    note_left_out(t, o, report);
    if (t->recipe->profile && rp__ranks_first(t->ctx)) RP_TRY(rp__profile_new(t->ctx, &t->profile));
    return agreed(t, rp__ranks_first(t->ctx) ? rp__run_dir_begin(t) : RP_OK);
}

rp_status rp__trainer_new(rp_ctx *ctx, const rp_recipe *recipe, rp_report *report, rp_trainer **out)
{
    rp_trainer *t = rp__host_alloc(ctx, sizeof *t);
    opening o     = { 0 };

    if (!t) return RP_ERR_MEMORY;
    ctx->seed        = (uint64_t)recipe->seed;
    *t               = (rp_trainer){ .ctx = ctx, .recipe = recipe, .texts = { .ctx = ctx }, .lock = -1 };
    rp_status status = open_all(t, report, &o);
    rp__rehearsal_close(&o.rehearsal);
    rp__state_close(o.state);
    if (status != RP_OK) rp__trainer_free(t);
    else *out = t;
    return status;
}

void rp__trainer_free(rp_trainer *t)
{
    if (!t) return;
    rp__engine_close(&t->engine);
    rp__plan_free(t->steps);
    rp__shape_plans_free(t->shapes);
    rp__metrics_close(t->metrics);
    rp__tensorboard_close(t->board);
    rp__profile_free(t->profile);
    rp__samples_close(t->samples);
    rp__data_close(t->val);
    rp__data_close(t->data);
    rp__tokenizer_free(t->tokenizer);
    RP_RELEASE(t->state_path, t->tensors);
    rp__ranks_leave(t->ctx);
    rp__dir_unlock(t->lock);
    rp__bump_free(&t->texts);
    rp__release(t);
}
