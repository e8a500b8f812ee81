/* device/fuse.c -- the last launches of a queue wait, so that later ones can join them.
 *
 *   launch ──▶ joins one that waits, or waits itself ──▶ a call of another kind, a kernel in no rule, or four newer ones ──▶ the driver
 *
 * A launch joins one that waits if a rule of kernels/gpu/fuse.def has this pair. It then runs earlier than the launches that wait behind that one, so
 * it must be independent of them. Otherwise launches keep their order. No launch waits while the host waits for the device.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "device/gpu.h"

enum { WAITING = 4, RANGES = 256 };

typedef struct {
    rp_gpu_launch launch;
    int n;
    rp_gpu_range range[RANGES];         /* of all launches in it */
} waiting_launch;

/* at: the oldest one first. */
struct rp_window { int n; waiting_launch *at[WAITING], room[WAITING]; };

struct rp_window *rp__gpu_window(void)
{
    const char *fusion  = getenv("REPRISE_FUSION");
    struct rp_window *w = fusion && !strcmp(fusion, "off") ? NULL : calloc(1, sizeof *w);

    for (int i = 0; w && i < WAITING; i++) w->at[i] = &w->room[i];
    return w;
}

bool rp__gpu_has_waiting(const struct rp_queue *q) { return q->window && q->window->n; }

/* ---- launches that wait ---- */

static void make_launch(struct rp_queue *q, const rp_gpu_launch *l)
{
    rp_gpu_call call = { .kernel = l->kernel, .function = rp__gpu_function_of(q->gpu, l->kernel)->function, .args = l->args };

    memcpy(call.grid, l->grid, sizeof call.grid);
    rp__gpu_issue_at_once(q, &call);
}

static void make_oldest(struct rp_queue *q)
{
    struct rp_window *w    = q->window;
    waiting_launch *oldest = w->at[0];

    make_launch(q, &oldest->launch);
    w->n--;
    memmove(w->at, w->at + 1, (size_t)w->n * sizeof *w->at);
    w->at[w->n] = oldest;
}

void rp__gpu_flush(struct rp_queue *q)
{
    if (rp__gpu_has_waiting(q)) rp__gpu_enter(q->gpu);
    while (rp__gpu_has_waiting(q)) make_oldest(q);
}

static void copy_launch(rp_gpu_launch *to, const rp_gpu_launch *from)
{
    to->kernel = from->kernel;
    memcpy(to->grid, from->grid, sizeof to->grid);
    memcpy(to->args, from->args, (size_t)from->kernel->args_bytes);
}

static void let_wait(struct rp_queue *q, const rp_gpu_launch *l, const rp_gpu_range *range, int n)
{
    struct rp_window *w = q->window;

    if (w->n == WAITING) make_oldest(q);
    waiting_launch *at = w->at[w->n++];
    copy_launch(&at->launch, l);
    memcpy(at->range, range, (size_t)n * sizeof *range);
    at->n = n;
}

/* ---- joining ---- */

static bool independent(const waiting_launch *at, const rp_gpu_range *range, int n)
{
    for (int i = 0; i < at->n; i++)
        for (int k = 0; k < n; k++)
            if ((at->range[i].writes || range[k].writes) && at->range[i].at < range[k].end && range[k].at < at->range[i].end) return false;
    return true;
}

static const rp_gpu_fusion *rule_of(const rp_gpu_kernel *first, const rp_gpu_kernel *second)
{
    for (int i = 0; i < rp__gpu_n_fusions; i++)
        if (rp__gpu_fusions[i].first == first && rp__gpu_fusions[i].second == second) return &rp__gpu_fusions[i];
    return NULL;
}

static bool joins(waiting_launch *at, const rp_gpu_launch *l, const rp_gpu_range *range, int n)
{
    const rp_gpu_fusion *rule = rule_of(at->launch.kernel, l->kernel);

    if (!rule || at->n + n > RANGES || (rule->beside && !independent(at, range, n)) || !rule->join(&at->launch, l)) return false;
    at->launch.kernel = rule->fused;
    memcpy(at->range + at->n, range, (size_t)n * sizeof *range);
    at->n += n;
    return true;
}

static bool joins_some(struct rp_window *w, const rp_gpu_launch *l, const rp_gpu_range *range, int n)
{
    for (int i = w->n - 1; i >= 0; i--) {
        if (joins(w->at[i], l, range, n)) return true;
        if (!independent(w->at[i], range, n)) return false;
    }
    return false;
}

void rp__gpu_fuse(struct rp_queue *q, const rp_gpu_function *f, const rp_gpu_launch *launch)
{
    rp_gpu_range range[RP_GPU_LAUNCH_RANGES];
    int n = q->window && f->ranges ? f->ranges->list(launch->args, range) : 0;

    if (n && joins_some(q->window, launch, range, n)) return;
    if (n && f->leads) {
        let_wait(q, launch, range, n);
        return;
    }
    rp__gpu_flush(q);
    make_launch(q, launch);
}
