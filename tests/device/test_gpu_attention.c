/* Attention of a GPU, run on the emulated device under every schedule, against a reference in double: tensor cores and plain kernels. */
/* ctest: level-free device-free thread-free */
#include "rp_test.h"

#include "draws.h"

#include "device/emulate/emulate.h"
#include "kernels/gpu/gpu.h"

#include <math.h>

#ifdef RP_ASAN
#include <sanitizer/asan_interface.h>
#endif

static double value_at(rp_dtype dtype, const void *from, int64_t i)
{
    return dtype == RP_F32 ? ((const float *)from)[i] : rp__f32_from_bf16(((const uint16_t *)from)[i]);
}

static bool is_finite(double x) { return isfinite(x); }

static void put_at(rp_dtype dtype, void *to, int64_t i, float v)
{
    if (dtype == RP_F32) ((float *)to)[i] = v;
    else ((uint16_t *)to)[i] = rp__bf16_from_f32(v);
}

/* ---- a case ---- */

enum { DOCUMENTS = 1, BEHIND = 2, ADDS = 4, WIDE_GRADIENTS = 8, HEADS_FIRST = 16, ODD_STEPS = 32, NO_DK = 64, NO_DV = 128, NO_DQ = 256, BLIND = 512 };

typedef struct {
    const char *name;
    int batch, queries, keys, heads, kv_heads, dim;
    bool causal;
    int window;
    float dropout, softcap, scale;      /* scale 0: 1 / sqrt(dim) */
    int flags;
} shape;

/* Bytes after each tensor, all 0xff. A kernel that uses them computes NaN, and check_guards finds a kernel that writes there. Under AddressSanitizer,
 * any access to them aborts, so they are not copied. */
enum { GUARD_BYTES = 64 };
#ifdef RP_ASAN
enum { COPIED_GUARD_BYTES = 0 };
#else
enum { COPIED_GUARD_BYTES = GUARD_BYTES };
#endif

/* A tensor in host memory, and its place in memory of the device. */
typedef struct { uint8_t *host, *device; int64_t bytes, offset; } block;

/* Addresses in `a` are of host memory; `run` passes those of the device to the kernels. */
typedef struct { rp_ctx *ctx; rp_attention a; block blocks[16]; int n_blocks; int32_t *documents; } call;

static void forbid_guard(const block *b, bool forbidden)
{
#ifdef RP_ASAN
    uintptr_t at = (uintptr_t)b->device + rp__emulate_distance + (uintptr_t)b->bytes, end = (at + GUARD_BYTES) & ~(uintptr_t)7;

    if (forbidden) __asan_poison_memory_region((void *)at, end - at);
    else __asan_unpoison_memory_region((void *)at, end - at);
#else
    (void)b, (void)forbidden;
#endif
}

static void *take_for(call *c, int64_t bytes)
{
    block b = { .bytes = bytes };

    assert_ok(c->ctx, rp__mem_take(c->ctx, c->ctx->space[0], RP_MEM_TEMP, bytes + GUARD_BYTES, "test", &b.offset));
    b.device = rp__mem_at(c->ctx->space[0], b.offset);
    assert_non_null(b.host = malloc((size_t)(bytes + GUARD_BYTES)));
    memset(b.host, 0xff, (size_t)(bytes + GUARD_BYTES));
    forbid_guard(&b, true);
    c->blocks[c->n_blocks++] = b;
    return b.host;
}

static rp_attention_part part_for(call *c, const shape *s, rp_dtype dtype, int64_t rows, int64_t heads)
{
    rp_attention_part p = { .dtype = dtype };
    int64_t width = s->dim + (s->flags & ODD_STEPS ? 3 : 8);

    if (s->flags & HEADS_FIRST) p.row_step = width, p.head_step = width * rows;
    else p.head_step = width, p.row_step = width * heads;
    p.batch_step = width * rows * heads;
    p.data       = take_for(c, s->batch * p.batch_step * (dtype == RP_F32 ? 4 : 2));
    return p;
}

static int64_t place(const rp_attention_part *p, int64_t b, int64_t row, int64_t head) { return b * p->batch_step + row * p->row_step + head * p->head_step; }

static void fill(const rp_attention *a, const rp_attention_part *p, int64_t rows, int64_t heads, draws *d, float scale)
{
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t h = 0; h < heads; h++)
                for (int64_t i = 0; i < a->dim; i++) put_at(p->dtype, p->data, place(p, b, r, h) + i, draw(d) * scale);
}

/* Documents of 23 tokens, or with BLIND starts behind the queries, which then see nothing. */
static void set_documents(call *c, const shape *s)
{
    int ahead = s->keys - s->queries;

    c->documents = take_for(c, (int64_t)s->batch * s->queries * 2 * (int64_t)sizeof(int32_t));
    for (int i = 0; i < s->batch * s->queries; i++) {
        int position = ahead + i % s->queries + 5 * (i / s->queries), start = position / 23 * 23 - 5 * (i / s->queries);
        c->documents[2 * i] = s->flags & BLIND && i % 3 == 0 ? ahead + i % s->queries + 4 : start > 0 ? start : 0;
    }
    c->a.doc_start      = c->documents;
    c->a.doc_row_step   = 2;
    c->a.doc_batch_step = 2 * s->queries;
}

static void begin(call *c, rp_ctx *ctx, const shape *s, rp_dtype dtype)
{
    rp_attention *a   = &c->a;
    rp_dtype gradient = s->flags & WIDE_GRADIENTS ? RP_F32 : dtype;
    draws d           = { 7 };
    int64_t forward, backward;

    *c = (call){ .ctx = ctx,
                 .a = { .batch = s->batch, .queries = s->queries, .keys = s->keys, .heads = s->heads, .kv_heads = s->kv_heads, .dim = s->dim,
                        .scale = s->scale != 0 ? s->scale : 1 / sqrtf((float)s->dim), .dropout = s->dropout, .softcap = s->softcap, .causal = s->causal,
                        .window = s->window, .stream = { UINT64_C(0x123456789abcdef), 41, INT64_C(1) << 33 }, .on = ctx->on } };
    a->q        = part_for(c, s, dtype, s->queries, s->heads);
    a->k        = part_for(c, s, dtype, s->keys, s->kv_heads);
    a->v        = part_for(c, s, dtype, s->keys, s->kv_heads);
    a->out      = part_for(c, s, dtype, s->queries, s->heads);
    a->grad_out = part_for(c, s, dtype, s->queries, s->heads);
    a->dq       = part_for(c, s, gradient, s->queries, s->heads);
    a->dk       = part_for(c, s, gradient, s->keys, s->kv_heads);
    a->dv       = part_for(c, s, gradient, s->keys, s->kv_heads);
    a->lse      = take_for(c, (int64_t)s->batch * s->heads * s->queries * (int64_t)sizeof(float));
    if (s->flags & DOCUMENTS) set_documents(c, s);
    fill(a, &a->q, s->queries, s->heads, &d, 3);
    fill(a, &a->k, s->keys, s->kv_heads, &d, 1);
    fill(a, &a->v, s->keys, s->kv_heads, &d, 1);
    fill(a, &a->grad_out, s->queries, s->heads, &d, 1);
    a->dq.adds = a->dk.adds = a->dv.adds = s->flags & ADDS;
    if (s->flags & ADDS) {
        fill(a, &a->dq, s->queries, s->heads, &d, 1);
        fill(a, &a->dk, s->keys, s->kv_heads, &d, 1);
        fill(a, &a->dv, s->keys, s->kv_heads, &d, 1);
    }
    rp__kernels_gpu()->attention_forward_scratch(a, &forward);
    rp__kernels_gpu()->attention_backward_scratch(a, &backward);
    a->scratch = take_for(c, forward > backward ? forward : backward);
    if (s->flags & NO_DQ) a->dq.data = NULL;
    if (s->flags & NO_DK) a->dk.data = NULL;
    if (s->flags & NO_DV) a->dv.data = NULL;
}

static void end(call *c)
{
    for (int i = 0; i < c->n_blocks; i++) {
        const block *b = &c->blocks[i];
        free(b->host);
        forbid_guard(b, false);
        rp__mem_give(c->ctx->space[0], RP_MEM_TEMP, b->bytes + GUARD_BYTES, b->offset);
    }
}

/* ---- on the device ---- */

/* The device address of a tensor; NULL if the call has no such tensor. */
static void *device_of(const call *c, const void *host)
{
    for (int i = 0; host && i < c->n_blocks; i++)
        if (c->blocks[i].host == host) return c->blocks[i].device;
    assert_null(host);
    return NULL;
}

static rp_attention on_device(const call *c)
{
    rp_attention a            = c->a;
    rp_attention_part *part[] = { &a.q, &a.k, &a.v, &a.out, &a.grad_out, &a.dq, &a.dk, &a.dv };

    for (int i = 0; i < RP_COUNT(part); i++) part[i]->data = device_of(c, part[i]->data);
    a.doc_start = device_of(c, a.doc_start);
    a.lse       = device_of(c, a.lse);
    a.scratch   = device_of(c, a.scratch);
    return a;
}

/* Copies all tensors to the device, runs forward and backward there, and copies the tensors back. */
static void run(call *c)
{
    rp_attention a = on_device(c);

    for (int i = 0; i < c->n_blocks; i++) rp__mem_copy(c->ctx, c->blocks[i].device, c->blocks[i].host, c->blocks[i].bytes + COPIED_GUARD_BYTES);
    rp__kernels_gpu()->attention_forward(&a);
    rp__kernels_gpu()->attention_backward(&a);
    for (int i = 0; i < c->n_blocks; i++) rp__mem_copy(c->ctx, c->blocks[i].host, c->blocks[i].device, c->blocks[i].bytes + COPIED_GUARD_BYTES);
    rp__mem_sync(c->ctx);
    assert_ok(c->ctx, rp__mem_check(c->ctx, "attention"));
}

/* ---- the reference ---- */

static int64_t document_of(const rp_attention *a, int64_t b, int64_t t) { return a->doc_start ? a->doc_start[b * a->doc_batch_step + t * a->doc_row_step] : 0; }

static bool sees(const rp_attention *a, int64_t b, int64_t t, int64_t key)
{
    int64_t ahead = a->keys - a->queries, position = ahead + t;

    if (key < document_of(a, b, t) || (a->causal && key > position) || (a->window && key < position - a->window + 1)) return false;
    for (int64_t next = t + 1; !a->causal && a->doc_start && next < a->queries; next++)
        if (document_of(a, b, next) >= ahead + next) return key < (ahead + next > 0 ? ahead + next : 0);
    return true;
}

static double keep_of(const rp_attention *a, int64_t b, int64_t h, int64_t t, int64_t key)
{
    if (a->dropout == 0) return 1;
    return rp__uniform(rp__stream_word(&a->stream, b, (h * a->queries + t) * a->keys + key)) < a->dropout ? 0 : 1 / (1 - (double)a->dropout);
}

typedef struct { double *out, *lse, *dq, *dk, *dv; } results;

static double *zeros(int64_t n)
{
    double *p = calloc((size_t)(n > 0 ? n : 1), sizeof *p);

    assert_non_null(p);
    return p;
}

static double dot_rows(const rp_attention *a, const rp_attention_part *x, int64_t i, const rp_attention_part *y, int64_t j)
{
    double sum = 0;

    for (int64_t c = 0; c < a->dim; c++) sum += value_at(x->dtype, x->data, i + c) * value_at(y->dtype, y->data, j + c);
    return sum;
}

static void add_row(const rp_attention *a, double *to, double factor, const rp_attention_part *p, int64_t at)
{
    for (int64_t c = 0; c < a->dim; c++) to[c] += factor * value_at(p->dtype, p->data, at + c);
}

/* One query of a head. `out` of the kernel is part of the definition of backward, as its rounding is. */
static void reference_query(const rp_attention *a, const results *r, int64_t b, int64_t h, int64_t t, double *score, double *p)
{
    int64_t kv = h / (a->heads / a->kv_heads), q = place(&a->q, b, t, h), g = place(&a->grad_out, b, t, h), at = (b * a->heads + h) * a->queries + t;
    double top = -INFINITY, sum = 0, cap = (double)a->softcap, delta = dot_rows(a, &a->out, place(&a->out, b, t, h), &a->grad_out, g);

    for (int64_t i = 0; i < a->keys; i++) {
        score[i] = -INFINITY;
        if (!sees(a, b, t, i)) continue;
        score[i] = (double)a->scale * dot_rows(a, &a->q, q, &a->k, place(&a->k, b, i, kv));
        if (cap > 0) score[i] = cap * tanh(score[i] / cap);
        top = fmax(top, score[i]);
    }
    for (int64_t i = 0; i < a->keys; i++) sum += p[i] = isinf(score[i]) ? 0 : exp(score[i] - top);
    r->lse[at] = sum > 0 ? top + log(sum) : -INFINITY;
    for (int64_t i = 0; i < a->keys; i++) {
        if (p[i] == 0) continue;
        double keep = keep_of(a, b, h, t, i), bent = cap > 0 ? score[i] / cap : 0;
        int64_t k = place(&a->k, b, i, kv), v = place(&a->v, b, i, kv), key = ((b * a->keys + i) * a->kv_heads + kv) * a->dim;
        p[i] /= sum;
        double ds = p[i] * (keep * dot_rows(a, &a->grad_out, g, &a->v, v) - delta) * (1 - bent * bent) * (double)a->scale;
        add_row(a, r->out + at * a->dim, p[i] * keep, &a->v, v);
        add_row(a, r->dq + at * a->dim, ds, &a->k, k);
        add_row(a, r->dk + key, ds, &a->q, q);
        add_row(a, r->dv + key, p[i] * keep, &a->grad_out, g);
    }
}

static results reference(const rp_attention *a)
{
    int64_t n = a->batch * a->heads * a->queries, m = a->batch * a->keys * a->kv_heads;
    results r = { zeros(n * a->dim), zeros(n), zeros(n * a->dim), zeros(m * a->dim), zeros(m * a->dim) };
    double *score = zeros(a->keys), *p = zeros(a->keys);

    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t t = 0; t < a->queries; t++) reference_query(a, &r, b, h, t, score, p);
    free(score), free(p);
    return r;
}

static void results_free(results r) { free(r.out), free(r.lse), free(r.dq), free(r.dk), free(r.dv); }

/* ---- comparison ---- */

/* The largest error of a tensor, relative to the root mean square of its values, and in bf16 to the value. `before`: what it was added to.
 * by_head: `want` is [batch, heads, rows, dim], otherwise [batch, rows, heads, dim]. */
static double error_of(const rp_attention *a, const rp_attention_part *p, const rp_attention_part *before, int64_t rows, int64_t heads, bool by_head,
                       const double *want)
{
    double worst = 0, squares = 0;
    int64_t n = a->batch * rows * heads * a->dim;

    for (int64_t i = 0; i < n; i++) squares += want[i] * want[i];
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t t = 0; t < rows; t++)
            for (int64_t h = 0; h < heads; h++)
                for (int64_t c = 0; c < a->dim; c++) {
                    int64_t row = by_head ? (b * heads + h) * rows + t : (b * rows + t) * heads + h, at = place(p, b, t, h) + c;
                    double x = value_at(p->dtype, p->data, at), w = want[row * a->dim + c];
                    if (before) w += value_at(before->dtype, before->data, at);
                    double e = fabs(x - w) / (1 + (p->dtype == RP_BF16 ? fabs(w) : 0));
                    if (!(e <= worst)) worst = isnan(e) ? INFINITY : e;
                }
    return worst / (sqrt(squares / (double)(n > 0 ? n : 1)) + 0.05);
}

/* Bytes of a tensor outside of its rows stay 0xff. */
static void check_gaps(const shape *s, const rp_attention *a, const rp_attention_part *p, int64_t rows, int64_t heads)
{
    int64_t width = s->flags & HEADS_FIRST ? p->row_step : p->head_step;

    if (!p->data) return;
    for (int64_t i = 0; i < a->batch * rows * heads; i++)
        for (int64_t c = a->dim; c < width; c++)
            if (p->dtype == RP_F32) assert_int_equal(((const uint32_t *)p->data)[i * width + c], 0xffffffffu);
            else assert_int_equal(((const uint16_t *)p->data)[i * width + c], 0xffff);
}

static const char *name_of(rp_dtype dtype) { return dtype == RP_F32 ? "fp32" : "bf16"; }

static void check_part(const shape *s, const char *what, const rp_attention *a, const rp_attention_part *p, const rp_attention_part *before, int64_t rows,
                       int64_t heads, bool by_head, const double *want)
{
    if (!p->data) return;
    double e = error_of(a, p, before, rows, heads, by_head, want), limit = a->q.dtype == RP_F32 ? 1e-5 : 0.03;
    if (!(e <= limit)) fail_msg("%s, %s: %s is off by %g, at most %g", s->name, name_of(a->q.dtype), what, e, limit);
    check_gaps(s, a, p, rows, heads);
}

static void check_lse(const shape *s, const rp_attention *a, const double *want)
{
    double limit = a->q.dtype == RP_F32 ? 5e-6 : 4e-5;

    for (int64_t i = 0; i < a->batch * a->heads * a->queries; i++) {
        double x = (double)a->lse[i];
        if (x != want[i] && !(fabs(x - want[i]) <= limit)) fail_msg("%s, %s: lse is %g, expected %g", s->name, name_of(a->q.dtype), x, want[i]);
    }
}

/* No kernel has written after the end of a tensor. */
static void check_guards(const shape *s, const call *c)
{
    for (int i = 0; i < c->n_blocks; i++)
        for (int b = 0; b < GUARD_BYTES; b++)
            if (c->blocks[i].host[c->blocks[i].bytes + b] != 0xff)
                fail_msg("%s, %s: a kernel wrote after the end of tensor %d", s->name, name_of(c->a.q.dtype), i);
}

static void check_results(const shape *s, const call *c)
{
    const rp_attention *a = &c->a;
    results r             = reference(a);
    bool adds             = s->flags & ADDS;
    call before;

    begin(&before, c->ctx, s, a->q.dtype);
    check_lse(s, a, r.lse);
    check_part(s, "out", a, &a->out, NULL, a->queries, a->heads, true, r.out);
    check_part(s, "dq", a, &a->dq, adds ? &before.a.dq : NULL, a->queries, a->heads, true, r.dq);
    check_part(s, "dk", a, &a->dk, adds ? &before.a.dk : NULL, a->keys, a->kv_heads, false, r.dk);
    check_part(s, "dv", a, &a->dv, adds ? &before.a.dv : NULL, a->keys, a->kv_heads, false, r.dv);
    results_free(r);
    end(&before);
}

/* ---- cases ---- */

static void check_case(rp_ctx *ctx, const shape *s, rp_dtype dtype)
{
    call first, c;

    for (int i = 0; i < RP_EMULATE_SCHEDULES; i++) {
        if (i && i != RP_EMULATE_GREEDY && test_takes_samples()) continue;      /* this one finds most */
        rp__emulate_set_schedule((rp_emulate_schedule)i);
        begin(&c, ctx, s, dtype);
        run(&c);
        check_guards(s, &c);
        if (i == 0) {
            first = c;
            check_results(s, &c);
            continue;
        }
        for (int b = 0; b < c.n_blocks; b++)
            if (memcmp(c.blocks[b].host, first.blocks[b].host, (size_t)c.blocks[b].bytes))
                fail_msg("%s, %s: tensor %d has other bits in schedule %s", s->name, name_of(dtype), b, rp__emulate_schedule_name((rp_emulate_schedule)i));
        end(&c);
    }
    end(&first);
    rp__emulate_set_schedule(RP_EMULATE_FORWARD);
}

#define SIZES(b, t, s, h, kv, d) .batch = b, .queries = t, .keys = s, .heads = h, .kv_heads = kv, .dim = d

static const shape shapes[] = {
    { "one token",               SIZES(1, 1, 1, 1, 1, 8) },
    { "causal",                  SIZES(2, 70, 70, 2, 2, 64), .causal = true },
    { "all keys",                SIZES(1, 65, 97, 2, 1, 64) },
    { "grouped heads",           SIZES(1, 66, 66, 6, 2, 40), .causal = true, .flags = ADDS },
    { "heads first",             SIZES(2, 37, 70, 2, 1, 16), .causal = true, .flags = HEADS_FIRST | WIDE_GRADIENTS },
    { "window",                  SIZES(1, 200, 200, 1, 1, 16), .causal = true, .window = 67 },
    { "window, both ways",       SIZES(1, 140, 150, 1, 1, 24), .window = 30 },
    { "documents",               SIZES(2, 150, 150, 2, 1, 16), .causal = true, .flags = DOCUMENTS },
    { "documents both ways",     SIZES(2, 300, 300, 1, 1, 8), .flags = DOCUMENTS },
    { "documents, window",       SIZES(1, 140, 140, 2, 2, 32), .causal = true, .window = 9, .flags = DOCUMENTS | ADDS | WIDE_GRADIENTS },
    { "some queries see none",   SIZES(1, 80, 80, 1, 1, 16), .causal = true, .flags = DOCUMENTS | BLIND },
    { "capped",                  SIZES(1, 75, 75, 2, 1, 64), .causal = true, .softcap = 1.3f },
    { "capped, dropout",         SIZES(1, 75, 75, 2, 1, 16), .causal = true, .softcap = 0.8f, .dropout = 0.25f, .scale = -0.4f },
    { "dropout",                 SIZES(2, 67, 67, 2, 1, 64), .causal = true, .dropout = 0.3f },
    { "dropout, all keys",       SIZES(1, 70, 131, 2, 2, 128), .dropout = 0.1f },
    { "negative scale",          SIZES(1, 66, 66, 1, 1, 32), .causal = true, .scale = -0.3f },
    { "tiny scale",              SIZES(1, 20, 20, 1, 1, 32), .causal = true, .scale = 1e-30f },
    { "decoding",                SIZES(1, 1, 150, 4, 2, 64), .causal = true },
    { "more queries than keys",  SIZES(1, 90, 20, 2, 1, 32), .causal = true },
    { "no keys",                 SIZES(1, 5, 0, 2, 1, 32) },
    { "no queries",              SIZES(1, 0, 5, 2, 1, 32) },
    { "128 wide",                SIZES(1, 130, 130, 1, 1, 128), .causal = true, .flags = ADDS },
    { "96 wide",                 SIZES(1, 70, 70, 1, 1, 96), .causal = true, .flags = WIDE_GRADIENTS },
    { "256 wide",                SIZES(1, 70, 70, 1, 1, 256), .causal = true },
    { "256 wide, documents",     SIZES(1, 70, 70, 1, 1, 200), .causal = true, .softcap = 2, .dropout = 0.2f, .flags = DOCUMENTS },
    { "odd steps",               SIZES(2, 66, 70, 2, 1, 24), .causal = true, .flags = ODD_STEPS | ADDS },
    { "odd width",               SIZES(1, 66, 70, 2, 1, 17), .causal = true, .dropout = 0.4f, .flags = ODD_STEPS },
    { "wider than 256",          SIZES(1, 66, 66, 1, 1, 264), .causal = true },
    { "without dk",              SIZES(1, 66, 66, 1, 1, 32), .causal = true, .flags = NO_DK },
    { "without dv and dq",       SIZES(1, 66, 66, 1, 1, 32), .causal = true, .flags = NO_DV | NO_DQ },
    { "256 wide, without dk",    SIZES(1, 20, 20, 1, 1, 256), .causal = true, .flags = NO_DK | NO_DQ },
    { "only dq",                 SIZES(1, 20, 20, 1, 1, 256), .causal = true, .flags = NO_DK | NO_DV },
};

static rp_ctx *open_device(void) { return test_ctx(&(rp_ctx_options){ .device = test_gpu(), .threads = 2 }); }

static void check_cases(rp_dtype dtype)
{
    rp_ctx *ctx = open_device();

    for (int i = 0; i < RP_COUNT(shapes); i++) check_case(ctx, &shapes[i], dtype);
    test_ctx_free(ctx);
}

static void attention_in_bf16(void **state)
{
    (void)state;
    check_cases(RP_BF16);
}

static void attention_in_fp32(void **state)
{
    (void)state;
    check_cases(RP_F32);
}

/* A NaN in a query or a key reaches the output and the gradients: the loop looks for it there. */
static void not_a_number_is_not_hidden(void **state)
{
    static const shape s = { "NaN", SIZES(1, 70, 70, 1, 1, 16), .causal = true };
    rp_ctx *ctx = open_device();

    (void)state;
    for (int i = 0; i < 4; i++) {
        call c;
        begin(&c, ctx, &s, i % 2 ? RP_BF16 : RP_F32);
        rp_attention_part *p = i / 2 ? &c.a.k : &c.a.q;
        put_at(p->dtype, p->data, place(p, 0, 66, 0) + 3, NAN);
        run(&c);
        assert_true(is_finite(value_at(c.a.out.dtype, c.a.out.data, place(&c.a.out, 0, 65, 0))));
        assert_false(is_finite(value_at(c.a.out.dtype, c.a.out.data, place(&c.a.out, 0, 66, 0))));
        assert_false(is_finite(value_at(c.a.dk.dtype, c.a.dk.data, place(&c.a.dk, 0, 66, 0))));
        assert_false(is_finite(value_at(c.a.dv.dtype, c.a.dv.data, place(&c.a.dv, 0, 66, 0))));
        assert_false(is_finite(value_at(c.a.dq.dtype, c.a.dq.data, place(&c.a.dq, 0, 66, 0))));
        end(&c);
    }
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(attention_in_bf16), cmocka_unit_test(attention_in_fp32),
                                        cmocka_unit_test(not_a_number_is_not_hidden) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
