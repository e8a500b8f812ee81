/* 17_own_training -- a network of your own, an MLP-mixer, trained by the library's optimizer within a budget, then saved, loaded and continued. */
#include <stdio.h>
#include <stdlib.h>
#include <reprise/op.h>
#include <reprise/ops.h>
#include <reprise/train.h>

enum { ROWS = 32, PATCHES = 16, PIXELS = 16, WIDTH = 16, INNER = 32, MIXERS = 6, STEPS = 40, BUDGET = 1000000 };
enum { EMBED, NORM, HEAD, MIX, IMAGES = MIX + 3 * MIXERS, LABELS, TENSORS };      /* parameters, three for each mixer, then the batch */
typedef struct { rp_ctx *ctx; rp_tensor *t[TENSORS]; rp_optimizer *optimizer; rp_update done; } net;

static void must(const rp_ctx *ctx, rp_status status) { if (status) exit(printf("%s\n", rp_error(ctx)) > 0); }

/* Adds second(gelu(first(norm(x)))) to x, along the channels or across the patches. w: norm, first, second */
static void mix(rp_calls *x, rp_tensor *const *w, bool across)
{
    rp_tensor *skip = rp_tensor_ref(x->value);

    rp_calls_op(x, "rmsnorm", &(rp_attr_norm){ .eps = 1e-5f }, w[0]);
    if (across) rp_calls_transpose(x, 1, 2);
    rp_calls_op(x, "matmul", &(rp_attr_matmul){ 0 }, w[1]);
    rp_calls_op(x, "gelu", &(rp_attr_gelu){ 0 }, NULL);
    rp_calls_op(x, "matmul", &(rp_attr_matmul){ 0 }, w[2]);
    if (across) rp_calls_transpose(x, 1, 2);
    rp_calls_op(x, "add", NULL, skip);
    rp_tensor_unref(skip);
}

/* Forward, backward and update. The planner runs it, too, on shapes. */
static rp_status step(rp_ctx *ctx, void *user)
{
    net *n     = user;
    rp_calls x = rp_calls_begin(ctx, n->t[IMAGES]);

    rp_calls_op(&x, "matmul", &(rp_attr_matmul){ 0 }, n->t[EMBED]);
    for (int i = 0; i < MIXERS; i++) mix(&x, n->t + MIX + 3 * i, i % 2 == 0);
    rp_calls_op(&x, "rmsnorm", &(rp_attr_norm){ .eps = 1e-5f }, n->t[NORM]);
    rp_calls_op(&x, "mean", &(rp_attr_dim){ 1 }, NULL);
    rp_calls_op(&x, "matmul", &(rp_attr_matmul){ 0 }, n->t[HEAD]);
    rp_calls_op(&x, "cross_entropy", &(rp_attr_cross_entropy){ .weight = 1.0f / ROWS }, n->t[LABELS]);
    return rp_calls_train(&x, n->optimizer, &n->done);
}

/* Both contexts, with data and on shapes alone, get the same objects in the same order. */
static net open_net(bool shapes_only, uint64_t seed)
{
    static const rp_optimizer_options adamw = { .lr = 4e-3, .clip_norm = 1, .schedule = "cosine", .warmup_steps = 5, .n_steps = STEPS + 20 };
    static const int64_t dim[][2] = { { PIXELS, WIDTH }, { WIDTH }, { WIDTH, 2 }, { WIDTH }, { PATCHES, INNER }, { INNER, PATCHES }, { WIDTH },
                                      { WIDTH, INNER }, { INNER, WIDTH } };
    char name[16];
    net n;

    if (rp_ctx_new(&(rp_ctx_options){ .seed = seed, .threads = 1, .shapes_only = shapes_only }, &n.ctx)) exit(1);
    for (int i = 0; i < IMAGES; i++) {
        const int64_t *d = dim[i < MIX ? i : MIX + (i - MIX) % 6];
        rp_meta meta     = rp_meta_make(RP_F32, d[1] ? 2 : 1, d);
        snprintf(name, sizeof name, "w%d", i);
        must(n.ctx, rp_param_new(n.ctx, name, &meta, &(rp_init){ .kind = d[1] ? RP_INIT_XAVIER_UNIFORM : RP_INIT_ONES }, &n.t[i]));
    }
    must(n.ctx, rp_tensor_new(n.ctx, &(rp_meta){ RP_F32, 3, { ROWS, PATCHES, PIXELS } }, RP_MEM_TEMP, &n.t[IMAGES]));
    must(n.ctx, rp_tensor_new(n.ctx, &(rp_meta){ RP_I32, 1, { ROWS } }, RP_MEM_TEMP, &n.t[LABELS]));
    must(n.ctx, rp_optimizer_new(n.ctx, n.t, IMAGES, &adamw, &n.optimizer));
    return n;
}

static void close_net(net *n)
{
    rp_optimizer_free(n->optimizer);
    for (int i = 0; i < TENSORS; i++) rp_tensor_unref(n->t[i]);
    rp_ctx_free(n->ctx);
}

/* Steps on new images: stripes, upright or level, under noise. Returns the last loss. */
static double train(net *n, rp_step_plan *plan, unsigned from, unsigned to)
{
    static float pixel[ROWS * PATCHES * PIXELS];
    int32_t label[ROWS];

    for (unsigned s = from, random = from; s < to; random = ++s) {
        for (int i = 0; i < ROWS * PATCHES * PIXELS; i++) {
            int row = i / 256, across = i / 16 % 4 * 4 + i % 4, down = i / 64 % 4 * 4 + i / 4 % 4;
            pixel[i]   = (float)(((row % 2 ? across : down) + row / 2) % 4 < 2) + (float)((random = random * 1103515245u + 12345u) >> 16 & 255) / 128;
            label[row] = row % 2;
        }
        must(n->ctx, rp_tensor_write_raw(n->t[IMAGES], pixel, sizeof pixel));
        must(n->ctx, rp_tensor_write_i32(n->t[LABELS], label, ROWS));
        must(n->ctx, rp_step_plan_run(plan, n->ctx, step, n));
    }
    return n->done.loss;
}

int main(int argc, char **argv)
{
    net shapes = open_net(true, 1), mine = open_net(false, 1);
    char path[512];
    rp_step_plan *plan;
    rp_mem memory;

    must(shapes.ctx, rp_plan_step(shapes.ctx, step, &shapes, BUDGET, &plan));
    double last = train(&mine, plan, 0, STEPS);
    rp_mem_read(mine.ctx, 0, false, &memory);
    printf("the loss is %s 0.01, with %s bytes than the budget\n", last < 0.01 ? "below" : "ABOVE", memory.reserved_bytes <= BUDGET ? "no more" : "MORE");
    snprintf(path, sizeof path, "%s.safetensors", argv[argc - 1]);
    must(mine.ctx, rp_save(mine.ctx, path, mine.t, IMAGES, mine.optimizer));
    last = train(&mine, plan, STEPS, STEPS + 5);
    close_net(&mine);
    mine = open_net(false, 2);
    must(mine.ctx, rp_load(mine.ctx, path, mine.t, IMAGES, mine.optimizer));
    printf("5 steps after loading the loss is %s\n", train(&mine, plan, STEPS, STEPS + 5) == last ? "bit-identical" : "ANOTHER");
    rp_step_plan_free(plan), close_net(&mine), close_net(&shapes);
    return 0;
}

/* It prints:
the loss is below 0.01, with no more bytes than the budget
5 steps after loading the loss is bit-identical
*/
