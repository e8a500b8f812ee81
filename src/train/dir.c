/* train/dir.c -- output_dir: checks and locks it before a run, writes the first files, and writes the model to final/ and best/. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "comm/comm.h"
#include "models/adapter.h"
#include "models/weights.h"
#include "recipe/recipe.h"
#include "rehearse/engine.h"
#include "rehearse/rehearsal.h"
#include "train/internal.h"

/* *found: the first file or folder of an earlier run in the folder, or NULL. */
static rp_status find_run(rp_ctx *ctx, const char *folder, const char **found)
{
    static const char *const names[] = { "config.yaml", "metrics.jsonl", "tensorboard", "state", "best", "final", "final.gguf" };

    *found = NULL;
    for (int i = 0; i < RP_COUNT(names) && !*found; i++) {
        char *path = rp__path_join(ctx, folder, names[i]);
        if (!path) return RP_ERR_MEMORY;
        if (rp__file_exists(path)) *found = names[i];
        rp__release(path);
    }
    return RP_OK;
}

/* Lock the folder: two runs would cut each other's metrics and remove each other's states. Only the first rank locks it. */
static rp_status dir_take(rp_trainer *t)
{
    const char *folder = t->recipe->output_dir;

    if (rp__comm_rank(rp__world(t->ctx))) return RP_OK;
    rp_status status = rp__dir_lock(t->ctx, folder, &t->lock);
    RP_CHECK(t->ctx, status != RP_ERR_EXISTS, status, "output_dir '%s' is in use by another run: wait for its end or stop it, or choose another "
             "output_dir", folder);
    return status;
}

/* The longest part of a path that exists; "." or "/" if none of it does. Cuts `path`, or returns a constant. */
static const char *nearest(char *path)
{
    while (!rp__file_exists(path)) {
        char *slash = strrchr(path, '/');
        if (!slash) return ".";
        if (slash == path) return "/";
        *slash = 0;
    }
    return path;
}

static bool has_long_name(const char *folder, long most)
{
    for (const char *name = folder; most > 0 && *name; name += strspn(name, "/")) {
        size_t n = strcspn(name, "/");
        if (n > (size_t)most) return true;
        name += n;
    }
    return false;
}

/* 0 if this process may create files in `folder`, else the errno. `there` is its nearest existing folder. */
static int why_unwritable(const char *folder, const char *there)
{
    struct stat s;

    if (stat(folder, &s) && errno != ENOENT) return errno;
    if (faccessat(AT_FDCWD, there, W_OK | X_OK, AT_EACCESS)) return errno;
    return has_long_name(folder, pathconf(there, _PC_NAME_MAX)) ? ENAMETOOLONG : 0;
}

/* errors RP_ERR_EXISTS the path leads through a file · RP_ERR_CONFIG the process may not write there */
static rp_status check_place(rp_ctx *ctx, const char *key, const char *folder, bool writes)
{
    char *path = rp__host_text(ctx, folder);

    if (!path) return RP_ERR_MEMORY;
    const char *there = nearest(path);
    bool whole        = !strcmp(there, folder);
    int why           = writes ? why_unwritable(folder, there) : 0;
    rp_status status  = RP_OK;
    if (!rp__file_is_dir(there))
        status = whole ? rp_fail(ctx, RP_ERR_EXISTS, "%s '%s' is not a folder", key, folder)
                       : rp_fail(ctx, RP_ERR_EXISTS, "%s '%s' cannot be created: '%s' is not a folder", key, folder, there);
    else if (why)
        status = whole ? rp_fail(ctx, RP_ERR_CONFIG, "cannot write into %s '%s': %s", key, folder, strerror(why))
                       : rp_fail(ctx, RP_ERR_CONFIG, "%s '%s' cannot be created in '%s': %s", key, folder, there, strerror(why));
    rp__release(path);
    return status;
}

/* The first rank creates output_dir. t NULL: the folder is not locked. */
static rp_status check_output(rp_ctx *ctx, const rp_recipe *r, rp_trainer *t)
{
    const char *folder = r->output_dir, *found;

    RP_TRY(check_place(ctx, "output_dir", folder, rp__comm_rank(rp__world(ctx)) == 0));
    if (t && rp__file_exists(folder)) RP_TRY(dir_take(t));
    RP_TRY(find_run(ctx, folder, &found));
    RP_CHECK(ctx, !found || r->resume.kind != RP_RESUME_NO, RP_ERR_EXISTS,
             "output_dir '%s' contains a run already (%s): continue it with resume=auto, or choose another output_dir", folder, found);
    return RP_OK;
}

/* Every rank has its own files of offloaded slots and optimizer states. */
static rp_status check_offload(rp_ctx *ctx, const rp_recipe *r)
{
    bool slots = rp__recipe_offloads(r) && r->activation_checkpointing.offload.to != RP_OFFLOAD_MEMORY;

    if (!slots && !r->dist.state_offload) return RP_OK;
    return check_place(ctx, "activation_checkpointing.offload.path", r->activation_checkpointing.offload.path, true);
}

static rp_status check_folders(rp_ctx *ctx, const rp_recipe *r, rp_trainer *t, rp_report *report)
{
    rp_status output  = rp__source_refuse(ctx, r, "output_dir", check_output(ctx, r, t), report->n_errors, report);
    rp_status offload = rp__source_refuse(ctx, r, "activation_checkpointing.offload.path", check_offload(ctx, r), report->n_errors, report);

    return output == RP_OK ? offload : output;
}

rp_status rp__run_dir_check(rp_trainer *t, rp_report *report) { return check_folders(t->ctx, t->recipe, t, report); }

rp_status rp__recipe_check_folders(rp_ctx *ctx, const rp_recipe *recipe, rp_report *report) { return check_folders(ctx, recipe, NULL, report); }

static rp_status write_config(rp_trainer *t, const char *folder)
{
    char *path       = rp__path_join(t->ctx, folder, "config.yaml");
    rp_status status = path ? rp__file_write(t->ctx, path, t->recipe_text, (int64_t)strlen(t->recipe_text)) : RP_ERR_MEMORY;

    rp__release(path);
    return status;
}

static rp_status write_plan(rp_trainer *t, const char *folder)
{
    char *path       = rp__path_join(t->ctx, folder, "plan.json");
    rp_status status = path ? rp__step_plan_write(t->ctx, t->steps, t->recipe, t->recipe_text, path) : RP_ERR_MEMORY;

    rp__release(path);
    return status;
}

static rp_status open_metrics(rp_trainer *t, const char *folder)
{
    char *path       = rp__path_join(t->ctx, folder, "metrics.jsonl");
    rp_status status = path ? rp__metrics_open(t->ctx, path, t->done, &t->metrics) : RP_ERR_MEMORY;

    rp__release(path);
    return status;
}

static rp_status open_board(rp_trainer *t, const char *folder)
{
    char *path       = rp__path_join(t->ctx, folder, "tensorboard");
    rp_status status = path ? rp__tensorboard_open(t->ctx, path, t->done, &t->board) : RP_ERR_MEMORY;

    rp__release(path);
    return status;
}

/* Create output_dir. If it did not exist before, another run may have created it since the check. */
static rp_status make_folder(rp_trainer *t)
{
    const char *folder = t->recipe->output_dir, *found;

    RP_TRY(rp__make_dirs(t->ctx, folder));
    if (t->lock >= 0) return RP_OK;
    RP_TRY(dir_take(t));
    RP_TRY(find_run(t->ctx, folder, &found));
    RP_CHECK(t->ctx, !found, RP_ERR_EXISTS, "another run has begun in output_dir '%s' (%s): choose another output_dir, or continue it with resume=auto",
             folder, found);
    return RP_OK;
}

static rp_status tidy(const rp_trainer *t)
{
    static const char *const names[] = { "config.yaml", "plan.json", "profile.txt", "profile.trace.json", "report.html", "final.gguf" };

    for (int i = 0; i < RP_COUNT(names); i++) RP_TRY(rp__file_tidy(t->ctx, t->recipe->output_dir, names[i]));
    return RP_OK;
}

rp_status rp__run_dir_begin(rp_trainer *t)
{
    const rp_recipe *r = t->recipe;

    RP_TRY(make_folder(t));
    RP_TRY(tidy(t));
    RP_TRY(write_config(t, r->output_dir));
    RP_TRY(write_plan(t, r->output_dir));
    if (r->resume.kind != RP_RESUME_NO)
        RP_TRY(rp__state_prune(t->ctx, r->output_dir, t->done, r->keep_last_n < INT32_MAX ? (int)r->keep_last_n : INT32_MAX));
    RP_TRY(open_metrics(t, r->output_dir));
    return r->tensorboard ? open_board(t, r->output_dir) : RP_OK;
}

/* ---- final/ and best/ ---- */

static rp_status make_aside(rp_trainer *t, const char *aside)
{
    RP_TRY(rp__remove_tree(t->ctx, aside));
    return rp__make_dirs(t->ctx, aside);
}

static bool writes_whole(const rp_trainer *t) { return t->recipe->lora.merge || !rp__model_is_adapted(t->engine.model); }

/* adapter_config.json names the base model as the recipe does. */
static rp_status export(rp_trainer *t, const char *aside)
{
    return writes_whole(t) ? rp__model_export(t->engine.model, aside) : rp__adapters_export(t->engine.model, t->base, aside);
}

/* Copy the other files of the model's folder. A GGUF file has none. */
static rp_status carry(rp_trainer *t, const char *aside)
{
    char *source = rp__model_folder(t->ctx, t->recipe);

    if (!source) return RP_ERR_MEMORY;
    rp_status status = rp__file_is_dir(source) ? rp__model_carry(t->ctx, source, aside) : RP_OK;
    rp__release(source);
    return status;
}

static rp_status give_name(rp_trainer *t, const char *aside, const char *folder)
{
    if (writes_whole(t)) RP_TRY(carry(t, aside));
    if (t->tokenizer) RP_TRY(rp__tokenizer_export(t->tokenizer, aside));
    return rp__dir_commit(t->ctx, aside, folder);
}

/* The first rank writes. All ranks send it their weights. */
static rp_status write_model(rp_trainer *t, const char *aside, const char *folder)
{
    rp_ctx *ctx = t->ctx;
    bool first  = rp__comm_rank(rp__world(ctx)) == 0;

    RP_TRY(rp__comm_agree(ctx, rp__world(ctx), !folder ? RP_ERR_MEMORY : first ? make_aside(t, aside) : RP_OK));
    RP_TRY(export(t, aside));
    return rp__comm_agree(ctx, rp__world(ctx), first ? give_name(t, aside, folder) : RP_OK);
}

rp_status rp__run_dir_model(rp_trainer *t, const char *name)
{
    char hidden[32];

    snprintf(hidden, sizeof hidden, ".%s.tmp", name);
    char *aside = rp__path_join(t->ctx, t->recipe->output_dir, hidden);
    char *folder = aside ? rp__path_join(t->ctx, t->recipe->output_dir, name) : NULL;
    rp_status status = write_model(t, aside, folder);

    if (status != RP_OK && folder && rp__comm_rank(rp__world(t->ctx)) == 0) status = rp__dir_discard(t->ctx, aside, status);
    RP_RELEASE(aside, folder);
    return rp__comm_agree(t->ctx, rp__world(t->ctx), status);      /* all ranks wait until the clean-up is done */
}
