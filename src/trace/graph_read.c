/* trace/graph_read.c -- reads a graph into a trace. Names make graphs valid by construction: a call reads only values that
 * inputs and earlier calls make. Limits keep the work of reading and planning bounded, and sums of bytes within 64 bits.
 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/json_text.h"
#include "ops/call.h"
#include "policy/policy.h"
#include "trace/graph.h"
#include "trace/internal.h"

enum { NONE = -1, MOST_FILE = 64 << 20, MOST_PASSES = 16, MOST_CALLS = 1 << 13, MOST_VALUES = 1 << 15, MOST_KINDS = 16 };
enum { MOST_TIMES = 1 << 20, MOST_FREED = 256, MOST_TEXT = 400, PLACE_CHARS = 1200 };
#define MOST_BYTES (INT64_C(1) << 42)           /* of a value, and of scratch */
#define MOST_FIXED (INT64_C(1) << 46)           /* of a tick */
#define MOST_SECONDS 1e9
#define LEAST_SECONDS 1e-15                     /* shorter times count as 0, so rounding stays in the range of a double */

typedef struct {
    rp_ctx *ctx;
    const char *file;
    rp_graph *graph;
    rp_bump *bump;
    rp_trace_pass *pass;
    const char **name;                          /* of the pass's values */
    json_t *number;                             /* of the values of the pass, by name */
    json_t *const *call;                        /* the pass's calls in the file */
    int at_pass, at_call, n_room, n_freed;      /* NONE: none · room for values · inputs that backward frees */
    const char *at_value;                       /* NULL: none */
    double bandwidth;
} graph_reader;

/* ---- messages ---- */

static rp_status no_memory(const graph_reader *r)
{
    return rp_fail(r->ctx, RP_ERR_MEMORY, "no memory to read the graph '%s'", r->file);
}

static const char *place(const graph_reader *r, char out[PLACE_CHARS])
{
    int n = 0;

    *out = 0;
    if (r->at_pass != NONE) n += snprintf(out + n, PLACE_CHARS - (size_t)n, "pass %d, ", r->at_pass);
    if (r->at_call != NONE) n += snprintf(out + n, PLACE_CHARS - (size_t)n, "call %d, ", r->at_call);
    if (r->at_value) snprintf(out + n, PLACE_CHARS - (size_t)n, "value '%s', ", r->at_value);
    return out;
}

static rp_status wrong(const graph_reader *r, const char *key, const char *why)
{
    char where[PLACE_CHARS];

    return rp_fail(r->ctx, RP_ERR_FORMAT, "graph '%s': %s'%s' %s", r->file, place(r, where), key, why);
}

/* The same about a value that the key names. */
static rp_status wrong_name(const graph_reader *r, const char *key, const char *why, const char *name)
{
    char text[MOST_TEXT + 128];

    snprintf(text, sizeof text, "%s '%.*s'", why, MOST_TEXT, name);
    return wrong(r, key, text);
}

static rp_status outside(const graph_reader *r, const char *key, int64_t low, int64_t high)
{
    char text[128];

    snprintf(text, sizeof text, "must be a whole number from %" PRId64 " to %" PRId64, low, high);
    return wrong(r, key, text);
}

/* ---- keys ---- */

/* Is it an object without other keys than these? */
static rp_status check_keys(const graph_reader *r, const char *of, json_t *object, const char *const *known)
{
    const char *key;
    json_t *value;

    if (!json_is_object(object)) return wrong(r, of, "must be an object");
    json_object_foreach(object, key, value) {
        int i = 0;
        while (known[i] && strcmp(known[i], key)) i++;
        if (!known[i]) return wrong_name(r, of, "has an unknown key", key);
    }
    return RP_OK;
}

/* An absent key has the value `otherwise`; if that is below `low`, the key is required. */
static rp_status read_whole(const graph_reader *r, const json_t *object, const char *key, int64_t low, int64_t high,
                            int64_t otherwise, int64_t *out)
{
    const json_t *v = json_object_get(object, key);

    *out = v ? json_integer_value(v) : otherwise;
    return (v && !json_is_integer(v)) || *out < low || *out > high ? outside(r, key, low, high) : RP_OK;
}

static rp_status read_seconds(const graph_reader *r, const json_t *object, const char *key, double otherwise, double *out)
{
    const json_t *v = json_object_get(object, key);

    *out = v ? json_number_value(v) : otherwise;
    if ((v && !json_is_number(v)) || !(*out >= 0 && *out <= MOST_SECONDS))
        return wrong(r, key, "must be a number of seconds from 0 to 1e9");
    if (*out < LEAST_SECONDS) *out = 0;
    return RP_OK;
}

static rp_status read_flag(const graph_reader *r, const json_t *object, const char *key, bool otherwise, bool *out)
{
    const json_t *v = json_object_get(object, key);

    *out = v ? json_is_true(v) : otherwise;
    return v && !json_is_boolean(v) ? wrong(r, key, "must be true or false") : RP_OK;
}

/* An absent text is `otherwise`; NULL: the key is required. */
static rp_status read_text(const graph_reader *r, const json_t *object, const char *key, const char *otherwise,
                           const char **out)
{
    const json_t *v  = json_object_get(object, key);
    const char *text = v ? json_string_value(v) : otherwise;

    if (!text || strlen(text) > MOST_TEXT) return wrong(r, key, "must be a text of at most 400 bytes");
    *out = rp__bump_text(r->bump, text, (int64_t)strlen(text));
    return *out ? RP_OK : RP_ERR_MEMORY;
}

static rp_status read_list(const graph_reader *r, const json_t *object, const char *key, int low, int high, json_t **out)
{
    char text[64];

    *out = json_object_get(object, key);
    if (json_is_array(*out) && (int64_t)json_array_size(*out) >= low && (int64_t)json_array_size(*out) <= high) return RP_OK;
    if (!*out && !low) return RP_OK;
    snprintf(text, sizeof text, "must be a list of %d to %d entries", low, high);
    return wrong(r, key, text);
}

/* ---- values ---- */

static rp_status add_value(graph_reader *r, const json_t *from, const char *key, rp_trace_value value, int *out)
{
    const char *name = NULL;
    rp_trace_pass *p = r->pass;

    if (json_is_string(from)) {
        name = json_string_value(from);
        if (strlen(name) > MOST_TEXT) return wrong(r, key, "must have names of at most 400 bytes");
        name = rp__bump_text(r->bump, name, (int64_t)strlen(name));
        if (!name) return RP_ERR_MEMORY;
    } else RP_TRY(read_text(r, from, "name", NULL, &name));
    if (json_object_get(r->number, name)) return wrong_name(r, key, "names a second value", name);
    if (p->n_values == r->n_room) return wrong(r, key, "has more than 32768 values before it");
    if (json_object_set_new(r->number, name, json_integer(p->n_values)) < 0) return no_memory(r);
    r->name[p->n_values]  = name;
    p->value[p->n_values] = value;
    *out                  = p->n_values++;
    return RP_OK;
}

static rp_status read_input(graph_reader *r, json_t *from)
{
    static const char *const keys[] = { "name", "bytes", "freed", NULL };
    rp_trace_value value            = { .call = NONE, .until = INT_MAX };
    bool freed                      = false;
    int v;

    if (!json_is_string(from)) {
        RP_TRY(check_keys(r, "inputs", from, keys));
        RP_TRY(read_flag(r, from, "freed", false, &freed));
        RP_TRY(read_whole(r, from, "bytes", 0, MOST_BYTES, freed ? -1 : 0, &value.bytes));
    }
    if (freed && r->n_freed++ == MOST_FREED) return wrong(r, "inputs", "has more than 256 that are 'freed'");
    value.dropped = freed;                      /* the tick follows when all readers are known */
    return add_value(r, from, "inputs", value, &v);
}

static rp_status read_fate(const graph_reader *r, const json_t *from, rp_trace_value *v)
{
    const json_t *fate = json_object_get(from, "fate");
    int is             = json_is_string(fate) ? rp__fate_find(json_string_value(fate)) : RP_NO_FATE;

    if (!fate) return RP_OK;
    if (is != RP_KEEP && is != RP_RECOMPUTE && is != RP_OFFLOAD)
        return wrong(r, "fate", "must be 'keep', 'recompute' or 'offload'");
    v->must = true;
    v->fate = (rp_fate)is;
    return RP_OK;
}

static rp_status read_made(graph_reader *r, json_t *from, int nth, int *out)
{
    static const char *const keys[] = { "name", "bytes", "until", "program_until", "fate", "offloadable",
                                        "copy_seconds", NULL };
    rp_trace_value v                = { .call = r->at_call, .nth = nth };

    RP_TRY(check_keys(r, "makes", from, keys));
    RP_TRY(add_value(r, from, "makes", v, out));
    r->at_value = r->name[*out];
    RP_TRY(read_whole(r, from, "bytes", 0, MOST_BYTES, -1, &v.bytes));
    RP_TRY(read_fate(r, from, &v));
    RP_TRY(read_flag(r, from, "offloadable", false, &v.offloadable));
    RP_TRY(read_seconds(r, from, "copy_seconds", 0, &v.copy));
    if (v.must && v.offloadable) return wrong(r, "offloadable", "has no effect on a value with a 'fate'");
    if ((v.offloadable || v.fate == RP_OFFLOAD) && r->bandwidth <= 0)
        return wrong(r, "offload_bytes_per_second", "is missing: it is needed to offload values");
    r->pass->value[*out] = v;
    r->at_value          = NULL;
    return RP_OK;
}

/* ---- calls ---- */

static rp_status read_names(graph_reader *r, const json_t *object, const char *key, int most, int *list, int *n)
{
    json_t *names;

    RP_TRY(read_list(r, object, key, 0, most, &names));
    *n = (int)json_array_size(names);
    for (int i = 0; i < *n; i++) {
        const char *name     = json_string_value(json_array_get(names, (size_t)i));
        const json_t *number = name ? json_object_get(r->number, name) : NULL;
        if (!name) return wrong(r, key, "must be a list of names");
        if (!number) return wrong_name(r, key, "has a value that no input and no call before makes:", name);
        list[i] = (int)json_integer_value(number);
    }
    return RP_OK;
}

/* Marks in meta.needs which inputs and results the backward reads. */
static rp_status mark_needs(const graph_reader *r, rp_trace_call *c)
{
    for (int i = 0; i < c->n_needs; i++) {
        uint32_t bit = 0;
        for (int j = 0; j < c->n_in && !bit; j++)
            if (c->in[j] == c->needs[i] && !(c->meta.needs & RP_IN(j))) bit = RP_IN(j);
        for (int j = 0; j < c->n_made && !bit; j++)
            if (c->made[j] == c->needs[i] && !(c->meta.needs & rp__op_made_bit(&c->meta, j)))
                bit = rp__op_made_bit(&c->meta, j);
        if (!bit)
            return wrong_name(r, "backward_reads",
                              "has a value that is not in the call's 'reads' or 'makes':", r->name[c->needs[i]]);
        c->meta.needs |= bit;
    }
    return RP_OK;
}

static rp_status read_makes(graph_reader *r, const json_t *from, rp_trace_call *c)
{
    json_t *makes;

    RP_TRY(read_list(r, from, "makes", 1, RP_TRACE_MADE, &makes));
    for (; c->n_made < (int)json_array_size(makes); c->n_made++) {
        RP_TRY(read_made(r, json_array_get(makes, (size_t)c->n_made), c->n_made, &c->made[c->n_made]));
        c->run_bytes += r->pass->value[c->made[c->n_made]].bytes;
    }
    c->meta.n_in   = c->n_in;
    c->meta.n_out  = c->n_made < RP_MAX_OUT ? c->n_made : RP_MAX_OUT;
    c->meta.n_slot = c->n_made - c->meta.n_out;
    return RP_OK;
}

static rp_status read_op(graph_reader *r, const json_t *from, rp_trace_call *c)
{
    rp_op *op = rp__bump_alloc(r->bump, sizeof *op);
    bool collective;

    if (!op) return RP_ERR_MEMORY;
    RP_TRY(read_text(r, from, "op", "call", &op->name));
    RP_TRY(read_text(r, from, "path", "", &c->path));
    RP_TRY(read_flag(r, from, "collective", false, &collective));
    if (collective) op->flags = RP_OP_COLLECTIVE;
    c->meta = (rp_op_meta){ .op = op, .ctx = r->ctx };
    return RP_OK;
}

static rp_status read_call(graph_reader *r, json_t *from, rp_trace_call *c)
{
    static const char *const keys[] = { "path", "op", "reads", "makes", "backward_reads", "forward_seconds",
                                        "backward_seconds", "keep_seconds", "recompute_seconds", "scratch_bytes", "reruns", "collective", NULL };
    int64_t scratch;

    RP_TRY(check_keys(r, "calls", from, keys));
    RP_TRY(read_op(r, from, c));
    RP_TRY(read_names(r, from, "reads", RP_MAX_IN, c->in, &c->n_in));
    RP_TRY(read_makes(r, from, c));
    RP_TRY(read_names(r, from, "backward_reads", RP_TRACE_NEEDS, c->needs, &c->n_needs));
    RP_TRY(mark_needs(r, c));
    RP_TRY(read_seconds(r, from, "forward_seconds", 0, &c->forward));
    RP_TRY(read_seconds(r, from, "backward_seconds", 0, &c->backward));
    RP_TRY(read_seconds(r, from, "keep_seconds", 0, &c->keep));
    RP_TRY(read_seconds(r, from, "recompute_seconds", c->forward, &c->recompute));
    RP_TRY(read_flag(r, from, "reruns", true, &c->replays));
    RP_TRY(read_whole(r, from, "scratch_bytes", 0, MOST_BYTES, 0, &scratch));
    c->run_bytes += scratch;
    return RP_OK;
}

/* ---- fixed bytes ---- */

/* An entry is a number, [before, most], or these with and without the values that must-rules offload. */
static bool tick_of(const json_t *from, rp_trace_fixed *out)
{
    int64_t n[4] = { 0 };
    size_t size  = json_array_size(from), given = size ? size : 1;

    if (!json_is_integer(from) && size != 2 && size != 4) return false;
    for (size_t i = 0; i < given; i++) {
        const json_t *v = size ? json_array_get(from, i) : from;
        n[i]            = json_integer_value(v);
        if (!json_is_integer(v) || n[i] < 0 || n[i] > MOST_FIXED) return false;
    }
    if (given == 1) n[1] = n[0];
    if (given < 4) memcpy(&n[2], &n[0], 2 * sizeof *n);
    *out = (rp_trace_fixed){ n[0], n[1], n[2], n[3] };
    return n[0] <= n[1] && n[2] <= n[3] && n[2] <= n[0] && n[3] <= n[1];
}

static rp_status read_ticks(const graph_reader *r, const json_t *kind, const char *key, rp_trace_fixed *at, bool backward)
{
    int n = r->pass->n_calls;
    json_t *list;

    RP_TRY(read_list(r, kind, key, n, n, &list));
    for (int c = 0; c < n; c++)
        if (!tick_of(json_array_get(list, (size_t)c), &at[backward ? 2 * n - 1 - c : c]))
            return wrong(r, key, "must have whole numbers from 0 to 70368744177664, or rising pairs of them");
    return RP_OK;
}

static rp_status read_kind(graph_reader *r, json_t *from, rp_trace_fixed **out)
{
    static const char *const keys[] = { "forward", "backward", NULL };
    int n                           = r->pass->n_calls;
    rp_trace_fixed *at              = rp__bump_alloc(r->bump, (2 * n + 1) * (int64_t)sizeof *at);

    if (!at) return RP_ERR_MEMORY;
    *out = at;
    if (!json_is_integer(from)) {
        RP_TRY(check_keys(r, "fixed_bytes", from, keys));
        RP_TRY(read_ticks(r, from, "forward", at, false));
        return read_ticks(r, from, "backward", at, true);
    }
    for (int t = 0; t < 2 * n; t++)
        if (!tick_of(from, &at[t])) return outside(r, "fixed_bytes", 0, MOST_FIXED);
    return RP_OK;
}

static rp_status read_fixed(graph_reader *r, json_t *from)
{
    rp_trace_pass *p = r->pass;
    json_t *fixed    = json_object_get(from, "fixed_bytes"), *zero = NULL;

    p->fixed = rp__bump_alloc(r->bump, MOST_KINDS * (int64_t)sizeof *p->fixed);
    if (!p->fixed) return RP_ERR_MEMORY;
    if (json_is_array(fixed)) {
        RP_TRY(read_list(r, from, "fixed_bytes", 1, MOST_KINDS, &fixed));
        for (; p->n_fixed < (int)json_array_size(fixed); p->n_fixed++)
            RP_TRY(read_kind(r, json_array_get(fixed, (size_t)p->n_fixed), &p->fixed[p->n_fixed]));
        return RP_OK;
    }
    if (!fixed && !(fixed = zero = json_integer(0))) return no_memory(r);
    rp_status status = read_kind(r, fixed, &p->fixed[p->n_fixed++]);
    json_decref(zero);
    return status;
}

/* Until it is freed, an input that backward frees is part of the fixed bytes. */
static rp_status check_freed(const graph_reader *r)
{
    const rp_trace_pass *p = r->pass;
    int ticks              = 2 * p->n_calls;
    int64_t *until         = rp__bump_alloc(r->bump, (ticks + 1) * (int64_t)sizeof *until), live = 0;

    if (!until) return RP_ERR_MEMORY;
    for (int v = 0; v < p->n_values; v++) until[p->value[v].dropped] += p->value[v].dropped ? p->value[v].bytes : 0;
    for (int t = ticks - 1; t >= p->n_calls; t--) {
        live += until[t + 1];
        for (int k = 0; k < p->n_fixed; k++)
            if (p->fixed[k][t].before_unfetched < live)
                return wrong(r, "fixed_bytes", "must include the 'inputs' that are 'freed' later");
    }
    return RP_OK;
}

/* ---- after all calls ---- */

/* A tick of the forward from `low` on; null: the end of the pass. */
static rp_status read_until(const graph_reader *r, const json_t *from, const char *key, int low, int otherwise, int *out)
{
    const json_t *v = json_object_get(from, key);
    int64_t tick    = otherwise;

    *out = v && json_is_null(v) ? INT_MAX : otherwise;
    if (!v || json_is_null(v)) return RP_OK;
    RP_TRY(read_whole(r, from, key, low, r->pass->n_calls - 1, low, &tick));
    *out = (int)tick;
    return RP_OK;
}

/* As rp__trace_first_reader, for all values: the last call of a pass is never rerun. */
static void find_first_readers(const rp_trace_pass *p, int *first)
{
    for (int v = 0; v < p->n_values; v++) first[v] = NONE;
    for (int c = p->n_calls - 1; c >= 0; c--) {
        for (int i = 0; i < p->call[c].n_needs; i++) first[p->call[c].needs[i]] = c;
        for (int i = 0; i < p->call[c].n_in && c < p->n_calls - 1; i++) first[p->call[c].in[i]] = c;
    }
}

static rp_status read_lives(graph_reader *r)
{
    rp_trace_pass *p = r->pass;
    int *last        = rp__bump_alloc(r->bump, 2 * (p->n_values + 1) * (int64_t)sizeof *last), *first;

    if (!last) return RP_ERR_MEMORY;
    first = last + p->n_values;
    rp__trace_last_readers(p, last);
    find_first_readers(p, first);
    for (int v = 0; v < p->n_values; v++) {
        rp_trace_value *value = &p->value[v];
        if (value->call == NONE) {
            value->dropped = !value->dropped ? 0 : first[v] == NONE ? p->n_calls : 2 * p->n_calls - first[v];
            continue;
        }
        const json_t *from = json_array_get(json_object_get(r->call[value->call], "makes"), (size_t)value->nth);
        r->at_call         = value->call;
        r->at_value        = r->name[v];
        RP_TRY(read_until(r, from, "until", last[v], last[v], &value->until));
        RP_TRY(read_until(r, from, "program_until", value->call, value->until, &value->own));
        if (value->own > value->until) return wrong(r, "program_until", "must not exceed 'until'");
        r->at_value = NULL;
    }
    r->at_call = NONE;
    return RP_OK;
}

/* ---- a pass ---- */

static int count_values(const json_t *from)
{
    const json_t *calls = json_object_get(from, "calls");
    size_t n            = json_array_size(json_object_get(from, "inputs")), i;
    json_t *c;

    json_array_foreach(calls, i, c) n += json_array_size(json_object_get(c, "makes"));
    return n < MOST_VALUES ? (int)n : MOST_VALUES;
}

static rp_status read_calls(graph_reader *r, const json_t *from)
{
    rp_trace_pass *p = r->pass;
    json_t *inputs, *calls, **list;

    RP_TRY(read_list(r, from, "calls", 1, MOST_CALLS, &calls));
    RP_TRY(read_list(r, from, "inputs", 0, MOST_VALUES, &inputs));
    for (size_t i = 0; i < json_array_size(inputs); i++) RP_TRY(read_input(r, json_array_get(inputs, i)));
    p->call = rp__bump_alloc(r->bump, ((int64_t)json_array_size(calls) + 1) * (int64_t)sizeof *p->call);
    list    = rp__bump_alloc(r->bump, ((int64_t)json_array_size(calls) + 1) * (int64_t)sizeof *list);
    if (!p->call || !list) return RP_ERR_MEMORY;
    r->call = list;
    for (; p->n_calls < (int)json_array_size(calls); p->n_calls++) {
        r->at_call       = p->n_calls;
        list[p->n_calls] = json_array_get(calls, (size_t)p->n_calls);
        RP_TRY(read_call(r, list[p->n_calls], &p->call[p->n_calls]));
    }
    r->at_call = NONE;
    return RP_OK;
}

static void add_seconds(rp_trace *trace, const rp_trace_pass *p)
{
    for (int c = 0; c < p->n_calls; c++) {
        trace->seconds += (p->call[c].forward + p->call[c].backward + p->call[c].keep) * p->n_passes;
        trace->forward_seconds += p->call[c].forward * p->n_passes;
    }
}

static rp_status read_pass(graph_reader *r, json_t *from)
{
    static const char *const keys[] = { "times", "inputs", "calls", "fixed_bytes", NULL };
    rp_trace_pass *p                = r->pass;
    int64_t times;

    RP_TRY(check_keys(r, "passes", from, keys));
    RP_TRY(read_whole(r, from, "times", 1, MOST_TIMES, 1, &times));
    *p        = (rp_trace_pass){ .hash = (uint64_t)r->at_pass, .n_passes = (int)times, .bandwidth = r->bandwidth };
    r->n_room = count_values(from);
    p->value  = rp__bump_alloc(r->bump, (r->n_room + 1) * (int64_t)sizeof *p->value);
    r->name   = rp__bump_alloc(r->bump, (r->n_room + 1) * (int64_t)sizeof *r->name);
    if (!p->value || !r->name) return RP_ERR_MEMORY;
    r->graph->name[r->at_pass] = r->name;
    RP_TRY(read_calls(r, from));
    RP_TRY(read_lives(r));
    RP_TRY(read_fixed(r, from));
    RP_TRY(check_freed(r));
    rp__trace_round(p);
    add_seconds(&r->graph->trace, p);
    return RP_OK;
}

/* ---- the file ---- */

static rp_status read_bandwidth(graph_reader *r, const json_t *root)
{
    const json_t *v = json_object_get(root, "offload_bytes_per_second");

    r->bandwidth = json_number_value(v);
    if (v && !(r->bandwidth >= 1 && r->bandwidth <= 1e18))
        return wrong(r, "offload_bytes_per_second", "must be a number from 1 to 1e18");
    return RP_OK;
}

static rp_status read_passes(graph_reader *r, const json_t *root)
{
    rp_graph *g = r->graph;
    json_t *passes;
    int n;

    RP_TRY(read_list(r, root, "passes", 1, MOST_PASSES, &passes));
    n              = (int)json_array_size(passes);
    g->trace.pass  = rp__bump_alloc(r->bump, n * (int64_t)sizeof *g->trace.pass);
    g->trace.order = rp__bump_alloc(r->bump, n * (int64_t)sizeof *g->trace.order);
    g->name        = rp__bump_alloc(r->bump, n * (int64_t)sizeof *g->name);
    if (!g->trace.pass || !g->trace.order || !g->name) return RP_ERR_MEMORY;
    for (; g->trace.n_passes < n; g->trace.n_passes++) {
        r->at_pass = g->trace.n_passes;
        r->pass    = &g->trace.pass[r->at_pass];
        g->trace.order[g->trace.n_order++] = r->at_pass;
        r->number = json_object();
        rp_status status = r->number ? read_pass(r, json_array_get(passes, (size_t)r->at_pass)) : no_memory(r);
        json_decref(r->number);
        RP_TRY(status);
    }
    return RP_OK;
}

static rp_status read_graph(graph_reader *r, json_t *root)
{
    static const char *const keys[] = {
        "reprise_graph", "budget_bytes", "outside_bytes", "other_seconds", "offload_bytes_per_second", "passes", NULL
    };
    int64_t version;

    if (!json_object_get(root, "reprise_graph")) return wrong(r, "reprise_graph", "is missing: the file is no graph");
    RP_TRY(read_whole(r, root, "reprise_graph", 1, INT64_MAX, 0, &version));
    if (version != RP_GRAPH_VERSION) return wrong(r, "reprise_graph", "is of another version, this program reads version 1");
    RP_TRY(check_keys(r, "reprise_graph", root, keys));
    RP_TRY(read_whole(r, root, "budget_bytes", 1, INT64_MAX / 4, INT64_MAX / 4, &r->graph->budget));
    if (r->graph->budget == INT64_MAX / 4) r->graph->budget = 0;
    RP_TRY(read_whole(r, root, "outside_bytes", 0, MOST_FIXED, 0, &r->graph->trace.outside));
    RP_TRY(read_seconds(r, root, "other_seconds", 0, &r->graph->other_seconds));
    RP_TRY(read_bandwidth(r, root));
    return read_passes(r, root);
}

rp_status rp__graph_parse(rp_ctx *ctx, const char *file, const char *text, int64_t bytes, rp_graph *out)
{
    rp_graph graph = { .trace = { .bump = { .ctx = ctx } } };
    graph_reader r = {
        .ctx = ctx, .file = file, .graph = &graph, .bump = &graph.trace.bump, .at_pass = NONE, .at_call = NONE
    };
    json_error_t error;
    json_t *root = rp__json_read(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error);

    if (!root && json_error_code(&error) == json_error_out_of_memory) return no_memory(&r);
    if (!root) return rp_fail(ctx, RP_ERR_FORMAT, "graph '%s': line %d: %s", file, error.line, error.text);
    rp_status status = read_graph(&r, root);
    json_decref(root);
    if (status == RP_OK) *out = graph;
    else rp__graph_close(&graph);
    return status;
}

rp_status rp__graph_read(rp_ctx *ctx, const char *path, rp_graph *out)
{
    int64_t bytes;
    char *text;

    RP_TRY(rp__file_read(ctx, path, MOST_FILE, &text, &bytes));
    rp_status status = rp__graph_parse(ctx, path, text, bytes, out);
    rp__release(text);
    return status;
}

void rp__graph_close(rp_graph *graph)
{
    rp__trace_close(&graph->trace);
    *graph = (rp_graph){ 0 };
}
