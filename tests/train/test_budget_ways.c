/* The claim of a rehearsal, whatever decides the fates: what it says a step takes, every step takes, to the byte; with a budget and without;
 * and no bit of what is learnt changes.
 *
 *   drawn   a model, its batches and optimizer (drawn_run.h) x a way to checkpoint x what else takes memory
 */
#include "drawn_run.h"

#define AC "activation_checkpointing."
#define OFFLOAD_MEMORY AC "offload.to=memory"

/* Two settings each. With a budget those that name a mode, or rules for all there is, keep to their own fates; the others are completed by
 * the planner. */
static const char *const ways[][2] = {
    { "enable_activation_checkpointing=true" },
    { "enable_activation_checkpointing=false" },
    { AC "mode=full", AC "rules=[{op: matmul, every: 2, fate: keep}]" },
    { AC "mode=selective_layer", AC "every=2" },
    { AC "mode=selective_layer", AC "every=3" },
    { AC "mode=selective_op" },
    { AC "mode=selective_op", AC "save=[attention]" },
    { AC "conditions=[{layers: [0]}, {path: '*.mlp'}]" },
    { AC "conditions=[{every_k_layers: {k: 2}}, {module_type: Norm}]", AC "rules=[{op: matmul, fate: keep}]" },
    { AC "rules=[{type: Norm, fate: recompute}, {op: attention, fate: keep}]" },
    { AC "rules=[{op: matmul, every: 2, fate: prefer_recompute}]" },
    { AC "rules=[{op: matmul, fate: offload}]", OFFLOAD_MEMORY },
    { AC "rules=[{path: layers.0, fate: prefer_offload}]", OFFLOAD_MEMORY },
    { AC "rules=[{op: attention, fate: offload}]", "to a disk" },
    { AC "mode=auto", AC "rules=[{path: '*.attn', fate: keep}]" },
};

static void draw_rest(uint32_t *rng, settings *s)
{
    set_drawn(s, "grad_dtype=%s", coin(rng, "null", "fp32"));
    set_drawn(s, "optimizer.master_weights=%s", coin(rng, "false", "true"));
    set_drawn(s, "optimizer.momentum=%s", coin(rng, "0", "0.9"));
    set_drawn(s, "loss.num_output_chunks=%s", coin(rng, "auto", "3"));
    set_drawn(s, "loss.keep_logits=%s", coin(rng, "auto", coin(rng, "false", "true")));
    set_drawn(s, "loss.ignore_index=%s", coin(rng, "-100", "3"));
}

static void set_way(settings *s, int way)
{
    for (int i = 0; i < 2 && ways[way][i]; i++) {
        if (!strcmp(ways[way][i], "to a disk")) set_drawn(s, AC "offload.path=%s/slots", dir.path);
        else set_drawn(s, "%s", ways[way][i]);
    }
}

static bool leaves_open(settings *s, uint32_t seed)
{
    char out[64];

    snprintf(out, sizeof out, "out-%u-asked", seed);
    run r     = open_drawn(s, out, INT64_MAX / 4);
    bool open = r.status == RP_OK && rp__recipe_leaves_open(r.recipe);

    assert_ok(r.ctx, r.status);
    run_close(&r);
    return open;
}

typedef struct { uint32_t seed; int way, n_runs; uint64_t bits; int n_recomputed, n_refused, n_planned; } draw;

static void check_run(settings *s, draw *d, int64_t budget, bool fits, rp_step_usage *found)
{
    char out[64];
    bool refused;

    snprintf(out, sizeof out, "out-%u-%d", d->seed, d->n_runs++);
    uint64_t bits = run_drawn(s, out, budget, found, &refused);
    if (refused == fits) fail_msg("seed %u, way %d: refused: %d, with a budget of %" PRId64, d->seed, d->way, refused, budget);
    d->n_refused += refused;
    if (refused) return;
    if (budget && found->memory.reserved_bytes > budget) fail_msg("seed %u, way %d: %" PRId64 " bytes over the budget", d->seed, d->way,
                                                                   found->memory.reserved_bytes - budget);
    if (bits != d->bits) fail_msg("seed %u, way %d, budget %" PRId64 ": other bits", d->seed, d->way, budget);
}

/* Fates of its own: it fits what it takes, and nothing less. Open ones: any budget from the least up. */
static void check_budgets(settings *s, draw *d, const rp_step_usage *own, uint32_t *rng)
{
    int64_t takes = own->memory.reserved_bytes, least = takes;
    rp_step_usage found;

    if (leaves_open(s, d->seed)) {
        least = least_of(s);
        check_run(s, d, least + (takes > least ? next(rng) % (takes - least) : 0), true, &found);
        d->n_planned += found.recompute_flops > own->recompute_flops;
    }
    check_run(s, d, least, true, &found);
    check_run(s, d, least - 1, false, &found);
}

static void every_way_takes_what_was_said_with_a_budget_and_without(void **state)
{
    int n_draws = 2 * test_draws(RP_COUNT(ways));
    draw d      = { 0 };

    (void)state;
    for (int i = 0; i < n_draws; i++) {
        uint32_t rng = (uint32_t)i * 104729 + 11;
        rp_step_usage own;
        settings s;
        char plain[32];
        bool refused;

        d.seed = (uint32_t)i;
        d.way  = i * 4 % RP_COUNT(ways);
        write_model(&rng, pick(&rng, 2));
        draw_settings(&rng, &s);
        draw_rest(&rng, &s);
        snprintf(plain, sizeof plain, "out-%d", i);
        d.bits = run_drawn(&s, plain, 0, &own, &refused);
        set_way(&s, d.way);
        check_run(&s, &d, 0, true, &own);
        d.n_recomputed += own.recompute_flops > 0;
        check_budgets(&s, &d, &own, &rng);
    }
    assert_true(d.n_recomputed >= n_draws / 4 && d.n_refused == n_draws && d.n_planned > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(every_way_takes_what_was_said_with_a_budget_and_without) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
