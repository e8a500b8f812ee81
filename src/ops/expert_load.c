/* ops/expert_load.c -- the load of each expert in a batch: the share of tokens that chose it, and the router's mean probability for it. Fedus et al.,
 * Switch Transformers, 2021, equations 5 and 6, with k choices per token.
 *
 *   in     logits [..., n] floating   choices [..., k] int32, each in [0, n): checked   doc_start [...] int32, optional: only tokens
 *          of the document that begins the row count, which excludes the padding after it
 *   out    loads [2, n]               choices of an expert / tokens; mean of softmax(logits); fp32 (fp64 beside fp64); 0 without tokens
 *   needs  logits, doc_start; the number of choices has no gradient
 *   order  probabilities are summed in blocks of rows: in order within a block, then block after block
 */
#include "ops/experts.h"

enum { LOGITS, CHOICES, DOC_START };
enum { LOADS };
enum { CHOSEN, GIVEN };         /* rows of loads: share of choices, mean probability */

enum { ROWS_OF_BLOCK = 64 };

static int64_t experts_of(const rp_op_meta *m) { return rp_meta_dim(&m->in[LOGITS], -1); }
static int64_t rows_of(const rp_op_meta *m) { return rp_meta_rows(&m->in[LOGITS]); }
static int64_t blocks_of(const rp_op_meta *m) { return (rows_of(m) + ROWS_OF_BLOCK - 1) / ROWS_OF_BLOCK; }

/* Scratch of the kernels' forward: the number of choices of each expert, then the sums of blocks. */
typedef struct { int64_t chosen, blocks, total; } layout;

static layout fast_layout(const rp_op_meta *m)
{
    layout l = { 0 };

    l.chosen = rp__scratch_add(m->ctx, &l.total, experts_of(m) * (int64_t)sizeof(double));
    l.blocks = rp__scratch_add(m->ctx, &l.total, blocks_of(m) * experts_of(m) * (int64_t)sizeof(float));
    return l;
}

static rp_status expert_load_shape(rp_op_meta *m)
{
    const rp_meta *logits = &m->in[LOGITS];

    RP_CHECK(m->ctx, rp_meta_is_float(logits), RP_ERR_DTYPE, "expert_load: logits are %s, expected a floating dtype", rp_meta_str(logits));
    RP_CHECK(m->ctx, m->n_in > CHOICES && logits->ndim >= 1, RP_ERR_SHAPE, "expert_load: logits are %s with %d more inputs, expected "
             "[..., experts] and choices", rp_meta_str(logits), m->n_in - 1);
    RP_TRY(rp__check_routes(m, CHOICES, rows_of(m), experts_of(m)));
    if (m->n_in > DOC_START) {
        RP_TRY(rp__check_int32(m, DOC_START, "document starts"));
        RP_CHECK(m->ctx, rp_meta_elems(&m->in[DOC_START]) == rows_of(m), RP_ERR_SHAPE, "expert_load: logits are %s and document starts %s, "
                 "expected one for each row", rp_meta_str(logits), rp_meta_str(&m->in[DOC_START]));
    }
    m->out[LOADS]             = rp_meta_2d(rp_meta_stat_dtype(logits), 2, experts_of(m));
    m->scratch_bytes          = rp__op_fast(m) ? fast_layout(m).total : 2 * experts_of(m) * (int64_t)sizeof(double);
    m->scratch_backward_bytes = 2 * experts_of(m) * (int64_t)sizeof(double);
    return RP_OK;
}

static rp_cost expert_load_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__cost(m, pass, rp_meta_elems(&m->in[LOGITS]) * (pass == RP_FORWARD ? 26 : 30));
}

static bool counts(const rp_op_call *c, int64_t row) { return c->meta->n_in <= DOC_START || rp_int_get(c->in[DOC_START], row) == 0; }

static int64_t tokens_of(const rp_op_call *c)
{
    int64_t n = 0;

    for (int64_t r = 0; r < rows_of(c->meta); r++) n += counts(c, r);
    return n;
}

/* 1 / number of counted tokens; 0 if there are none. */
static double share_of(const rp_op_call *c)
{
    int64_t tokens = tokens_of(c);

    return tokens ? 1 / (double)tokens : 0;
}

/* ---- the reference ---- */

static void sum_given(const rp_op_call *c, double *x, double *sum)
{
    int64_t n = experts_of(c->meta);

    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t r = 0; r < rows_of(c->meta); r++) {
        if (!counts(c, r)) continue;
        rp_row_get(c->in[LOGITS], r, x);
        rp__row_softmax(x, n);
        for (int64_t i = 0; i < n; i++) sum[i] += x[i];
    }
}

static void put_given(const rp_op_call *c, double share)
{
    const rp_kernels *k = rp__op_kernels(c);
    int64_t n           = experts_of(c->meta);
    double *x           = c->scratch;
    float *block        = (float *)(void *)((uint8_t *)c->scratch + fast_layout(c->meta).blocks);

    if (!k->softmax_sums) {
        sum_given(c, x, x + n);         /* `chosen`, in the same scratch, is no longer needed */
        for (int64_t i = 0; i < n; i++) rp_elem_put(c->out[LOADS], GIVEN * n + i, share * x[n + i]);
        return;
    }
    k->softmax_sums(c->meta->in[LOGITS].dtype, rp__data(c->in[LOGITS]), rp__data(c->in[DOC_START]), block, rows_of(c->meta), n, ROWS_OF_BLOCK,
                    rp__on(c->meta));
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t b = 0; b < blocks_of(c->meta); b++) sum += block[b * n + i];
        rp_elem_put(c->out[LOADS], GIVEN * n + i, share * sum);
    }
}

/* The device counts rows and choices. */
static void launch_forward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    const rp_on *on     = rp__on(c->meta);
    int64_t n = experts_of(c->meta), rows = rows_of(c->meta), slots = rp_meta_elems(&c->meta->in[CHOICES]);
    float *block = (float *)(void *)((uint8_t *)c->scratch + fast_layout(c->meta).blocks);

    k->softmax_sums(c->meta->in[LOGITS].dtype, rp__data(c->in[LOGITS]), rp__data(c->in[DOC_START]), block, rows, n, ROWS_OF_BLOCK, on);
    k->expert_loads(rp__data(c->in[CHOICES]), rp__data(c->in[DOC_START]), block, rp__data(c->out[LOADS]), rows, rows ? slots / rows : 0, n,
                    blocks_of(c->meta), on);
}

static void host_forward(const rp_op_call *c)
{
    int64_t n = experts_of(c->meta), rows = rows_of(c->meta), slots = rp_meta_elems(&c->meta->in[CHOICES]);
    double share = share_of(c), *chosen = c->scratch;

    memset(chosen, 0, (size_t)n * sizeof *chosen);
    for (int64_t s = 0; s < slots; s++)
        if (counts(c, s / (slots / rows))) chosen[rp_int_get(c->in[CHOICES], s)]++;
    for (int64_t i = 0; i < n; i++) rp_elem_put(c->out[LOADS], CHOSEN * n + i, share * chosen[i]);
    put_given(c, share);
}

static void expert_load_forward(const rp_op_call *c)
{
    if (rp__op_failed(c, rp__check_choices(c, CHOICES, experts_of(c->meta)))) return;
    if (rp__op_kernels(c)->expert_loads) launch_forward(c);
    else host_forward(c);
}

/* With p the softmax of a token's logits and g the gradient of the mean probabilities: dx = p * (g - sum of g * p) / tokens. */
static void slope_of_row(const rp_op_call *c, int64_t row, const double *g, double share, double *x)
{
    int64_t n  = experts_of(c->meta);
    double dot = 0;

    rp_row_get(c->in[LOGITS], row, x);
    rp__row_softmax(x, n);
    for (int64_t i = 0; i < n; i++) dot += g[i] * x[i];
    for (int64_t i = 0; i < n; i++) x[i] = counts(c, row) ? share * x[i] * (g[i] - dot) : 0;
    rp_row_grad(c, LOGITS, row, x);
}

static void expert_load_backward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    int64_t n           = experts_of(c->meta);
    bool launches       = k->expert_loads_backward;
    double *g           = c->scratch, share = launches ? 0 : share_of(c);
    float *narrow       = c->scratch;

    if (!k->softmax_sums_backward) {
        rp_row_get(c->grad_out[LOADS], GIVEN, g);
        for (int64_t r = 0; r < rows_of(c->meta); r++) slope_of_row(c, r, g, share, g + n);
        return;
    }
    if (launches) k->expert_loads_backward(rp__data(c->in[DOC_START]), rp__data(c->grad_out[LOADS]), narrow, rows_of(c->meta), n, rp__on(c->meta));
    for (int64_t i = 0; i < n && !launches; i++) narrow[i] = (float)(share * rp_elem_get(c->grad_out[LOADS], GIVEN * n + i));
    k->softmax_sums_backward(c->meta->in[LOGITS].dtype, rp__data(c->in[LOGITS]), rp__data(c->in[DOC_START]), narrow, rp__data(c->grad_in[LOGITS]),
                             rp__grad_dtype(c, LOGITS), c->grad_adds[LOGITS], rows_of(c->meta), n, rp__on(c->meta));
}

#define CHOICES_FROM(low, high) .int_inputs = RP_IN(CHOICES) | RP_IN(DOC_START), .int_low = { [CHOICES] = low }, \
    .int_high = { [CHOICES] = high, [DOC_START] = 1 }

static const rp_op_case expert_load_cases[] = {
    { "two of four",    .in = { { 3, 5, 4 }, { 3, 5, 2 } },           CHOICES_FROM(0, 3), .scale = 2 },
    { "with padding",   .in = { { 3, 5, 4 }, { 3, 5, 2 }, { 3, 5 } }, CHOICES_FROM(0, 3), .scale = 2 },
    { "many experts",   .in = { { 7, 131 },  { 7, 8 } },              CHOICES_FROM(0, 130), .scale = 3 },
    { "blocks of rows", .in = { { 131, 19 }, { 131, 3 }, { 131 } },   CHOICES_FROM(0, 18) },
    { "one expert",     .in = { { 4, 1 },    { 4, 1 } },              CHOICES_FROM(0, 0) },
    { "no such expert", .in = { { 4, 5 },    { 4, 2 } },              CHOICES_FROM(5, 5), .expect = RP_ERR_ARG },
    { "rows differ",    .in = { { 4, 5 },    { 3, 2 } },              CHOICES_FROM(0, 4), .expect = RP_ERR_SHAPE },
    { "starts differ",  .in = { { 4, 5 },    { 4, 2 }, { 3 } },       CHOICES_FROM(0, 4), .expect = RP_ERR_SHAPE },
    { "no choices",     .in = { { 4, 5 } },                           .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_expert_load = {
    .name = "expert_load", .n_in = 3, .n_out = 1, .flags = RP_OP_VARIADIC, .no_grad_in = RP_IN(CHOICES) | RP_IN(DOC_START),
    .needs = RP_IN(LOGITS) | RP_IN(DOC_START),
    .shape = expert_load_shape, .cost = expert_load_cost,
    .forward = expert_load_forward, .backward = expert_load_backward,
    .cases = expert_load_cases, .n_case = RP_COUNT(expert_load_cases),
};
