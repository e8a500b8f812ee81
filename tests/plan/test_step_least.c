/* The claims about the least budget of a step of a program's own, for random programs: it can be planned, keeping all takes no less, and no budget
 * below it can be planned, unless the text says that it is "at most" so much. */
/* ctest: thread-free */
#include "rp_test.h"

#include "reprise/ops.h"

enum { MOST_NODES = 20, WIDTHS = 3, ROWS = 24 };

static const int widths[WIDTHS] = { 16, 24, 40 };

typedef enum { MATMUL, GELU, DROPOUT, ADD, KINDS } kind;
typedef struct { kind kind; int from, other, width; bool held; } node;         /* held: by the program until the step ends */
typedef struct { rp_tensor *x, *w[MOST_NODES]; node at[MOST_NODES]; int n; uint32_t state; } program;

static uint32_t next(program *p)
{
    p->state = p->state * 1664525u + 1013904223u;
    return p->state >> 8;
}

static int width_of(const program *p, int tensor) { return tensor ? p->at[tensor - 1].width : 0; }

/* Tensor 0 is the input, tensor i what node i - 1 makes. Most read what was made just before. */
static int draw_tensor(program *p, int n, int width)
{
    for (int tries = 0; tries < 8; tries++) {
        int t = next(p) % 3 ? n - (int)(next(p) % 2) : (int)(next(p) % (uint32_t)(n + 1));
        if (t >= 0 && (width < 0 || width_of(p, t) == width)) return t;
    }
    return -1;
}

static node draw_node(program *p, int n)
{
    node out = { .kind = (kind)(next(p) % KINDS), .from = draw_tensor(p, n, -1), .held = next(p) % 4 == 0 };

    out.from  = out.from < 0 ? n : out.from;
    out.width = width_of(p, out.from);
    if (out.kind == MATMUL) out.width = (int)(next(p) % WIDTHS);
    if (out.kind == ADD) out.other = draw_tensor(p, n, out.width);
    if (out.kind == ADD && out.other < 0) out.kind = GELU;
    return out;
}

static rp_tensor *tensor(rp_ctx *ctx, int64_t rows, int64_t columns, bool param)
{
    rp_meta m = rp_meta_2d(RP_F32, rows, columns);
    rp_tensor *t;

    assert_ok(ctx, rp_tensor_new(ctx, &m, param ? RP_MEM_PARAM : RP_MEM_TEMP, &t));
    rp_tensor_require_grad(t, param);
    return t;
}

/* It begins and ends with a product, so that there is a gradient. */
static void program_make(program *p, rp_ctx *ctx, uint32_t seed)
{
    *p   = (program){ .state = seed * 2654435761u + 7 };
    p->n = 6 + (int)(next(p) % (MOST_NODES - 6));
    p->x = tensor(ctx, ROWS, widths[0], false);
    for (int i = 0; i < p->n; i++) {
        p->at[i] = draw_node(p, i);
        if (i == 0 || i + 1 == p->n) p->at[i] = (node){ .kind = MATMUL, .from = i, .width = (int)(next(p) % WIDTHS) };
        if (p->at[i].kind == MATMUL) p->w[i] = tensor(ctx, widths[p->at[i].width], widths[width_of(p, p->at[i].from)], true);
    }
}

static void program_free(program *p)
{
    rp_tensor_unref(p->x);
    for (int i = 0; i < p->n; i++) rp_tensor_unref(p->w[i]);
}

static rp_status run_node(const program *p, rp_ctx *ctx, int i, rp_tensor **t)
{
    const node *n = &p->at[i];

    if (n->kind == MATMUL)
        return rp_apply(ctx, "matmul", &(rp_attr_matmul){ .transpose_w = true }, (rp_tensor *[]){ t[n->from], p->w[i] }, 2, &t[i + 1]);
    if (n->kind == GELU) return rp_apply(ctx, "gelu", &(rp_attr_gelu){ false }, &t[n->from], 1, &t[i + 1]);
    if (n->kind == DROPOUT) return rp_apply(ctx, "dropout", &(rp_attr_dropout){ 0.25F }, &t[n->from], 1, &t[i + 1]);
    return rp_apply(ctx, "add", NULL, (rp_tensor *[]){ t[n->from], t[n->other] }, 2, &t[i + 1]);
}

/* Whether a later node reads it. */
static bool is_read(const program *p, int from_node, int tensor)
{
    for (int i = from_node; i < p->n; i++)
        if (p->at[i].from == tensor || (p->at[i].kind == ADD && p->at[i].other == tensor)) return true;
    return false;
}

static rp_status forward(const program *p, rp_ctx *ctx, rp_tensor **t)
{
    for (int i = 0; i < p->n; i++) {
        RP_TRY(run_node(p, ctx, i, t));
        for (int at = 0; at <= i; at++) {
            if (is_read(p, i + 1, at) || (at > 0 && p->at[at - 1].held)) continue;
            rp_tensor_unref(t[at]);
            t[at] = NULL;
        }
    }
    return RP_OK;
}

static rp_status step(rp_ctx *ctx, void *user)
{
    program *p                   = user;
    rp_tensor *t[MOST_NODES + 1] = { rp_tensor_ref(p->x) }, *sum = NULL, *loss = NULL;
    rp_status status             = forward(p, ctx, t);

    if (status == RP_OK) status = rp_apply(ctx, "mean", &(rp_attr_dim){ 0 }, &t[p->n], 1, &sum);
    if (status == RP_OK) status = rp_apply(ctx, "mean", &(rp_attr_dim){ 0 }, &sum, 1, &loss);
    if (status == RP_OK) status = rp_backward(ctx, loss);
    rp_tensor_unref(sum);
    rp_tensor_unref(loss);
    for (int i = 0; i <= p->n; i++) rp_tensor_unref(t[i]);
    for (int i = 0; i < p->n; i++)
        if (p->w[i]) rp_tensor_drop_grad(p->w[i]);
    return status;
}

/* 0: refused. */
static int64_t reserved_for(program *p, rp_ctx *ctx, int64_t budget)
{
    rp_step_plan *plan;
    rp_step_facts facts;
    rp_status status = rp_plan_step(ctx, step, p, budget, &plan);

    if (status == RP_ERR_BUDGET) return 0;
    assert_ok(ctx, status);
    rp_step_plan_read(plan, &facts);
    rp_step_plan_free(plan);
    if (budget > 0) assert_true(facts.memory.reserved_bytes <= budget);
    return facts.memory.reserved_bytes;
}

static void check(uint32_t seed)
{
    static const int64_t below[] = { 1, 64, 128, 192, 256, 512, 1024, 4096 };
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    char reported[RP_SIZE_CHARS], text[600];
    program p;

    program_make(&p, ctx, seed);
    int64_t least = reserved_for(&p, ctx, RP_LEAST_BUDGET), all = reserved_for(&p, ctx, 0);
    if (least > all) fail_msg("program %u: the least is %lld, keeping all takes %lld", seed, (long long)least, (long long)all);
    if (!reserved_for(&p, ctx, least)) fail_msg("program %u: the least, %lld, is refused: %s", seed, (long long)least, rp_error(ctx));
    assert_int_equal(reserved_for(&p, ctx, 1), 0);
    snprintf(text, sizeof text, "%s", rp_error(ctx));
    if (!strstr(text, rp__size_text_up(reported, least))) fail_msg("program %u: %s, the least is %lld", seed, text, (long long)least);
    for (int i = 0; i < RP_COUNT(below); i++) {
        int64_t got = reserved_for(&p, ctx, least - below[i]);
        if (got && !strstr(text, "at most")) fail_msg("program %u: the reported least is %lld, but %lld are enough", seed, (long long)least, (long long)got);
    }
    program_free(&p);
    test_ctx_free(ctx);
}

static void no_budget_below_the_reported_least_can_be_planned(void **state)
{
    int n = test_draws(1000);

    (void)state;
    for (int seed = 0; seed < n; seed++) check((uint32_t)seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_budget_below_the_reported_least_can_be_planned) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
