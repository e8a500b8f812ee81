/* 17_own_training -- a network of your own, an MLP-mixer, trained by the library's optimizer within a budget, then saved, loaded and continued. */
#include <stdio.h>
#include <stdlib.h>
#include <reprise/op.h>
#include <reprise/ops.h>
#include <reprise/train.h>

enum { ROWS = 32, PATCHES = 16, PIXELS = 16, WIDTH = 16, INNER = 32, MIXERS = 6, STEPS = 40, PARAMS = 3 + 3 * MIXERS, BUDGET = 1000000 };

typedef struct { rp_ctx *ctx; rp_tensor *param[PARAMS], *images, *labels; rp_optimizer *optimizer; rp_status status; double loss; } net;

static void must(const rp_ctx *ctx, rp_status status) { if (status) exit(printf("%s\n", rp_error(ctx)) > 0); }

/* Replaces *x by the result of an op on *x and, unless it is NULL, w. op NULL: transposes patches and channels. */
static void apply(net *n, const char *op, const void *attr, rp_tensor **x, rp_tensor *w)
{
    rp_tensor *y;

    if (n->status) return;
    n->status = op ? rp_apply(n->ctx, op, attr, (rp_tensor *[]){ *x, w }, w ? 2 : 1, &y) : rp_tensor_transpose(*x, 1, 2, &y);
    if (!n->status) rp_tensor_unref(*x), *x = y;
}

/* *x + second(gelu(first(norm(*x)))), along the channels or across the patches. w: norm, first, second */
static void mix(net *n, rp_tensor *const *w, bool across, rp_tensor **x)
{
    rp_tensor *y = rp_tensor_ref(*x);

    apply(n, "rmsnorm", &(rp_attr_norm){ .eps = 1e-5f }, &y, w[0]);
    if (across) apply(n, NULL, NULL, &y, NULL);
    apply(n, "matmul", &(rp_attr_matmul){ 0 }, &y, w[1]);
    apply(n, "gelu", &(rp_attr_gelu){ 0 }, &y, NULL);
    apply(n, "matmul", &(rp_attr_matmul){ 0 }, &y, w[2]);
    if (across) apply(n, NULL, NULL, &y, NULL);
    apply(n, "add", NULL, x, y);
    rp_tensor_unref(y);
}

/* Forward, backward and update. The planner runs it on shapes, too, where there is no loss to read. */
static rp_status step(rp_ctx *ctx, void *user)
{
    net *n       = user;
    rp_tensor *x = rp_tensor_ref(n->images);

    n->status = RP_OK;
    apply(n, "matmul", &(rp_attr_matmul){ 0 }, &x, n->param[0]);
    for (int i = 0; i < MIXERS; i++) mix(n, n->param + 3 + 3 * i, i % 2 == 0, &x);
    apply(n, "rmsnorm", &(rp_attr_norm){ .eps = 1e-5f }, &x, n->param[1]);
    apply(n, "mean", &(rp_attr_dim){ 1 }, &x, NULL);
    apply(n, "matmul", &(rp_attr_matmul){ 0 }, &x, n->param[2]);
    apply(n, "cross_entropy", &(rp_attr_cross_entropy){ .weight = 1.0f / ROWS }, &x, n->labels);
    if (!n->status && rp_tensor_peek(x)) n->status = rp_tensor_read(x, &n->loss, 1);
    if (!n->status) n->status = rp_backward(ctx, x);
    rp_tensor_unref(x);
    return n->status ? n->status : rp_optimizer_step(n->optimizer, NULL);
}

/* Both contexts, with data and on shapes alone, get the same objects in the same order. */
static void open_net(net *n, bool shapes_only, uint64_t seed)
{
    static const int64_t dim[9][2] = { { PIXELS, WIDTH }, { WIDTH }, { WIDTH, 2 }, { WIDTH }, { PATCHES, INNER }, { INNER, PATCHES }, { WIDTH },
                                       { WIDTH, INNER }, { INNER, WIDTH } };
    const rp_optimizer_options options = { .lr = 4e-3, .clip_norm = 1, .schedule = "cosine", .warmup_steps = 5, .n_steps = STEPS + 20 };
    char name[32];

    if (rp_ctx_new(&(rp_ctx_options){ .seed = seed, .threads = 1, .shapes_only = shapes_only }, &n->ctx)) exit(1);
    for (int i = 0; i < PARAMS; i++) {
        const int64_t *d = dim[i < 3 ? i : 3 + (i - 3) % 6];
        rp_meta meta     = rp_meta_make(RP_F32, d[1] ? 2 : 1, d);
        snprintf(name, sizeof name, "w%d", i);
        must(n->ctx, rp_param_new(n->ctx, name, &meta, &(rp_init){ .kind = d[1] ? RP_INIT_XAVIER_UNIFORM : RP_INIT_ONES }, &n->param[i]));
    }
    must(n->ctx, rp_tensor_new(n->ctx, &(rp_meta){ RP_F32, 3, { ROWS, PATCHES, PIXELS } }, RP_MEM_TEMP, &n->images));
    must(n->ctx, rp_tensor_new(n->ctx, &(rp_meta){ RP_I32, 1, { ROWS } }, RP_MEM_TEMP, &n->labels));
    must(n->ctx, rp_optimizer_new(n->ctx, n->param, PARAMS, &options, &n->optimizer));
}

static void close_net(net *n)
{
    rp_optimizer_free(n->optimizer);
    for (int i = 0; i < PARAMS + 2; i++) rp_tensor_unref(i < PARAMS ? n->param[i] : i == PARAMS ? n->images : n->labels);
    rp_ctx_free(n->ctx);
}

/* One step on new images: stripes, upright or level, under noise. */
static double train(net *n, rp_step_plan *plan, unsigned number)
{
    static float pixel[ROWS * PATCHES * PIXELS];
    int32_t label[ROWS];

    for (int i = 0; i < ROWS * PATCHES * PIXELS; i++) {
        int row = i / 256, across = i / 16 % 4 * 4 + i % 4, down = i / 64 % 4 * 4 + i / 4 % 4;
        number     = number * 1103515245u + 12345u;
        label[row] = row % 2;
        pixel[i]   = (float)(((row % 2 ? across : down) + row / 2) % 4 < 2) + (float)(number >> 16 & 255) / 128;
    }
    must(n->ctx, rp_tensor_write_raw(n->images, pixel, sizeof pixel));
    must(n->ctx, rp_tensor_write_i32(n->labels, label, ROWS));
    must(n->ctx, rp_step_plan_run(plan, n->ctx, step, n));
    return n->loss;
}

int main(int argc, char **argv)
{
    double first = 0, last = 0, again = 0;
    char path[512];
    rp_step_plan *plan;
    rp_mem memory;
    net shapes, mine;

    open_net(&shapes, true, 1);
    open_net(&mine, false, 1);
    must(shapes.ctx, rp_plan_step(shapes.ctx, step, &shapes, BUDGET, &plan));
    for (unsigned i = 0; i < STEPS; i++) last = train(&mine, plan, i), first = i ? first : last;
    rp_mem_read(mine.ctx, 0, false, &memory);
    printf("the loss fell from %s 0.4 to %s 0.01 within %s\n", first > 0.4 ? "above" : "below", last < 0.01 ? "below" : "above",
           memory.reserved_bytes <= BUDGET ? "the budget" : "MORE THAN THE BUDGET");
    snprintf(path, sizeof path, "%s.safetensors", argv[argc - 1]);
    must(mine.ctx, rp_save(mine.ctx, path, mine.param, PARAMS, mine.optimizer));
    for (unsigned i = STEPS; i < STEPS + 5; i++) last = train(&mine, plan, i);
    close_net(&mine);
    open_net(&mine, false, 2);
    must(mine.ctx, rp_load(mine.ctx, path, mine.param, PARAMS, mine.optimizer));
    for (unsigned i = STEPS; i < STEPS + 5; i++) again = train(&mine, plan, i);
    printf("5 steps after loading the loss is %s\n", again == last ? "bit-identical" : "ANOTHER");
    rp_step_plan_free(plan), close_net(&mine), close_net(&shapes);
    return 0;
}

/* It prints:
the loss fell from above 0.4 to below 0.01 within the budget
5 steps after loading the loss is bit-identical
*/
