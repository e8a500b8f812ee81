/* run_cases.c -- the checks of run_cases.h. Values and gradients are held to the same case run in fp64 on the same rounded inputs,
 * and those to central differences; everything else is compared bit by bit. */
#include "ops/run_cases.h"

#include "ops/cell.h"

#include <ctype.h>
#include <math.h>

/* ---- errors ---- */

static void check_text(const one_call *c)
{
    const char *text = rp_error(c->ctx);

    if (!isalpha((unsigned char)text[0]) || isupper((unsigned char)text[0]) || text[strlen(text) - 1] == '.')
        fail_call(c, "'%s' is not a lower-case sentence", text);
    if (strncmp(text, c->op->name, strlen(c->op->name))) fail_call(c, "'%s' does not name the op", text);
}

static void check_error(const cell *at)
{
    one_call c;
    rp_status status = call_prepare(&c, at->ctx, at->op, at->test, at->where, at->dtype, at->dtype, NULL);

    if (status == RP_OK) status = call_forward(&c);
    if (status != at->test->expect)
        fail_call(&c, "status %d (%s), expected %d", (int)status, rp_error(at->ctx), (int)at->test->expect);
    check_text(&c);
    call_free(&c);
}

/* Whether the op accepts the case. A refusal must be an error of shape or argument that names the op. */
static bool is_accepted(const cell *at)
{
    one_call c;
    rp_status status = call_prepare(&c, at->ctx, at->op, at->test, at->where, at->dtype, at->dtype, NULL);

    if (status == RP_OK) status = call_forward(&c);
    if (status != RP_OK) check_text(&c);
    if (status != RP_OK && status != RP_ERR_SHAPE && status != RP_ERR_ARG) fail_call(&c, "status %d: %s", (int)status, rp_error(at->ctx));
    call_free(&c);
    return status == RP_OK;
}

/* ---- values and gradients ---- */

/* How far a result may be from the truth: of its own size and of the largest element's. */
typedef struct { double of_element, of_largest; } bound;

/* A bf16 result is the fp32 one rounded once (half a step: 2^-9 of it, with room for fp32's own error); what is rounded on the way
 * moves sums by a step of the largest. */
static bound bound_for(const cell *at, rp_dtype result)
{
    double own = result == RP_BF16 ? 1.0 / 256 : 2e-6;

    if (at->dtype == RP_F64) return (bound){ result == RP_F64 ? 0 : own, 0 };
    return (bound){ own, at->dtype == RP_BF16 ? 1e-6 + at->test->roundings / 128.0 : 1e-6 };
}

static void check_close(const one_call *c, const char *claim, const char *what, int index, const rp_tensor *got, const rp_tensor *expected,
                        bound allowed)
{
    double largest = 0, *a = test_values(got), *b = test_values(expected);
    int64_t n      = rp_meta_elems(&expected->m);

    for (int64_t e = 0; e < n; e++) largest = fmax(largest, fabs(b[e]));
    for (int64_t e = 0; e < n; e++)
        if (!(fabs(a[e] - b[e]) <= allowed.of_element * fabs(b[e]) + allowed.of_largest * largest))
            fail_call(c, "%s: element %" PRId64 " of %s %d is %.9g, expected %.9g (largest %.3g)", claim, e, what, index, a[e], b[e], largest);
    free(a);
    free(b);
}

static void check_against(const cell *at, const one_call *got, const one_call *truth, const char *claim, double steps)
{
    for (int j = 0; j < truth->m.n_out; j++) {
        bound b = bound_for(at, got->out[j]->m.dtype);
        b.of_element *= steps;
        check_close(got, claim, "output", j, got->out[j], truth->out[j], b);
    }
    for (int i = 0; i < truth->n_in; i++)
        if (call_writes(truth, i))
            check_close(got, claim, "written input", i, got->in[i], truth->in[i], bound_for(at, got->in[i]->m.dtype));
    for (int i = 0; i < truth->n_in; i++) {
        if (!truth->grad_in[i]) continue;
        bound b = bound_for(at, got->grad_in[i]->m.dtype);
        b.of_element *= steps;
        check_close(got, claim, "gradient", i, got->grad_in[i], truth->grad_in[i], b);
    }
}

static const variant reference = { .name = "reference", .threads = 1 };

static void check_values(const cell *at, const one_call *base)
{
    one_call truth, wide, whole;
    rp_ctx *ctx = cell_ctx(&reference, false);

    call_run(&truth, ctx, at->op, at->test, &reference, RP_F64, at->dtype, NULL);
    rp__kernels_force(at->where->table);
    check_against(at, base, &truth, "against the double-precision run", 1);
    if (at->dtype == RP_BF16) {
        if (at->op->wide_grad_in && base->m.want_grad) {
            cell_run(&wide, at, &(request){ .wide = true });
            check_against(at, &wide, &truth, "with fp32 gradients of bf16 parameters", 1);
            call_free(&wide);
        }
        call_run(&whole, at->ctx, at->op, at->test, at->where, RP_F32, RP_BF16, NULL);
        check_against(at, base, &whole, "against the fp32 run", 1);
        call_free(&whole);
    }
    call_free(&truth);
    test_ctx_free(ctx);
}

/* d loss / d element, loss = sum of grad_out * out: from outputs half a step to either side. */
static double central_difference(const cell *at, int in, int64_t element)
{
    const double step = 1e-5;
    one_call up, down;
    double sum = 0;

    cell_run(&up, at, &(request){ .perturbed = in + 1, .element = element, .by = step / 2, .without_grad = UINT32_MAX });
    cell_run(&down, at, &(request){ .perturbed = in + 1, .element = element, .by = -step / 2, .without_grad = UINT32_MAX });
    for (int j = 0; j < up.m.n_out; j++)
        for (int64_t e = 0, n = rp_meta_elems(&up.m.out[j]); e < n; e++)
            sum += grad_out_value(&up, j, e) * (rp_elem_get(up.out[j], e) - rp_elem_get(down.out[j], e));
    call_free(&up);
    call_free(&down);
    return sum / step;
}

static void check_central_differences(const cell *at, const one_call *base)
{
    for (int j = 0; j < base->m.n_out; j++)
        if (base->m.out[j].dtype != RP_F64) return;      /* a cast: differences of rounded values say nothing */
    for (int i = 0; i < base->n_in; i++) {
        if (!base->grad_in[i]) continue;
        int64_t n = rp_meta_elems(&base->m.in[i]), stride = n / 40 + 1;
        for (int64_t e = 0; e < n; e += stride) {
            double got = rp_elem_get(base->grad_in[i], e), expected = central_difference(at, i, e);
            if (!(fabs(got - expected) <= 1e-6 * (1 + fabs(expected))))
                fail_call(base, "element %" PRId64 " of gradient %d is %.9g, central differences give %.9g", e, i, got, expected);
        }
    }
}

/* ---- bits ---- */

static void check_request(const cell *at, const one_call *base, const request *ask, const char *claim)
{
    one_call again;

    cell_run(&again, at, ask);
    check_same_outputs(base, &again, claim);
    check_same_gradients(base, &again, claim);
    call_free(&again);
}

static void check_without_gradients(const cell *at, const one_call *base)
{
    one_call again;

    cell_run(&again, at, &(request){ .without_grad = UINT32_MAX });
    if (again.m.n_slot) fail_call(&again, "%d slots without a gradient", again.m.n_slot);
    check_same_outputs(base, &again, "without gradients");
    call_free(&again);
}

/* Outputs and slots are those of the first pass, although what that wrote is no longer what it was; nothing else changes. */
static void check_replay(const cell *at, const one_call *base)
{
    one_call c;

    if ((at->op->flags & (RP_OP_EFFECT | RP_OP_COLLECTIVE)) && !(at->op->flags & RP_OP_REPLAYS)) return;
    cell_run(&c, at, NULL);
    c.ask.replaying = true;
    if (call_forward_recompute(&c) != RP_OK) fail_call(&c, "a replay: %s", rp_error(at->ctx));
    check_same_outputs(base, &c, "a replay");
    for (int i = 0; i < base->m.n_slot; i++) check_same(&c, "a replay", "slot", i, c.slot[i], base->slot[i]);
    for (int i = 0; i < base->n_in; i++) check_same(&c, "a replay", "input", i, c.in[i], base->in[i]);
    call_free(&c);
}

/* Whichever gradients are wanted, backward reads what the call's `needs` lists. */
static void check_needs(const cell *at, const one_call *base, uint32_t without_grad)
{
    check_request(at, base, &(request){ .without_grad = without_grad, .rest = OTHERS_POISONED },
                  "backward reads what `needs` does not list");
    check_request(at, base, &(request){ .without_grad = without_grad, .rest = OTHERS_NULL }, "backward without what `needs` does not list");
}

static void check_bits(const cell *at, const one_call *base)
{
    check_request(at, base, NULL, "a second run");
    check_without_gradients(at, base);
    check_replay(at, base);
    if (!base->m.want_grad) return;
    check_needs(at, base, 0);
    for (int i = 0; i < base->n_in; i++) {
        if (!base->grad_in[i]) continue;
        check_request(at, base, &(request){ .without_grad = ~RP_IN(i) }, "one gradient alone");
        check_needs(at, base, ~RP_IN(i));
        check_needs(at, base, RP_IN(i));
    }
}

/* A gradient that is missing counts as zero. */
static void check_missing_gradients(const cell *at, const one_call *base)
{
    for (int j = 0; base->m.want_grad && base->m.n_out > 1 && j < base->m.n_out; j++) {
        one_call zero, missing;
        cell_run(&zero, at, &(request){ .zero_grad_out = RP_IN(j) });
        cell_run(&missing, at, &(request){ .null_grad_out = RP_IN(j) });
        check_same_gradients(&zero, &missing, "an output without gradient");
        call_free(&zero);
        call_free(&missing);
    }
}

static void check_adding(const cell *at, const one_call *base)
{
    one_call sum;
    double step = at->dtype == RP_BF16 ? 1.0 / 256 : at->dtype == RP_F32 ? 4e-7 : 1e-12;

    if (!base->m.want_grad) return;
    cell_run(&sum, at, &(request){ .adds = true });
    for (int i = 0; i < base->n_in; i++) {
        double largest = 0;
        if (!base->grad_in[i]) continue;
        int64_t n   = rp_meta_elems(&base->m.in[i]);
        double *own = test_values(base->grad_in[i]), *got = test_values(sum.grad_in[i]);
        for (int64_t e = 0; e < n; e++) largest = fmax(largest, fabs(own[e]));
        for (int64_t e = 0; e < n; e++) {
            double before = prefill_value(i, e), expected = before + own[e];
            if (!(fabs(got[e] - expected) <= step * (fabs(before) + largest)))
                fail_call(&sum, "element %" PRId64 " of gradient %d is %.9g after adding to %.9g, expected %.9g", e, i, got[e], before,
                          expected);
        }
        free(own);
        free(got);
    }
    call_free(&sum);
}

/* ---- randomness ---- */

static bool differ(const one_call *a, const one_call *b)
{
    double *x = test_values(a->out[0]), *y = test_values(b->out[0]);
    bool any  = false;

    for (int64_t e = 0, n = rp_meta_elems(&a->m.out[0]); e < n; e++) any = any || x[e] != y[e];
    free(x);
    free(y);
    return any;
}

/* Neither nothing kept nor nothing dropped, whatever the stream. */
static bool draws(const one_call *random, const one_call *plain)
{
    double *v = test_values(random->out[0]);
    bool any  = false;

    for (int64_t e = 0, n = rp_meta_elems(&random->m.out[0]); e < n; e++) any = any || v[e] != 0;
    free(v);
    return any && differ(random, plain);
}

static void check_rows(const one_call *both, int row, const char *what, const rp_tensor *whole, const rp_tensor *part)
{
    int64_t n   = rp_meta_elems(&part->m);
    double *all = test_values(whole), *alone = test_values(part);

    for (int64_t e = 0; e < n; e++)
        if (all[row * n + e] != alone[e])
            fail_call(both, "sample %d alone: element %" PRId64 " of the %s is %.9g, in the batch %.9g", row, e, what, alone[e], all[row * n + e]);
    free(all);
    free(alone);
}

/* A batch of two draws as its samples do one by one: four at a time is two and two. */
static void check_split_batch(const cell *at)
{
    one_call both, one;

    if (at->test->in[0][0] < 2) return;
    cell_run(&both, at, &(request){ .row_count = 2, .stream = { 7, 3, 40 } });
    for (int row = 0; row < 2; row++) {
        cell_run(&one, at, &(request){ .row_start = row, .row_count = 1, .stream = { 7, 3, 40 + row } });
        check_rows(&both, row, "output", both.out[0], one.out[0]);
        if (one.grad_in[0]) check_rows(&both, row, "gradient", both.grad_in[0], one.grad_in[0]);
        call_free(&one);
    }
    call_free(&both);
}

static void check_stream(const cell *at)
{
    const rp_op_stream moves[] = { { 8, 3, 40 }, { 7, 4, 40 }, { 7, 3, 1000 } };
    const request first         = { .stream = { 7, 3, 40 } };
    one_call base, plain, other;

    if (!(at->op->flags & RP_OP_RANDOM)) return;
    cell_run(&base, at, &first);
    check_request(at, &base, &first, "the same stream");
    cell_run(&plain, at, &(request){ .stream = first.stream, .flip_train = true });
    bool random = !at->test->eval && draws(&base, &plain);
    call_free(&plain);
    for (int i = 0; random && i < RP_COUNT(moves); i++) {
        cell_run(&other, at, &(request){ .stream = moves[i] });
        if (!differ(&base, &other)) fail_call(&base, "another key, step or sample draws the same mask");
        call_free(&other);
    }
    call_free(&base);
    check_split_batch(at);
}

/* ---- cost ---- */

/* The cost with the batch (dimension 0 of input 0, and of the others where the op asks it) times `factor`. */
static bool cost_of(const cell *at, rp_ctx *shapes, int factor, bool all, rp_pass pass, rp_cost *cost)
{
    rp_tensor *in[RP_MAX_IN] = { 0 };
    bool want[RP_MAX_IN]     = { 0 };
    int n                    = case_inputs(at->test);
    rp_op_meta m;

    for (int i = 0; i < n; i++) {
        rp_meta meta = case_meta(at->test, i, at->dtype);
        if (i == 0 || (all && meta.dim[0] == at->test->in[0][0])) meta.dim[0] *= factor;
        assert_ok(shapes, rp_tensor_new(shapes, &meta, RP_MEM_TEMP, &in[i]));
        want[i] = case_wants(at->op, at->test, i);
    }
    bool fits = rp__op_prepare(shapes, at->op, at->test->attr, in, n, case_trains(at->test, &(request){ 0 }), want, &m) == RP_OK;
    if (fits) *cost = at->op->cost(&m, pass);
    for (int i = 0; i < n; i++) rp_tensor_unref(in[i]);
    return fits;
}

static void check_cost_of_pass(const cell *at, const one_call *base, rp_ctx *shapes, rp_pass pass)
{
    rp_cost c[3];

    assert_true(cost_of(at, shapes, 1, false, pass, &c[0]));
    bool writes = rp_meta_elems(&base->m.out[0]) > 0 && rp_meta_elems(&base->m.in[0]) > 0;
    if (c[0].flops < 0 || c[0].read_bytes < 0 || c[0].write_bytes < writes) fail_call(base, "the cost of pass %d is not positive", (int)pass);
    for (int all = 0; all < 2; all++) {
        if (!cost_of(at, shapes, 2, all, pass, &c[1]) || !cost_of(at, shapes, 3, all, pass, &c[2])) continue;
        if (c[2].flops - c[1].flops != c[1].flops - c[0].flops || c[1].flops < c[0].flops)
            fail_call(base, "FLOPs of pass %d at 1, 2, 3 times the batch: %" PRId64 " %" PRId64 " %" PRId64, (int)pass, c[0].flops,
                      c[1].flops, c[2].flops);
        if (c[1].read_bytes < c[0].read_bytes || c[1].write_bytes < c[0].write_bytes)
            fail_call(base, "bytes of pass %d fall as the batch grows", (int)pass);
    }
}

static void check_cost(const cell *at, const one_call *base)
{
    rp_ctx *shapes = cell_ctx(at->where, true);

    check_cost_of_pass(at, base, shapes, RP_FORWARD);
    if (rp__op_runs_back(&base->m)) check_cost_of_pass(at, base, shapes, RP_BACKWARD);
    test_ctx_free(shapes);
}

/* ---- the table ---- */

static void check_all(cell *at)
{
    one_call base;

    cell_run(&base, at, NULL);
    check_guards(&base);
    check_values(at, &base);
    if (at->dtype == RP_F64 && !at->where->strided) check_central_differences(at, &base);
    check_bits(at, &base);
    check_missing_gradients(at, &base);
    check_adding(at, &base);
    check_stream(at);
    check_cost(at, &base);
    check_memory(at, &base);
    call_free(&base);
}

static void check_case(cell *at)
{
    at->ctx = cell_ctx(at->where, false);
    if (at->test->expect != RP_OK) check_error(at);
    else check_all(at);
    test_ctx_free(at->ctx);
}

static bool check_if_accepted(cell *at)
{
    at->ctx       = cell_ctx(at->where, false);
    bool accepted = is_accepted(at);
    if (accepted) check_all(at);
    test_ctx_free(at->ctx);
    return accepted;
}

/* Every CPU level, and what else may make a difference. */
static int variants(variant *where)
{
    const rp_kernels *level[RP_MAX_LEVELS];
    int n_level = rp__kernels_levels(level, RP_COUNT(level)), n = 0;
    const char *device = getenv("REPRISE_TEST_DEVICE");

    if (device && (!strcmp(device, "cuda") || !strcmp(device, "emu"))) {        /* the levels of the CPU are no concern of a GPU */
        where[n++] = (variant){ .name = device, .device = device, .threads = 1 };
        return n;
    }
    for (int i = 0; i < n_level; i++) where[n++] = (variant){ .name = level[i]->level, .table = level[i], .threads = 2 };
    where[n++] = (variant){ .name = "one thread", .table = level[n_level - 1], .threads = 1 };
    where[n++] = (variant){ .name = "more threads than rows", .table = level[n_level - 1], .threads = 5 };
    where[n++] = (variant){ .name = "no kernels", .table = rp__kernels_none(), .threads = 2 };
    if (test_has_all_addresses()) where[n++] = (variant){ .name = "device sim", .device = "sim", .threads = 1 };     /* it maps all memory of the host */
    if (TEST_HAS_EMU && !device && !getenv("REPRISE_CPU")) where[n++] = (variant){ .name = "device emu", .device = "emu", .threads = 1 };
    where[n++] = (variant){ .name = "strided", .threads = 2, .strided = true };
    return n;
}

/* No kernel takes fp64. Emulation takes most of the time: a short run on an emulated GPU takes the cases in fp32 and in bf16 by turns. On an emulated CPU
 * the kernels of each level take all cases, and all else every sixth one in each dtype by turns. */
static bool is_wanted(const variant *where, bool first, rp_dtype dtype, int i)
{
    bool on_gpu = where->device && !strcmp(where->device, "emu");
    bool besides = where->threads != 2 || where->table == rp__kernels_none() || where->strided, cpu = test_takes_samples() && !test_has_all_addresses();

    if (dtype == RP_F64) return first || (where->strided && (!cpu || i % 6 == 0));
    if (test_takes_samples() && on_gpu) return i % 2 == (dtype == RP_BF16);
    return !cpu || !besides || i % 6 == (dtype == RP_BF16 ? 3 : 0);
}

enum { MOST_VARIANTS = RP_MAX_LEVELS + 6 };
static const rp_dtype dtypes[] = { RP_F64, RP_F32, RP_BF16 };

void run_cases(const rp_op *op)
{
    variant where[MOST_VARIANTS] = { 0 };
    int n = variants(where);

    for (int v = 0; v < n; v++)
        for (int d = 0; d < RP_COUNT(dtypes); d++)
            for (int i = 0; i < op->n_case; i++)
                if (is_wanted(&where[v], v == 0, dtypes[d], i))
                    check_case(&(cell){ .op = op, .test = &op->cases[i], .where = &where[v], .dtype = dtypes[d] });
    rp__kernels_force(NULL);
}

void run_cases_on(const rp_op *op, const char *device)
{
    variant where = { .name = device, .device = device, .threads = 2 };

    for (int bf16 = 0; bf16 < 2; bf16++)
        for (int i = 0; i < op->n_case; i++) check_case(&(cell){ .op = op, .test = &op->cases[i], .where = &where, .dtype = bf16 ? RP_BF16 : RP_F32 });
    rp__kernels_force(NULL);
}

static void check_bounds(cell *at)
{
    one_call base;

    if (at->test->expect != RP_OK) return;
    at->ctx = cell_ctx(at->where, false);
    cell_run(&base, at, NULL);
    check_guards(&base);
    call_free(&base);
    test_ctx_free(at->ctx);
}

void run_within_bounds(const rp_op *op)
{
    const rp_kernels *level[RP_MAX_LEVELS + 1];
    int n = rp__kernels_levels(level, RP_MAX_LEVELS);

    level[n++] = rp__kernels_none();
    for (int v = 0; v < n; v++)
        for (int bf16 = 0; bf16 < 2; bf16++)
            for (int i = 0; i < op->n_case; i++) {
                variant where = { .name = level[v]->level, .table = level[v], .threads = 2 };
                check_bounds(&(cell){ .op = op, .test = &op->cases[i], .where = &where, .dtype = bf16 ? RP_BF16 : RP_F32 });
            }
    rp__kernels_force(NULL);
}

/* ---- values that are needed ---- */

enum { WANTS = 1 + 2 * RP_MAX_IN };

typedef struct { uint32_t listed, matters; } needed;

/* Values that kernels read although the gradient of one input alone does not depend on them: a gradient has the same bits, and so the same kernel,
 * with and without the others. */
static const struct { const char *op; uint32_t values; } along[] = {
    { "rmsnorm", RP_IN(1) }, { "layernorm", RP_IN(0) | RP_IN(1) | RP_SLOT(0) | RP_SLOT(1) }, { "swiglu", RP_IN(1) }, { "attention", RP_IN(2) | RP_OUT(0) },
};

static uint32_t read_along(const rp_op *op)
{
    for (int i = 0; i < RP_COUNT(along); i++)
        if (!strcmp(along[i].op, op->name)) return along[i].values;
    return 0;
}

static bool same_bits(const rp_tensor *a, const rp_tensor *b)
{
    double *x = test_values(a), *y = test_values(b);
    bool same = !memcmp(x, y, (size_t)rp_meta_elems(&a->m) * sizeof *x);

    free(x);
    free(y);
    return same;
}

static bool matters(const cell *at, const one_call *base, uint32_t without_grad, uint32_t bit)
{
    one_call c;
    bool same = true;

    cell_run(&c, at, &(request){ .without_grad = without_grad, .poisoned = bit });
    for (int i = 0; i < base->n_in; i++)
        if (base->grad_in[i] && c.grad_in[i]) same = same && same_bits(base->grad_in[i], c.grad_in[i]);
    call_free(&c);
    return !same;
}

static const rp_meta *meta_of(const rp_op_meta *m, int kind, int i) { return kind == 0 ? &m->in[i] : kind == 1 ? &m->out[i] : &m->slot[i]; }

/* Integers are indices: a wrong one may not be given to backward. */
static void note_needs(const cell *at, uint32_t without_grad, needed *out)
{
    one_call base;

    cell_run(&base, at, &(request){ .without_grad = without_grad });
    const int n[] = { base.n_in, base.m.n_out, base.m.n_slot };
    for (int kind = 0; kind < RP_COUNT(n) && base.m.want_grad; kind++)
        for (int i = 0; i < n[kind]; i++) {
            uint32_t bit = kind == 0 ? RP_IN(i) : kind == 1 ? RP_OUT(i) : RP_SLOT(i);
            if (!(base.m.needs & bit) || !rp_meta_is_float(meta_of(&base.m, kind, i))) continue;
            out->listed |= bit;
            if (!(out->matters & bit) && matters(at, &base, without_grad, bit)) out->matters |= bit;
        }
    call_free(&base);
}

static void note_case(cell *at, needed all[WANTS])
{
    int n = case_inputs(at->test);

    if (at->test->expect != RP_OK) return;
    at->ctx = cell_ctx(at->where, false);
    note_needs(at, 0, &all[0]);
    for (int i = 0; i < n; i++) {
        note_needs(at, RP_IN(i), &all[1 + 2 * i]);
        note_needs(at, ~RP_IN(i), &all[2 + 2 * i]);
    }
    test_ctx_free(at->ctx);
}

void run_needs(const rp_op *op)
{
    const rp_kernels *level[RP_MAX_LEVELS];
    int n = rp__kernels_levels(level, RP_MAX_LEVELS);
    const variant where[] = { { .name = "the highest level", .table = level[n - 1], .threads = 2 },
                              { .name = "no kernels", .table = rp__kernels_none(), .threads = 1 } };

    for (int v = 0; v < RP_COUNT(where); v++) {
        needed all[WANTS] = { 0 };
        for (int i = 0; i < op->n_case; i++) note_case(&(cell){ .op = op, .test = &op->cases[i], .where = &where[v], .dtype = RP_F32 }, all);
        for (int w = 0; w < WANTS; w++)
            if (all[w].listed & ~all[w].matters & ~read_along(op))
                fail_msg("%s, %s: gradients %s input %d: `needs` lists 0x%x, of which 0x%x changes no gradient in any case", op->name, where[v].name,
                         !w ? "of all, with" : w % 2 ? "of all but" : "of only", (w - 1) / 2, all[w].listed, all[w].listed & ~all[w].matters);
    }
    rp__kernels_force(NULL);
}

/* Samples go round, so that of many cases together every cell has its turn. */
static bool is_sampled(void)
{
    static unsigned turn;

    return turn++ % (unsigned)test_few_or(7, 1) == 0;
}

int run_if_accepted(const rp_op *op, const rp_op_case *test)
{
    variant where[MOST_VARIANTS] = { 0 };
    int n = variants(where), accepted = 0;

    for (int v = 0; v < n; v++)
        for (int d = 0; d < RP_COUNT(dtypes); d++)
            if ((dtypes[d] != RP_F64 || v == 0 || where[v].strided) && is_sampled())
                accepted += check_if_accepted(&(cell){ .op = op, .test = test, .where = &where[v], .dtype = dtypes[d] });
    rp__kernels_force(NULL);
    return accepted;
}
