/* bench/ranks.c -- a step on several ranks beside what it is made of, in one job.
 *
 *   mpirun -n N bench_ranks RECIPE.yaml [--rounds N] [KEY=VALUE ...]
 *
 *   apart      every rank trains by itself, all at once: N unsharded runs side by side
 *   bare       the collectives of a sharded step and nothing else: of each weight its gathers and the sum of its gradient
 *   together   the sharded step
 *
 * of the same model, batch and threads, a round of the three by turns; each takes as long as its slowest rank. Printed is a line of JSON: the
 * medians, and of the rounds' ratios together / (apart + bare) the median with the interval of base/median.h. Tokens are random ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/median.h"
#include "ops/collective.h"
#include "shard/ranks.h"
#include "train/internal.h"

enum { MOST_ROUNDS = 99, WARM = 2, TOKENS = 1 << 16 };

typedef struct {
    rp_ctx *ctx;
    rp_recipe *recipe;
    rp_engine engine;
    rp_data *data;
    int64_t done;
} side;

static void fail(const rp_ctx *ctx, const char *what)
{
    fprintf(stderr, "bench_ranks: %s: %s\n", what, ctx ? rp_error(ctx) : "");
    exit(1);
}

/* ---- the two runs ---- */

static void write_tokens(char *path)
{
    uint64_t x = 88172645463325252u;
    int fd     = mkstemp(path);
    FILE *f    = fd >= 0 ? fdopen(fd, "wb") : NULL;

    for (int i = 0; f && i < TOKENS; i++) {
        x              = x * 6364136223846793005u + 1442695040888963407u;
        uint16_t token = (uint16_t)(3 + (x >> 33) % 250);
        fwrite(&token, sizeof token, 1, f);
    }
    if (!f || fclose(f)) fail(NULL, "cannot write tokens");
}

static void open_data(side *s, const rp_model_config *config)
{
    char path[] = "/tmp/bench_ranks.XXXXXX";
    rp_data_source source = { .bos = -1, .eos = 1, .vocab = (int32_t)config->vocab };
    rp_data_config c      = { .path = path, .format = "tokens", .packed = true, .cross_documents = true, .train_on_input = true,
                              .max_seq_len = s->recipe->max_seq_len, .batch_size = s->recipe->batch_size, .accumulation = 1,
                              .ranks = rp__comm_ranks(rp__world(s->ctx)), .rank = rp__comm_rank(rp__world(s->ctx)), .ignore_index = -100 };

    write_tokens(path);
    if (rp__data_open(s->ctx, "tokens", &c, &source, &s->data)) fail(s->ctx, "data");
    unlink(path);
}

static void open_side(side *s, rp_comm *world, const char *file, int n, char **setting)
{
    rp_ctx_options options = { .threads = 1 };
    rp_model_source source;
    rp_report report;

    if (rp_ctx_new(&options, &s->ctx)) fail(NULL, "context");
    rp__report_open(&report, s->ctx);
    if (rp__recipe_load(s->ctx, file, n, (const char *const *)setting, &report, &s->recipe)) fail(s->ctx, "recipe");
    if (world && rp__ranks_join(s->ctx, world, s->recipe->dist.replicate_dim)) fail(s->ctx, "ranks");
    if (rp__source_open(s->ctx, s->recipe, &report, &source)) fail(s->ctx, "model");
    rp__report_close(&report);
    if (rp__engine_open(&s->engine, s->ctx, s->recipe, &source.config)) fail(s->ctx, "model");
    rp__model_init(s->engine.model, 1);
    if (rp__engine_ready(&s->engine)) fail(s->ctx, "optimizer");
    open_data(s, rp__model_config(s->engine.model));
    rp__source_close(&source);
}

static void close_side(side *s)
{
    rp__data_close(s->data);
    rp__engine_close(&s->engine);
    rp__ranks_leave(s->ctx);
    rp__recipe_free(s->recipe);
    rp_ctx_free(s->ctx);
}

static void step(side *s)
{
    rp_step_result result;

    if (rp__engine_step(&s->engine, s->data, s->done++, 1e-5, &result)) fail(s->ctx, "step");
}

/* ---- collectives alone ---- */

/* How often a step gathers it: a table that backward does not read, once; what stays from forward to backward, once. */
static int gathers_of(const rp_param *p, const rp_unit *unit)
{
    return !*unit->path || !strncmp(p->path, "tok_embeddings", 14) ? 1 : 2;
}

static void collect(side *s, rp_param *p, int gathers)
{
    rp_attr_whole whole = { .ndim = p->whole.ndim };
    bool wants          = true;
    rp_tensor *out      = NULL, *grad;
    rp_op_meta m;

    memcpy(whole.dim, p->whole.dim, (size_t)p->whole.ndim * sizeof *whole.dim);
    if (rp__op_prepare(s->ctx, &rp_op_all_gather, &whole, &p->tensor, 1, true, &wants, &m)) fail(s->ctx, "gather");
    for (int i = 0; i < gathers; i++)
        if (rp__op_forward(&m, (rp_op_stream){ 0 }, false, &p->tensor, &out, NULL)) fail(s->ctx, "gather");
    if (rp__tensor_new_named(s->ctx, &p->tensor->m, RP_MEM_GRAD, "a gradient", &grad)) fail(s->ctx, "gradient");
    rp_op_call call = { .meta = &m, .grad_out = { out }, .grad_in = { grad } };
    if (rp__op_backward(&call)) fail(s->ctx, "sum");
    rp_tensor_unref(grad);
    rp_tensor_unref(out);
}

static void collectives(side *s)
{
    for (int u = 0; u < s->engine.units.n_units; u++)
        for (int i = 0; i < s->engine.units.unit[u].n_params; i++) {
            rp_param *p = s->engine.units.unit[u].param[i];
            collect(s, p, gathers_of(p, &s->engine.units.unit[u]));
        }
}

/* ---- by turns ---- */

/* As long as the slowest rank's. */
static double timed(void (*run)(side *s), side *s, rp_comm *world)
{
    int ranks = rp__comm_ranks(world);
    double all[RP_MOST_RANKS], most = 0;

    if (rp__comm_barrier(s->ctx, world, "a round")) fail(s->ctx, "barrier");
    double began = rp__seconds();
    run(s);
    double mine = rp__seconds() - began;
    if (rp__comm_share(s->ctx, world, &mine, sizeof mine, all, "a round")) fail(s->ctx, "times");
    for (int r = 0; r < ranks; r++) most = all[r] > most ? all[r] : most;
    return most;
}

static void print_median(const char *name, double *x, int n, const char *end)
{
    rp_median m = rp__median(x, n);

    printf("\"%s\": {\"median\": %.4f, \"interval\": [%.4f, %.4f]}%s", name, m.median, m.low, m.high, end);
}

int main(int argc, char **argv)
{
    double apart[MOST_ROUNDS], bare[MOST_ROUNDS], together[MOST_ROUNDS], ratio[MOST_ROUNDS];
    side alone = { 0 }, sharded = { 0 };
    rp_comm *world;
    rp_ctx *first;
    int at = 2, rounds = 5;

    if (argc > 3 && !strcmp(argv[2], "--rounds")) rounds = (int)strtol(argv[3], NULL, 10), at = 4;
    if (argc < 2 || rounds < 1 || rounds > MOST_ROUNDS) fail(NULL, "mpirun -n N bench_ranks RECIPE [--rounds N] [KEY=VALUE ...]");
    if (rp_ctx_new(&(rp_ctx_options){ .shapes_only = true }, &first) || rp__comm_open(first, NULL, &world)) fail(first, "ranks");
    open_side(&alone, NULL, argv[1], argc - at, argv + at);
    open_side(&sharded, world, argv[1], argc - at, argv + at);
    for (int i = -WARM; i < rounds; i++) {
        double a = timed(step, &alone, world), b = timed(collectives, &sharded, world), t = timed(step, &sharded, world);
        if (i >= 0) apart[i] = a, bare[i] = b, together[i] = t, ratio[i] = t / (a + b);
    }
    if (rp__comm_rank(world) == 0) {
        printf("{\"ranks\": %d, \"engine\": \"%s\", \"rounds\": %d, ", rp__comm_ranks(world), rp__comm_engine(world), rounds);
        print_median("apart", apart, rounds, ", ");
        print_median("bare", bare, rounds, ", ");
        print_median("together", together, rounds, ", ");
        print_median("ratio", ratio, rounds, "}\n");
    }
    close_side(&sharded);
    close_side(&alone);
    rp__comm_close(world);
    rp_ctx_free(first);
    return 0;
}
