/* Claims about attention: the kernel of every level against the op's reference in double, gradients against central
 * differences, dropout against its definition. */
/* ctest: level-free */
#include "rp_test.h"

#include "kernels/kernels.h"
#include "ops/call.h"

#include <math.h>

enum { GUARD = 64 };        /* floats after a buffer */
enum { Q, K, V, DOC, OUT, G, DQ, DK, DV, N_PARTS };

typedef struct {
    const char *name;
    int64_t batch, queries, keys, heads, kv_heads, dim;
    rp_attr_attention attr;
    bool documents;
    int threads;
} problem;

static const problem problems[] = {
    { "one query, one key", 1, 1, 1, 1, 1, 1, { 1.0f, 0, true, 0, 0 }, false, 2 },
    { "odd sizes", 2, 37, 37, 3, 3, 7, { 0.4f, 0, true, 0, 0 }, false, 2 },
    { "groups of three", 2, 130, 130, 9, 3, 64, { 0.125f, 0, true, 0, 0 }, false, 2 },
    { "one key head", 1, 101, 101, 5, 1, 48, { 0.2f, 0, true, 0, 0 }, false, 2 },
    { "documents", 2, 211, 211, 2, 1, 33, { 0.2f, 0, true, 0, 0 }, true, 2 },
    { "documents, all keys", 1, 140, 140, 2, 1, 16, { 0.2f, 0, false, 0, 0 }, true, 2 },
    { "documents both ways", 2, 333, 333, 6, 2, 32, { 0.2f, 0, false, 0, 0 }, true, 2 },
    { "documents both ways, chunks, dropout", 1, 401, 401, 2, 2, 32, { 0.2f, 0.1f, false, 0, 0 }, true, 3 },
    { "window", 1, 300, 300, 2, 2, 32, { 0.2f, 0, true, 70, 0 }, false, 2 },
    { "documents, window", 2, 240, 240, 4, 2, 20, { 0.2f, 0, true, 33, 0 }, true, 2 },
    { "all keys", 1, 50, 230, 4, 2, 24, { 0.2f, 0, false, 0, 0 }, false, 2 },
    { "decoding", 3, 1, 200, 9, 3, 64, { 0.125f, 0, true, 0, 0 }, false, 2 },
    { "some keys are cached", 1, 30, 150, 2, 1, 64, { 0.125f, 0, true, 0, 0 }, false, 2 },
    { "more queries than keys", 1, 120, 20, 2, 1, 8, { 0.3f, 0, true, 0, 0 }, false, 2 },
    { "dropout", 2, 110, 110, 4, 2, 16, { 0.25f, 0.3f, true, 0, 0 }, false, 2 },
    { "dropout, odd keys", 1, 50, 163, 6, 2, 12, { 0.25f, 0.1f, false, 0, 0 }, true, 2 },
    { "fewer pairs than threads", 1, 333, 333, 2, 1, 40, { 0.15f, 0, true, 0, 0 }, false, 4 },
    { "fewer pairs, dropout", 1, 200, 200, 9, 3, 40, { 0.15f, 0.2f, true, 0, 0 }, true, 5 },
    { "large scores", 1, 64, 64, 1, 1, 32, { 30.0f, 0, true, 0, 0 }, false, 2 },
    { "groups of eight, long heads", 1, 70, 70, 8, 1, 128, { 0.09f, 0, true, 0, 0 }, false, 2 },
    { "a head of one more than two tiles", 1, 97, 97, 2, 2, 65, { 0.12f, 0, true, 0, 0 }, false, 2 },
    { "a long head, all keys", 1, 40, 130, 2, 1, 160, { 0.08f, 0, false, 0, 0 }, false, 3 },
    { "many blocks of rows", 1, 290, 290, 2, 1, 16, { 0.25f, 0, true, 0, 0 }, false, 2 },
    { "a window of three", 1, 270, 270, 3, 3, 32, { 0.2f, 0, true, 3, 0 }, false, 2 },
    { "documents, chunks, dropout", 1, 401, 401, 2, 2, 32, { 0.2f, 0.1f, true, 0, 0 }, true, 3 },
    { "a scale below zero", 1, 75, 75, 2, 1, 24, { -0.2f, 0, true, 0, 0 }, false, 2 },
    { "a scale of zero", 1, 75, 75, 2, 1, 24, { 0.0f, 0, true, 0, 0 }, false, 2 },
    { "a block filled by one row", 1, 129, 129, 1, 1, 32, { 0.2f, 0, true, 0, 0 }, false, 2 },
    { "capped", 2, 130, 130, 6, 2, 40, { 0.3f, 0, true, 0, 0.8f }, false, 2 },
    { "capped, window, documents", 2, 240, 240, 4, 2, 20, { 0.2f, 0, true, 33, 0.5f }, true, 2 },
    { "capped, dropout", 1, 200, 200, 4, 2, 32, { 0.25f, 0.2f, true, 0, 1.5f }, true, 3 },
    { "capped, all keys", 1, 50, 230, 4, 2, 24, { 0.4f, 0, false, 0, 2.0f }, false, 2 },
    { "capped, decoding", 3, 1, 200, 9, 3, 64, { 0.125f, 0, true, 50, 1.0f }, false, 2 },
    { "capped far below the scores", 1, 64, 64, 1, 1, 32, { 30.0f, 0, true, 0, 4.0f }, false, 2 },
    { "a cap far above the scores", 1, 97, 97, 2, 1, 32, { 0.1f, 0, true, 0, 50.0f }, false, 2 },
    { "capped, a scale below zero", 1, 75, 75, 2, 1, 24, { -0.2f, 0, true, 0, 0.5f }, false, 2 },
    { "capped, a scale of zero", 1, 75, 75, 2, 1, 24, { 0.0f, 0, true, 0, 0.5f }, false, 2 },
    { "sixteen rows", 2, 4, 100, 4, 1, 64, { 0.125f, 0, true, 0, 0 }, false, 2 },
};

static const rp_stream stream = { 0x123456789abcdefull, 3, 40 };

/* Elements of each part; in doubles, values that bf16 holds exactly. */
typedef struct { int64_t n[N_PARTS]; double *part[N_PARTS], *lse; int32_t *doc; } numbers;

static double draw(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (double)rp__f32_from_bf16(rp__bf16_from_f32((float)(*seed >> 8) / 8388608.0f - 1.0f));
}

static numbers numbers_new(const problem *p)
{
    int64_t q = p->batch * p->queries * p->heads * p->dim, k = p->batch * p->keys * p->kv_heads * p->dim;
    numbers x = { .n = { q, k, k, 0, q, q, q, k, k } };
    unsigned seed = 7;

    for (int i = 0; i < N_PARTS; i++) {
        x.part[i] = calloc((size_t)x.n[i] + 1, sizeof(double));
        for (int64_t j = 0; j < x.n[i]; j++) x.part[i][j] = draw(&seed);
    }
    x.lse = calloc((size_t)(p->batch * p->heads * p->queries), sizeof(double));
    x.doc = calloc((size_t)(p->batch * p->queries), sizeof *x.doc);
    for (int64_t b = 0; b < p->batch; b++)      /* documents of 50 keys and more, other ones in every sample */
        for (int64_t t = 0; t < p->queries; t++) {
            int64_t at = p->keys - p->queries + t, length = 50 + 13 * b;
            x.doc[b * p->queries + t] = (int32_t)(at / length * length);
        }
    return x;
}

static void numbers_free(numbers *x)
{
    for (int i = 0; i < N_PARTS; i++) free(x->part[i]);
    free(x->lse);
    free(x->doc);
}

static rp_tensor *tensor_of(rp_ctx *ctx, const problem *p, int part, const numbers *x)
{
    bool keys = part == K || part == V || part == DK || part == DV;
    rp_meta m = rp_meta_make(RP_F64, 4, keys ? (int64_t[]){ p->batch, p->keys, p->kv_heads, p->dim }
                                             : (int64_t[]){ p->batch, p->queries, p->heads, p->dim });
    rp_tensor *t = NULL;

    if (part == DOC) m = rp_meta_2d(RP_I32, p->batch, p->queries);
    assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_TEMP, &t));
    if (part == DOC) assert_ok(ctx, rp_tensor_write_i32(t, x->doc, p->batch * p->queries));
    else assert_ok(ctx, rp_tensor_write(t, x->part[part], x->n[part]));
    return t;
}

/* The op in fp64, which is its reference: fills OUT, lse and the gradients, added to what stands there. */
static void run_reference(rp_ctx *ctx, const problem *p, numbers *x)
{
    const rp_op *op = rp__op_find("attention");
    rp_op_stream at = { stream.key, stream.step, stream.sample_base };
    bool want[4]    = { true, true, true, false };
    int n_in        = p->documents ? 4 : 3;
    rp_op_meta m;
    rp_tensor *in[4] = { NULL }, *out[1] = { NULL }, *slot[1] = { NULL };

    for (int i = 0; i < n_in; i++) in[i] = tensor_of(ctx, p, i, x);
    assert_ok(ctx, rp__op_prepare(ctx, op, &p->attr, in, n_in, true, want, &m));
    assert_ok(ctx, rp__op_forward(&m, at, false, in, out, slot));
    rp_op_call c = { .meta = &m, .stream = at, .out = { out[0] }, .slot = { slot[0] }, .grad_adds = { true, true, true } };
    memcpy(c.in, in, sizeof in);
    c.grad_out[0] = tensor_of(ctx, p, G, x);
    for (int i = 0; i < 3; i++) c.grad_in[i] = tensor_of(ctx, p, DQ + i, x);
    assert_ok(ctx, rp__op_backward(&c));
    assert_ok(ctx, rp_tensor_read(out[0], x->part[OUT], x->n[OUT]));
    assert_ok(ctx, rp_tensor_read(slot[0], x->lse, p->batch * p->heads * p->queries));
    for (int i = 0; i < 3; i++) assert_ok(ctx, rp_tensor_read(c.grad_in[i], x->part[DQ + i], x->n[DQ + i]));
    for (int i = 0; i < 3; i++) rp_tensor_unref(c.grad_in[i]);
    for (int i = 0; i < n_in; i++) rp_tensor_unref(in[i]);
    rp_tensor_unref(c.grad_out[0]);
    rp_tensor_unref(out[0]);
    rp_tensor_unref(slot[0]);
}

/* ---- the kernel, with buffers of its own; `apart` extra elements lie between heads ---- */

typedef struct { rp_attention a; void *data[N_PARTS]; int64_t apart, scratch_bytes; float *lse; } kernel_call;

static rp_attention_part *part_of(rp_attention *a, int part)
{
    rp_attention_part *all[N_PARTS] = { &a->q, &a->k, &a->v, NULL, &a->out, &a->grad_out, &a->dq, &a->dk, &a->dv };

    return all[part];
}

static void store(const rp_attention_part *p, int64_t at, double value)
{
    if (p->dtype == RP_F32) ((float *)p->data)[at] = (float)value;
    else ((uint16_t *)p->data)[at] = rp__bf16_from_f32((float)value);
}

static double load(const rp_attention_part *p, int64_t at)
{
    return p->dtype == RP_F32 ? (double)((const float *)p->data)[at] : (double)rp__f32_from_bf16(((const uint16_t *)p->data)[at]);
}

static int64_t heads_of(const problem *p, int part) { return part == K || part == V || part == DK || part == DV ? p->kv_heads : p->heads; }

static int64_t rows_of(const problem *p, int part) { return part == K || part == V || part == DK || part == DV ? p->keys : p->queries; }

static int64_t place(const problem *p, int part, const rp_attention_part *to, int64_t i)
{
    int64_t d = i % p->dim, h = i / p->dim % heads_of(p, part), r = i / p->dim / heads_of(p, part);

    return r / rows_of(p, part) * to->batch_step + r % rows_of(p, part) * to->row_step + h * to->head_step + d;
}

static void lay_out(const problem *p, int part, rp_dtype dtype, int64_t apart, const numbers *x, kernel_call *k)
{
    rp_attention_part *to = part_of(&k->a, part);
    int64_t heads = heads_of(p, part), rows = rows_of(p, part), step = p->dim + apart;
    int64_t bytes = (p->batch * rows * heads * step + GUARD) * rp_dtype_bytes(dtype);

    *to = (rp_attention_part){ dtype, aligned_alloc(64, (size_t)rp__align_up(bytes)), rows * heads * step, heads * step, step, true };
    memset(to->data, 0xff, (size_t)bytes);
    for (int64_t i = 0; i < x->n[part]; i++) store(to, place(p, part, to, i), x->part[part][i]);
}

static kernel_call kernel_new(const problem *p, const rp_kernels *level, rp_dtype dtype, int64_t apart, const numbers *x)
{
    kernel_call k = { .apart = apart, .a = { .batch = p->batch, .queries = p->queries, .keys = p->keys, .heads = p->heads,
                      .kv_heads = p->kv_heads, .dim = p->dim, .scale = p->attr.scale, .dropout = p->attr.dropout,
                      .causal = p->attr.causal, .window = p->attr.window, .softcap = p->attr.softcap, .stream = stream, .on.threads = p->threads } };
    int64_t forward, backward;

    if (p->documents) {
        k.a.doc_start      = x->doc;
        k.a.doc_batch_step = p->queries;
        k.a.doc_row_step   = 1;
    }
    for (int i = 0; i < N_PARTS; i++)
        if (i != DOC) lay_out(p, i, dtype, apart, x, &k);
    k.a.lse = calloc((size_t)(p->batch * p->heads * p->queries), sizeof(float));
    level->attention_forward_scratch(&k.a, &forward);
    level->attention_backward_scratch(&k.a, &backward);
    k.scratch_bytes = (forward > backward ? forward : backward);
    k.a.scratch     = aligned_alloc(64, (size_t)(rp__align_up(k.scratch_bytes) + 256));
    memset(k.a.scratch, 0xff, (size_t)k.scratch_bytes + 256);       /* NaN everywhere */
    level->attention_forward(&k.a);
    for (int64_t i = forward; i < k.scratch_bytes + 256; i++) assert_int_equal(((uint8_t *)k.a.scratch)[i], 0xff);
    memset(k.a.scratch, 0xff, (size_t)k.scratch_bytes);
    level->attention_backward(&k.a);
    for (int64_t i = backward; i < k.scratch_bytes + 256; i++) assert_int_equal(((uint8_t *)k.a.scratch)[i], 0xff);
    return k;
}

static void kernel_free(kernel_call *k)
{
    for (int i = 0; i < N_PARTS; i++)
        if (i != DOC) free(part_of(&k->a, i)->data);
    free(k->a.lse);
    free(k->a.scratch);
}

static void assert_close(const problem *p, const rp_kernels *level, kernel_call *k, int part, const numbers *x)
{
    rp_attention_part *got = part_of(&k->a, part);
    double largest = 1e-3, tolerance = got->dtype == RP_F32 ? (p->attr.scale > 1 ? 1e-4 : 1e-5) : 2e-2;

    for (int64_t i = 0; i < x->n[part]; i++) largest = fmax(largest, fabs(x->part[part][i]));
    for (int64_t i = 0; i < x->n[part]; i++) {
        double value = load(got, place(p, part, got, i));
        if (!(fabs(value - x->part[part][i]) <= tolerance * largest))
            fail_msg("%s, %s, %s: part %d element %d is %.9g, expected %.9g", p->name, level->level, rp_dtype_name(got->dtype), part,
                     (int)i, value, x->part[part][i]);
    }
}

/* Nothing was written between heads or after the last one. */
static void assert_gaps_untouched(const problem *p, kernel_call *k, int part)
{
    rp_attention_part *to = part_of(&k->a, part);
    int64_t rows          = p->batch * rows_of(p, part) * heads_of(p, part), touched = 0, size = rp_dtype_bytes(to->dtype);

    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < k->apart * size; j++) touched += ((uint8_t *)to->data)[(r * to->head_step + p->dim) * size + j] != 0xff;
    for (int64_t j = 0; j < GUARD * size; j++) touched += ((uint8_t *)to->data)[rows * to->head_step * size + j] != 0xff;
    assert_int_equal(touched, 0);
}

static void check_kernel(const problem *p, const rp_kernels *level, rp_dtype dtype, const numbers *before, const numbers *after)
{
    static const int written[] = { OUT, DQ, DK, DV };
    kernel_call dense = kernel_new(p, level, dtype, 0, before), apart = kernel_new(p, level, dtype, 5, before);
    int64_t statistics = p->batch * p->heads * p->queries;

    for (int i = 0; i < RP_COUNT(written); i++) {
        int part = written[i];
        assert_close(p, level, &dense, part, after);
        assert_gaps_untouched(p, &dense, part);
        assert_gaps_untouched(p, &apart, part);
        for (int64_t j = 0; j < after->n[part]; j++)        /* the same bits wherever the rows lie */
            assert_true(load(part_of(&dense.a, part), place(p, part, part_of(&dense.a, part), j)) ==
                        load(part_of(&apart.a, part), place(p, part, part_of(&apart.a, part), j)));
    }
    for (int64_t i = 0; i < statistics; i++) {
        double got = (double)dense.a.lse[i], expected = after->lse[i];      /* both -inf where a query sees no key */
        assert_true(got == expected || fabs(got - expected) <= 1e-5 * fmax(1, fabs(expected)));
    }
    kernel_free(&dense);
    kernel_free(&apart);
}

/* A short run on an emulated CPU takes the problems in fp32 and in bf16 by turns, below the highest level. */
static bool takes(int i, bool highest, rp_dtype dtype)
{
    return highest || !test_takes_samples() || test_has_all_addresses() || i % 2 == (dtype == RP_BF16);
}

static void every_kernel_agrees_with_the_reference_and_repeats_its_bits(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 2 });
    const rp_kernels *levels[RP_MAX_LEVELS];
    int n = rp__kernels_levels(levels, RP_MAX_LEVELS);

    for (int i = 0; i < RP_COUNT(problems); i++) {
        numbers before = numbers_new(&problems[i]), after = numbers_new(&problems[i]);
        run_reference(ctx, &problems[i], &after);
        for (int l = 0; l < n; l++) {
            if (takes(i, l == n - 1, RP_F32)) check_kernel(&problems[i], levels[l], RP_F32, &before, &after);
            if (takes(i, l == n - 1, RP_BF16)) check_kernel(&problems[i], levels[l], RP_BF16, &before, &after);
        }
        numbers_free(&before);
        numbers_free(&after);
    }
    test_ctx_free(ctx);
}

/* ---- gradients of the reference ---- */

static double loss_of(rp_ctx *ctx, const problem *p, const numbers *x)
{
    numbers y  = numbers_new(p);
    double sum = 0;

    for (int i = Q; i <= V; i++) memcpy(y.part[i], x->part[i], (size_t)x->n[i] * sizeof(double));
    run_reference(ctx, p, &y);
    for (int64_t i = 0; i < y.n[OUT]; i++) sum += y.part[OUT][i] * y.part[G][i];
    numbers_free(&y);
    return sum;
}

static void the_reference_has_the_gradients_of_central_differences(void **state)
{
    (void)state;
    static const problem small[] = {
        { "dropout", 2, 5, 7, 4, 2, 3, { 0.7f, 0.25f, true, 0, 0 }, false, 2 },
        { "window", 1, 8, 8, 2, 1, 4, { 0.7f, 0, true, 3, 0 }, false, 2 },
        { "capped", 1, 8, 8, 2, 1, 4, { 0.7f, 0, true, 3, 0.6f }, false, 2 },
        { "more queries than keys", 1, 6, 4, 2, 2, 3, { 0.7f, 0, true, 0, 0 }, false, 2 },
        { "all keys", 1, 3, 6, 2, 1, 2, { 0.7f, 0, false, 0, 0 }, true, 2 },
    };
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 2 });
    const double h = 1e-5;

    for (int s = 0; s < RP_COUNT(small); s++) {
        numbers x = numbers_new(&small[s]), start = numbers_new(&small[s]), after = numbers_new(&small[s]);
        run_reference(ctx, &small[s], &after);
        for (int i = Q; i <= V; i++)
            for (int64_t j = 0; j < x.n[i]; j++) {
                double kept = x.part[i][j], up, down;
                x.part[i][j] = kept + h, up   = loss_of(ctx, &small[s], &x);
                x.part[i][j] = kept - h, down = loss_of(ctx, &small[s], &x);
                x.part[i][j]    = kept;
                double gradient = after.part[DQ + i][j] - start.part[DQ + i][j];
                assert_true(fabs((up - down) / (2 * h) - gradient) < 1e-7);
            }
        numbers_free(&x);
        numbers_free(&start);
        numbers_free(&after);
    }
    test_ctx_free(ctx);
}

/* ---- dropout ---- */

/* Equal scores and values of one: out is the share of keys kept, over 1 - p. */
static void dropout_keeps_its_share_and_scales_what_it_keeps(void **state)
{
    (void)state;
    problem p = { "share", 1, 1, 20000, 1, 1, 1, { 0.0f, 0.3f, true, 0, 0 }, false, 1 };
    const rp_kernels *levels[RP_MAX_LEVELS];
    int n     = rp__kernels_levels(levels, RP_MAX_LEVELS);
    numbers x = numbers_new(&p);

    for (int64_t i = 0; i < x.n[V]; i++) x.part[V][i] = 1;
    for (int l = 0; l < n; l++) {
        kernel_call k = kernel_new(&p, levels[l], RP_F32, 0, &x);
        double kept   = (double)((float *)k.a.out.data)[0] * (1 - (double)p.attr.dropout);
        assert_true(fabs(kept - 0.7) < 5 * sqrt(0.21 / 20000));
        kernel_free(&k);
    }
    numbers_free(&x);
}

static void a_mask_belongs_to_the_sample_not_to_its_place_in_the_batch(void **state)
{
    (void)state;
    problem two = { "two", 2, 40, 40, 2, 1, 8, { 0.3f, 0.4f, true, 0, 0 }, false, 2 }, one = two;
    const rp_kernels *levels[RP_MAX_LEVELS];
    const rp_kernels *level = levels[rp__kernels_levels(levels, RP_MAX_LEVELS) - 1];
    numbers x = numbers_new(&two), second;

    one.batch = 1;
    second    = numbers_new(&one);
    for (int i = 0; i < N_PARTS; i++)
        if (i != DOC) memcpy(second.part[i], x.part[i] + x.n[i] / 2, (size_t)second.n[i] * sizeof(double));
    kernel_call both = kernel_new(&two, level, RP_F32, 0, &x), alone = kernel_new(&one, level, RP_F32, 0, &second);
    alone.a.stream.sample_base++;
    level->attention_forward(&alone.a);
    assert_memory_equal((float *)both.a.out.data + x.n[OUT] / 2, alone.a.out.data, (size_t)second.n[OUT] * sizeof(float));
    kernel_free(&both);
    kernel_free(&alone);
    numbers_free(&x);
    numbers_free(&second);
}

/* ---- memory ---- */

static void scratch_does_not_grow_with_the_square_of_the_length(void **state)
{
    (void)state;
    const rp_kernels *levels[RP_MAX_LEVELS];
    int n = rp__kernels_levels(levels, RP_MAX_LEVELS);

    for (int l = 0; l < 2 * n; l++) {
        rp_attention a = { .batch = 1, .queries = 4096, .keys = 4096, .heads = 9, .kv_heads = 3, .dim = 64, .causal = true, .on.threads = 2,
                           .q = { .dtype = l % 2 ? RP_BF16 : RP_F32 } };
        int64_t forward[2], backward[2];
        for (int i = 0; i < 2; i++, a.queries *= 2, a.keys *= 2) {
            levels[l / 2]->attention_forward_scratch(&a, &forward[i]);
            levels[l / 2]->attention_backward_scratch(&a, &backward[i]);
        }
        assert_true(forward[1] <= 2 * forward[0]);
        assert_true(backward[1] <= 2 * backward[0]);
    }
}

/* Whatever way it takes: what a step of full length has room for has room for a shorter one. */
static void shorter_rows_take_no_more_scratch(void **state)
{
    static const int64_t sizes[][4] = { { 1, 1, 1, 64 }, { 2, 1, 1, 2 }, { 1, 4, 2, 16 }, { 3, 6, 1, 8 }, { 2, 8, 8, 128 } }; /* batch, heads, kv_heads, dim */
    const rp_kernels *levels[RP_MAX_LEVELS];
    int n = rp__kernels_levels(levels, RP_MAX_LEVELS);

    (void)state;
    for (int l = 0; l < 2 * n; l++)
        for (int c = 0; c < 4 * RP_COUNT(sizes); c++) {
            const int64_t *size = sizes[c / 4];
            rp_attention a = { .batch = size[0], .heads = size[1], .kv_heads = size[2], .dim = size[3], .causal = true, .on.threads = 1 + c % 4,
                               .q = { .dtype = l % 2 ? RP_BF16 : RP_F32 } };
            int64_t forward, backward, most_forward = 0, most_backward = 0;
            for (a.queries = a.keys = 1; a.keys <= 300; a.queries = ++a.keys) {
                levels[l / 2]->attention_forward_scratch(&a, &forward);
                levels[l / 2]->attention_backward_scratch(&a, &backward);
                if (forward < most_forward || backward < most_backward)
                    fail_msg("level %d, size %d, %d threads, %d rows: %" PRId64 " bytes after %" PRId64 ", backward %" PRId64 " after %" PRId64, l, c / 4,
                             a.on.threads, (int)a.keys, forward, most_forward, backward, most_backward);
                most_forward  = forward;
                most_backward = backward;
            }
        }
}

/* ---- the op: declarations, and the kernel behind it ---- */

static rp_status prepare_case(rp_ctx *ctx, const rp_op *op, const rp_op_case *k, rp_tensor **in, int *n_in, rp_op_meta *m)
{
    bool want[RP_MAX_IN] = { true, true, true };

    for (*n_in = 0; *n_in < RP_MAX_IN && k->in[*n_in][0]; ++*n_in) {
        int i = *n_in, ndim = 0;
        while (ndim < RP_MAX_DIM && k->in[i][ndim]) ndim++;
        rp_meta meta = rp_meta_make(k->int_inputs >> i & 1 ? RP_I32 : RP_F32, ndim, k->in[i]);
        assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &in[i]));
        rp__tensor_zero(in[i]);
    }
    return rp__op_prepare(ctx, op, k->attr, in, *n_in, !k->eval, want, m);
}

static void every_case_is_accepted_or_refused_as_it_says(void **state)
{
    (void)state;
    rp_ctx *ctx     = test_ctx(&(rp_ctx_options){ .threads = 2 });
    const rp_op *op = rp__op_find("attention");

    for (int i = 0; i < op->n_case; i++) {
        rp_tensor *in[RP_MAX_IN] = { NULL }, *out[1] = { NULL }, *slot[1] = { NULL };
        rp_op_meta m;
        int n_in;
        assert_int_equal(prepare_case(ctx, op, &op->cases[i], in, &n_in, &m), op->cases[i].expect);
        if (op->cases[i].expect == RP_OK) assert_ok(ctx, rp__op_forward(&m, (rp_op_stream){ 1, 2, 3 }, false, in, out, slot));
        rp_tensor_unref(out[0]);
        rp_tensor_unref(slot[0]);
        for (int j = 0; j < n_in; j++) rp_tensor_unref(in[j]);
    }
    test_ctx_free(ctx);
}

/* q, k and v as views of one fused projection, against the same rows in tensors of their own. */
static void the_op_takes_views_of_a_fused_projection(void **state)
{
    (void)state;
    enum { B = 2, T = 33, HQ = 4, HK = 2, D = 16, ALL = HQ + 2 * HK };
    rp_ctx *ctx     = test_ctx(&(rp_ctx_options){ .threads = 2 });
    const rp_op *op = rp__op_find("attention");
    rp_attr_attention attr = { 0.25f, 0, true, 0, 0 };
    rp_meta fused = rp_meta_make(RP_F32, 4, (int64_t[]){ B, T, ALL, D });
    rp_tensor *whole, *view[3], *own[3], *out[2] = { NULL }, *slot[2] = { NULL };
    double *value = calloc(B * T * ALL * D, sizeof *value), *a = calloc(B * T * HQ * D, sizeof *a), *b = calloc(B * T * HQ * D, sizeof *b);
    unsigned seed = 5;

    for (int i = 0; i < B * T * ALL * D; i++) value[i] = draw(&seed);
    assert_ok(ctx, rp_tensor_new(ctx, &fused, RP_MEM_TEMP, &whole));
    assert_ok(ctx, rp_tensor_write(whole, value, B * T * ALL * D));
    for (int i = 0; i < 3; i++) {
        assert_ok(ctx, rp_tensor_slice(whole, 2, i ? HQ + (i - 1) * HK : 0, i ? HK : HQ, &view[i]));
        assert_ok(ctx, rp_tensor_new(ctx, rp_tensor_meta(view[i]), RP_MEM_TEMP, &own[i]));
        rp__tensor_copy(own[i], view[i]);
    }
    for (int i = 0; i < 2; i++) {
        rp_op_meta m;
        assert_ok(ctx, rp__op_prepare(ctx, op, &attr, i ? own : view, 3, true, NULL, &m));
        assert_int_equal(m.n_slot, 0);
        assert_ok(ctx, rp__op_forward(&m, (rp_op_stream){ 0 }, false, i ? own : view, &out[i], slot));
    }
    assert_ok(ctx, rp_tensor_read(out[0], a, B * T * HQ * D));
    assert_ok(ctx, rp_tensor_read(out[1], b, B * T * HQ * D));
    assert_memory_equal(a, b, B * T * HQ * D * sizeof *a);
    for (int i = 0; i < 3; i++) rp_tensor_unref(view[i]), rp_tensor_unref(own[i]);
    for (int i = 0; i < 2; i++) rp_tensor_unref(out[i]);
    rp_tensor_unref(whole);
    free(value), free(a), free(b);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_agrees_with_the_reference_and_repeats_its_bits),
        cmocka_unit_test(the_reference_has_the_gradients_of_central_differences),
        cmocka_unit_test(dropout_keeps_its_share_and_scales_what_it_keeps),
        cmocka_unit_test(a_mask_belongs_to_the_sample_not_to_its_place_in_the_batch),
        cmocka_unit_test(scratch_does_not_grow_with_the_square_of_the_length),
        cmocka_unit_test(shorter_rows_take_no_more_scratch),
        cmocka_unit_test(every_case_is_accepted_or_refused_as_it_says),
        cmocka_unit_test(the_op_takes_views_of_a_fused_projection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
