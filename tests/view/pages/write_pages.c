/* write_pages FOLDER -- the pages that tests/repository/view_page looks at. Run at the top of the repository.
 *
 *   none.html full.html    SmolLM2-135M without checkpointing and with it in every block
 *   planned.html           the same within a budget
 *   long.html              the same with two micro-batches: the most events
 *   hostile.html           a small step whose every text tries to be more than text
 *   other.html             a small step with what is rare: communication, losses that are not finite, a budget far away
 */
#include <math.h>

#include "rp_test.h"
#include "view/step.h"

static void write(const char *folder, const char *name, const rp_page *page)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    char file[1024];

    snprintf(file, sizeof file, "%s/%s.html", folder, name);
    assert_ok(ctx, rp__page_write(ctx, page, file));
    test_ctx_free(ctx);
}

static void write_step(const char *folder, const char *name, const char *mode, const char *more)
{
    const char *const setting[] = { "~model.path", "model.config=bench/configs/smollm2-135m.json", "threads=2", mode, more, NULL };
    watched_step *step          = step_watch("recipes/smollm2_135m_full.yaml", setting);

    write(folder, name, step_page(step));
    step_free(step);
}

static const rp_page_buffer buffers[] = {
    { 1000, 0, 0, 60, RP_MEM_PARAM, -1, -1, 0 },   { 3000, 1024, 0, 60, RP_MEM_OPTIM, -1, -1, 0 },
    { 4096, 4096, 1, 50, RP_MEM_TEMP, 2, 40, 1 },  { 2048, 8192, 2, 30, RP_MEM_COMM, -1, -1, 1 },
    { 0, 8192, 3, 3, RP_MEM_TEMP, -1, -1, 1 },     { 1024, 10240, 20, 60, RP_MEM_GRAD, -1, -1, 1 },
};

static rp_page small(void)
{
    return (rp_page){ .reserved = 12000, .peak = 11168, .n_events = 60, .n_buffers = RP_COUNT(buffers), .buffer = buffers };
}

static void write_hostile(const char *folder)
{
#define HOSTILE "</script></table><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>\"'&lt;\xff"
    rp_page page = small();
    page.title   = HOSTILE;
    page.owner   = (rp_page_owner[]){ { HOSTILE, HOSTILE }, { "layers.0." HOSTILE, HOSTILE } };
    page.work    = (rp_page_work[]){ { 0, HOSTILE, "layers.0." HOSTILE, HOSTILE } };
    page.slot    = (rp_page_slot[]){ { HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, 64, 2, 1e-3, 1e-4 } };
    page.point   = (rp_page_point[]){ { HOSTILE, 9000, .1, true } };
    page.fact    = (rp_page_fact[]){ { HOSTILE, HOSTILE } };
    page.loss    = (rp_page_loss[]){ { 1, 2, 3, 4, true } };
    page.sample  = (rp_page_sample[]){ { 1, HOSTILE, HOSTILE } };
    page.n_samples = 1;
    page.n_owners = 2;
    page.n_works = page.n_slots = page.n_points = page.n_facts = page.n_losses = 1;
    write(folder, "hostile", &page);
}

static void write_other(const char *folder)
{
    rp_page page  = small();
    page.title    = "a small step";
    page.budget   = INT64_C(80) << 30;
    page.overhead = NAN;
    page.owner    = (rp_page_owner[]){ { "norm", "parameters" }, { "layers.0.mlp", "matmul" } };
    page.loss     = (rp_page_loss[]){ { 1, INFINITY, 0, 1e-4, false }, { 2, NAN, 2, 1e-4, true } };
    page.point    = (rp_page_point[]){ { "none", 12000, NAN, false }, { NULL, 12000, 0, false } };
    page.n_owners = page.n_losses = page.n_points = 2;
    write(folder, "other", &page);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: write_pages FOLDER\n");
        return 2;
    }
    write_step(argv[1], "none", "enable_activation_checkpointing=false", NULL);
    write_step(argv[1], "full", "enable_activation_checkpointing=true", NULL);
    write_step(argv[1], "planned", "~enable_activation_checkpointing", "memory_budget=1700MiB");
    write_step(argv[1], "long", "enable_activation_checkpointing=true", "gradient_accumulation_steps=2");
    write_hostile(argv[1]);
    write_other(argv[1]);
    return 0;
}
