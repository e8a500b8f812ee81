/* Every model variant against PyTorch and transformers: logits, loss, gradients, twelve optimizer steps, packed documents, ignored
 * labels; bf16 by PyTorch's own error. tests/golden/README.md says what is in the goldens and who made them. */
/* ctest: no-emulator */
#include "golden_model.h"

#include "models/family.h"
#include "optim/optim.h"

enum { ROWS = 2, TOKENS = 24, VOCAB = 96, ALL = ROWS * TOKENS, BATCHES = 3, STEPS = 12 };

static golden *open_golden(rp_ctx *ctx, const char *variant)
{
    char name[128];

    snprintf(name, sizeof name, "models/%s/golden", variant);
    return golden_open(ctx, name);
}

/* ---- batches ---- */

static rp_tensor *ints(rp_ctx *ctx, const int32_t *v)
{
    rp_meta meta = rp_meta_2d(RP_I32, ROWS, TOKENS);
    rp_tensor *t;

    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &t));
    assert_ok(ctx, rp_tensor_write_i32(t, v, ALL));
    return t;
}

static rp_tensor *golden_batch(rp_ctx *ctx, const golden *g, const char *name)
{
    int32_t *v   = golden_ints(g, name, 0, ALL);
    rp_tensor *t = ints(ctx, v);

    free(v);
    return t;
}

/* Position t is asked for the label of t + 1; the last has none. */
static rp_tensor *shifted(rp_ctx *ctx, const int32_t *labels, int32_t ignore_index)
{
    int32_t v[ALL];

    for (int i = 0; i < ALL; i++) v[i] = i % TOKENS == TOKENS - 1 ? ignore_index : labels[i + 1];
    return ints(ctx, v);
}

/* An encoder's labels are in the golden, each of its own position: a masked token, or none. */
static bool is_encoder(rp_model *m) { return rp__model_config(m)->both_ways; }

static rp_model_batch text_batch(rp_ctx *ctx, rp_model *m, const golden *g, int batch)
{
    int32_t *v = golden_ints(g, "input_ids", batch * ALL, ALL), *labels = is_encoder(m) ? golden_ints(g, "labels", batch * ALL, ALL) : NULL;
    rp_model_batch out = { .tokens = ints(ctx, v), .labels = labels ? ints(ctx, labels) : shifted(ctx, v, -100) };

    free(labels);
    free(v);
    return out;
}

static int targets_of(const rp_model_batch *b)
{
    int n = 0;

    for (int i = 0; i < ALL; i++) n += rp_int_get(b->labels, i) != -100;
    return n;
}

/* Instead of labels for all, the rows that have one; of the room for them a part is left. */
static void ask_for_targets_alone(rp_ctx *ctx, rp_model_batch *b)
{
    enum { LEFT = 3 };
    int n                      = targets_of(b) + LEFT;
    int32_t target[ALL + LEFT] = { 0 }, label[ALL + LEFT];
    rp_meta m                  = rp_meta_1d(RP_I32, n);

    for (int i = 0, k = 0; i < ALL; i++)
        if (rp_int_get(b->labels, i) != -100) target[k] = i, label[k++] = rp_int_get(b->labels, i);
    for (int k = n - LEFT; k < n; k++) label[k] = -100;
    rp_tensor_unref(b->labels);
    assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_TEMP, &b->labels));
    assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_TEMP, &b->targets));
    assert_ok(ctx, rp_tensor_write_i32(b->labels, label, n));
    assert_ok(ctx, rp_tensor_write_i32(b->targets, target, n));
}

static void drop_batch(rp_model_batch *b)
{
    rp_tensor_unref(b->tokens);
    rp_tensor_unref(b->targets);
    rp_tensor_unref(b->labels);
    rp_tensor_unref(b->positions);
    rp_tensor_unref(b->doc_start);
    rp_tensor_unref(b->types);
}

/* ---- what a model gives ---- */

/* How far one variant was from the golden at its worst; tools/families makes a table of what is printed of it. */
typedef struct { double logits, loss, gradients, losses; } distance;

static void worse(double *worst, double off) { *worst = off > *worst ? off : *worst; }

/* [ALL, VOCAB] */
static double *logits_of(rp_ctx *ctx, rp_model *m, const rp_model_batch *batch)
{
    double *got = malloc(ALL * VOCAB * sizeof *got);
    rp_tensor *logits;

    assert_non_null(got);
    rp__tape_ctx(ctx)->no_grad = true;
    assert_ok(ctx, rp__model_logits(m, batch, &logits));
    rp__tape_ctx(ctx)->no_grad = false;
    assert_ok(ctx, rp_tensor_read(logits, got, ALL * VOCAB));
    rp_tensor_unref(logits);
    return got;
}

static void check_logits(rp_ctx *ctx, rp_model *m, const golden *g, const char *name, const rp_model_batch *batch, distance *d)
{
    golden_tensor want = golden_get(g, name);
    double *got        = logits_of(ctx, m, batch);

    assert_int_equal(want.elems, ALL * VOCAB);
    assert_max_abs(got, &want, 1e-4);
    if (!want.parts) worse(&d->logits, golden_off_max(got, &want));
    golden_tensor_free(&want);
    free(got);
}

static double loss_and_gradients(rp_ctx *ctx, rp_model *m, const rp_model_batch *batch, double targets, int32_t ignore_index)
{
    rp_tensor *loss;
    double value;

    rp__pass_begin(ctx, 1, 0);
    assert_ok(ctx, rp__model_loss(m, batch, &(rp_attr_cross_entropy){ .weight = (float)(1 / targets), .ignore_index = ignore_index }, &loss));
    assert_ok(ctx, rp_tensor_read(loss, &value, 1));
    assert_ok(ctx, rp__backward(ctx, loss));
    rp_tensor_unref(loss);
    return value;
}

/* What has a name of its own there: a parameter, or a piece of one that is several there. */
typedef struct { const rp_param *param; int64_t first, elems; } named;

static named param_of(rp_model *m, const char *theirs)
{
    const rp_family *family = rp__model_config(m)->family;
    char path[RP_WEIGHT_NAME_CHARS];
    int64_t piece;

    if (!rp__weight_piece_ours(family->name, family->n_names, theirs, path, &piece)) fail_msg("no name for '%s'", theirs);
    const rp_param *p = rp__model_find_param(m, path);
    if (!p) fail_msg("no parameter for '%s' ('%s')", theirs, path);
    int64_t pieces = rp__weight_in_pieces(family->name, family->n_names, path) ? p->whole.dim[0] : 1, elems = rp_meta_elems(&p->whole) / pieces;
    return (named){ p, piece * elems, elems };
}

static double *part_of(rp_ctx *ctx, const rp_tensor *t, named what)
{
    int64_t n   = rp_meta_elems(rp_tensor_meta(t));
    double *all = malloc((size_t)n * sizeof *all);

    assert_ok(ctx, rp_tensor_read(t, all, n));
    memmove(all, all + what.first, (size_t)what.elems * sizeof *all);
    return all;
}

static double *gradient(rp_ctx *ctx, named what)
{
    if (!what.param->tensor->grad) fail_msg("'%s' has no gradient", what.param->path);
    return part_of(ctx, what.param->tensor->grad, what);
}

static int64_t elems_of(rp_model *m)
{
    int64_t n = 0;

    for (int i = 0; i < rp__model_n_params(m); i++) n += rp_meta_elems(&rp__model_param(m, i)->whole);
    return n;
}

static void drop_gradients(rp_model *m)
{
    for (int i = 0; i < rp__model_n_params(m); i++) {
        rp_tensor *t = rp__model_param(m, i)->tensor;
        rp_tensor_unref(t->grad);
        t->grad = NULL;
    }
}

/* A key bias without rotary positions adds the same to all scores of a query: its gradient is rounding noise. */
static bool is_nothing(rp_model *m, const char *theirs) { return is_encoder(m) && strstr(theirs, "self.key.bias"); }

/* Every gradient of the golden under `prefix`, and none besides. GPT-2's key bias is zero in exact arithmetic but one part of the fused
 * bias, so the bias as a whole can be compared. */
static void compare_gradients(rp_ctx *ctx, rp_model *m, const golden *g, const char *prefix, distance *d)
{
    int64_t at = 0, n = 0;

    for (const char *theirs; (theirs = golden_next(g, prefix, &at)) != NULL;) {
        char name[256];
        snprintf(name, sizeof name, "%s%s", prefix, theirs);
        golden_tensor want = golden_get(g, name);
        double *got        = gradient(ctx, param_of(m, theirs));
        if (is_nothing(m, theirs)) assert_max_abs(got, &want, 1e-7);
        else {
            assert_rel_l2(got, &want, 1e-5);
            worse(&d->gradients, golden_off_rel(got, &want));
        }
        n += want.elems;
        golden_tensor_free(&want);
        free(got);
    }
    assert_int_equal(n, elems_of(m));
}

/* compare_gradients, then drops them. */
static void check_gradients(rp_ctx *ctx, rp_model *m, const golden *g, const char *prefix, distance *d)
{
    compare_gradients(ctx, m, g, prefix, d);
    drop_gradients(m);
}

static void assert_near(const char *what, double got, double want, double limit)
{
    if (!(fabs(got - want) <= limit)) fail_msg("%s: %.9g, expected %.9g within %.3g", what, got, want, limit);
}

/* ---- one variant ---- */

static void check_one_pass(rp_ctx *ctx, rp_model *m, const golden *g, distance *d)
{
    rp_model_batch batch = text_batch(ctx, m, g, 0);

    check_logits(ctx, m, g, "logits", &batch, d);
    double want = golden_number(g, "loss"), got = loss_and_gradients(ctx, m, &batch, targets_of(&batch), -100);
    assert_near("loss", got, want, 1e-6 * fabs(want));
    worse(&d->loss, fabs(got - want));
    check_gradients(ctx, m, g, "grad.", d);
    int targets = targets_of(&batch);
    ask_for_targets_alone(ctx, &batch);
    assert_near("loss of targets alone", loss_and_gradients(ctx, m, &batch, targets, -100), want, 1e-6 * fabs(want));
    check_gradients(ctx, m, g, "grad.", d);
    drop_batch(&batch);
}

static void check_packed(rp_ctx *ctx, rp_model *m, const golden *g, distance *d)
{
    int32_t *ids         = golden_ints(g, "packed.input_ids", 0, ALL);
    rp_model_batch batch = { .tokens = ints(ctx, ids), .positions = golden_batch(ctx, g, "packed.positions"),
                             .doc_start = golden_batch(ctx, g, "packed.document_start"),
                             .labels = is_encoder(m) ? golden_batch(ctx, g, "labels") : shifted(ctx, ids, -100) };
    rp_model_batch across = { .tokens = batch.tokens, .labels = batch.labels };
    double want           = golden_number(g, "packed/loss");

    check_logits(ctx, m, g, "packed.logits", &batch, d);
    assert_near("packed loss", loss_and_gradients(ctx, m, &batch, targets_of(&batch), -100), want, 1e-6 * want);
    check_gradients(ctx, m, g, "packed.grad.", d);
    want = golden_number(g, "packed/loss_across_documents");
    assert_near("loss across documents", loss_and_gradients(ctx, m, &across, targets_of(&across), -100), want, 1e-6 * want);
    drop_gradients(m);
    drop_batch(&batch);
    free(ids);
}

/* Padding is a document of its own behind the row's. */
static rp_tensor *padding_apart(rp_ctx *ctx, int first_row, int second_row)
{
    int32_t v[ALL];

    for (int i = 0; i < ALL; i++) {
        int length = i < TOKENS ? first_row : second_row;
        v[i]       = i % TOKENS < length ? 0 : length;
    }
    return ints(ctx, v);
}

static rp_tensor *padded_labels(rp_ctx *ctx, rp_model *m, const golden *g)
{
    int32_t *v   = golden_ints(g, "padded.labels", 0, ALL);
    rp_tensor *t = is_encoder(m) ? ints(ctx, v) : shifted(ctx, v, -100);

    free(v);
    return t;
}

static void check_padded(rp_ctx *ctx, rp_model *m, const golden *g, distance *d)
{
    int first = (int)golden_number(g, "padded/first_row"), second = (int)golden_number(g, "padded/second_row");
    rp_model_batch batch = { .tokens = golden_batch(ctx, g, "padded.input_ids"), .labels = padded_labels(ctx, m, g),
                             .doc_start = padding_apart(ctx, first, second), .padded = true,
                             .types = is_encoder(m) ? golden_batch(ctx, g, "padded.types") : NULL };
    golden_tensor want   = golden_get(g, "padded.logits");
    double *got          = logits_of(ctx, m, &batch), loss = golden_number(g, "padded/loss");

    memmove(got + first * VOCAB, got + TOKENS * VOCAB, (size_t)(second * VOCAB) * sizeof *got);
    assert_int_equal(want.elems, (first + second) * VOCAB);
    assert_max_abs(got, &want, 1e-4);
    assert_near("padded loss", loss_and_gradients(ctx, m, &batch, targets_of(&batch), -100), loss, 1e-6 * loss);
    check_gradients(ctx, m, g, "padded.grad.", d);
    free(got);
    golden_tensor_free(&want);
    drop_batch(&batch);
}

static void check_ignored(rp_ctx *ctx, rp_model *m, const golden *g, distance *d)
{
    int32_t *labels      = golden_ints(g, "ignore.labels", 0, ALL), *seen = golden_ints(g, "ignore.token_labels", 0, ALL);
    int32_t token        = (int32_t)golden_number(g, "ignore/token");
    rp_model_batch batch = text_batch(ctx, m, g, 0);
    double want          = golden_number(g, "ignore/loss");

    rp_tensor_unref(batch.labels);
    batch.labels = shifted(ctx, labels, -100);
    assert_near("loss of some targets", loss_and_gradients(ctx, m, &batch, golden_number(g, "ignore/targets"), -100), want, 1e-6 * want);
    check_gradients(ctx, m, g, "ignore.grad.", d);
    rp_tensor_unref(batch.labels);
    batch.labels = shifted(ctx, seen, token);
    want         = golden_number(g, "ignore/token_loss");
    assert_near("loss without one token", loss_and_gradients(ctx, m, &batch, golden_number(g, "ignore/token_targets"), token), want,
                1e-6 * want);
    drop_gradients(m);
    drop_batch(&batch);
    free(labels);
    free(seen);
}

/* ---- twelve steps ---- */

static rp_optim *golden_optim(rp_ctx *ctx, rp_model *m, const golden *g)
{
    rp_optim_config config = { .name = "adamw", .beta1 = golden_number(g, "adamw/beta1"), .beta2 = golden_number(g, "adamw/beta2"),
                               .eps = golden_number(g, "adamw/eps"), .weight_decay = golden_number(g, "adamw/weight_decay"),
                               .state_dtype = RP_F32 };
    rp_optim_param params[128];
    rp_optim *optim;
    int n = rp__model_n_params(m);

    assert_in_range(n, 1, RP_COUNT(params));
    for (int i = 0; i < n; i++) params[i] = (rp_optim_param){ .path = rp__model_param(m, i)->path, .tensor = rp__model_param(m, i)->tensor };
    assert_ok(ctx, rp__optim_new(ctx, &config, params, n, &optim));
    return optim;
}

static double update(rp_model *m, rp_optim *optim, const rp_optim_step *step)
{
    for (int i = 0; i < rp__model_n_params(m); i++) {
        rp_tensor *t = rp__model_param(m, i)->tensor;
        rp__optim_update(optim, i, t->grad, step);
        rp__tensor_wrote(t, "the optimizer");
    }
    drop_gradients(m);
    return rp__optim_norm(optim);
}

static void check_final(rp_ctx *ctx, rp_model *m, const golden *g)
{
    void *at = json_object_iter((json_t *)(uintptr_t)golden_at(g, "adamw/final"));

    for (; at; at = json_object_iter_next((json_t *)(uintptr_t)golden_at(g, "adamw/final"), at)) {
        const char *theirs = json_object_iter_key(at);
        named what = param_of(m, theirs);
        double *v  = part_of(ctx, what.param->tensor, what), l2 = 0, l1 = 0;
        char key[512];
        for (int64_t i = 0; i < what.elems; i++) {
            l2 += v[i] * v[i];
            l1 += fabs(v[i]);
        }
        snprintf(key, sizeof key, "adamw/final/%s/float32_rel_l2", theirs);
        double limit = 2e-4 > 4 * golden_number(g, key) ? 2e-4 : 4 * golden_number(g, key);
        snprintf(key, sizeof key, "adamw/final/%s/l2", theirs);
        assert_near(key, sqrt(l2), golden_number(g, key), limit * golden_number(g, key));
        snprintf(key, sizeof key, "adamw/final/%s/l1", theirs);
        assert_near(key, l1, golden_number(g, key), limit * golden_number(g, key));
        free(v);
    }
}

static void check_steps(rp_ctx *ctx, rp_model *m, const golden *g, distance *d)
{
    rp_optim *optim = golden_optim(ctx, m, g);
    rp_optim_step s = { .lr = golden_number(g, "adamw/lr"), .grad_scale = 1, .measure = true };

    for (int i = 0; i < STEPS; i++) {
        rp_model_batch batch = text_batch(ctx, m, g, i % BATCHES);
        char key[64];
        s.step      = i + 1;
        double loss = loss_and_gradients(ctx, m, &batch, targets_of(&batch), -100), norm = update(m, optim, &s);
        snprintf(key, sizeof key, "adamw/losses/%d", i);
        assert_near(key, loss, golden_number(g, key), 2e-4);
        worse(&d->losses, fabs(loss - golden_number(g, key)));
        snprintf(key, sizeof key, "adamw/grad_norms/%d", i);
        assert_near(key, norm, golden_number(g, key), 2e-4 * golden_number(g, key));
        drop_batch(&batch);
    }
    check_final(ctx, m, g);
    rp__optim_free(optim);
}

static void check_float32(const char *variant)
{
    rp_ctx *ctx = test_ctx(NULL);
    golden *g   = open_golden(ctx, variant);
    rp_model *m = golden_model(ctx, variant, RP_F32);
    distance d  = { 0 };

    rp__tape_ctx(ctx)->eval = true;               /* the goldens are made with dropout off */
    check_one_pass(ctx, m, g, &d);
    rp_module_checkpoint(rp__model_root(m), rp__module_is_type, "TransformerBlock");
    check_one_pass(ctx, m, g, &d);
    if (golden_at(g, "packed/loss")) check_packed(ctx, m, g, &d);
    if (golden_at(g, "padded/loss")) check_padded(ctx, m, g, &d);
    if (golden_at(g, "ignore/loss")) check_ignored(ctx, m, g, &d);
    check_steps(ctx, m, g, &d);
    print_message("fp32 %s: logits %.1e, loss %.1e, gradients %.1e, losses of twelve steps %.1e\n", variant, d.logits, d.loss, d.gradients,
                  d.losses);
    rp__model_free(m);
    golden_close(g);
    test_ctx_free(ctx);
}

/* ---- bf16 ---- */

/* The model in fp32. Its logits and gradients agree with the golden's, and it has the elements that the golden's sketches lack. */
typedef struct { rp_ctx *ctx; rp_model *model; double *logits; } exact_run;

static exact_run run_exactly(const golden *g, const char *variant)
{
    exact_run e          = { .ctx = test_ctx(NULL) };
    distance d           = { 0 };
    e.model              = golden_model(e.ctx, variant, RP_F32);
    rp_model_batch batch = text_batch(e.ctx, e.model, g, 0);

    rp__tape_ctx(e.ctx)->eval = true;
    check_logits(e.ctx, e.model, g, "logits", &batch, &d);
    e.logits = logits_of(e.ctx, e.model, &batch);
    (void)loss_and_gradients(e.ctx, e.model, &batch, targets_of(&batch), -100);
    compare_gradients(e.ctx, e.model, g, "grad.", &d);
    drop_batch(&batch);
    return e;
}

static void drop_exact(exact_run *e)
{
    free(e->logits);
    drop_gradients(e->model);
    rp__model_free(e->model);
    test_ctx_free(e->ctx);
}

/* Squared distance of a gradient from fp32's, squared size of PyTorch's in fp32, and PyTorch's own distance. Some gradients are only rounding
 * errors, such as that of a key's bias. Their size differs between compilers, so it is the golden's. */
typedef struct { double off, torch_off, size; } bf16_error;

static bf16_error error_of(rp_ctx *ctx, rp_model *m, const golden *g, const exact_run *exact, const char *theirs)
{
    char key[256];

    snprintf(key, sizeof key, "bfloat16_error/grad_rel_l2/%s", theirs);
    named part   = param_of(m, theirs);
    double *got  = gradient(ctx, part), *want = gradient(exact->ctx, param_of(exact->model, theirs)), torch = golden_number(g, key);
    snprintf(key, sizeof key, "grad.%s", theirs);
    golden_tensor fp32 = golden_get(g, key);
    bf16_error e       = { .size = golden_square(&fp32) };
    for (int64_t i = 0; i < part.elems; i++) e.off += (got[i] - want[i]) * (got[i] - want[i]);
    golden_tensor_free(&fp32);
    e.torch_off = torch * torch * e.size;
    free(want);
    free(got);
    return e;
}

/* Over the gradient as a whole the error may be half as much again as PyTorch's. One parameter of 32 elements is a throw of the
 * dice, so each is held to three times the greater of its own error there and the whole's. */
static void check_bf16_gradients(rp_ctx *ctx, rp_model *m, const golden *g, const exact_run *exact, const char *variant)
{
    bf16_error all = { 0 };
    int64_t at     = 0;

    for (const char *theirs; (theirs = golden_next(g, "grad.", &at)) != NULL;) {
        bf16_error e = error_of(ctx, m, g, exact, theirs);
        all.off += e.off;
        all.torch_off += e.torch_off;
        all.size += e.size;
    }
    print_message("bf16 %s: relative L2 of the gradient %.4f, PyTorch's %.4f\n", variant, sqrt(all.off / all.size), sqrt(all.torch_off / all.size));
    assert_true(sqrt(all.off) <= 1.5 * sqrt(all.torch_off));
    at = 0;
    for (const char *theirs; (theirs = golden_next(g, "grad.", &at)) != NULL;) {
        bf16_error e = error_of(ctx, m, g, exact, theirs);
        double own   = e.torch_off / e.size, typical = all.torch_off / all.size;
        assert_near(theirs, sqrt(e.off / e.size), 0, 3 * sqrt(own > typical ? own : typical));
    }
}

static void check_bfloat16(const char *variant)
{
    rp_ctx *ctx          = test_ctx(NULL);
    golden *g            = open_golden(ctx, variant);
    exact_run exact      = run_exactly(g, variant);
    rp_model *m          = golden_model(ctx, variant, RP_BF16);
    rp_model_batch batch = text_batch(ctx, m, g, 0);

    rp__tape_ctx(ctx)->eval = true;
    double *got = logits_of(ctx, m, &batch);
    assert_near("relative L2 of the logits", golden_rel_l2(got, exact.logits, ALL * VOCAB), 0, 1.5 * golden_number(g, "bfloat16_error/logits_rel_l2"));
    free(got);
    (void)loss_and_gradients(ctx, m, &batch, targets_of(&batch), -100);
    check_bf16_gradients(ctx, m, g, &exact, variant);
    drop_gradients(m);
    drop_batch(&batch);
    rp__model_free(m);
    drop_exact(&exact);
    golden_close(g);
    test_ctx_free(ctx);
}

#define VARIANT(name) \
    static void name##_is_transformers_in_fp32(void **state) { (void)state; check_float32(#name); } \
    static void name##_errs_in_bf16_as_little_as_torch(void **state) { (void)state; check_bfloat16(#name); }
GOLDEN_VARIANTS(VARIANT)
#undef VARIANT
#define VARIANT(name) cmocka_unit_test(name##_is_transformers_in_fp32), cmocka_unit_test(name##_errs_in_bf16_as_little_as_torch),

int main(void)
{
    const struct CMUnitTest tests[] = { GOLDEN_VARIANTS(VARIANT) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
