/* train/loop_new.c -- everything before the first step, in an order that writes nothing before all is known to be good.
 *
 *   recipe ─ config ─ names ─ output_dir ─ data ─ state ─ rehearsal ─▶ pool ─ model ─ optimizer ─ state's bytes ─▶ output_dir
 *   └────────── reads, and a second context that has shapes alone ─┘   └──── the context of the run ────┘
 */
#include "train/loop_inside.h"

typedef struct {                        /* open until the trainer stands */
    rp_model_source source;
    rp_ctx *stage;                      /* of the rehearsal */
    rp_engine rehearsed;
    rp_state *state;                    /* to go on from; NULL: a fresh start */
} opening;

rp_ctx_options rp__recipe_ctx_options(const rp_recipe *recipe)
{
    return (rp_ctx_options){
        .memory_limit_bytes = recipe->memory_budget.kind == RP_BUDGET_BYTES ? recipe->memory_budget.bytes : 0,
        .threads = (int)recipe->threads, .seed = (uint64_t)recipe->seed,
    };
}

/* ---- the stage of the rehearsal ---- */

/* What runs on the stage counts for fault injection as if it ran on the trainer's own context, and fails with its message. */
static rp_status on_stage(rp_trainer *t, opening *o, rp_status (*run)(rp_trainer *t, opening *o))
{
    o->stage->fault_countdown = t->ctx->fault_countdown;
    rp_status status          = run(t, o);
    t->ctx->fault_countdown   = o->stage->fault_countdown;
    return status == RP_OK ? RP_OK : rp__fail(t->ctx, status, "%s", o->stage->error);
}

static rp_status build_on_stage(rp_trainer *t, opening *o)
{
    rp_model_config config = rp__config_share(&o->source.config);
    rp_status status       = rp__engine_open(&o->rehearsed, o->stage, t->recipe, &config);

    rp__model_config_drop(&config);
    for (int i = 0; status == RP_OK && i < rp__model_n_params(o->rehearsed.model); i++)
        t->info.n_params += rp_meta_elems(&rp__model_param(o->rehearsed.model, i)->tensor->m);
    return status;
}

static rp_status open_stage(rp_trainer *t, opening *o)
{
    rp_ctx_options options = {
        .threads = t->ctx->threads, .shapes_only = true, .seed = t->ctx->seed, .device = t->ctx->options.device,
    };
    rp_status status = rp_ctx_new(&options, &o->stage);

    RP_CHECK(t->ctx, status == RP_OK, status, "cannot open a context for the rehearsal: %s", rp_status_text(status));
    return on_stage(t, o, build_on_stage);
}

/* A first step meets an untouched pool, later ones the pool it left. Steps are repeated until one asks for nothing new: from
 * there on each is like the one before, and so is a run that starts with a pool of that size. */
static rp_status rehearse(rp_trainer *t, opening *o)
{
    rp_rehearsal *found = &t->info.rehearsal;
    rp_step_result step;
    int64_t before;
    double score;

    RP_TRY(rp__engine_ready(&o->rehearsed));
    do {
        before = found->memory.reserved_bytes;
        RP_TRY(rp__engine_step(&o->rehearsed, NULL, 0, 0, &step));
        *found = (rp_rehearsal){ step.memory, step.saved_bytes, step.work.step_flops, step.work.recompute_flops };
        if (t->val) RP_TRY(rp__engine_score(&o->rehearsed, NULL, t->val_rows, &score));
        rp_mem_read(o->stage, 0, false, &step.memory);
        found->memory.reserved_bytes = step.memory.reserved_bytes;
    } while (found->memory.reserved_bytes > before);
    return RP_OK;
}

/* ---- names in the recipe ---- */

static int count_names(rp_module *root)
{
    int n = 0;

    for (rp_module *m = rp__module_next(root, root); m; m = rp__module_next(root, m)) n += 1 + m->n_params;
    return n;
}

static int list_names(rp_module *root, rp_recipe_module *out)
{
    int n = 0;

    for (rp_module *m = rp__module_next(root, root); m; m = rp__module_next(root, m)) {
        out[n++] = (rp_recipe_module){ m->path, m->type->name };
        for (int i = 0; i < m->n_params; i++)
            if (!m->param[i].shared) out[n++] = (rp_recipe_module){ m->param[i].path, NULL };
    }
    return n;
}

static rp_status check_names(rp_trainer *t, opening *o, rp_report *report)
{
    rp_module *root           = rp__model_root(o->rehearsed.model);
    rp_recipe_module *modules = rp__host_alloc(t->ctx, count_names(root) * (int64_t)sizeof *modules);
    const char **ops = modules ? rp__host_alloc(t->ctx, (rp__op_count() + 1) * (int64_t)sizeof *ops) : NULL;

    for (int i = 0; ops && i < rp__op_count(); i++) ops[i] = rp__op_at(i)->name;
    if (ops) rp__recipe_check_model(t->recipe, list_names(root, modules), modules, ops, NULL, report);
    rp_status status = ops ? RP_OK : RP_ERR_MEMORY;
    rp__release(ops);
    rp__release(modules);
    return status;
}

/* Every message there is about the recipe; only then is any of them a reason to stop. */
static rp_status check_recipe(rp_trainer *t, opening *o, rp_report *report)
{
    rp__recipe_check_train(t->recipe, report);
    int unsupported  = rp__recipe_unsupported(t->recipe, report);
    rp_status status = rp__source_open(t->ctx, t->recipe, report, &o->source);
    if (status == RP_OK) status = open_stage(t, o);
    if (status == RP_OK) status = check_names(t, o, report);
    if (status == RP_OK || (report->n_errors && status != RP_ERR_MEMORY))
        return rp__report_status(report, unsupported ? RP_ERR_UNSUPPORTED : status == RP_OK ? RP_ERR_CONFIG : status);
    return status;
}

/* ---- the length of the run ---- */

static rp_status set_length(rp_trainer *t)
{
    static const char *const schedules[] = {
        [RP_LR_CONSTANT] = "constant", [RP_LR_COSINE] = "cosine", [RP_LR_LINEAR] = "linear",
    };
    const rp_recipe *r = t->recipe;
    int64_t steps;

    t->info.data = rp__data_info(t->data);
    if (__builtin_mul_overflow(r->epochs, t->info.data.steps_per_epoch, &steps)) steps = INT64_MAX;
    if (r->max_steps.set && r->max_steps.value < steps) steps = r->max_steps.value;
    t->info.n_steps = steps;
    t->schedule     = (rp_schedule){ schedules[r->lr_scheduler.name], r->lr_scheduler.num_warmup_steps, steps };
    return rp__schedule_check(t->ctx, &t->schedule);
}

/* ---- the run itself ---- */

static rp_status list_tensors(rp_trainer *t)
{
    int n_params = rp__model_n_params(t->engine.model), n = n_params;
    const char *name;

    while (rp__optim_tensor(t->engine.optim, n - n_params, &name)) n++;
    t->tensors = rp__host_alloc(t->ctx, n * (int64_t)sizeof *t->tensors);
    if (!t->tensors) return RP_ERR_MEMORY;
    t->n_tensors = n;
    for (int i = 0; i < n_params; i++) {
        const rp_param *p = rp__model_param(t->engine.model, i);
        t->tensors[i]     = (rp_state_tensor){ p->path, p->tensor };
    }
    for (int i = n_params; i < n; i++)
        t->tensors[i].tensor = rp__optim_tensor(t->engine.optim, i - n_params, &t->tensors[i].name);
    return RP_OK;
}

/* The pool first: a limit that is too low refuses before anything is read. A state brings all weights itself. */
static rp_status build(rp_trainer *t, opening *o)
{
    RP_TRY(rp__mem_reserve(t->ctx, t->ctx->space[0], t->info.rehearsal.memory.reserved_bytes));
    RP_TRY(rp__engine_open(&t->engine, t->ctx, t->recipe, &o->source.config));
    if (!o->state && o->source.files) RP_TRY(rp__model_load(t->engine.model, o->source.files));
    else if (!o->state) rp__model_init(t->engine.model, t->ctx->seed);
    RP_TRY(rp__engine_ready(&t->engine));
    RP_TRY(list_tensors(t));
    return o->state ? rp__resume_load(t, o->state) : RP_OK;
}

static rp_status open_all(rp_trainer *t, rp_report *report, opening *o)
{
    RP_TRY(rp__recipe_write(t->recipe, &t->texts, &t->recipe_text));
    RP_TRY(check_recipe(t, o, report));
    RP_CHECK(t->ctx, !t->recipe->threads || t->recipe->threads == t->ctx->threads, RP_ERR_CONFIG, "the recipe's threads are %" PRId64
             ", the context's %d: they are part of the bits", t->recipe->threads, t->ctx->threads);
    RP_TRY(rp__run_dir_check(t));
    RP_TRY(rp__inputs_open(t, rp__model_config(o->rehearsed.model)));
    RP_TRY(set_length(t));
    RP_TRY(rp__resume_find(t, report, &o->state));
    RP_TRY(on_stage(t, o, rehearse));
    RP_TRY(build(t, o));
    return rp__run_dir_begin(t);
}

rp_status rp__trainer_new(rp_ctx *ctx, const rp_recipe *recipe, rp_report *report, rp_trainer **out)
{
    rp_trainer *t = rp__host_alloc(ctx, sizeof *t);
    opening o     = { 0 };

    if (!t) return RP_ERR_MEMORY;
    ctx->seed        = (uint64_t)recipe->seed;
    *t               = (rp_trainer){ .ctx = ctx, .recipe = recipe, .texts = { .ctx = ctx } };
    rp_status status = open_all(t, report, &o);
    rp__engine_close(&o.rehearsed);
    rp_ctx_free(o.stage);
    rp__state_close(o.state);
    rp__source_close(&o.source);
    if (status != RP_OK) rp__trainer_free(t);
    else *out = t;
    return status;
}

void rp__trainer_free(rp_trainer *t)
{
    if (!t) return;
    rp__engine_close(&t->engine);
    rp__metrics_close(t->metrics);
    rp__data_close(t->val);
    rp__data_close(t->data);
    rp__tokenizer_free(t->tokenizer);
    rp__release(t->state_path);
    rp__release(t->tensors);
    rp__bump_free(&t->texts);
    rp__release(t);
}
