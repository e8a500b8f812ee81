/* The claims of `memory_limit`: the budget follows from it by a formula, a run stays within it as the kernel counts, a limit of addresses is kept
 * with the model's file mapped, and a process that takes more than its allowance is refused before the first step. */
/* ctest: device-free host-memory */
#include "loop_test.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include "base/machine.h"

#define MEDIUM \
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 512, \"intermediate_size\": 1536," \
    " \"num_hidden_layers\": 6, \"num_attention_heads\": 8, \"num_key_value_heads\": 4, \"vocab_size\": 16384," \
    " \"max_position_embeddings\": 64, \"tie_word_embeddings\": true, \"bos_token_id\": 1, \"eos_token_id\": 0}"

enum { MIB = 1 << 20 };

typedef struct { int64_t reserved, limit, most; rp_status status; int exit_code; char said[RP_ERROR_CHARS]; } outcome;

static int64_t greatest_resident(void)
{
    struct rusage used;

    assert_int_equal(getrusage(RUSAGE_SELF, &used), 0);
    return (int64_t)used.ru_maxrss << 10;
}

static void run_here(outcome *t, const char *out, const char *const *setting)
{
    run r = run_open(&dir, "medium", out, setting);

    t->status = r.status;
    if (r.trainer) {
        t->reserved = rp__trainer_info(r.trainer)->rehearsal.memory.reserved_bytes;
        t->limit    = rp__trainer_info(r.trainer)->limit;
        t->status   = rp__trainer_run(r.trainer, NULL, NULL);
    }
    t->exit_code = rp_status_exit_code(t->status);
    snprintf(t->said, sizeof t->said, "%s", rp_error(r.ctx));
    t->most = greatest_resident();
    run_close(&r);
}

/* In a process of its own, which may take `addresses` more than it has (0: no limit) and holds `ballast` bytes of its own. */
static outcome run_alone(const char *out, int64_t addresses, int64_t ballast, const char *const *setting)
{
    outcome t = { 0 };
    int ends[2], status;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char *held = ballast ? malloc((size_t)ballast) : NULL;
        if (held) memset(held, 1, (size_t)ballast);
        if (addresses) setrlimit(RLIMIT_AS, &(struct rlimit){ (rlim_t)(rp__machine_mapped() + addresses), (rlim_t)(rp__machine_mapped() + addresses) });
        run_here(&t, out, setting);
        bool sent = write(ends[1], &t, sizeof t) == sizeof t;
        _exit(sent && (!held || held[ballast / 2]) ? 0 : 1);
    }
    close(ends[1]);
    bool whole = read(ends[0], &t, sizeof t) == sizeof t;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(whole && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return t;
}

static void a_whole_run_stays_within_its_limit(void **state)
{
    (void)state;
#ifdef RP_SANITIZED
    skip();     /* a sanitizer takes what it likes */
#endif
    const int64_t limit = 520 * INT64_C(1000000);
    char path[300], asked[64];

    temp_text(&dir, "medium.json", MEDIUM);
    snprintf(asked, sizeof asked, "memory_limit=%" PRId64, limit);
    snprintf(path, sizeof path, "model={path: %s/fresh/final}", dir.path);
    for (int i = 0; i < test_few_or(1, 2); i++) {
        outcome t = i ? run_alone("loaded", 0, 0, RUN("max_steps=2", "~model.config", path, "save_every_n_steps=1", "optimizer_in_bwd=auto", asked))
                   : run_alone("fresh", 0, 0, RUN("max_steps=1", "optimizer_in_bwd=auto", asked));
        if (t.status != RP_OK) fail_msg("%s", t.said);
        print_message("%" PRId64 " reserved, at most %" PRId64 " resident, %" PRId64 " to spare\n", t.reserved, t.most, limit - t.most);
        assert_int_equal(t.limit, limit);
        assert_true(t.reserved > limit / 2 && t.most <= limit);
    }
}

/* 640 MiB of addresses: a pool of half a power of two would be too small. The second run maps the weights of the first. */
static void a_limit_of_addresses_is_kept_with_the_models_file_mapped(void **state)
{
    (void)state;
#ifdef RP_SANITIZED
    skip();     /* it maps terabytes */
#endif
    char path[300];

    temp_text(&dir, "medium.json", MEDIUM);
    snprintf(path, sizeof path, "model={path: %s/fresh/final}", dir.path);
    for (int i = 0; i < 2; i++) {
        outcome t = i ? run_alone("loaded", 896 * (int64_t)MIB, 0, RUN("max_steps=1", "~model.config", path, "optimizer_in_bwd=auto", "memory_limit=auto"))
                   : run_alone("fresh", 640 * (int64_t)MIB, 0, RUN("max_steps=1", "optimizer_in_bwd=auto", "memory_limit=auto"));
        if (t.status != RP_OK) fail_msg("%s", t.said);
        assert_true(t.limit < 896 * (int64_t)MIB && t.reserved < t.limit);
    }
}

static void a_process_that_takes_more_than_its_allowance_is_refused_before_the_first_step(void **state)
{
    (void)state;
#ifdef RP_SANITIZED
    skip();
#endif
    temp_text(&dir, "medium.json", MEDIUM);
    outcome t = run_alone("refused", 0, 300 * (int64_t)MIB, RUN("max_steps=1", "optimizer_in_bwd=auto", "memory_limit=600MB"));
    assert_int_equal(t.status, RP_ERR_MEMORY);
    assert_int_equal(t.exit_code, 1);
    assert_non_null(strstr(t.said, "outside its arena, "));
    assert_non_null(strstr(t.said, " more than the "));
    assert_false(is_there(&dir, "refused"));
    t = run_alone("smaller", 0, 300 * (int64_t)MIB, RUN("max_steps=1", "optimizer_in_bwd=auto", "memory_limit=900MB", "memory_budget=400MB"));
    if (t.status != RP_OK) fail_msg("a smaller memory_budget must help, as the message says: %s", t.said);
}

/* ---- the formula ---- */

/* The figures of a forecast; its explanation is closed. */
static rp_forecast forecast(const char *file, const char *const *setting)
{
    char text[1024], path[300];
    int n = 0;
    rp_recipe *recipe;
    rp_report report;
    rp_forecast f;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true, .threads = 1 });

    while (setting[n]) n++;
    snprintf(text, sizeof text, "model: {config: %s/medium.json}\nmax_seq_len: 64\nbatch_size: 16\ndtype: fp32\nthreads: 1\n", dir.path);
    snprintf(path, sizeof path, "%s/%s", dir.path, file);
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__recipe_read(ctx, "r.yaml", text, (int64_t)strlen(text), n, setting, &report, &recipe));
    ctx->options.memory_limit_bytes = rp__recipe_ctx_options(recipe).memory_limit_bytes;
    assert_ok(ctx, rp__recipe_forecast(ctx, recipe, &(rp_forecast_options){ .least = true, .file = path }, &report, &f));
    rp__report_close(&report);
    rp__recipe_free(recipe);
    rp_forecast left = f;
    rp__forecast_close(&f);
    test_ctx_free(ctx);
    return left;
}

static void a_limit_plans_as_the_budget_that_follows_from_it(void **state)
{
    (void)state;
    char setting[64];

    temp_text(&dir, "medium.json", MEDIUM);
    for (int64_t limit = 680 * (int64_t)MIB; limit <= 760 * (int64_t)MIB; limit += 40 * (int64_t)MIB) {
        snprintf(setting, sizeof setting, "memory_limit=%" PRId64, limit);
        rp_forecast a = forecast("limit.json", RUN(setting));
        snprintf(setting, sizeof setting, "memory_budget=%" PRId64, a.plan.budget);
        rp_forecast b = forecast("budget.json", RUN(setting));
        assert_int_equal(a.limit, limit);
        assert_int_equal(a.plan.budget, limit - rp__allowance_bytes(&a.allowance));
        assert_true(a.feasible && b.feasible && a.plan.budget == b.plan.budget && a.least == b.least);
        assert_memory_equal(&a.plan.found, &b.plan.found, sizeof a.plan.found);
        assert_true(a.plan.seconds == b.plan.seconds && a.plan.recompute_seconds == b.plan.recompute_seconds);
    }
}

/* Of two bounds the smaller one holds. */
static void the_smaller_of_a_limit_and_a_budget_counts(void **state)
{
    (void)state;
    temp_text(&dir, "medium.json", MEDIUM);
    rp_forecast small = forecast("a.json", RUN("memory_limit=760MiB", "memory_budget=640MiB"));
    rp_forecast large = forecast("b.json", RUN("memory_limit=700MiB", "memory_budget=2GiB"));

    assert_int_equal(small.plan.budget, 640 * (int64_t)MIB);
    assert_int_equal(large.plan.budget, 700 * (int64_t)MIB - rp__allowance_bytes(&large.allowance));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_whole_run_stays_within_its_limit), TEST(a_limit_of_addresses_is_kept_with_the_models_file_mapped),
        TEST(a_process_that_takes_more_than_its_allowance_is_refused_before_the_first_step), TEST(a_limit_plans_as_the_budget_that_follows_from_it),
        TEST(the_smaller_of_a_limit_and_a_budget_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
