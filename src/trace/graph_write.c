/* trace/graph_write.c -- writes a trace as a graph: one line for each input, call and tick. Keys with their default value
 * are left out. */
#include <limits.h>
#include <string.h>

#include "base/json_out.h"
#include "policy/policy.h"
#include "trace/graph.h"

enum { NONE = -1 };

typedef struct {
    rp_json_out out;
    const rp_trace_pass *pass;
    int *last;
} graph_writer; /* last: rp__trace_last_readers */

static void put(graph_writer *w, const char *text) { rp__json_out_text(&w->out, text); }

/* ---- values ---- */

/* The number of the producer makes names unique. */
static json_t *graph_name(const graph_writer *w, int v)
{
    const rp_trace_value *value = &w->pass->value[v];
    char text[RP_GRAPH_NAME_CHARS], nth[16] = "";

    if (value->call == NONE) {
        snprintf(text, sizeof text, "input %d", v);
        return json_string(text);
    }
    const rp_trace_call *c = &w->pass->call[value->call];
    if (value->nth) snprintf(nth, sizeof nth, " %d", value->nth);
    snprintf(text, sizeof text, "%d %.400s %.64s%s", value->call, c->path, c->meta.op->name, nth);
    return json_string(text);
}

static json_t *names_json(const graph_writer *w, const int *value, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++) json_array_append_new(list, graph_name(w, value[i]));
    return list;
}

static json_t *tick_json(int tick) { return tick == INT_MAX ? json_null() : json_integer(tick); }

static json_t *value_json(const graph_writer *w, int v)
{
    const rp_trace_value *value = &w->pass->value[v];
    json_t *out                 = json_pack("{s:o, s:I}", "name", graph_name(w, v), "bytes", (json_int_t)value->bytes);

    if (value->call == NONE) {
        json_object_set_new(out, "freed", json_true());
        return out;
    }
    if (value->until != w->last[v]) json_object_set_new(out, "until", tick_json(value->until));
    if (value->own != value->until) json_object_set_new(out, "program_until", tick_json(value->own));
    if (value->must) json_object_set_new(out, "fate", json_string(rp__fate_name((int)value->fate)));
    if (value->offloadable) json_object_set_new(out, "offloadable", json_true());
    if (value->copy > 0) json_object_set_new(out, "copy_seconds", json_real(value->copy));
    return out;
}

static void put_inputs(graph_writer *w)
{
    const char *between = "\n";

    put(w, "\"inputs\": [");
    for (int v = 0; v < w->pass->n_values; v++) {
        if (w->pass->value[v].call != NONE) continue;
        put(w, between);
        put(w, "    ");
        rp__json_out_value(&w->out, w->pass->value[v].dropped ? value_json(w, v) : graph_name(w, v));
        between = ",\n";
    }
    put(w, "],\n   ");
}

/* ---- calls ---- */

static void set_positive(json_t *object, const char *key, double seconds)
{
    if (seconds > 0) json_object_set_new(object, key, json_real(seconds));
}

static int64_t scratch_of(const rp_trace_pass *pass, const rp_trace_call *c)
{
    int64_t bytes = c->run_bytes;

    for (int i = 0; i < c->n_made; i++) bytes -= pass->value[c->made[i]].bytes;
    return bytes;
}

static json_t *graph_call(const graph_writer *w, const rp_trace_call *c)
{
    json_t *makes = json_array(), *out;
    int64_t scratch = scratch_of(w->pass, c);

    for (int i = 0; i < c->n_made; i++) json_array_append_new(makes, value_json(w, c->made[i]));
    out = json_pack("{s:s, s:s, s:o, s:o, s:o}", "path", c->path, "op", c->meta.op->name, "reads",
                    names_json(w, c->in, c->n_in), "makes", makes, "backward_reads", names_json(w, c->needs, c->n_needs));
    set_positive(out, "forward_seconds", c->forward);
    set_positive(out, "backward_seconds", c->backward);
    set_positive(out, "keep_seconds", c->keep);
    if (c->recompute != c->forward) json_object_set_new(out, "recompute_seconds", json_real(c->recompute));
    if (scratch) json_object_set_new(out, "scratch_bytes", json_integer(scratch));
    if (!c->replays) json_object_set_new(out, "reruns", json_false());
    if (c->meta.op->flags & RP_OP_COLLECTIVE) json_object_set_new(out, "collective", json_true());
    return out;
}

static void put_calls(graph_writer *w)
{
    put(w, "\"calls\": [");
    for (int c = 0; c < w->pass->n_calls; c++) {
        put(w, c ? ",\n    " : "\n    ");
        rp__json_out_value(&w->out, graph_call(w, &w->pass->call[c]));
    }
    put(w, "],\n   ");
}

/* ---- fixed bytes ---- */

static json_t *tick_bytes(const rp_trace_fixed *t)
{
    if (t->before == t->most && t->before == t->before_unfetched && t->most == t->most_unfetched)
        return json_integer(t->before);
    json_t *out = json_pack("[I, I]", (json_int_t)t->before, (json_int_t)t->most);
    if (t->before == t->before_unfetched && t->most == t->most_unfetched) return out;
    json_array_append_new(out, json_integer(t->before_unfetched));
    json_array_append_new(out, json_integer(t->most_unfetched));
    return out;
}

/* The bytes of each call, in the order of the calls. */
static json_t *ticks_json(const graph_writer *w, const rp_trace_fixed *at, bool backward)
{
    json_t *list = json_array();
    int n        = w->pass->n_calls;

    for (int c = 0; c < n; c++) json_array_append_new(list, tick_bytes(&at[backward ? 2 * n - 1 - c : c]));
    return list;
}

static void put_fixed(graph_writer *w)
{
    put(w, "\"fixed_bytes\": [");
    for (int k = 0; k < w->pass->n_fixed; k++) {
        put(w, k ? ",\n    {\"forward\": " : "\n    {\"forward\": ");
        rp__json_out_value(&w->out, ticks_json(w, w->pass->fixed[k], false));
        put(w, ",\n     \"backward\": ");
        rp__json_out_value(&w->out, ticks_json(w, w->pass->fixed[k], true));
        put(w, "}");
    }
    put(w, "]}");
}

/* ---- the file ---- */

static void put_pass(graph_writer *w, const rp_trace_pass *pass)
{
    w->pass = pass;
    w->last = rp__host_alloc(w->out.ctx, (pass->n_values + 1) * (int64_t)sizeof *w->last);
    if (!w->last) {
        w->out.status = RP_ERR_MEMORY;
        return;
    }
    rp__trace_last_readers(pass, w->last);
    put(w, "{\"times\": ");
    rp__json_out_value(&w->out, json_integer(pass->n_passes));
    put(w, ",\n   ");
    put_inputs(w);
    put_calls(w);
    put_fixed(w);
    rp__release(w->last);
}

static double bandwidth_of(const rp_trace *trace)
{
    double most = 0;

    for (int i = 0; i < trace->n_passes; i++)
        if (trace->pass[i].bandwidth > most) most = trace->pass[i].bandwidth;
    return most;
}

static void put_number(graph_writer *w, const char *key, json_t *value)
{
    put(w, ",\n \"");
    put(w, key);
    put(w, "\": ");
    rp__json_out_value(&w->out, value);
}

rp_status rp__graph_write(rp_ctx *ctx, const char *path, const rp_trace *trace, int64_t budget, double other_seconds)
{
    graph_writer w   = { .pass = NULL };
    double bandwidth = bandwidth_of(trace);

    RP_TRY(rp__json_out_open(ctx, path, "a graph", &w.out));
    put(&w, "{\"reprise_graph\": 1");
    if (budget) put_number(&w, "budget_bytes", json_integer(budget));
    put_number(&w, "outside_bytes", json_integer(trace->outside));
    put_number(&w, "other_seconds", json_real(other_seconds));
    if (bandwidth > 0) put_number(&w, "offload_bytes_per_second", json_real(bandwidth));
    put(&w, ",\n \"passes\": [");
    for (int i = 0; i < trace->n_passes && w.out.status == RP_OK; i++) {
        put(&w, i ? ",\n  " : "\n  ");
        put_pass(&w, &trace->pass[i]);
    }
    put(&w, "]}\n");
    return rp__json_out_close(&w.out);
}
