#include "view/step.h"

#include <math.h>

#include "plan/explain_inside.h"
#include "rp_test.h"
#include "train/loop_inside.h"

enum { MOST = 60000, N_LOSSES = 400 };

struct watched_step {
    rp_page page;
    rp_ctx *ctx;
    rp_bump bump;
    bool in_step;
    uint64_t serial;
    rp_page_buffer *buffer;
    rp_page_owner *owner;
    rp_page_work *work;
    rp_page_slot *slot;
    rp_page_point *point;
    rp_page_loss *loss;
    rp_page_fact *fact;
    rp_rehearsal found;
    rp_explain explain;
};

/* ---- events ---- */

static const char *keep(watched_step *s, const char *text) { return rp__bump_text(&s->bump, text, (int64_t)strlen(text)); }

static int owner_of(watched_step *s, const char *path, const char *what)
{
    for (int i = s->page.n_owners; i--;)
        if (!strcmp(s->owner[i].path, path) && !strcmp(s->owner[i].what, what)) return i;
    assert_true(s->page.n_owners < MOST);
    s->owner[s->page.n_owners] = (rp_page_owner){ keep(s, path), keep(s, what) };
    return s->page.n_owners++;
}

static void log_work(watched_step *s, const rp_tape_work *now, const char *what)
{
    static const char *const phase[] = { "other", "forward", "replay", "backward" };
    bool same = now->phase == RP_TAPE_OTHER ? s->page.n_works && !strcmp(s->work[s->page.n_works - 1].op, what)
                                            : s->serial == now->serial;

    s->serial = now->serial;
    if (same || !*what) return;
    assert_true(s->page.n_works < MOST);
    s->work[s->page.n_works++] = (rp_page_work){
        .begin = s->page.n_events, .phase = phase[now->phase], .path = now->phase ? keep(s, now->path) : "",
        .op = now->phase ? now->call->op->name : keep(s, what),
    };
}

static int live_at(const watched_step *s, int64_t offset)
{
    int i = s->page.n_buffers - 1;

    while (i >= 0 && (s->buffer[i].end >= 0 || s->buffer[i].offset != offset || !s->buffer[i].bytes)) i--;
    assert_true(i >= 0);
    return i;
}

static void take(watched_step *s, const rp_mem_event *event, const rp_tape_work *now)
{
    const rp_scope *scope = s->ctx->scope;
    const char *path      = now->phase ? now->path : scope ? scope->path : "", *what = event->what;
    bool is_state         = event->mem_class == RP_MEM_PARAM || event->mem_class == RP_MEM_OPTIM;

    assert_true(s->page.n_buffers < MOST);
    s->buffer[s->page.n_buffers++] = (rp_page_buffer){
        .bytes = event->bytes, .offset = event->offset, .begin = s->page.n_events, .end = -1, .mem_class = event->mem_class,
        .kept_from = -1, .kept_until = -1,
        .owner = !is_state                           ? owner_of(s, path, what)
                 : event->mem_class == RP_MEM_PARAM ? owner_of(s, what, "parameters")
                                                    : owner_of(s, what, "optimizer state"),
    };
}

static void observe(void *user, const rp_mem_event *event)
{
    watched_step *s  = user;
    rp_tape_work now = rp__tape_now(s->ctx);

    if (!event->bytes) return;
    if (s->in_step) log_work(s, &now, event->take ? event->what : "");
    if (event->take) take(s, event, &now);
    else {
        rp_page_buffer *b = &s->buffer[live_at(s, event->offset)];
        if (!event->reclass) {
            if (b->kept_from >= 0 && b->kept_until < 0) b->kept_until = s->page.n_events;
            b->end = s->page.n_events;
        } else if (event->mem_class == RP_MEM_SAVED && b->kept_from < 0) b->kept_from = s->page.n_events;
        else if (event->mem_class != RP_MEM_SAVED && b->kept_until < 0) b->kept_until = s->page.n_events;
    }
    s->page.n_events += s->in_step;
}

/* What was given back before the step was never there. */
static void begin(watched_step *s)
{
    int n = 0;

    for (int i = 0; i < s->page.n_buffers; i++)
        if (s->buffer[i].end < 0) s->buffer[n++] = s->buffer[i];
    s->page.n_buffers = n;
    s->in_step        = true;
}

static void end(watched_step *s)
{
    rp_page *p = &s->page;

    for (int i = 0; i < p->n_buffers; i++) {
        if (s->buffer[i].end < 0) s->buffer[i].end = p->n_events;
        if (s->buffer[i].kept_from >= 0 && s->buffer[i].kept_until < 0) s->buffer[i].kept_until = s->buffer[i].end;
    }
    p->peak     = s->found.memory.peak_bytes;
    p->reserved = s->found.memory.reserved_bytes;
}

static rp_status run_step(rp_stage *stage)
{
    rp_step_result step;

    return rp__engine_step(&stage->engine, NULL, 0, 0, &step);
}

/* ---- tables ---- */

static void add_slots(watched_step *s)
{
    static const char *const fate[] = { [RP_KEEP] = "keep", [RP_RECOMPUTE] = "recompute", [RP_OFFLOAD] = "offload" };
    rp_explain_row *row;
    int n;

    assert_ok(s->ctx, rp__explain_rows(&s->explain, &row, &n));
    s->slot = rp__bump_alloc(&s->bump, n * (int64_t)sizeof *s->slot);
    for (int i = 0; i < n; i++) {
        const rp_explain_slot *slot = row[i].slot;
        s->slot[i] = (rp_page_slot){
            .path = row[i].path, .op = slot->op, .shape = keep(s, rp_meta_str(&slot->meta)), .fate = fate[slot->fate], .why = row[i].by,
            .bytes = slot->bytes, .count = row[i].n, .seconds = (double)slot->flops / 2e11 + 4e-6,
            .seconds_per_mib = slot->fate == RP_KEEP ? 0 : ((double)slot->flops / 2e11 + 4e-6) / ((double)slot->bytes / 1048576),
        };
    }
    s->page.n_slots = n;
}

/* Made up: a convex curve, classic modes above it. */
static void add_points(watched_step *s)
{
    static const struct { const char *name; double of_saved, overhead; bool measured; } classic[] = {
        { "none", 1, 0, true }, { "full", 0, .331, true }, { "every 2nd block", .5, .166, false }, { "selective_op", .42, .094, true },
        { "every 4th block", .75, .083, false },
    };
    int64_t top = s->found.memory.reserved_bytes, least = top - s->found.saved_bytes * 9 / 10;
    rp_page_point *p = s->point = rp__bump_alloc(&s->bump, 64 * (int64_t)sizeof *p);

    for (int i = 0; i < 40; i++) {
        double t      = i / 39.0;
        int64_t bytes = least + (int64_t)(t * (double)(top - least)) / 64 * 64;
        p[s->page.n_points++] = (rp_page_point){ NULL, bytes, .26 * pow(1 - t, 2.6), i % 6 == 0 };
    }
    p[s->page.n_points - 1].bytes = top;
    for (int i = 0; i < RP_COUNT(classic); i++)
        p[s->page.n_points++] = (rp_page_point){ classic[i].name, least + (int64_t)(classic[i].of_saved * (double)(top - least)),
                                                 classic[i].overhead, classic[i].measured };
}

static void add_losses(watched_step *s)
{
    rp_page_loss *l = s->loss = rp__bump_alloc(&s->bump, N_LOSSES * (int64_t)sizeof *l);
    uint32_t x      = 12345;

    for (int i = 0; i < N_LOSSES; i++) {
        x    = x * 1664525u + 1013904223u;
        l[i] = (rp_page_loss){ .step = i + 1, .loss = 2.1 + 1.4 * exp(-i / 60.0) + .25 * ((double)(x >> 8) / (1 << 24) - .5),
                               .val_loss = 2.15 + 1.3 * exp(-i / 60.0), .lr = 2e-5 * (1 - i / 400.0), .has_val = i % 50 == 49 };
    }
    s->page.n_losses = N_LOSSES;
}

static void add_facts(watched_step *s)
{
    char size[RP_SIZE_CHARS];
    rp_page_fact *f = s->fact = rp__bump_alloc(&s->bump, 8 * (int64_t)sizeof *f);
    int n = 0;

    f[n++] = (rp_page_fact){ "budget", s->page.budget ? keep(s, rp__size_text(size, s->page.budget)) : "none" };
    f[n++] = (rp_page_fact){ "reserved", keep(s, rp__size_text(size, s->page.reserved)) };
    f[n++] = (rp_page_fact){ "peak", keep(s, rp__size_text(size, s->page.peak)) };
    f[n++] = (rp_page_fact){ "saved for backward", keep(s, rp__size_text(size, s->found.saved_bytes)) };
    f[n++] = (rp_page_fact){ "extra time", "33.10 % of a step" };
    f[n++] = (rp_page_fact){ "no schedule has less than", "32.94 %" };
    f[n++] = (rp_page_fact){ "machine", "any CPU, 2 threads, built-in costs" };
    s->page.n_facts = n;
}

/* ---- the whole ---- */

/* The model is built before anyone can ask whose it is, but for `explain`. */
static void add_built(watched_step *s, const rp_explain *built)
{
    const explain_event *live = built->watch->live.at;

    for (int i = 0; i < built->watch->live.n; i++) {
        rp_mem_event event = { .mem_class = live[i].mem_class, .bytes = live[i].bytes, .offset = live[i].offset, .what = live[i].path };
        take(s, &event, &(rp_tape_work){ 0 });
    }
}

static void watch(watched_step *s, const rp_recipe *recipe, rp_ctx *reading)
{
    rp_explain built;
    rp_report report;
    rp_stage stage;

    rp__report_open(&report, reading);
    assert_ok(reading, rp__recipe_explain(reading, recipe, &report, &s->explain));
    rp__explain_open(&built, reading);
    assert_ok(reading, rp__stage_open(reading, recipe, &built, &report, &stage));
    s->ctx = stage.ctx;
    add_built(s, &built);
    rp__explain_close(&built);
    rp__mem_observe(stage.ctx->space[0], observe, s);
    assert_ok(reading, rp__stage_rehearse(&stage, 0, &report));
    begin(s);
    assert_ok(reading, rp__stage_run(&stage, run_step));
    rp__mem_observe(stage.ctx->space[0], NULL, NULL);
    s->found = stage.found;
    end(s);
    rp__stage_close(&stage);
    rp__report_close(&report);
}

watched_step *step_watch(const char *file, const char *const *setting)
{
    watched_step *s = calloc(1, sizeof *s);
    rp_ctx *ctx     = test_ctx(&(rp_ctx_options){ .shapes_only = true, .threads = 2 });
    rp_recipe *recipe;
    int n = 0;

    while (setting[n]) n++;
    s->bump.ctx = ctx;
    s->buffer   = rp__bump_alloc(&s->bump, MOST * (int64_t)sizeof *s->buffer);
    s->owner    = rp__bump_alloc(&s->bump, MOST * (int64_t)sizeof *s->owner);
    s->work     = rp__bump_alloc(&s->bump, MOST * (int64_t)sizeof *s->work);
    assert_ok(ctx, rp_recipe_load(ctx, file, n, setting, &recipe));
    watch(s, recipe, ctx);
    s->ctx         = ctx;
    s->page.title  = "SmolLM2-135M, 2 x 512 tokens, bf16";
    s->page.budget = (s->page.reserved >> 26 << 26) + (1 << 26);
    add_slots(s);
    add_points(s);
    add_losses(s);
    add_facts(s);
    rp_recipe_free(recipe);
    s->page.buffer = s->buffer;
    s->page.owner  = s->owner;
    s->page.work   = s->work;
    s->page.slot   = s->slot;
    s->page.point  = s->point;
    s->page.loss   = s->loss;
    s->page.fact   = s->fact;
    return s;
}

int64_t step_peak_at(const watched_step *s, rp_mem_class mem_class) { return s->found.memory.peak_at[mem_class]; }

const rp_page *step_page(const watched_step *s) { return &s->page; }

void step_free(watched_step *s)
{
    rp_ctx *ctx = s->ctx;

    rp__explain_close(&s->explain);
    rp__bump_free(&s->bump);
    test_ctx_free(ctx);
    free(s);
}
