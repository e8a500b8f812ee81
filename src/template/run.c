/* template/run.c -- runs statements, manages scopes, and enforces the limits of a run.
 *
 *   frame   the names set at one level. A loop, a macro's body and a block's text have a frame of their own; an `if` does not
 */
#include <stdarg.h>
#include <stdio.h>

#include "template/internal.h"

#include "base/list.h"
#include "text/bytes.h"

rp_status rp__run_fail(rp_run *run, rp_status status, const char *fmt, ...)
{
    char why[RP_ERROR_CHARS];
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    return rp__template_wrong(run->of, run->line, status, "%s", why);
}

static rp_status out_of(rp_run *run)
{
    return rp__run_fail(run, RP_TEMPLATE_LIMIT, "it takes more than %" PRId64 " bytes", RP_TEMPLATE_BYTES);
}

/* False after reporting an error: holding `more` further bytes would exceed the limit. */
static bool holds(rp_run *run, int64_t more)
{
    int64_t held = rp__bump_bytes(&run->bump) + run->loose;

    if (more > RP_TEMPLATE_BYTES - held) {
        run->over = true;
        (void)out_of(run);
        return false;
    }
    if (held + more > run->peak_bytes) run->peak_bytes = held + more;
    return true;
}

/* NULL for either reason; the caller returns RP_ERR_MEMORY. If the limit is the reason, the error message already says so. */
void *rp__run_alloc(rp_run *run, int64_t bytes)
{
    bytes += !bytes;
    if (!holds(run, rp__bump_more(&run->bump, bytes))) return NULL;
    if (rp__fault_fires(run->ctx)) {                    /* faults can hit every value, not only every block */
        rp_fail(run->ctx, RP_ERR_MEMORY, "cannot allocate %" PRId64 " bytes of host memory", bytes);
        return NULL;
    }
    return rp__bump_alloc(&run->bump, bytes);
}

rp_status rp__run_copy(rp_run *run, const char *at, int64_t bytes, rp_value *out)
{
    RP_TRY(rp__run_bytes(run, bytes, RP_BYTES_MOVED));
    char *text = rp__run_alloc(run, bytes + 1);
    if (!text) return RP_ERR_MEMORY;
    if (bytes) memcpy(text, at, (size_t)bytes);
    *out = RP_TEXT_VALUE(text, bytes);
    return RP_OK;
}

static rp_status read_clock(rp_run *run)
{
    run->clock_step = run->steps + RP_CLOCK_STEPS;
    if (rp__cpu_seconds() - run->began <= run->of->most_seconds) return RP_OK;
    return rp__run_fail(run, RP_TEMPLATE_LIMIT, "it takes more than %g s of the processor's time", run->of->most_seconds);
}

rp_status rp__run_step(rp_run *run, int64_t steps)
{
    run->steps += steps;
    if (run->steps <= RP_TEMPLATE_STEPS) return run->steps < run->clock_step ? RP_OK : read_clock(run);
    return rp__run_fail(run, RP_TEMPLATE_LIMIT, "it takes more than %" PRId64 " steps", RP_TEMPLATE_STEPS);
}

/* While a buffer grows, the old and the new one are held at once. */
rp_status rp__run_push(rp_run *run, rp_bytes *to, const char *at, int64_t bytes)
{
    int64_t before = to->room;

    RP_TRY(rp__run_bytes(run, bytes, RP_BYTES_MOVED));
    if (to->n + bytes > before && !holds(run, rp__bytes_next_room(to, bytes))) return RP_TEMPLATE_LIMIT;
    RP_TRY(rp__bytes_push(run->ctx, to, at, bytes));
    run->loose += to->room - before;
    return RP_OK;
}

void rp__run_drop(rp_run *run, rp_bytes *bytes)
{
    run->loose -= bytes->room;
    rp__release(bytes->at);
    *bytes = (rp_bytes){ 0 };
}

rp_status rp__run_put(rp_run *run, const char *at, int64_t bytes) { return rp__run_push(run, run->out, at, bytes); }

/* ---- scopes ---- */

static rp_status frame_new(rp_run *run, rp_scope_frame *outer, rp_scope_frame **out)
{
    *out = rp__run_alloc(run, sizeof **out);
    if (!*out) return RP_ERR_MEMORY;
    (*out)->outer = outer;
    return RP_OK;
}

rp_status rp__run_lookup(rp_run *run, rp_text name, rp_value *out)
{
    int64_t frames = 0;

    for (const rp_scope_frame *f = run->frame; f; f = f->outer) {
        const rp_value *v;
        RP_TRY(rp__map_find(run, &f->names, name, &v));
        if (++frames % 16 == 0) RP_TRY(rp__run_step(run, 1));
        if (!v) continue;
        *out = *v;
        return RP_OK;
    }
    const rp_named_call *function = rp__named_call(rp__template_functions, name);
    *out = function ? (rp_value){ .kind = RP_V_FUNCTION, .function = function } : (rp_value){ .kind = RP_V_UNDEFINED, .text = name };
    return RP_OK;
}

static rp_status set_name(rp_run *run, rp_text name, const rp_value *v)
{
    rp_value key = RP_TEXT_VALUE(name.at, name.bytes);

    return rp__map_put(run, &run->frame->names, &key, v);
}

static rp_status set_many(rp_run *run, const rp_node *target, const rp_value *v)
{
    rp_list *items;
    int64_t i = 0, names = 0;

    RP_TRY(rp__value_items(run, v, &items));
    for (const rp_node *n = target->body; n; n = n->next) names++;
    if (names != items->n)
        return rp__run_fail(run, RP_ERR_FORMAT, "%" PRId64 " names are set to %" PRId64 " values", names, items->n);
    for (const rp_node *n = target->body; n; n = n->next) RP_TRY(set_name(run, n->name, &items->item[i++]));
    return RP_OK;
}

static rp_status set_target(rp_run *run, const rp_node *target, const rp_value *v)
{
    rp_value space, key = RP_TEXT_VALUE(target->name.at, target->name.bytes);

    if (target->kind == RP_N_NAME) return set_name(run, target->name, v);
    if (target->kind == RP_N_TUPLE) return set_many(run, target, v);
    RP_TRY(rp__run_lookup(run, target->a->name, &space));
    if (space.kind != RP_V_NAMESPACE) return rp__run_fail(run, RP_ERR_FORMAT, "an attribute of %s cannot be set", rp__value_kind_name(&space));
    return rp__map_put(run, space.map, &key, v);
}

/* ---- statements ---- */

typedef rp_status (*run_fn)(rp_run *run, const rp_node *n);

static rp_status run_data(rp_run *run, const rp_node *n) { return rp__run_put(run, n->name.at, n->name.bytes); }

static rp_status run_print(rp_run *run, const rp_node *n)
{
    rp_value v;

    RP_TRY(rp__run_eval(run, n->a, &v));
    RP_TRY(rp__value_text(run, &v, &v));
    return rp__run_put(run, v.text.at, v.text.bytes);
}

static rp_status run_if(rp_run *run, const rp_node *n)
{
    rp_value v;

    RP_TRY(rp__run_eval(run, n->a, &v));
    return rp__run_body(run, rp__value_true(&v) ? n->body : n->other);
}

static rp_status run_set(rp_run *run, const rp_node *n)
{
    rp_value v;

    RP_TRY(rp__run_eval(run, n->b, &v));
    return set_target(run, n->a, &v);
}

/* The text of the body becomes the constant to which the filters apply. */
static rp_status run_set_block(rp_run *run, const rp_node *n)
{
    rp_value v;
    rp_node *inner = n->b;

    RP_TRY(rp__run_captured(run, n->body, &v));
    while (inner->kind != RP_N_CONSTANT) inner = inner->a;
    inner->constant  = v;
    rp_status status = rp__run_eval(run, n->b, &v);
    inner->constant  = RP_NONE_VALUE;
    RP_TRY(status);
    return set_target(run, n->a, &v);
}

static rp_status run_macro(rp_run *run, const rp_node *n)
{
    rp_macro *macro = rp__run_alloc(run, sizeof *macro);
    rp_value v      = { .kind = RP_V_MACRO, .macro = macro };

    if (!macro) return RP_ERR_MEMORY;
    *macro = (rp_macro){ n, run->frame };
    return set_name(run, n->name, &v);
}

static rp_status run_leave(rp_run *run, const rp_node *n)
{
    run->flow = n->kind == RP_N_BREAK ? RP_FLOW_BREAK : RP_FLOW_CONTINUE;
    return RP_OK;
}

static rp_status add_span(rp_run *run, int64_t from)
{
    rp_template_text *r = run->result;

    if (r->n_spans == run->span_room) {
        int64_t had = run->span_room, room = had ? 2 * had : 8, size = (int64_t)sizeof *r->span;
        if (!holds(run, room * size)) return RP_TEMPLATE_LIMIT;
        RP_TRY(RP_RESIZE(run->ctx, r->span, run->span_room, room));
        run->loose += (room - had) * size;
    }
    r->span[r->n_spans++] = (rp_template_span){ from, run->out->n };
    return RP_OK;
}

/* Inside a captured text the position in the output is unknown. */
static rp_status run_generation(rp_run *run, const rp_node *n)
{
    rp_scope_frame *outer = run->frame;
    int64_t from          = run->out->n;

    if (run->captures) return rp__run_fail(run, RP_ERR_UNSUPPORTED, "'generation' inside of a macro or a set block is not supported");
    RP_TRY(frame_new(run, outer, &run->frame));
    RP_TRY(rp__run_body(run, n->body));
    run->frame = outer;
    return add_span(run, from);
}

/* ---- loops ---- */

/* The items for which the loop's `if` holds. */
static rp_status chosen(rp_run *run, const rp_node *n, rp_list *all, rp_list **out)
{
    rp_value list, v;

    *out = all;
    if (!n->c) return RP_OK;
    RP_TRY(rp__list_new(run, &list));
    for (int64_t i = 0; i < all->n; i++) {
        RP_TRY(set_target(run, n->a, &all->item[i]));
        RP_TRY(rp__run_eval(run, n->c, &v));
        if (rp__value_true(&v)) RP_TRY(rp__list_add(run, list.list, &all->item[i]));
    }
    *out = list.list;
    return RP_OK;
}

static rp_status loop_set(rp_run *run, rp_map *loop, const char *name, rp_value v)
{
    rp_value key = RP_TEXT_VALUE(name, (int64_t)strlen(name));

    return rp__map_put(run, loop, &key, &v);
}

static rp_status set_loop(rp_run *run, rp_map *loop, const rp_list *items, int64_t i)
{
    const rp_value none = { .kind = RP_V_UNDEFINED, .text = { "an item beyond the loop", 23 } };

    RP_TRY(loop_set(run, loop, "index", RP_INT_VALUE(i + 1)));
    RP_TRY(loop_set(run, loop, "index0", RP_INT_VALUE(i)));
    RP_TRY(loop_set(run, loop, "revindex", RP_INT_VALUE(items->n - i)));
    RP_TRY(loop_set(run, loop, "revindex0", RP_INT_VALUE(items->n - i - 1)));
    RP_TRY(loop_set(run, loop, "first", RP_BOOL_VALUE(i == 0)));
    RP_TRY(loop_set(run, loop, "last", RP_BOOL_VALUE(i == items->n - 1)));
    RP_TRY(loop_set(run, loop, "length", RP_INT_VALUE(items->n)));
    RP_TRY(loop_set(run, loop, "previtem", i ? items->item[i - 1] : none));
    return loop_set(run, loop, "nextitem", i < items->n - 1 ? items->item[i + 1] : none);
}

/* All iterations share a frame: each begins without names. A macro defined in an iteration sees the names of the iteration that calls it. */
static rp_status run_turns(rp_run *run, const rp_node *n, const rp_list *items)
{
    rp_value loop;

    RP_TRY(rp__map_new(run, &loop));
    loop.kind = RP_V_NAMESPACE;
    for (int64_t i = 0; i < items->n && run->flow != RP_FLOW_BREAK; i++) {
        run->frame->names.n = 0;
        run->flow           = RP_FLOW_ON;
        RP_TRY(rp__run_step(run, 1));
        RP_TRY(set_loop(run, loop.map, items, i));
        RP_TRY(set_name(run, (rp_text){ "loop", 4 }, &loop));
        RP_TRY(set_target(run, n->a, &items->item[i]));
        RP_TRY(rp__run_body(run, n->body));
    }
    run->flow = RP_FLOW_ON;
    return RP_OK;
}

static rp_status run_for(rp_run *run, const rp_node *n)
{
    rp_scope_frame *outer = run->frame;
    rp_list *items;
    rp_value over;

    RP_TRY(rp__run_eval(run, n->b, &over));
    RP_TRY(rp__value_items(run, &over, &items));
    RP_TRY(frame_new(run, outer, &run->frame));
    RP_TRY(chosen(run, n, items, &items));
    RP_TRY(items->n ? run_turns(run, n, items) : RP_OK);
    run->frame->names.n = 0;
    if (!items->n) RP_TRY(rp__run_body(run, n->other));
    run->frame = outer;
    return RP_OK;
}

/* ---- bodies ---- */

static const run_fn runs[] = {
    [RP_N_DATA] = run_data,           [RP_N_PRINT] = run_print, [RP_N_IF] = run_if,           [RP_N_FOR] = run_for,
    [RP_N_SET] = run_set,             [RP_N_SET_BLOCK] = run_set_block, [RP_N_MACRO] = run_macro, [RP_N_GENERATION] = run_generation,
    [RP_N_BREAK] = run_leave,         [RP_N_CONTINUE] = run_leave,
};

rp_status rp__run_body(rp_run *run, const rp_node *body)
{
    if (++run->depth > RP_TEMPLATE_RUN_DEPTH) return rp__run_fail(run, RP_ERR_FORMAT, "it is nested more than %d deep", RP_TEMPLATE_RUN_DEPTH);
    for (const rp_node *n = body; n && run->flow == RP_FLOW_ON; n = n->next) {
        run->line = n->line;
        RP_TRY(rp__run_step(run, 1));
        RP_TRY(runs[n->kind](run, n));
    }
    run->depth--;
    return RP_OK;
}

static rp_status captured_in(rp_run *run, const rp_node *body, rp_scope_frame *frame, rp_value *out)
{
    rp_scope_frame *frame_before = run->frame;
    rp_bytes *out_before         = run->out, bytes = { 0 };

    run->frame = frame;
    run->out   = &bytes;
    run->captures++;
    rp_status status = rp__run_body(run, body);
    run->captures--;
    run->out   = out_before;
    run->frame = frame_before;
    return rp__bytes_value(run, &bytes, status, out);
}

rp_status rp__run_captured(rp_run *run, const rp_node *body, rp_value *out)
{
    rp_scope_frame *frame;

    RP_TRY(frame_new(run, run->frame, &frame));
    return captured_in(run, body, frame, out);
}

/* ---- macros ---- */

static const rp_value *given(const rp_arguments *a, int i, rp_text name)
{
    if (i < a->n) return &a->item[i];
    for (int k = 0; k < a->n_keywords; k++)
        if (a->keyword[k].name.bytes == name.bytes && !memcmp(a->keyword[k].name.at, name.at, (size_t)name.bytes)) return &a->keyword[k].value;
    return NULL;
}

static rp_status bind(rp_run *run, const rp_node *parameters, const rp_arguments *a)
{
    int i = 0;

    for (const rp_node *p = parameters; p; p = p->next, i++) {
        const rp_value *v = given(a, i, p->name);
        rp_value fallback = { .kind = RP_V_UNDEFINED, .text = p->name };
        if (!v && p->b) RP_TRY(rp__run_eval(run, p->b, &fallback));
        RP_TRY(set_name(run, p->name, v ? v : &fallback));
    }
    if (a->n > i) return rp__run_fail(run, RP_ERR_FORMAT, "a macro of %d parameters is called with %d values", i, a->n);
    return RP_OK;
}

rp_status rp__run_call_macro(rp_run *run, const rp_macro *macro, const rp_arguments *a, rp_value *out)
{
    rp_scope_frame *caller = run->frame, *frame;

    RP_TRY(rp__run_step(run, RP_STEPS_CALL));
    RP_TRY(frame_new(run, macro->frame, &frame));
    run->frame       = frame;
    rp_status status = bind(run, macro->node->a, a);
    run->frame       = caller;
    RP_TRY(status);
    return captured_in(run, macro->node->body, frame, out);
}
