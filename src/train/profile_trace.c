/* train/profile_trace.c -- the profile in Chrome's trace event format: "X" is a span, "C" a counter, "M" a name; times in microseconds.
 *
 *   {"ph": "X", "pid": 1, "tid": 1, "ts": 10.250, "dur": 3.125, "name": "matmul", "cat": "replay",
 *    "args": {"path": "layers.0.mlp.up", "inputs": "…", "flops": …, "bytes": …, "GFLOP/s": …, "GB/s": …}}
 *
 * Source: "Trace Event Format", the specification for chrome://tracing. Fractions are composed of whole numbers, because the locale of the
 * program may write a decimal comma, which is not JSON.
 */
#include "train/profile_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ONE_THREAD "\"pid\": 1, \"tid\": 1"

static void put_text(profile_out *out, const char *text)
{
    rp__profile_put(out, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') rp__profile_put(out, "\\%c", c);
        else if (c < 0x20) rp__profile_put(out, "\\u%04x", c);
        else rp__profile_put(out, "%c", c);
    }
    rp__profile_put(out, "\"");
}

static int64_t nanoseconds(const rp_profile *p, double at) { return llround((at - p->step[0].began) * 1e9); }

static void put_thousandths(profile_out *out, const char *key, int64_t n)
{
    rp__profile_put(out, ", \"%s\": %" PRId64 ".%03" PRId64, key, n / 1000, n % 1000);
}

/* Rounds both ends and not the length, so that nested spans stay nested. */
static void put_times(const rp_profile *p, double began, double ended, profile_out *out)
{
    int64_t from = nanoseconds(p, began);

    put_thousandths(out, "ts", from);
    put_thousandths(out, "dur", nanoseconds(p, ended) - from);
}

static void put_rate(profile_out *out, const char *key, int64_t n, double seconds)
{
    if (n && seconds > 0) put_thousandths(out, key, llround((double)n / seconds * 1e-6));
}

static void put_step(const rp_profile *p, const profile_step *s, profile_out *out)
{
    rp__profile_put(out, ",\n{\"ph\": \"X\", " ONE_THREAD);
    put_times(p, s->began, s->ended, out);
    rp__profile_put(out, ", \"name\": \"step %" PRId64 "\", \"cat\": \"step\", \"args\": {\"tokens\": %" PRId64 ", \"minor_faults\": %" PRId64
                    ", \"major_faults\": %" PRId64 ", \"blocks_taken\": %" PRId64 ", \"bytes_taken\": %" PRId64 "}}", s->step, s->tokens,
                    s->minor_faults, s->major_faults, s->n_takes, s->taken_bytes);
}

static void put_args(const profile_kind *k, double seconds, profile_out *out)
{
    rp__profile_put(out, ", \"args\": {\"flops\": %" PRId64 ", \"bytes\": %" PRId64, k->flops, k->bytes);
    put_rate(out, "GFLOP/s", k->flops, seconds);
    put_rate(out, "GB/s", k->bytes, seconds);
    if (k->path) {
        rp__profile_put(out, ", \"path\": ");
        put_text(out, k->path);
    }
    if (k->shapes[0]) {
        rp__profile_put(out, ", \"inputs\": ");
        put_text(out, k->shapes);
    }
    rp__profile_put(out, "}");
}

static void put_event(const rp_profile *p, const profile_event *e, profile_out *out)
{
    const profile_kind *k = &p->kind[e->kind];

    rp__profile_put(out, ",\n{\"ph\": \"X\", " ONE_THREAD);
    put_times(p, e->began, e->ended, out);
    rp__profile_put(out, ", \"name\": ");
    put_text(out, k->name);
    rp__profile_put(out, ", \"cat\": \"%s\"", rp__profile_doings[k->doing]);
    if (k->doing != RP_DOING_PART) put_args(k, e->ended - e->began, out);
    rp__profile_put(out, "}");
}

static void put_live(const rp_profile *p, const profile_event *e, profile_out *out)
{
    rp__profile_put(out, ",\n{\"ph\": \"C\", \"pid\": 1");
    put_thousandths(out, "ts", nanoseconds(p, e->ended));
    rp__profile_put(out, ", \"name\": \"ledger live bytes\", \"args\": {\"bytes\": %" PRId64 "}}", e->live_bytes);
}

void rp__profile_put_trace(const rp_profile *p, profile_out *out)
{
    rp__profile_put(out, "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"events_left_out\": %" PRId64 "},\n\"traceEvents\": [\n", p->n_left_out);
    rp__profile_put(out, "{\"ph\": \"M\", " ONE_THREAD ", \"name\": \"process_name\", \"args\": {\"name\": \"reprise train\"}},\n");
    rp__profile_put(out, "{\"ph\": \"M\", " ONE_THREAD ", \"name\": \"thread_name\", \"args\": {\"name\": \"steps\"}}");
    for (int i = 0; i < p->n_steps; i++) put_step(p, &p->step[i], out);
    for (int i = 0; i < p->n_events; i++) {
        put_event(p, &p->event[i], out);
        put_live(p, &p->event[i], out);
    }
    rp__profile_put(out, "\n]}\n");
}
