/* view/report.c -- fills a page from a forecast, a sweep and the metrics of a run. */
#include "view/report.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bump.h"
#include "base/json_text.h"
#include "explain/explain.h"
#include "rehearse/forecast.h"
#include "text/file.h"
#include "trace/blocks.h"

enum {
    MOST_LOSSES  = 4096,                /* at most that many steps, and as many with a validation, on the page of a long run */
    MOST_SAMPLES = 64,                  /* the last continued prompts */
};

typedef struct {
    rp_ctx *ctx;
    rp_bump bump;
    rp_page page;
    rp_page_buffer *buffer;
    rp_page_owner *owner;
    rp_page_work *work;
    rp_blocks live;                             /* tag: buffer */
    rp_page_loss *loss;
    rp_page_sample sample[MOST_SAMPLES];        /* a ring with n_samples entries so far */
    int64_t n_samples;
    int64_t n_lines, n_vals;                    /* of the metrics, and of those with a validation */
    int64_t seen, seen_val;                     /* lines of each before the current one */
    bool has_val;                               /* the current line has a validation */
} pages;

/* ---- buffers and works ---- */

/* Owners are few and repeat, so the last ones are compared first. */
static int owner_of(pages *p, const char *path, const char *name)
{
    for (int i = p->page.n_owners - 1; i >= 0; i--)
        if (p->owner[i].path == path && p->owner[i].name == name) return i;
    p->owner[p->page.n_owners] = (rp_page_owner){ path, name };
    return p->page.n_owners++;
}

static bool report_take(pages *p, const rp_explain_event *e, int event)
{
    if (!e->bytes) return true;
    if (!rp__blocks_reserve(p->ctx, &p->live)) return false;
    p->buffer[p->page.n_buffers] = (rp_page_buffer){ .bytes = e->bytes, .offset = e->offset, .begin = event, .end = p->page.n_events,
                                                     .mem_class = e->mem_class, .kept_from = -1, .kept_until = -1,
                                                     .owner = owner_of(p, e->path, e->name) };
    *rp__blocks_find(&p->live, e->offset) = (rp_block){ e->offset, e->bytes, p->page.n_buffers++, false };
    p->live.n++;
    return true;
}

static void change(pages *p, const rp_explain_event *e, int event)
{
    rp_block *b = e->bytes ? rp__blocks_find(&p->live, e->offset) : NULL;

    if (!b || !b->bytes) return;
    rp_page_buffer *buffer = &p->buffer[b->tag];
    if (e->reclass && e->mem_class == RP_MEM_SAVED && buffer->kept_from < 0) buffer->kept_from = event;
    if (e->reclass && e->mem_class != RP_MEM_SAVED && buffer->kept_from >= 0 && buffer->kept_until < 0) buffer->kept_until = event;
    if (e->reclass) return;
    buffer->end = event;
    if (buffer->kept_from >= 0 && buffer->kept_until < 0) buffer->kept_until = event;
    rp__blocks_remove(&p->live, b);
}

static void begin_work(pages *p, const rp_explain_event *e, int event)
{
    static const char *const phases[] = {
        [RP_TAPE_OTHER] = "other", [RP_TAPE_FORWARD] = "forward", [RP_TAPE_REPLAY] = "replay", [RP_TAPE_BACKWARD] = "backward",
    };
    rp_page_work w = { event, phases[e->phase], e->at ? e->at : "", e->op ? e->op : e->name ? e->name : "" };
    const rp_page_work *last = p->page.n_works ? &p->work[p->page.n_works - 1] : NULL;

    if (!e->take || (last && last->phase == w.phase && last->path == w.path && last->op == w.op)) return;
    p->work[p->page.n_works++] = w;
}

static rp_status add_events(pages *p, const rp_explain *e)
{
    int most  = e->n_before + e->n_events + 1;
    bool room = true;

    p->page.n_events = e->n_events;
    p->buffer        = rp__bump_alloc(&p->bump, most * (int64_t)sizeof *p->buffer);
    p->owner         = rp__bump_alloc(&p->bump, most * (int64_t)sizeof *p->owner);
    p->work          = rp__bump_alloc(&p->bump, most * (int64_t)sizeof *p->work);
    if (!p->buffer || !p->owner || !p->work || !rp__blocks_reserve(p->ctx, &p->live)) return RP_ERR_MEMORY;
    for (int i = 0; i < e->n_before && room; i++) room = report_take(p, &e->before[i], 0);
    for (int i = 0; i < e->n_events && room; i++) {
        begin_work(p, &e->event[i], i);
        if (e->event[i].take) room = report_take(p, &e->event[i], i);
        else change(p, &e->event[i], i);
    }
    for (int i = 0; i < p->page.n_buffers; i++)
        if (p->buffer[i].kept_from >= 0 && p->buffer[i].kept_until < 0) p->buffer[i].kept_until = p->buffer[i].end;
    p->page.buffer = p->buffer;
    p->page.owner  = p->owner;
    p->page.work   = p->work;
    return room ? RP_OK : RP_ERR_MEMORY;
}

/* ---- slots ---- */

static const char *slot_op(pages *p, const rp_explain_slot *s)
{
    return rp__bump_format(&p->bump, "%s %s %d%s", s->op, s->by_product ? "by" : "out", s->output, s->call ? ", a later call" : "");
}

static rp_status add_slots(pages *p, rp_explain *e)
{
    rp_explain_row *row;
    int n;

    RP_TRY(rp__explain_rows(e, &row, &n));
    rp_page_slot *slot = rp__bump_alloc(&p->bump, (n + 1) * (int64_t)sizeof *slot);
    if (!slot) return RP_ERR_MEMORY;
    for (int i = 0; i < n; i++) {
        const rp_explain_slot *s = row[i].slot;
        double mib               = (double)s->bytes / (1 << 20);
        slot[i] = (rp_page_slot){ .path = row[i].path, .op = slot_op(p, s), .shape = rp__bump_format(&p->bump, "%s", rp_meta_str(&s->meta)),
                                  .fate = s->fate == RP_KEEP ? "keep" : s->fate == RP_RECOMPUTE ? "recompute" : "offload", .why = row[i].by,
                                  .bytes = s->bytes, .count = row[i].n, .seconds = s->seconds,
                                  .seconds_per_mib = s->fate == RP_RECOMPUTE && mib > 0 ? s->seconds / mib : 0 };
        if (!slot[i].op || !slot[i].shape) return RP_ERR_MEMORY;
    }
    p->page.slot    = slot;
    p->page.n_slots = n;
    return RP_OK;
}

/* ---- points, losses, facts ---- */

static rp_status add_points(pages *p, const rp_sweep *sweep)
{
    if (!sweep) return RP_OK;
    rp_page_point *point = rp__bump_alloc(&p->bump, (sweep->n_points + 1) * (int64_t)sizeof *point);
    if (!point) return RP_ERR_MEMORY;
    for (int i = 0; i < sweep->n_points; i++) {
        const rp_sweep_point *s = &sweep->point[i];
        point[i] = (rp_page_point){ s->mode, s->reserved, rp__sweep_overhead(sweep, i), false };
    }
    p->page.point    = point;
    p->page.n_points = sweep->n_points;
    return RP_OK;
}

/* A number that is not finite is null in the metrics. */
static double number(const json_t *value) { return json_is_number(value) ? json_number_value(value) : (double)NAN; }

static rp_status add_loss(pages *p, const char *file, int64_t number_of, const char *line, int64_t bytes, rp_page_loss *out)
{
    json_error_t error;
    json_t *o = rp__json_read(line, (size_t)bytes, 0, &error);
    const json_t *val;

    if (!o) return rp_fail(p->ctx, RP_ERR_FORMAT, "'%s' line %" PRId64 " is not JSON: %s", file, number_of, error.text);
    val  = json_object_get(o, "val_loss");
    *out = (rp_page_loss){ .step = json_integer_value(json_object_get(o, "step")), .loss = number(json_object_get(o, "loss")),
                           .lr = number(json_object_get(o, "lr")), .val_loss = number(val), .has_val = val != NULL };
    p->page.n_losses++;
    json_decref(o);
    return RP_OK;
}

typedef rp_status on_line(pages *p, const char *file, const char *line, int64_t bytes);

/* Reads one line at a time: the metrics of a long run are never in memory as a whole. */
static rp_status each_line(pages *p, const char *file, on_line *put)
{
    rp_text_file *text;
    const char *line;
    int64_t bytes;

    p->seen          = p->seen_val = 0;
    rp_status status = rp__text_file_open(p->ctx, file, &text);
    if (status != RP_OK) return status == RP_ERR_CONFIG ? RP_ERR_IO : status;      /* it is not a setting of a recipe */
    while (status == RP_OK && (status = rp__text_file_line(text, &line, &bytes)) == RP_OK && line) {
        p->has_val = memmem(line, (size_t)bytes, "\"val_loss\"", 10) != NULL;
        status     = put ? put(p, file, line, bytes) : RP_OK;
        p->seen++;
        p->seen_val += p->has_val;
    }
    rp__text_file_close(text);
    return status;
}

/* Selects lines evenly, at most MOST_LOSSES; the first and the last are included. */
static bool shown(int64_t i, int64_t n) { return n <= MOST_LOSSES || i == n - 1 || i % ((n - 1) / (MOST_LOSSES - 1) + 1) == 0; }

/* Text of a later sample takes the place of the oldest one. */
static rp_status add_samples(pages *p, const char *line, int64_t bytes)
{
    json_t *o = rp__json_read(line, (size_t)bytes, 0, NULL), *one;
    rp_status status = RP_OK;
    size_t i;

    json_array_foreach(json_object_get(o, "samples"), i, one) {
        const char *prompt = json_string_value(json_object_get(one, "prompt")), *text = json_string_value(json_object_get(one, "text"));
        rp_page_sample s = { .step = json_integer_value(json_object_get(o, "step")) };
        s.prompt         = rp__bump_text(&p->bump, prompt ? prompt : "", prompt ? (int64_t)strlen(prompt) : 0);
        s.text           = rp__bump_text(&p->bump, text ? text : "", text ? (int64_t)strlen(text) : 0);
        if (!s.prompt || !s.text) status = RP_ERR_MEMORY;
        p->sample[p->n_samples++ % MOST_SAMPLES] = s;
    }
    json_decref(o);
    return status;
}

static rp_status list_samples(pages *p)
{
    int n = p->n_samples < MOST_SAMPLES ? (int)p->n_samples : MOST_SAMPLES;
    rp_page_sample *all = rp__bump_alloc(&p->bump, (n + 1) * (int64_t)sizeof *all);

    if (!all) return RP_ERR_MEMORY;
    for (int i = 0; i < n; i++) all[i] = p->sample[(p->n_samples - n + i) % MOST_SAMPLES];
    p->page.sample    = all;
    p->page.n_samples = n;
    return RP_OK;
}

static rp_status put_loss(pages *p, const char *file, const char *line, int64_t bytes)
{
    if (p->seen >= p->n_lines) return RP_OK;        /* the file has grown since it was counted */
    if (memmem(line, (size_t)bytes, "\"samples\"", 9)) RP_TRY(add_samples(p, line, bytes));
    if (!shown(p->seen, p->n_lines) && !(p->has_val && p->seen_val < p->n_vals && shown(p->seen_val, p->n_vals))) return RP_OK;
    RP_BUG_IF(p->page.n_losses == 2 * MOST_LOSSES);
    return add_loss(p, file, p->seen + 1, line, bytes, &p->loss[p->page.n_losses]);
}

static rp_status add_losses(pages *p, const char *file)
{
    if (!file) return RP_OK;
    RP_TRY(each_line(p, file, NULL));
    p->n_lines   = p->seen;
    p->n_vals    = p->seen_val;
    int64_t most = p->n_lines < 2 * MOST_LOSSES ? p->n_lines : 2 * MOST_LOSSES;
    p->loss      = rp__bump_alloc(&p->bump, (most + 1) * (int64_t)sizeof *p->loss);
    if (!p->loss) return RP_ERR_MEMORY;
    p->page.loss = p->loss;
    RP_TRY(each_line(p, file, put_loss));
    return list_samples(p);
}

static const char *size_fact(pages *p, int64_t bytes)
{
    char text[RP_SIZE_CHARS];

    return rp__bump_format(&p->bump, "%s", rp__size_text(text, bytes));
}

static const char *overhead_fact(pages *p, const rp_forecast *f, double recompute)
{
    return rp__bump_format(&p->bump, "%.2f %%", 100 * rp__overhead(f->plan.base_seconds, f->plan.seconds, recompute));
}

/* NULL: the page has no validation with a finite loss. */
static const rp_page_loss *lowest_validation(const pages *p)
{
    const rp_page_loss *best = NULL;

    for (int i = 0; i < p->page.n_losses; i++) {
        const rp_page_loss *l = &p->page.loss[i];
        if (l->has_val && isfinite(l->val_loss) && (!best || l->val_loss < best->val_loss)) best = l;
    }
    return best;
}

static rp_status add_facts(pages *p, const rp_forecast *f)
{
    const rp_explain *e      = &f->explain;
    const rp_page_loss *best = lowest_validation(p);
    rp_page_fact all[]  = {
        { "budget", f->plan.budget ? size_fact(p, f->plan.budget) : "none" },
        { "reserved", size_fact(p, f->plan.found.memory.reserved_bytes) },
        { "most bytes live at once", size_fact(p, f->plan.placement.bound) },
        { "peak", size_fact(p, e->peak_bytes) },
        { "peak at", rp__bump_format(&p->bump, "the %s of %s %s", e->peak_event, e->peak_path, e->peak_op) },
        { "saved when the forward ends", size_fact(p, f->plan.found.saved_bytes) },
        { "slower than the fastest step without a budget", overhead_fact(p, f, f->plan.recompute_seconds) },
        { "lower bound for plans of blocks", f->plan.chosen ? overhead_fact(p, f, f->plan.block_bound_seconds) : "0.00 %" },
        { "lower bound for every schedule", f->plan.chosen ? overhead_fact(p, f, f->plan.bound_seconds) : "0.00 %" },
        { "time of a step", rp__bump_format(&p->bump, "%.3f s by the %s table", f->plan.seconds + f->plan.recompute_seconds,
                                    f->plan.measured ? "measured" : "built-in") },
        { "machine", rp__bump_format(&p->bump, "%s", f->plan.machine) },
        { "regions", f->plan.chosen ? "decided by the plan" : rp__bump_format(&p->bump, "%s", f->regions) },
        { "lowest validation loss", best ? rp__bump_format(&p->bump, "%.6g at step %" PRId64, best->val_loss, best->step) : "none" },
    };
    rp_page_fact *fact = rp__bump_alloc(&p->bump, sizeof all);

    for (int i = 0; i < RP_COUNT(all); i++)
        if (!all[i].value) return RP_ERR_MEMORY;
    if (!fact) return RP_ERR_MEMORY;
    p->page.fact    = memcpy(fact, all, sizeof all);
    p->page.n_facts = RP_COUNT(all) - !best;            /* the last one */
    return RP_OK;
}

static rp_status report_fill(pages *p, const rp_report_page *r)
{
    rp_forecast *f = (rp_forecast *)r->forecast;        /* rows are allocated in its own memory */

    p->page.title    = r->title;
    p->page.budget   = f->plan.budget;
    p->page.reserved = f->plan.found.memory.reserved_bytes;
    p->page.peak     = f->explain.peak_bytes;
    p->page.overhead = rp__overhead(f->plan.base_seconds, f->plan.seconds, f->plan.recompute_seconds);
    RP_TRY(add_events(p, &f->explain));
    RP_TRY(add_slots(p, &f->explain));
    RP_TRY(add_points(p, r->sweep));
    RP_TRY(add_losses(p, r->metrics));
    return add_facts(p, f);
}

rp_status rp__report_page_fill(const rp_report_page *report, rp_bump *bump, rp_page *out)
{
    pages p          = { .ctx = bump->ctx, .bump = *bump };
    rp_status status = report_fill(&p, report);

    rp__release(p.live.at);
    *bump = p.bump;
    *out  = p.page;
    return status;
}

rp_status rp__report_page_write(rp_ctx *ctx, const rp_report_page *report, const char *file)
{
    rp_bump bump = { .ctx = ctx };
    rp_page page;

    rp_status status = rp__report_page_fill(report, &bump, &page);
    if (status == RP_OK) status = rp__page_write(ctx, &page, file);
    rp__bump_free(&bump);
    return status;
}
