/* The claim of what a process takes: for the whole of a run, with loading, validation, states and the export, no more than it had before the
 * model was opened, what it reserves, and 64 MiB. Measured by the kernel, on a model whose weights alone are more than that. */
/* ctest: device-free host-memory cost=23 */
#include "loop_test.h"

#include <sys/resource.h>
#include <sys/wait.h>

#define MEDIUM \
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 512, \"intermediate_size\": 1536," \
    " \"num_hidden_layers\": 6, \"num_attention_heads\": 8, \"num_key_value_heads\": 4, \"vocab_size\": 16384," \
    " \"max_position_embeddings\": 64, \"tie_word_embeddings\": true, \"bos_token_id\": 1, \"eos_token_id\": 0}"

enum { SLACK = 64 << 20 };

static int64_t status_bytes(const char *key)
{
    char line[256];
    FILE *f     = fopen("/proc/self/status", "r");
    long kib    = -1;
    size_t used = strlen(key);

    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, key, used) && line[used] == ':') kib = strtol(line + used + 1, NULL, 10);
    fclose(f);
    assert_true(kib > 0);
    return (int64_t)kib << 10;
}

typedef struct { int64_t before, most, reserved, metric; int n_steps; } figures;

/* A child ends here: no test goes on in it. */
static void must(rp_ctx *ctx, rp_status status)
{
    if (status == RP_OK) return;
    print_error("%s\n", rp_error(ctx));
    _exit(1);
}

static figures run_here(const char *out, const char *const *setting)
{
    figures t = { .before = status_bytes("VmRSS") };
    rp_metrics line;

    run r = run_open(&dir, "medium", out, setting);
    must(r.ctx, r.status);
    const rp_trainer_info *info = rp__trainer_info(r.trainer);
    t.reserved                  = info->rehearsal.memory.reserved_bytes;
    for (; rp__trainer_done(r.trainer) < info->n_steps; t.n_steps++) {
        must(r.ctx, rp__trainer_step(r.trainer, &line));
        if (line.rss > t.metric) t.metric = line.rss;
    }
    must(r.ctx, rp__trainer_finish(r.trainer));
    t.most = status_bytes("VmHWM");
    run_close(&r);
    return t;
}

/* All of a run in a process of its own, whose greatest rss is the run's. */
static figures run_alone(const char *out, const char *const *setting)
{
    figures t;
    int ends[2], status;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        t = run_here(out, setting);
        _exit(write(ends[1], &t, sizeof t) == sizeof t ? 0 : 1);
    }
    close(ends[1]);
    bool whole = read(ends[0], &t, sizeof t) == sizeof t;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(whole && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return t;
}

static void check_run(const char *out, int n_steps, const char *const *setting)
{
    figures t       = run_alone(out, setting);
    int64_t room = t.before + t.reserved + SLACK;

    assert_int_equal(t.n_steps, n_steps);
    assert_true(t.metric > t.reserved / 2 && t.metric <= t.most);
    print_message("%s: %" PRId64 " before, %" PRId64 " reserved, at most %" PRId64 ": %" PRId64 " to spare\n", out, t.before, t.reserved, t.most,
                  room - t.most);
    if (t.most > room) fail_msg("%s: %" PRId64 " bytes more than was said", out, t.most - room);
}

/* Fresh weights first; then those of the export, which are read from a file. */
static void a_whole_run_takes_what_it_reserves_and_64_mib(void **state)
{
    (void)state;
#ifdef RP_SANITIZED
    skip();     /* a sanitizer takes what it likes */
#endif
    char val[300], path[300], slots[300];

    temp_text(&dir, "medium.json", MEDIUM);
    snprintf(val, sizeof val, "dataset_val={path: %s/val.bin, format: tokens}", dir.path);
    snprintf(path, sizeof path, "model={path: %s/fresh/final}", dir.path);
    check_run("fresh", 1, RUN("max_steps=1", val, "run_val_every_n_steps=1"));
    check_run("loaded", 2, RUN("max_steps=2", "~model.config", path, val, "run_val_every_n_steps=1", "save_every_n_steps=1"));
    snprintf(slots, sizeof slots, "activation_checkpointing.offload.path=%s/slots", dir.path);
    check_run("away", 2, RUN("max_steps=2", "~model.config", path, "dist.state_offload=true", slots, "save_every_n_steps=1"));
    if (!test_takes_samples()) check_run("away", 3, RUN("max_steps=5", "~model.config", path, "dist.state_offload=true", slots, "resume=auto"));
    check_run("planned", 1, RUN("max_steps=1", "~model.config", path, val, "run_val_every_n_steps=1", "optimizer_in_bwd=auto", "memory_budget=400MB"));
}

static int64_t faults_of_process(void)
{
    struct rusage used;

    assert_int_equal(getrusage(RUSAGE_SELF, &used), 0);
    return used.ru_minflt;
}

/* A fault here and there is a thread's stack, the heap of the metrics or the kernel's own doing. A step of this model touches 100,000 pages. */
enum { FEW = 16 };

static void check_faults(const char *out, const char *const *setting)
{
    int64_t first = 0, rest = 0;
    rp_metrics line;

    run r = run_open(&dir, "medium", out, setting);
    assert_ok(r.ctx, r.status);
    int n_steps = (int)rp__trainer_info(r.trainer)->n_steps;
    for (int i = 0; i < n_steps; i++) {
        int64_t before = faults_of_process();
        assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
        *(i ? &rest : &first) += faults_of_process() - before;
    }
    print_message("%s: %" PRId64 " faults in the first step, %" PRId64 " in the %d after it\n", out, first, rest, n_steps - 1);
    assert_true(rest <= FEW * (n_steps - 1));
    run_close(&r);
}

static void steps_take_no_page_faults_after_the_first_one(void **state)
{
    (void)state;
#ifdef RP_SANITIZED
    skip();
#endif
    const char *steps = test_takes_samples() ? "max_steps=2" : "max_steps=4";

    temp_text(&dir, "medium.json", MEDIUM);
    if (!test_takes_samples()) check_faults("plain", RUN(steps, "threads=2"));
    check_faults("bf16", RUN(steps, "threads=2", "dtype=bf16", "clip_grad_norm=1.0"));
    char slots[300];
    snprintf(slots, sizeof slots, "activation_checkpointing.offload.path=%s/slots", dir.path);
    check_faults("away", RUN(steps, "threads=2", "dist.state_offload=true", slots));
    if (!test_takes_samples()) check_faults("planned", RUN(steps, "threads=2", "optimizer_in_bwd=auto", "memory_budget=400MB"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(a_whole_run_takes_what_it_reserves_and_64_mib), TEST(steps_take_no_page_faults_after_the_first_one) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
