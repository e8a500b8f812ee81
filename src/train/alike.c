/* train/alike.c -- checks that all ranks of a run have the same build, CPU level, threads, model, weights, data and plan.
 *
 *   numbers   each rank compares its numbers with those of rank 0; the error names the first that differs
 *   files     each rank marks its weight files (safetensors/marks.h) and compares one hash of all marks; if that differs, it compares file by file
 */
#include <string.h>

#include "base/build.h"
#include "base/json_text.h"
#include "base/list.h"
#include "comm/comm.h"
#include "kernels/kernels.h"
#include "models/weights.h"
#include "train/internal.h"

typedef struct { const char *difference; uint64_t hash; } common;

enum { NAME_CHARS = 512 };
typedef struct { char name[NAME_CHARS]; uint64_t mark; } marked;

typedef struct {
    rp_ctx *ctx;
    marked *file;
    int64_t n, room;
} file_list;

/* ---- numbers ---- */

static uint64_t hash_text(const char *text) { return rp__hash(text, strlen(text), RP_HASH_START); }

static uint64_t hash_plan(const rp_plan *plan)
{
    uint64_t hash = rp__hash(plan->place, (size_t)plan->n_places * sizeof *plan->place, RP_HASH_START);

    for (int i = 0; i < plan->n_passes; i++) {
        const rp_plan_pass *pass = &plan->pass[i];
        hash = rp__hash(&pass->hash, sizeof pass->hash, hash);
        for (int c = 0; c < pass->n_calls; c++) hash = rp__hash(&pass->call[c].recompute, sizeof pass->call[c].recompute, hash);
    }
    return rp__hash(&plan->variant, sizeof plan->variant, hash);
}

static rp_status hash_config(rp_trainer *t, const rp_model_config *config, uint64_t *hash)
{
    if (!config->source) return RP_OK;
    char *text = rp__json_text(config->source, JSON_SORT_KEYS | JSON_COMPACT);
    RP_CHECK(t->ctx, text, RP_ERR_MEMORY, "memory ran out");
    *hash = hash_text(text);
    free(text);
    return RP_OK;
}

/* errors RP_ERR_CONFIG names the first number that differs from that of rank 0 */
static rp_status compare(rp_ctx *ctx, const common *mine, int n, const uint64_t *first)
{
    int rank = rp__comm_rank(rp__world(ctx));

    for (int i = 0; i < n; i++)
        RP_CHECK(ctx, mine[i].hash == first[i], RP_ERR_CONFIG, "rank %d has %s than rank 0: all ranks of a run need the same", rank, mine[i].difference);
    return RP_OK;
}

static rp_status compare_numbers(rp_trainer *t, const rp_model_config *config)
{
    uint64_t config_hash = 0;

    RP_TRY(rp__comm_agree(t->ctx, rp__world(t->ctx), hash_config(t, config, &config_hash)));
    const common mine[] = {
        { "another version of reprise", hash_text(rp_version()) },
        { "another build of reprise", rp__build_hash() },
        { "a CPU of another level", hash_text(rp__kernels(t->ctx)->level) },
        { "another number of threads", (uint64_t)t->ctx->threads },
        { "another config of the model", config_hash },
        { "other data", t->info.data.hash },
        { "other data in 'dataset_val'", t->val ? rp__data_info(t->val).hash : 0 },
        { "another plan of the step", hash_plan(t->steps) },
    };
    uint64_t first[RP_COUNT(mine)];

    for (int i = 0; i < RP_COUNT(mine); i++) first[i] = mine[i].hash;
    RP_TRY(rp__comm_broadcast(t->ctx, rp__world(t->ctx), 0, first, sizeof first, "the comparison of plans"));
    return compare(t->ctx, mine, RP_COUNT(mine), first);
}

/* ---- files ---- */

static rp_status add_file(void *user, const char *file, uint64_t mark)
{
    file_list *l = user;

    RP_TRY(RP_GROW(l->ctx, l->file, l->room, l->n + 1));
    marked *m = &l->file[l->n++];
    *m        = (marked){ .mark = mark };
    snprintf(m->name, sizeof m->name, "%s", file);
    return RP_OK;
}

static uint64_t hash_files(const file_list *l)
{
    uint64_t hash = rp__hash(&l->n, sizeof l->n, RP_HASH_START);

    for (int64_t i = 0; i < l->n; i++) hash = rp__hash(&l->file[i].mark, sizeof l->file[i].mark, hash);
    return hash;
}

/* Rank 0 sends the marks of its files one by one, so no rank needs memory for the list of rank 0. */
static rp_status find_other(rp_ctx *ctx, const file_list *mine)
{
    char name[NAME_CHARS] = "";
    int64_t n = mine->n;
    marked theirs;

    RP_TRY(rp__comm_broadcast(ctx, rp__world(ctx), 0, &n, sizeof n, "the number of weight files"));
    for (int64_t i = 0; i < n; i++) {
        theirs = i < mine->n ? mine->file[i] : (marked){ .mark = 0 };
        uint64_t mark = theirs.mark;
        RP_TRY(rp__comm_broadcast(ctx, rp__world(ctx), 0, &theirs, sizeof theirs, "the marks of weight files"));
        if (!*name && (i >= mine->n || mark != theirs.mark)) memcpy(name, i < mine->n ? mine->file[i].name : theirs.name, sizeof name);
    }
    if (!*name && mine->n > n) memcpy(name, mine->file[n].name, sizeof name);
    RP_CHECK(ctx, !*name, RP_ERR_CONFIG, "rank %d has other weights than rank 0 in '%s': all ranks of a run need the same files",
             rp__comm_rank(rp__world(ctx)), name);
    return RP_OK;
}

static rp_status compare_files(rp_trainer *t, const rp_model_files *files)
{
    rp_ctx *ctx      = t->ctx;
    file_list mine   = { .ctx = ctx };
    rp_status status = rp__comm_agree(ctx, rp__world(ctx), rp__model_files_marks(files, add_file, &mine));
    uint64_t own = hash_files(&mine), first = own;
    int32_t differs = 0;

    if (status == RP_OK) status = rp__comm_broadcast(ctx, rp__world(ctx), 0, &first, sizeof first, "the comparison of weights");
    if (own != first) differs = 1;
    if (status == RP_OK) status = rp__comm_any(ctx, rp__world(ctx), &differs, "the comparison of weights");
    if (status == RP_OK && differs) status = find_other(ctx, &mine);
    rp__release(mine.file);
    return status;
}

rp_status rp__trainer_alike(rp_trainer *t, const rp_model_source *source, const rp_model_config *config)
{
    if (rp__comm_ranks(rp__world(t->ctx)) == 1) return RP_OK;
    RP_TRY(rp__comm_agree(t->ctx, rp__world(t->ctx), compare_numbers(t, config)));
    return source->files ? compare_files(t, source->files) : RP_OK;
}
