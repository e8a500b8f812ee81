/* train/score.c -- scores a text window by window, or data sample by sample; sums are in double. */
#include "train/score.h"

#include <math.h>

#include "base/file.h"
#include "models/config.h"
#include "tape/tape.h"
#include "tensor/tensor.h"

enum { NO_LABEL = -100 };

static rp_status ids_tensor(rp_ctx *ctx, const char *name, int64_t n, rp_tensor **out)
{
    rp_meta meta = rp_meta_2d(RP_I32, 1, n);

    return rp__tensor_new_named(ctx, &meta, RP_MEM_TEMP, name, out);
}

/* labels[i] = ids[i + 1]; the last position has no label. */
static rp_status make_batch(rp_ctx *ctx, const int32_t *ids, int64_t n, rp_model_batch *batch)
{
    RP_TRY(ids_tensor(ctx, "tokens", n, &batch->tokens));
    RP_TRY(ids_tensor(ctx, "labels", n, &batch->labels));
    RP_TRY(rp_tensor_write_i32(batch->tokens, ids, n));
    rp_host h;
    RP_TRY(rp__tensor_host_all(batch->labels, RP_HOST_WRITE, &h));
    int32_t *label = h.data;
    memcpy(label, ids + 1, (size_t)(n - 1) * sizeof *label);
    label[n - 1] = NO_LABEL;
    rp__tensor_host_end(&h);
    return RP_OK;
}

/* The op sums a window in double and returns fp32: the relative error is at most 6e-8. */
static rp_status score_window(rp_model *model, const int32_t *ids, int64_t n, double *sum)
{
    rp_model_batch batch = { 0 };
    rp_tensor *loss      = NULL;
    rp_status status;

    RP_TRY_GOTO(make_batch(rp__model_ctx(model), ids, n, &batch));
    RP_TRY_GOTO(rp__model_label_loss(model, &batch, &(rp_attr_cross_entropy){ .weight = 1, .ignore_index = NO_LABEL }, &loss));
    status = rp__file_pages_after(rp__model_ctx(model), rp_tensor_read(loss, sum, 1));
    rp_tensor_unref(loss);
done:
    rp_tensor_unref(batch.tokens);
    rp_tensor_unref(batch.labels);
    return status;
}

static rp_status score_all(rp_model *model, const int32_t *ids, int64_t n_ids, int64_t window, rp_score_progress progress, void *user,
                           rp_score *out)
{
    double total = 0, sum;

    for (int64_t at = 0; n_ids - at > 1; at += window) {
        int64_t n = n_ids - at < window ? n_ids - at : window;
        RP_TRY(score_window(model, ids + at, n, &sum));
        RP_CHECK(rp__model_ctx(model), isfinite(sum), RP_ERR_NONFINITE, "the loss of tokens %" PRId64 " to %" PRId64 " is not finite",
                 at + 1, at + n);
        total += sum;
        out->targets += n - 1;
        out->windows++;
        if (progress) progress(user, n_ids - at - n > 1 ? at + n : n_ids, n_ids);      /* a single last id has no target */
    }
    out->loss = total / (double)out->targets;
    return RP_OK;
}

static rp_status check_causal(rp_model *model)
{
    RP_CHECK(rp__model_ctx(model), !rp__model_config(model)->both_ways, RP_ERR_UNSUPPORTED, "a model of type '%s' is an encoder, which sees the tokens to "
             "predict: score it on masked tokens, with 'dataset_val' of a recipe", rp__model_type(rp__model_config(model)));
    return RP_OK;
}

rp_status rp__score(rp_model *model, const int32_t *ids, int64_t n_ids, int64_t window, rp_score_progress progress, void *user,
                    rp_score *out)
{
    rp_ctx *ctx     = rp__model_ctx(model);
    int64_t context = rp__model_config(model)->context;
    rp_tape_ctx *mode = rp__tape_ctx(ctx), before = *mode;
    rp_score score    = { 0 };

    RP_TRY(check_causal(model));
    RP_CHECK(ctx, window >= 2, RP_ERR_ARG, "a window of %" PRId64 " tokens has no targets", window);
    RP_CHECK(ctx, window <= context, RP_ERR_ARG, "a window of %" PRId64 " tokens is more than the model's context of %" PRId64, window,
             context);
    RP_CHECK(ctx, n_ids >= 2, RP_ERR_ARG, "there are no targets: the text has %" PRId64 " token%s", n_ids, n_ids == 1 ? "" : "s");
    mode->eval = mode->no_grad = true;
    rp_status status = score_all(model, ids, n_ids, window, progress, user, &score);
    mode->eval       = before.eval;
    mode->no_grad    = before.no_grad;
    if (status == RP_OK) *out = score;
    return status;
}

/* ---- the samples of data ---- */

static rp_status sample_tensor(rp_ctx *ctx, const rp_data_batch *b, const char *name, const int32_t *from, rp_tensor **out)
{
    rp_meta meta = rp_meta_2d(RP_I32, b->rows, b->length);

    RP_TRY(rp__tensor_new_named(ctx, &meta, RP_MEM_TEMP, name, out));
    return rp_tensor_write_i32(*out, from, b->rows * b->length);
}

static rp_status score_batch(rp_model *model, const rp_data_batch *b, int32_t ignore_index, double *sum)
{
    rp_ctx *ctx      = rp__model_ctx(model);
    rp_model_batch t = { .padded = b->padded };
    rp_tensor *loss  = NULL;
    rp_status status;

    RP_TRY_GOTO(sample_tensor(ctx, b, "tokens", b->tokens, &t.tokens));
    RP_TRY_GOTO(sample_tensor(ctx, b, "labels", b->labels, &t.labels));
    RP_TRY_GOTO(sample_tensor(ctx, b, "positions", b->positions, &t.positions));
    RP_TRY_GOTO(sample_tensor(ctx, b, "doc_start", b->doc_start, &t.doc_start));
    RP_TRY_GOTO(rp__model_label_loss(model, &t, &(rp_attr_cross_entropy){ .weight = 1, .ignore_index = ignore_index }, &loss));
    status = rp__file_pages_after(rp__model_ctx(model), rp_tensor_read(loss, sum, 1));
    rp_tensor_unref(loss);
done:
    rp_tensor_unref(t.tokens);
    rp_tensor_unref(t.labels);
    rp_tensor_unref(t.positions);
    rp_tensor_unref(t.doc_start);
    return status;
}

static rp_status score_each(rp_model *model, rp_data *data, int32_t ignore_index, rp_score_progress progress, void *user, rp_score *out)
{
    int64_t n = rp__data_info(data).n_samples, done = 0, all = rp__data_info(data).n_tokens;
    double total = 0, sum;
    rp_data_step count;
    rp_data_batch b;

    for (int64_t i = 0; i < n; i++) {
        RP_TRY(rp__data_step(data, i, &count));
        RP_TRY(rp__data_batch(data, i, 0, &b));
        RP_TRY(score_batch(model, &b, ignore_index, &sum));
        RP_CHECK(rp__model_ctx(model), isfinite(sum), RP_ERR_NONFINITE, "the loss of sample %" PRId64 " is not finite", i + 1);
        total += sum;
        done += count.tokens;
        out->targets += count.targets;
        out->windows++;
        if (progress) progress(user, i + 1 < n ? done : all, all);
    }
    out->loss = total / (double)out->targets;
    return RP_OK;
}

rp_status rp__score_samples(rp_model *model, rp_data *data, int32_t ignore_index, rp_score_progress progress, void *user, rp_score *out)
{
    rp_tape_ctx *mode = rp__tape_ctx(rp__model_ctx(model)), before = *mode;
    rp_score score    = { 0 };

    RP_TRY(check_causal(model));
    mode->eval = mode->no_grad = true;
    rp_status status = score_each(model, data, ignore_index, progress, user, &score);
    mode->eval       = before.eval;
    mode->no_grad    = before.no_grad;
    if (status == RP_OK) *out = score;
    return status;
}
