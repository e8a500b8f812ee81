/* 01_gradients -- tensors, ops, gradients: fit y = relu(x w' + b) v' to a parabola by gradient descent.
 *
 *   cc 01_gradients.c $(pkg-config --cflags --libs reprise) && ./a.out
 */
#include <stdio.h>

#include <reprise/ops.h>
#include <reprise/reprise.h>

enum { POINTS = 32, HIDDEN = 16, STEPS = 400 };

/* A tensor of values f(i); a parameter when its gradient is wanted. */
static rp_tensor *make(rp_ctx *ctx, int64_t rows, int64_t n, bool parameter, double (*f)(int64_t i))
{
    double value[512];
    rp_tensor *t = NULL;
    rp_meta meta = { RP_F32, 2, { rows, n } };

    for (int64_t i = 0; i < rows * n; i++) value[i] = f(i);
    if (rp_tensor_new(ctx, &meta, parameter ? RP_MEM_PARAM : RP_MEM_TEMP, &t) || rp_tensor_write(t, value, rows * n)) return NULL;
    rp_tensor_require_grad(t, parameter);
    return t;
}

static double point(int64_t i) { return -1 + 2 * (double)i / (POINTS - 1); }
static double target(int64_t i) { return point(i) * point(i); }
static double spread(int64_t i) { return (double)(i * 37 % 17) / 8.5 - 0.97; }

/* Mean of (relu(x w') v' - y)^2. Intermediate tensors are released at once: what backward reads is kept by the library. */
static rp_status loss_of(rp_ctx *ctx, rp_tensor *x, rp_tensor *y, rp_tensor *const *w, rp_tensor **loss)
{
    rp_attr_matmul linear = { .transpose_w = true };
    rp_tensor *t[6]       = { NULL };
    rp_status status;

    (void)((status = rp_apply(ctx, "matmul", &linear, (rp_tensor *[]){ x, w[0] }, 2, &t[0])) ||
           (status = rp_apply(ctx, "relu", NULL, &t[0], 1, &t[1])) ||
           (status = rp_apply(ctx, "matmul", &linear, (rp_tensor *[]){ t[1], w[1] }, 2, &t[2])) ||
           (status = rp_apply(ctx, "add", NULL, (rp_tensor *[]){ t[2], y }, 2, &t[3])) ||
           (status = rp_apply(ctx, "mul", NULL, (rp_tensor *[]){ t[3], t[3] }, 2, &t[4])) ||
           (status = rp_apply(ctx, "mean", &(rp_attr_dim){ 0 }, &t[4], 1, &t[5])) ||
           (status = rp_apply(ctx, "mean", &(rp_attr_dim){ 0 }, &t[5], 1, loss)));
    for (int i = 0; i < 6; i++) rp_tensor_unref(t[i]);
    return status;
}

/* w -= rate * dloss/dw */
static void descend(rp_tensor *w, int64_t n, double rate)
{
    double value[64], slope[64];

    rp_tensor_read(w, value, n);
    rp_tensor_read(rp_tensor_grad(w), slope, n);
    for (int64_t i = 0; i < n; i++) value[i] -= rate * slope[i];
    rp_tensor_write(w, value, n);
    rp_tensor_drop_grad(w);
}

static double minus_target(int64_t i) { return -target(i); }
/* Each point with a constant beside it: the bias. */
static double point_and_one(int64_t i) { return i % 2 ? 1 : point(i / 2); }

int main(void)
{
    rp_ctx *ctx;

    if (rp_ctx_new(NULL, &ctx)) return 1;
    rp_tensor *x = make(ctx, POINTS, 2, false, point_and_one), *y = make(ctx, POINTS, 1, false, minus_target);
    rp_tensor *w[2] = { make(ctx, HIDDEN, 2, true, spread), make(ctx, 1, HIDDEN, true, spread) };
    for (int step = 0; step <= STEPS; step++) {
        rp_tensor *loss = NULL;
        double value;
        if (loss_of(ctx, x, y, w, &loss) || rp_tensor_read(loss, &value, 1) || rp_backward(ctx, loss)) {
            puts(rp_error(ctx));
            return 1;
        }
        rp_tensor_unref(loss);
        if (step == 0 || step == STEPS) printf("step %d: loss %s 0.01\n", step, value < 0.01 ? "below" : "above");
        descend(w[0], 2 * HIDDEN, 0.05);
        descend(w[1], HIDDEN, 0.05);
    }
    rp_tensor_unref(x);
    rp_tensor_unref(y);
    rp_tensor_unref(w[0]);
    rp_tensor_unref(w[1]);
    rp_ctx_free(ctx);
    return 0;
}

/* It prints:
step 0: loss above 0.01
step 400: loss below 0.01
*/
