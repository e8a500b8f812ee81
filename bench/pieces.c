/* bench/pieces.c -- a piece of a step, forward and backward, timed and weighed as bench/pieces asks for it, in turn with peer_pieces.py.
 *
 *   bench_pieces PIECE SIZE ... [--dtype fp32|bf16] [--dropout P] [--keep-logits] [--threads N]
 *
 *   attention             BATCH LENGTH HEADS KV_HEADS DIM      causal
 *   linear_cross_entropy  ROWS WIDTH CLASSES                   the mean over rows; logits made again, or kept
 *   rmsnorm, swiglu       ROWS WIDTH
 *   adamw                 ELEMENTS                             an update of one parameter, states in its dtype
 *
 * A line says that it is warm; then, for each line "calls N" that is read, N calls, of which the mean is told, and before several one that counts
 * for nothing (the other side has had the caches, and its threads may still look for work); for each "bytes" one whose peak is looked at.
 * A call is all of it: the op declares what it needs, outputs, by-products, scratch and gradients are taken from the ledger, and given
 * back. Lasting are inputs, their gradients, the gradient of the output, and the states of an optimizer.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "cost/cost.h"
#include "ops/call.h"
#include "optim/optim.h"

enum { MOST_SIZES = 5, WARM_CALLS = 3 };

typedef union { rp_attr_attention attention; rp_attr_cross_entropy loss; rp_attr_norm norm; } attributes;

typedef struct piece piece;

typedef struct {
    const piece *piece;
    rp_ctx *ctx;
    rp_dtype dtype;
    int64_t size[MOST_SIZES], n_calls;
    float dropout;
    bool keeps_logits;
    int threads, n_in;
    uint64_t drawn;                     /* state of the generator of inputs */
    attributes attr;
    rp_tensor *in[RP_MAX_IN], *grad_out;
    rp_optim *optim;
} bench;

struct piece {
    const char *name;
    int n_sizes;
    void (*open)(bench *b);
    void (*call)(bench *b);
};

static void fail(const bench *b, const char *what)
{
    fprintf(stderr, "bench_pieces: %s: %s\n", what, b && b->ctx ? rp_error(b->ctx) : "");
    exit(1);
}

static void must(const bench *b, rp_status status)
{
    if (status != RP_OK) fail(b, b->piece->name);
}

/* ---- inputs ---- */

static uint32_t draw(bench *b)
{
    b->drawn = b->drawn * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(b->drawn >> 33);
}

/* Numbers in [-1, 1); int32: in [0, high). */
static rp_tensor *filled(bench *b, rp_dtype dtype, int n, const int64_t *dim, int32_t high)
{
    rp_meta meta  = rp_meta_make(dtype, n, dim);
    int64_t elems = rp_meta_elems(&meta);
    rp_tensor *t;

    must(b, rp_tensor_new(b->ctx, &meta, RP_MEM_TEMP, &t));
    void *to = rp__tensor_data(t);
    for (int64_t i = 0; i < elems; i++) {
        float v = (float)draw(b) / 1073741824.0f - 1.0f;
        if (dtype == RP_F32) ((float *)to)[i] = v;
        else if (dtype == RP_BF16) ((uint16_t *)to)[i] = rp__bf16_from_f32(v);
        else ((int32_t *)to)[i] = (int32_t)(draw(b) % (uint32_t)high);
    }
    return t;
}

static void add_input(bench *b, int n, const int64_t *dim) { b->in[b->n_in++] = filled(b, b->dtype, n, dim, 0); }

static void open_attention(bench *b)
{
    int64_t batch = b->size[0], length = b->size[1], dim = b->size[4];
    int64_t q[] = { batch, length, b->size[2], dim }, kv[] = { batch, length, b->size[3], dim };

    b->attr.attention = (rp_attr_attention){ .scale = 1.0f / sqrtf((float)dim), .dropout = b->dropout, .causal = true };
    add_input(b, 4, q);
    add_input(b, 4, kv);
    add_input(b, 4, kv);
    b->grad_out = filled(b, b->dtype, 4, q, 0);
}

static void open_loss(bench *b)
{
    int64_t rows = b->size[0], width = b->size[1], classes = b->size[2];

    b->attr.loss = (rp_attr_cross_entropy){ .weight = 1.0f / (float)rows, .ignore_index = -100, .keeps_logits = b->keeps_logits };
    add_input(b, 2, (int64_t[]){ rows, width });
    add_input(b, 2, (int64_t[]){ classes, width });
    b->in[b->n_in++] = filled(b, RP_I32, 1, &rows, (int32_t)classes);
    b->grad_out      = filled(b, RP_F32, 1, (int64_t[]){ 1 }, 0);
    rp_tensor_write(b->grad_out, (double[]){ 1 }, 1);
}

static void open_norm(bench *b)
{
    b->attr.norm = (rp_attr_norm){ .eps = 1e-5f };
    add_input(b, 2, b->size);
    add_input(b, 1, b->size + 1);
    b->grad_out = filled(b, b->dtype, 2, b->size, 0);
}

static void open_swiglu(bench *b)
{
    add_input(b, 2, b->size);
    add_input(b, 2, b->size);
    b->grad_out = filled(b, b->dtype, 2, b->size, 0);
}

static void open_update(bench *b)
{
    rp_optim_config config = { .name = "adamw", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .state_dtype = b->dtype };

    b->in[0]    = filled(b, b->dtype, 1, b->size, 0);
    b->grad_out = filled(b, b->dtype, 1, b->size, 0);
    must(b, rp__optim_new(b->ctx, &config, &(rp_optim_param){ .path = "bench", .tensor = b->in[0] }, 1, &b->optim));
}

/* ---- a call ---- */

static void drop(rp_tensor **t, int n)
{
    for (int i = 0; i < n; i++) rp_tensor_unref(t[i]);
}

/* run has what forward made; backward is shown what it reads. */
static void backward(bench *b, const rp_op_meta *m, rp_op_call *run)
{
    rp_op_call seen = *run;

    seen.grad_out[0] = b->grad_out;
    for (int i = 0; i < m->n_in; i++) seen.in[i] = m->needs & RP_IN(i) ? b->in[i] : NULL;
    if (!(m->needs & RP_OUT(0))) seen.out[0] = NULL;
    for (int i = 0; i < m->n_in; i++) {
        if (m->in_grad[i]) must(b, rp_tensor_new(b->ctx, &m->in[i], RP_MEM_GRAD, &run->grad_in[i]));
        seen.grad_in[i] = run->grad_in[i];
    }
    must(b, rp__op_backward(&seen));
}

static void call_op(bench *b)
{
    bool want[RP_MAX_IN] = { false };
    rp_op_meta m;
    rp_op_call run = { .meta = &m, .stream = { .key = 1, .step = b->n_calls } };

    for (int i = 0; i < b->n_in; i++) want[i] = b->in[i]->m.dtype != RP_I32;
    must(b, rp__op_prepare(b->ctx, rp__op_find(b->piece->name), &b->attr, b->in, b->n_in, true, want, &m));
    must(b, rp__op_forward(&m, run.stream, false, b->in, run.out, run.slot));
    backward(b, &m, &run);
    drop(run.grad_in, m.n_in);
    drop(run.slot, m.n_slot);
    drop(run.out, m.n_out);
}

static void call_update(bench *b)
{
    rp__optim_update(b->optim, 0, b->grad_out, &(rp_optim_step){ .step = b->n_calls, .lr = 1e-9, .grad_scale = 1, .measure = true });
}

static const piece pieces[] = {
    { "attention", 5, open_attention, call_op }, { "linear_cross_entropy", 3, open_loss, call_op }, { "rmsnorm", 2, open_norm, call_op },
    { "swiglu", 2, open_swiglu, call_op },       { "adamw", 1, open_update, call_update },
};

static double seconds_a_call(bench *b, int64_t n)
{
    double start = rp__seconds();

    for (int64_t i = 0; i < n; i++) {
        b->n_calls++;
        b->piece->call(b);
    }
    return (rp__seconds() - start) / (double)n;
}

/* ---- what is asked ---- */

/* That a call makes. */
static int64_t gradient_bytes(const bench *b)
{
    int64_t bytes = 0;

    if (b->optim) return 0;
    for (int i = 0; i < b->n_in; i++) bytes += b->in[i]->m.dtype == RP_I32 ? 0 : rp_meta_bytes(&b->in[i]->m);
    return bytes;
}

static void tell_bytes(bench *b)
{
    rp_mem before, after;

    rp_mem_read(b->ctx, 0, true, &before);
    seconds_a_call(b, 1);
    rp_mem_read(b->ctx, 0, false, &after);
    printf("{\"peak_bytes\": %" PRId64 ", \"lasting_bytes\": %" PRId64 "}\n", after.peak_bytes, before.live_bytes + gradient_bytes(b));
}

static void serve(bench *b)
{
    char line[64], machine[RP_COST_MACHINE_CHARS];

    seconds_a_call(b, 1);
    double seconds = seconds_a_call(b, WARM_CALLS);
    printf("{\"ready\": true, \"machine\": \"%s\", \"version\": \"%s\", \"seconds\": %.9f}\n", rp__cost_machine_text(b->ctx, machine), rp_version(),
           seconds);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int64_t n = strncmp(line, "calls ", 6) ? 0 : strtoll(line + 6, NULL, 10);
        if (n > 0) {
            if (n > 1) seconds_a_call(b, 1);
            printf("{\"seconds\": %.9f}\n", seconds_a_call(b, n));
        } else if (!strcmp(line, "bytes\n")) tell_bytes(b);
        else fail(NULL, line);
        fflush(stdout);
    }
}

/* ---- the command line ---- */

static void parse(int argc, char **argv, bench *b)
{
    int n_sizes = 0;

    for (int i = 0; argc > 1 && i < RP_COUNT(pieces); i++)
        if (!strcmp(pieces[i].name, argv[1])) b->piece = &pieces[i];
    if (!b->piece) fail(NULL, "which piece?");
    for (int i = 2; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (name[0] != '-' && n_sizes < MOST_SIZES) { b->size[n_sizes++] = strtoll(name, NULL, 10); continue; }
        if (!strcmp(name, "--keep-logits")) { b->keeps_logits = true; continue; }
        if (!strcmp(name, "--dtype")) b->dtype = strcmp(value, "bf16") ? RP_F32 : RP_BF16;
        else if (!strcmp(name, "--dropout")) b->dropout = strtof(value, NULL);
        else if (!strcmp(name, "--threads")) b->threads = (int)strtol(value, NULL, 10);
        else fail(NULL, name);
        i++;
    }
    if (n_sizes != b->piece->n_sizes) fail(NULL, "its sizes?");
}

int main(int argc, char **argv)
{
    bench b = { .dtype = RP_F32, .drawn = 1234 };

    parse(argc, argv, &b);
    if (rp_ctx_new(&(rp_ctx_options){ .threads = b.threads, .seed = 1234 }, &b.ctx)) fail(&b, "context");
    b.piece->open(&b);
    serve(&b);
    rp__optim_free(b.optim);
    drop(b.in, RP_MAX_IN);
    rp_tensor_unref(b.grad_out);
    rp_ctx_free(b.ctx);
    return 0;
}
