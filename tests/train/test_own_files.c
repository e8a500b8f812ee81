/* Claims about rp_save and rp_load: a file holds every bit of tensors and states, and each way in which it may not fit has its own message. */
#include "heap_test.h"

#include <sys/stat.h>

#include "base/file.h"
#include "reprise/ops.h"
#include "reprise/train.h"
#include "train/temp.h"

#define assert_refused(ctx, call, status, text) \
    do { \
        assert_int_equal((call), (status)); \
        if (!strstr(rp_error(ctx), (text))) fail_msg("'%s' lacks '%s'", rp_error(ctx), (text)); \
    } while (0)

enum { N = 3 };
typedef struct { rp_ctx *ctx; rp_tensor *t[N]; rp_optimizer *optimizer; } net;

/* A bf16 weight, a row of fp32 and an empty tensor. */
static net net_new(uint64_t seed, const rp_optimizer_options *options)
{
    static const rp_meta meta[N] = { { RP_BF16, 2, { 20, 30 } }, { RP_F32, 1, { 700 } }, { RP_F32, 2, { 0, 4 } } };
    static const char *const name[N] = { "w", "bias", "empty" };
    net n = { .ctx = test_ctx(&(rp_ctx_options){ .seed = seed }) };

    for (int i = 0; i < N; i++) assert_ok(n.ctx, rp_param_new(n.ctx, name[i], &meta[i], &(rp_init){ RP_INIT_NORMAL, 1, false }, &n.t[i]));
    if (options) assert_ok(n.ctx, rp_optimizer_new(n.ctx, n.t, N, options, &n.optimizer));
    return n;
}

static void net_free(net *n)
{
    rp_optimizer_free(n->optimizer);
    for (int i = 0; i < N; i++) rp_tensor_unref(n->t[i]);
    test_ctx_free(n->ctx);
}

static void net_step(net *n)
{
    rp_tensor *y = NULL, *row = NULL, *loss = NULL;

    for (int i = 0; i < 2; i++) {
        assert_ok(n->ctx, rp_apply(n->ctx, "mul", NULL, (rp_tensor *[]){ n->t[i], n->t[i] }, 2, &y));
        if (i == 0) assert_ok(n->ctx, rp_apply(n->ctx, "sum", &(rp_attr_dim){ 1 }, &y, 1, &row));
        else row = rp_tensor_ref(y);
        assert_ok(n->ctx, rp_apply(n->ctx, "sum", &(rp_attr_dim){ 0 }, &row, 1, &loss));
        assert_ok(n->ctx, rp_backward(n->ctx, loss));
        rp_tensor_unref(y);
        rp_tensor_unref(row);
        rp_tensor_unref(loss);
    }
    assert_ok(n->ctx, rp_optimizer_step(n->optimizer, NULL));
}

static bool same(const net *a, const net *b)
{
    for (int i = 0; i < N; i++)
        if (memcmp(test_bytes(a->t[i]), test_bytes(b->t[i]), (size_t)rp_meta_bytes(&a->t[i]->m)) != 0) return false;
    return true;
}

/* ---- saved and loaded ---- */

static void a_loaded_run_continues_with_the_same_bits(void **state)
{
    (void)state;
    static const rp_optimizer_options row[] = {
        { .lr = 0.01, .schedule = "linear", .n_steps = 8 },
        { .lr = 0.01, .name = "sgd", .momentum = 0.9 },
        { .lr = 0.01, .state_dtype = RP_U8 },
        { .lr = 0.01, .master_weights = true, .state_dtype = RP_BF16, .stochastic = true },
        { .lr = 0.01, .master_weights = true, .offload = "/tmp" },
    };
    temp_dir dir = temp_make();

    for (int i = 0; i < RP_COUNT(row); i++) {
        const char *path = temp_path(&dir, "run.safetensors");
        net a = net_new(1, &row[i]), b = net_new(1, &row[i]);
        for (int s = 0; s < 3; s++) net_step(&a);
        assert_ok(a.ctx, rp_save(a.ctx, path, a.t, N, a.optimizer));
        assert_ok(b.ctx, rp_load(b.ctx, path, b.t, N, b.optimizer));
        assert_true(same(&a, &b));
        assert_int_equal(rp_optimizer_steps(b.optimizer), 3);
        for (int s = 0; s < 2; s++) net_step(&a), net_step(&b);
        assert_true(same(&a, &b));
        net_free(&a);
        net_free(&b);
    }
    temp_remove(&dir);
}

static void states_in_a_file_are_ignored_without_an_optimizer(void **state)
{
    (void)state;
    temp_dir dir     = temp_make();
    const char *path = temp_path(&dir, "run.safetensors");
    net a = net_new(1, &(rp_optimizer_options){ .lr = 0.01 }), b = net_new(2, NULL);

    net_step(&a);
    assert_ok(a.ctx, rp_save(a.ctx, path, a.t, N, a.optimizer));
    assert_ok(b.ctx, rp_load(b.ctx, path, b.t, N, NULL));
    assert_true(same(&a, &b));
    net_free(&a);
    net_free(&b);
    temp_remove(&dir);
}

static void shapes_are_checked_without_data(void **state)
{
    (void)state;
    temp_dir dir     = temp_make();
    const char *path = temp_path(&dir, "run.safetensors");
    net a            = net_new(1, NULL);
    rp_ctx *shapes   = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_tensor *t[N];

    assert_ok(a.ctx, rp_save(a.ctx, path, a.t, N, NULL));
    for (int i = 0; i < N; i++) assert_ok(shapes, rp_param_new(shapes, rp_tensor_name(a.t[i]), &a.t[i]->m, NULL, &t[i]));
    assert_ok(shapes, rp_load(shapes, path, t, N, NULL));
    assert_refused(shapes, rp_load(shapes, path, t, 1, NULL), RP_ERR_MATCH, "has a further tensor");
    assert_refused(shapes, rp_save(shapes, path, t, N, NULL), RP_ERR_META, "rp_save: a shapes-only context has no data to save in");
    for (int i = 0; i < N; i++) rp_tensor_unref(t[i]);
    test_ctx_free(shapes);
    net_free(&a);
    temp_remove(&dir);
}

/* ---- files that do not fit ---- */

/* Each is loaded into the tensors of net_new, which keep their values. */
static void refused_file(const net *n, const char *path, rp_tensor *const *wanted, int n_wanted, rp_status status, const char *text)
{
    net before = net_new(1, NULL);

    assert_refused(n->ctx, rp_load(n->ctx, path, wanted, n_wanted, n->optimizer), status, text);
    assert_true(same(n, &before));
    net_free(&before);
}

static void each_misfit_has_its_message_and_changes_nothing(void **state)
{
    (void)state;
    temp_dir dir     = temp_make();
    const char *path = temp_path(&dir, "file.safetensors"), *none = temp_path(&dir, "absent");
    net n = net_new(1, NULL), other = net_new(2, &(rp_optimizer_options){ .lr = 0.1 });
    rp_tensor *more[N + 1] = { n.t[0], n.t[1], n.t[2] }, *narrow[N] = { n.t[0], n.t[1], n.t[2] };

    assert_ok(other.ctx, rp_save(other.ctx, path, other.t, N, NULL));
    assert_ok(n.ctx, rp_param_new(n.ctx, "head", &n.t[1]->m, NULL, &more[N]));
    refused_file(&n, path, more, N + 1, RP_ERR_MATCH, "lacks the tensor 'head'");
    refused_file(&n, path, n.t, N - 1, RP_ERR_MATCH, "has a further tensor 'empty'");
    assert_ok(n.ctx, rp_param_new(n.ctx, "bias", &(rp_meta){ RP_F32, 2, { 70, 10 } }, NULL, &narrow[1]));
    refused_file(&n, path, narrow, N, RP_ERR_SHAPE, "holds 'bias' as fp32 [700], but the tensor is fp32 [70, 10]");
    rp_tensor_unref(narrow[1]);
    assert_ok(n.ctx, rp_param_new(n.ctx, "bias", &(rp_meta){ RP_F64, 1, { 700 } }, NULL, &narrow[1]));
    refused_file(&n, path, narrow, N, RP_ERR_DTYPE, "holds 'bias' as F32, but the tensor is fp64");
    rp_tensor_unref(narrow[1]);
    refused_file(&n, none, n.t, N, RP_ERR_IO, "absent");
    assert_refused(other.ctx, rp_load(other.ctx, path, other.t, N, other.optimizer), RP_ERR_MATCH, "was saved without an optimizer");
    rp_tensor_unref(more[N]);
    net_free(&n);
    net_free(&other);
    temp_remove(&dir);
}

static void a_file_of_another_optimizer_is_refused(void **state)
{
    (void)state;
    temp_dir dir     = temp_make();
    const char *path = temp_path(&dir, "file.safetensors");
    net a = net_new(1, &(rp_optimizer_options){ .lr = 0.1 }), b = net_new(1, &(rp_optimizer_options){ .lr = 0.1, .name = "sgd", .momentum = 0.5 });

    assert_ok(a.ctx, rp_save(a.ctx, path, a.t, N, a.optimizer));
    refused_file(&b, path, b.t, N, RP_ERR_MATCH, "lacks the tensor 'optimizer/w.momentum_buffer'");
    net_free(&a);
    net_free(&b);
    temp_remove(&dir);
}

static void a_wrong_number_of_steps_is_refused(void **state)
{
    (void)state;
    temp_dir dir     = temp_make();
    const char *path = temp_path(&dir, "file.safetensors");
    net n            = net_new(1, &(rp_optimizer_options){ .lr = 0.1 });
    int64_t bytes;
    char *text;

    assert_ok(n.ctx, rp_save(n.ctx, path, n.t, N, n.optimizer));
    assert_ok(n.ctx, rp__file_read(n.ctx, path, 1 << 20, &text, &bytes));
    char *steps = strstr(text + 8, "reprise.steps");
    assert_non_null(steps);
    *strchr(steps, '0') = 'x';
    temp_write(&dir, "file.safetensors", text, (size_t)bytes);
    refused_file(&n, path, n.t, N, RP_ERR_FORMAT, "has 'x' as the number of steps");
    rp__release(text);
    net_free(&n);
    temp_remove(&dir);
}

/* At every length that is shorter. */
static void a_file_that_was_cut_short_is_refused(void **state)
{
    (void)state;
    temp_dir dir     = temp_make();
    const char *path = temp_path(&dir, "file.safetensors");
    net a            = net_new(2, NULL), n = net_new(1, NULL);
    char *text;
    int64_t bytes;

    assert_ok(a.ctx, rp_save(a.ctx, path, a.t, N, NULL));
    assert_ok(a.ctx, rp__file_read(a.ctx, path, 1 << 20, &text, &bytes));
    for (int64_t cut = 0; cut < bytes; cut += test_few_or(97, 7)) {
        temp_write(&dir, "cut.safetensors", text, (size_t)cut);
        refused_file(&n, temp_path(&dir, "cut.safetensors"), n.t, N, RP_ERR_FORMAT, "cut.safetensors'");
    }
    rp__release(text);
    net_free(&a);
    net_free(&n);
    temp_remove(&dir);
}

static void tensors_without_a_usable_name_are_refused(void **state)
{
    (void)state;
    net n = net_new(1, NULL);
    rp_tensor *plain, *taken, *blocks, *view;

    assert_ok(n.ctx, rp_tensor_new(n.ctx, &n.t[0]->m, RP_MEM_PARAM, &plain));
    assert_ok(n.ctx, rp_param_new(n.ctx, "optimizer/w", &n.t[0]->m, NULL, &taken));
    assert_ok(n.ctx, rp_tensor_new(n.ctx, &(rp_meta){ RP_Q8_0, 1, { 32 } }, RP_MEM_PARAM, &blocks));
    assert_ok(n.ctx, rp_tensor_set_name(blocks, "blocks"));
    assert_ok(n.ctx, rp_tensor_transpose(n.t[0], 0, 1, &view));
    assert_refused(n.ctx, rp_save(n.ctx, "/tmp/x", (rp_tensor *[]){ n.t[1], plain }, 2, NULL), RP_ERR_ARG, "rp_save: tensor 1 (bf16 [20, 30]) has no name");
    assert_refused(n.ctx, rp_load(n.ctx, "/tmp/x", &taken, 1, NULL), RP_ERR_ARG, "rp_load: the name 'optimizer/w' begins with 'optimizer/'");
    assert_refused(n.ctx, rp_save(n.ctx, "/tmp/x", (rp_tensor *[]){ n.t[1], n.t[1] }, 2, NULL), RP_ERR_ARG, "the tensors 0 and 1 are both named 'bias'");
    assert_refused(n.ctx, rp_save(n.ctx, "/tmp/x", (rp_tensor *[]){ NULL }, 1, NULL), RP_ERR_ARG, "rp_save: tensor 0 is NULL");
    assert_refused(n.ctx, rp_save(n.ctx, "/tmp/x", n.t, -1, NULL), RP_ERR_ARG, "rp_save: -1 tensors");
    assert_refused(n.ctx, rp_save(n.ctx, "/tmp/x", &blocks, 1, NULL), RP_ERR_DTYPE, "'blocks' is quantised, which files of programs do not hold (q8_0 [32])");
    assert_refused(n.ctx, rp_save(n.ctx, "/tmp/x", &view, 1, NULL), RP_ERR_SHAPE, "rp_save: the view bf16 [30, 20] of 'w' is not dense");
    rp_tensor_unref(view);
    rp_tensor_unref(blocks);
    rp_tensor_unref(taken);
    rp_tensor_unref(plain);
    net_free(&n);
}

/* ---- failures ---- */

static void a_save_that_fails_leaves_the_older_file(void **state)
{
    (void)state;
    temp_dir dir     = temp_make();
    const char *path = temp_path(&dir, "file.safetensors");
    net a            = net_new(1, &(rp_optimizer_options){ .lr = 0.1 }), b = net_new(1, &(rp_optimizer_options){ .lr = 0.1 });
    test_faults f    = { 0 };

    assert_ok(a.ctx, rp_save(a.ctx, path, a.t, N, a.optimizer));
    for (int i = 0; i < 2; i++) net_step(&a);
    while (!f.over) {
        test_fault_begin(&f, a.ctx);
        rp_status status = rp_save(a.ctx, path, a.t, N, a.optimizer);
        bool failed      = test_fault_end(&f, status);
        assert_ok(b.ctx, rp_load(b.ctx, path, b.t, N, b.optimizer));
        assert_int_equal(rp_optimizer_steps(b.optimizer), failed ? 0 : 2);
    }
    assert_true(f.failed > 10);
    assert_refused(a.ctx, rp_save(a.ctx, "/nonexistent/file", a.t, N, NULL), RP_ERR_IO, "/nonexistent");
    net_free(&a);
    net_free(&b);
    temp_remove(&dir);
}

typedef struct { net *n; const char *path; } loading;

static rp_status load_again(rp_ctx *ctx, void *user)
{
    const loading *l = user;

    return rp_load(ctx, l->path, l->n->t, N, l->n->optimizer);
}

static void a_load_that_fails_leaves_no_memory(void **state)
{
    (void)state;
    temp_dir dir = temp_make();
    net n        = net_new(1, &(rp_optimizer_options){ .lr = 0.1, .offload = "/tmp" });
    loading l    = { &n, temp_path(&dir, "file.safetensors") };

    assert_ok(n.ctx, rp_save(n.ctx, l.path, n.t, N, n.optimizer));
    every_allocation_fails_once(n.ctx, &(heap_sweep){ .each = 8, .least = 10 }, load_again, &l);
    net_free(&n);
    temp_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_run_continues_with_the_same_bits),
        cmocka_unit_test(states_in_a_file_are_ignored_without_an_optimizer),
        cmocka_unit_test(shapes_are_checked_without_data),
        cmocka_unit_test(each_misfit_has_its_message_and_changes_nothing),
        cmocka_unit_test(a_file_of_another_optimizer_is_refused),
        cmocka_unit_test(a_wrong_number_of_steps_is_refused),
        cmocka_unit_test(a_file_that_was_cut_short_is_refused),
        cmocka_unit_test(tensors_without_a_usable_name_are_refused),
        cmocka_unit_test(a_save_that_fails_leaves_the_older_file),
        cmocka_unit_test(a_load_that_fails_leaves_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
