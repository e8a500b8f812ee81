/* The claim of a plan: what it says a step takes is what the step takes, to the byte, whichever way each segment is kept; and no bit of a
 * gradient changes.
 *
 *   drawn      model x size x dtype x dropout x passes in the step, and for each segment one of its ways
 *   said       the constraints of plan/chain.h, added up here, not by the solver
 *   measured   the same step, the plan followed
 */
#include "plan/plan.h"
#include "sized_model.h"

#ifdef RP_SANITIZED
enum { N_DRAWS = 6, N_REAL = 3 };
#else
enum { N_DRAWS = 40, N_REAL = 12 };         /* real: with data */
#endif

typedef struct { sizes sizes; int n_micro; } program;

static const program programs[] = {
    { { SIZES_TINY }, 1 },
    { { SIZES_TINY, .dtype = RP_BF16 }, 3 },
    { { SIZES_TINY, .gpt2 = true }, 2 },
    { { SIZES_TINY, .gpt2 = true, .dropout = 0.1, .dtype = RP_BF16 }, 1 },
    { { .batch = 2, .length = 64, .layers = 5, .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 16, .mlp = 160, .vocab = 96, .packed = true }, 1 },
    { { .batch = 1, .length = 128, .layers = 4, .hidden = 64, .heads = 4, .kv_heads = 4, .head_dim = 16, .mlp = 256, .vocab = 512, .gpt2 = true, .dropout = 0.1 }, 2 },
};

static uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* A step: micro-batches, then the gradients go. Their hash where there is data. */
static uint64_t step(sized_model *m, int n_micro)
{
    uint64_t hash = RP_HASH_SEED;

    for (int i = 0; i < n_micro; i++) {
        rp_tensor *loss;
        assert_ok(m->ctx, sized_loss(m, 3, i * m->sizes.batch, &loss));
        rp_status status = rp__backward(m->ctx, loss);
        rp_tensor_unref(loss);
        assert_ok(m->ctx, status);
    }
    for (int i = 0; i < rp__model_n_params(m->model); i++) {
        rp_tensor *g = rp__model_param(m->model, i)->tensor->grad;
        if (g && rp__tensor_real(g)) hash = rp__hash(rp_tensor_data(g), (size_t)rp_meta_bytes(&g->m), hash);
    }
    sized_drop_grads(m);
    return hash;
}

static rp_trace trace_of(sized_model *m, int n_micro)
{
    rp_tracer *tracer;
    rp_trace trace;

    assert_ok(m->ctx, rp__trace_begin(m->ctx, NULL, &tracer));
    step(m, n_micro);
    assert_ok(m->ctx, rp__trace_end(tracer, &trace));
    return trace;
}

/* The greatest left side of the constraints of a chain without regions. */
static int64_t said_by(const rp_chain *c, const int *option)
{
    int64_t most = 0;

    for (int k = 0; k < c->n_kinds; k++) {
        int64_t held = 0;
        for (int i = 0; i < c->n; i++) {
            const rp_chain_option *o = &c->class_of[c->segment[i]].option[option[i]];
            int64_t forward          = c->fixed_forward[k][i] + held + o->forward, backward = c->fixed_backward[k][i] + held + o->backward[k];
            if (forward > most) most = forward;
            if (backward > most) most = backward;
            held += o->saved;
        }
    }
    return most;
}

/* Each segment kept in a way that is drawn; draw 0 keeps all there is, draw 1 nothing. */
static void draw(const rp_chain *c, uint32_t seed, int *option)
{
    uint32_t rng = seed * 977 + 5;

    for (int i = 0; i < c->n; i++) {
        const rp_chain_class *k = &c->class_of[c->segment[i]];
        option[i]               = (int)(next(&rng) % (uint32_t)k->n_options);
        for (int o = 0; o < k->n_options && seed < 2; o++)
            if (seed == 0 ? k->option[o].seconds < k->option[option[i]].seconds : k->option[o].saved < k->option[option[i]].saved) option[i] = o;
    }
}

static void step_takes_what_the_plan_says(void **state)
{
    (void)state;
    for (int p = 0; p < RP_COUNT(programs); p++) {
        rp_ctx *ctx   = test_ctx(&(rp_ctx_options){ .threads = 2, .shapes_only = true });
        sized_model m = sized_model_new(ctx, &programs[p].sizes);
        int option[64];
        rp_plan_problem problem;
        rp_mem before, after;

        rp_trace trace = trace_of(&m, programs[p].n_micro);
        assert_ok(ctx, rp__plan_problem(ctx, &trace, &problem));
        assert_int_equal(trace.n_passes, 1);
        const rp_chain *chain = &problem.pass[0].chain;
        for (uint32_t seed = 0; seed < N_DRAWS; seed++) {
            rp_plan *plan;
            draw(chain, seed, option);
            assert_ok(ctx, rp__plan_make(ctx, &problem, &(rp_chain_plan){ .feasible = true, .option = option }, INT64_MAX / 4, &plan));
            rp__plan_follow(ctx, plan);
            rp_mem_read(ctx, 0, true, &before);
            step(&m, programs[p].n_micro);
            rp_mem_read(ctx, 0, false, &after);
            rp__plan_follow(ctx, NULL);
            int64_t said = said_by(chain, option);
            if (trace.outside > said) said = trace.outside;
            if (after.peak_alloc_bytes != said)
                fail_msg("program %d, draw %u: said %lld, measured %lld", p, seed, (long long)said, (long long)after.peak_alloc_bytes);
            rp__plan_free(plan);
        }
        rp__plan_problem_close(&problem);
        rp__trace_close(&trace);
        sized_model_free(&m);
        test_ctx_free(ctx);
    }
}

/* Regions in regions, none of which reaches the last segment: [first, end) and what is drawn inside. */
static int draw_regions(uint32_t *rng, int first, int end, int parent, rp_chain_region *out, int n, int room)
{
    while (first < end && n < room) {
        int length = 1 + (int)(next(rng) % (uint32_t)(end - first));
        if (next(rng) % 3 && !(parent >= 0 && length == out[parent].end - out[parent].first)) {
            out[n] = (rp_chain_region){ first, first + length, parent };
            n      = draw_regions(rng, first, first + length, n, out, n + 1, room);
        }
        first += length;
    }
    return n;
}

static void no_bit_of_a_gradient_changes(void **state)
{
    int n_nested = 0, n_again = 0;

    (void)state;
    for (int p = 0; p < RP_COUNT(programs); p++) {
        rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .threads = 2, .shapes_only = true }), *ctx = test_ctx(&(rp_ctx_options){ .threads = 2 });
        sized_model on_shapes = sized_model_new(shapes, &programs[p].sizes), m = sized_model_new(ctx, &programs[p].sizes);
        rp_chain_region region[32];
        rp_plan_problem problem;
        int option[64];

        rp_trace trace = trace_of(&on_shapes, programs[p].n_micro);
        assert_ok(shapes, rp__plan_problem(shapes, &trace, &problem));
        const rp_chain *chain = &problem.pass[0].chain;
        uint64_t expected     = step(&m, programs[p].n_micro);
        for (uint32_t seed = 0; seed < N_REAL; seed++) {
            uint32_t rng = seed + 31;
            rp_plan *plan;
            draw(chain, seed, option);
            int n = draw_regions(&rng, 0, chain->n - 1, -1, region, 0, RP_COUNT(region));
            assert_ok(ctx, rp__plan_make(ctx, &problem, &(rp_chain_plan){ .feasible = true, .option = option, .region = region, .n_regions = n }, INT64_MAX / 4, &plan));
            for (int i = 0; i < n; i++) n_nested += region[i].parent >= 0;
            n_again += plan->pass[0].n_again;
            rp__plan_follow(ctx, plan);
            uint64_t got = step(&m, programs[p].n_micro);
            rp__plan_follow(ctx, NULL);
            if (got != expected) fail_msg("program %d, draw %u, %d regions: other bits", p, seed, n);
            rp__plan_free(plan);
        }
        rp__plan_problem_close(&problem);
        rp__trace_close(&trace);
        sized_model_free(&on_shapes);
        sized_model_free(&m);
        test_ctx_free(shapes);
        test_ctx_free(ctx);
    }
    assert_true(n_nested > N_REAL && n_again > 40 * N_REAL);      /* else there was nothing to change any */
}

static void another_step_than_the_planned_one_is_refused(void **state)
{
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .threads = 2, .shapes_only = true });
    sized_model m     = sized_model_new(ctx, &programs[0].sizes);
    rp_tensor *loss   = NULL;
    int option[64]    = { 0 };
    rp_plan *plan;
    rp_plan_problem problem;

    (void)state;
    rp_trace trace = trace_of(&m, 1);
    assert_ok(ctx, rp__plan_problem(ctx, &trace, &problem));
    assert_ok(ctx, rp__plan_make(ctx, &problem, &(rp_chain_plan){ .feasible = true, .option = option }, INT64_MAX / 4, &plan));
    rp__plan_follow(ctx, plan);
    m.sizes.length--;
    assert_int_equal(sized_loss(&m, 0, 0, &loss), RP_ERR_STATE);
    assert_string_equal(rp_error(ctx), "the step is not the one that was planned: call 0 is embedding of 'tok_embeddings' with output fp32 [2, 5, 12], "
                                       "planned was embedding of 'tok_embeddings' with output fp32 [2, 6, 12]");
    rp__tape_reset(ctx);
    rp__plan_follow(ctx, NULL);
    rp__plan_free(plan);
    rp__plan_problem_close(&problem);
    rp__trace_close(&trace);
    sized_model_free(&m);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_takes_what_the_plan_says),
        cmocka_unit_test(no_bit_of_a_gradient_changes),
        cmocka_unit_test(another_step_than_the_planned_one_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
