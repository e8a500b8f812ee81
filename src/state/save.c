/* state/save.c -- saves a state: all ranks write to a temporary folder, which is synced and renamed; then old states are removed. See state.h
 * for the guarantees. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "state/parts.h"

/* ---- removal ---- */

/* Removes leftovers of a killed process: names that begin with ".step-". */
static rp_status remove_leftovers(rp_ctx *ctx, const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    rp_status status = RP_OK;

    if (!dir) return RP_OK;
    while (status == RP_OK && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, ".step-", 6)) continue;
        char *path = rp__path_join(ctx, folder, entry->d_name);
        status     = path ? rp__remove_tree(ctx, path) : RP_ERR_MEMORY;
        rp__release(path);
    }
    closedir(dir);
    return status;
}

static rp_status remove_state(rp_ctx *ctx, const char *output_dir, int64_t step)
{
    char *name = rp__state_name(ctx, output_dir, "step-#", step),
         *old = rp__state_name(ctx, output_dir, ".step-#.old", step);
    rp_status status = name && old ? RP_OK : RP_ERR_MEMORY;

    if (status == RP_OK && rename(name, old))
        status = rp_fail(ctx, RP_ERR_IO, "cannot remove '%s': %s", name, strerror(errno));
    if (status == RP_OK) status = rp__remove_tree(ctx, old);
    RP_RELEASE(name, old);
    return status;
}

rp_status rp__state_prune(rp_ctx *ctx, const char *output_dir, int64_t newest_step, int keep_last_n)
{
    char *folder = rp__state_name(ctx, output_dir, "", 0);
    int64_t *steps = NULL;
    int n = 0, kept = 0;
    rp_status status = folder ? remove_leftovers(ctx, folder) : RP_ERR_MEMORY;

    if (status == RP_OK) status = rp__state_list(ctx, output_dir, &steps, &n);
    for (int i = 0; i < n && status == RP_OK; i++) {
        if (steps[i] <= newest_step && kept < (keep_last_n > 1 ? keep_last_n : 1)) kept++;
        else status = remove_state(ctx, output_dir, steps[i]);
    }
    RP_RELEASE(steps, folder);
    return status;
}

/* ---- saving ---- */

typedef struct {
    rp_ctx *ctx;
    const char *output_dir;
    char *folder, *aside, *name;        /* folder of all states; folder of this state before and after the rename */
    const rp_state_info *info;
    const rp_state_tensor *tensors;
    int n, part, parts, keep_last_n;
    uint64_t *mine, *checksums;         /* of this rank's tensors; of all parts if there are several */
} saving;

/* If the weights have several copies, only the ranks of the first copy write. */
static bool writes(const rp_ctx *ctx) { return rp__comm_rank(rp__groups(ctx)->replicas) == 0; }

static rp_status prepare(saving *s)
{
    s->folder    = rp__state_name(s->ctx, s->output_dir, "", 0);
    s->aside     = s->folder ? rp__state_name(s->ctx, s->output_dir, ".step-#.tmp", s->info->step) : NULL;
    s->name      = s->aside ? rp__state_name(s->ctx, s->output_dir, "step-#", s->info->step) : NULL;
    s->mine      = s->name ? rp__host_alloc(s->ctx, (s->n + s->parts) * (int64_t)sizeof *s->mine) : NULL;
    s->checksums = s->mine && s->parts > 1 ? s->mine + s->n : s->mine;
    return s->mine ? RP_OK : RP_ERR_MEMORY;
}

static rp_status make_aside(const saving *s)
{
    RP_TRY(rp__make_dirs(s->ctx, s->folder));
    RP_TRY(remove_leftovers(s->ctx, s->folder));
    return rp__make_dirs(s->ctx, s->aside);
}

static rp_status write_mine(const saving *s)
{
    return writes(s->ctx) ? rp__state_write_part(s->ctx, s->aside, s->part, s->parts, s->tensors, s->n, s->mine) : RP_OK;
}

static rp_status share_checksums(const saving *s)
{
    uint64_t sum = rp__state_part_checksum(s->tensors, s->n, s->mine);

    if (s->parts == 1 || !writes(s->ctx)) return RP_OK;
    return rp__comm_share(s->ctx, rp__shards(s->ctx), &sum, sizeof sum, s->checksums, "checksums of a state");
}

/* If the run was resumed from an earlier step, a state of this step may exist; the new one replaces it. */
static rp_status give_name(const saving *s)
{
    RP_TRY(rp__state_write_index(s->ctx, s->aside, s->info, s->tensors, s->n, s->parts, s->checksums));
    return rp__dir_commit(s->ctx, s->aside, s->name);
}

static rp_status clean_up(const saving *s)
{
    RP_TRY(rp__dir_sync(s->ctx, s->output_dir));         /* the folder of states itself may be new */
    return rp__state_prune(s->ctx, s->output_dir, s->info->step, s->keep_last_n);
}

/* Removes the failed state before any rank returns, because the job may end when the first rank does. */
static rp_status give_up(const saving *s, rp_status status)
{
    if (rp__comm_rank(rp__world(s->ctx)) == 0) rp__dir_discard(s->ctx, s->aside, status);
    return rp__comm_agree(s->ctx, rp__world(s->ctx), status);
}

/* All ranks complete each step before the next one begins: the folder exists before files are written, and it is renamed after all files are
 * on the disk. */
static rp_status save(saving *s)
{
    rp_ctx *ctx = s->ctx;
    bool first  = rp__comm_rank(rp__world(ctx)) == 0;

    RP_TRY(rp__comm_agree(ctx, rp__world(ctx), prepare(s)));
    rp_status status = rp__comm_agree(ctx, rp__world(ctx), first ? make_aside(s) : RP_OK);
    if (status == RP_OK) status = rp__comm_agree(ctx, rp__world(ctx), write_mine(s));
    if (status == RP_OK) status = rp__comm_agree(ctx, rp__world(ctx), share_checksums(s));
    if (status == RP_OK) status = rp__comm_agree(ctx, rp__world(ctx), first ? give_name(s) : RP_OK);
    if (status != RP_OK) return give_up(s, status);
    return rp__comm_agree(ctx, rp__world(ctx), first ? clean_up(s) : RP_OK);
}

rp_status rp__state_save(rp_ctx *ctx, const char *output_dir, const rp_state_info *info, const rp_state_tensor *tensors,
                         int n, int keep_last_n)
{
    rp_state_info all = *info;
    saving s = { .ctx = ctx, .output_dir = output_dir, .info = &all, .tensors = tensors, .n = n, .part = rp__comm_rank(rp__shards(ctx)),
                 .parts = rp__comm_ranks(rp__shards(ctx)), .keep_last_n = keep_last_n };

    all.ranks        = rp__comm_ranks(rp__world(ctx));
    rp_status status = save(&s);
    RP_RELEASE(s.folder, s.aside, s.name, s.mine);
    return status;
}
