/* Claims about runs on the sealed device: whatever a step has just done, with offloaded slots and states or in a budget, a read of a parameter by
 * the host ends the process, and a copy of it holds other bytes until sync. */
/* ctest: device-free */
#include "loop_test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/device.h"
#include "base/watch.h"
#include "models/model.h"
#include "nn/module.h"

#ifdef RP_UNSEALED
enum { CLOSED = 0 };
#else
enum { CLOSED = SIGSEGV };
#endif

typedef struct { rp_ctx *ctx; const volatile char *param; int n[RP_DOINGS]; } reader;

static int signal_of_a_read(const volatile char *at)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        (void)*at;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static bool holds_other_bytes(const unsigned char *at, int n)
{
    while (n && at[n - 1] == RP_PENDING_BYTE) n--;
    return !n;
}

static void assert_a_copy_waits_for_sync(const reader *r)
{
    unsigned char back[8] = { 0 };

    rp__mem_copy(r->ctx, back, (const char *)r->param, sizeof back);
    assert_true(holds_other_bytes(back, sizeof back));
    rp__mem_sync(r->ctx);
    assert_false(holds_other_bytes(back, sizeof back));
}

/* After a few of each kind. */
static void plant(void *user, const rp_span *span)
{
    reader *r = user;

    if (r->n[span->doing]++ >= 3) return;
    assert_int_equal(signal_of_a_read(r->param), CLOSED);
    assert_a_copy_waits_for_sync(r);
}

static const volatile char *some_param(rp_trainer *trainer)
{
    rp_module *root = rp__model_root(rp__trainer_model(trainer)), *m = root;

    while (m && !m->n_params) m = rp__module_next(root, m);
    assert_non_null(m);
    return rp__tensor_data(m->param[0].tensor);
}

/* What a step of it reserves. */
static int64_t run_planted(const char *out, const char *const *setting, reader *reads)
{
    run r = run_open(&dir, "llama", out, setting);
    rp_metrics line;

    assert_ok(r.ctx, r.status);
    *reads       = (reader){ .ctx = r.ctx, .param = some_param(r.trainer) };
    r.ctx->watch = &(rp_watch){ plant, reads };
    assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    assert_ok(r.ctx, rp__trainer_save(r.trainer));
    r.ctx->watch = NULL;
    assert_int_equal(signal_of_a_read(reads->param), CLOSED);
    assert_a_copy_waits_for_sync(reads);
    int64_t reserved = rp__trainer_info(r.trainer)->rehearsal.memory.reserved_bytes;
    run_close(&r);
    return reserved;
}

static void a_read_by_the_host_after_anything_that_a_step_does_ends_it_and_a_copy_waits(void **state)
{
    char path[300], budget[64];
    reader reads;

    (void)state;
    assert_int_equal(setenv("REPRISE_TEST_DEVICE", "sealed", 1), 0);
    snprintf(path, sizeof path, "activation_checkpointing.offload.path=%s/slots", dir.path);
    (void)run_planted("away", RUN("activation_checkpointing.mode=full", "activation_checkpointing.rules=[{op: matmul, every: 2, fate: offload}]",
                                  "dist.state_offload=true", path), &reads);
    assert_true(reads.n[RP_DOING_FORWARD] && reads.n[RP_DOING_REPLAY] && reads.n[RP_DOING_BACKWARD] && reads.n[RP_DOING_UPDATE]);
    assert_true(reads.n[RP_DOING_OFFLOAD] && reads.n[RP_DOING_DATA]);
    snprintf(budget, sizeof budget, "memory_budget=%" PRId64, run_planted("kept", RUN(NULL), &reads) - 1024);
    (void)run_planted("planned", RUN(budget), &reads);
    assert_true(reads.n[RP_DOING_BACKWARD] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(a_read_by_the_host_after_anything_that_a_step_does_ends_it_and_a_copy_waits) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
