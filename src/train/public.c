/* train/public.c -- the public functions for recipes and training (reprise/reprise.h). */
#include "reprise/train.h"
#include "base/report.h"
#include "base/sized.h"
#include "recipe/recipe.h"
#include "train/loop.h"

rp_status rp_recipe_load(rp_ctx *ctx, const char *path, int n_settings, const char *const *setting, rp_recipe **out)
{
    RP_GIVEN(ctx, ctx && path && out && (setting || n_settings <= 0));
    rp_report report;

    rp__report_open(&report, ctx);
    rp_status status = rp__recipe_load(ctx, path, n_settings, setting, &report, out);
    rp__report_log(&report);
    return status;
}

void rp_recipe_allow_plugins(rp_recipe *recipe, bool allow)
{
    if (recipe) recipe->allow_plugins = allow;
}

void rp_recipe_documents(rp_recipe *recipe, rp_documents documents, void *user)
{
    if (!recipe) return;
    recipe->documents      = documents;
    recipe->documents_user = user;
}

void rp_recipe_free(rp_recipe *recipe) { rp__recipe_free(recipe); }

rp_status rp_trainer_new(rp_ctx *ctx, const rp_recipe *recipe, rp_trainer **out)
{
    RP_GIVEN(ctx, ctx && recipe && out);
    rp_report report;

    RP_SAME_CTX(ctx, recipe->doc.bump.ctx, "recipe");
    RP_CHECK(ctx, !ctx->options.shapes_only, RP_ERR_META, "cannot train on a context of shapes alone");
    rp__report_open(&report, ctx);
    rp_status status = rp__trainer_new(ctx, recipe, &report, out);
    rp__report_log(&report);
    return status;
}

void rp_trainer_free(rp_trainer *t) { rp__trainer_free(t); }
int64_t rp_trainer_steps(const rp_trainer *t) { return t ? rp__trainer_info(t)->n_steps : 0; }
int64_t rp_trainer_done(const rp_trainer *t) { return t ? rp__trainer_done(t) : 0; }
rp_model *rp_trainer_model(rp_trainer *t)
{
    if (!t) return NULL;
    return rp__trainer_model(t);
}

rp_status rp_trainer_step_sized(size_t size, rp_trainer *t, rp_metrics *line)
{
    RP_GIVEN(NULL, t);
    rp_metrics made = { 0 };

    RP_TRY(rp__trainer_step(t, &made));
    if (line) rp__sized_give(line, size, &made, sizeof made);
    return RP_OK;
}

rp_status (rp_trainer_step)(rp_trainer *t, rp_metrics *line) { return rp_trainer_step_sized(RP_FIRST_METRICS, t, line); }

rp_status rp_trainer_save(rp_trainer *t)
{
    RP_GIVEN(NULL, t);
    return rp__trainer_save(t);
}

rp_status rp_trainer_finish(rp_trainer *t)
{
    RP_GIVEN(NULL, t);
    return rp__trainer_finish(t);
}
