/* policy/checkpoint.c -- rp_checkpoint and rp_checkpoint_sequential: the calls of a function become a region.
 *
 *   functions   f0 f1 f2 f3 f4 f5       each is recorded as a region of its own; bytes are known once all have run
 *   segments    [     ] [ ] [     ]     neighbours are then joined so that the largest sum of bytes is as small as possible
 */
#include "base/sized.h"
#include "policy/stack.h"
#include "tape/decide.h"
#include "tape/tape.h"
#include "tensor/tensor.h"

static const char *name_of(const rp_checkpoint_options *options) { return options && options->name ? options->name : "checkpoint"; }

static int n_outputs_of(const rp_checkpoint_options *options) { return options && options->n_outputs ? options->n_outputs : 1; }

static rp_status call_function(rp_ctx *ctx, rp_checkpoint_function fn, void *user, rp_tensor *const *inputs, rp_policy *policy,
                               rp_tensor **outputs)
{
    if (policy) RP_TRY(rp__policy_push(ctx, policy));
    rp_status status = fn(ctx, user, inputs, outputs);
    if (policy) rp__policy_pop(ctx);
    return status;
}

static void drop_outputs(rp_tensor **outputs, int n)
{
    for (int i = 0; i < n; i++) {
        rp_tensor_unref(outputs[i]);
        outputs[i] = NULL;
    }
}

/* Either the recorded calls of fn form a region, or neither calls nor outputs of fn remain. */
static rp_status run_region(rp_ctx *ctx, rp_checkpoint_function fn, void *user, rp_tensor *const *inputs,
                            const rp_checkpoint_options *options, rp_tensor **outputs, int n_outputs)
{
    rp_tape_mark before = rp__tape_mark(ctx);

    RP_TRY(rp__region_begin(ctx, name_of(options)));
    rp_status status = call_function(ctx, fn, user, inputs, options ? options->policy : NULL, outputs);
    if (status == RP_OK && (status = rp__region_end(ctx)) != RP_OK) drop_outputs(outputs, n_outputs);
    if (status != RP_OK) rp__tape_rewind(ctx, before);
    return status;
}

rp_status rp_checkpoint_sized(size_t size, rp_ctx *ctx, rp_checkpoint_function fn, void *user, rp_tensor *const *inputs,
                              const rp_checkpoint_options *options, rp_tensor **outputs)
{
    RP_GIVEN(ctx, ctx);
    rp_checkpoint_options own;

    RP_TAKE(ctx, own, options, size);
    RP_CHECK(ctx, fn && outputs, RP_ERR_ARG, "rp_checkpoint: there is no %s", fn ? "place for outputs" : "function");
    RP_SAME_CTX(ctx, options && options->policy ? options->policy->ctx : NULL, "policy");
    RP_CHECK(ctx, n_outputs_of(options) > 0, RP_ERR_ARG, "rp_checkpoint: %d outputs", options->n_outputs);
    return run_region(ctx, fn, user, inputs, options, outputs, n_outputs_of(options));
}

rp_status (rp_checkpoint)(rp_ctx *ctx, rp_checkpoint_function fn, void *user, rp_tensor *const *inputs, const rp_checkpoint_options *options,
                          rp_tensor **outputs)
{
    return rp_checkpoint_sized(RP_FIRST_CHECKPOINT_OPTIONS, ctx, fn, user, inputs, options, outputs);
}

/* ---- sequential ---- */

typedef struct { int region, group; int64_t bytes; } segment_part;

/* Returns the number of groups if each may have at most `most` bytes; n + 1: a part is larger. */
static int groups_below(const segment_part *part, int n, int64_t most)
{
    int groups  = 1;
    int64_t sum = 0;

    for (int i = 0; i < n; i++) {
        if (part[i].bytes > most) return n + 1;
        if (sum + part[i].bytes > most) {
            groups++;
            sum = 0;
        }
        sum += part[i].bytes;
    }
    return groups;
}

/* Find the smallest possible largest sum by bisection. Then form as many groups as requested, none empty. */
static void divide(segment_part *part, int n, int segments)
{
    int64_t low = 0, high = 0, sum = 0;
    int group = 0;

    for (int i = 0; i < n; i++) high += part[i].bytes;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (groups_below(part, n, middle) <= segments) high = middle;
        else low = middle + 1;
    }
    for (int i = 0; i < n; i++) {
        bool must = n - i == segments - 1 - group;      /* as many parts as groups remain */
        if (i > 0 && group < segments - 1 && (must || sum + part[i].bytes > high)) {
            group++;
            sum = 0;
        }
        sum += part[i].bytes;
        part[i].group = group;
    }
}

static rp_status checkpoint_join(rp_ctx *ctx, segment_part *part, int n, int segments)
{
    int *lists = rp__host_alloc(ctx, 2 * n * (int64_t)sizeof *lists);

    if (!lists) return RP_ERR_MEMORY;
    for (int i = 0; i < n; i++) part[i].bytes = rp__region_bytes(ctx, part[i].region);
    divide(part, n, segments);
    for (int i = 0; i < n; i++) {
        lists[i]     = part[i].region;
        lists[n + i] = part[i].group;
    }
    rp_status status = rp__regions_join(ctx, lists, lists + n, n);
    rp__release(lists);
    return status;
}

/* Without gradients nothing is recorded, so nothing is joined. */
static rp_status run_parts(rp_ctx *ctx, const rp_checkpoint_function *fn, void *const *user, segment_part *part, int n, rp_tensor *input,
                           const rp_checkpoint_options *options, int segments, rp_tensor **output)
{
    rp_tensor *x     = rp_tensor_ref(input), *y;
    rp_status status = RP_OK;
    int before       = rp__region_count(ctx);

    for (int i = 0; i < n && status == RP_OK; i++) {
        part[i].region = rp__region_count(ctx);
        y              = NULL;
        status         = run_region(ctx, fn[i], user ? user[i] : NULL, &x, options, &y, 1);
        if (status == RP_OK && !y)
            status = rp_fail(ctx, RP_ERR_STATE, "rp_checkpoint_sequential: function %d returned RP_OK without an output", i);
        if (status != RP_OK) break;
        rp_tensor_unref(x);
        x = y;
    }
    if (status == RP_OK && !rp__tape_is_planned(ctx) && rp__region_count(ctx) > before) status = checkpoint_join(ctx, part, n, segments);
    return rp__tensor_give(status, x, output);
}

rp_status rp_checkpoint_sequential_sized(size_t size, rp_ctx *ctx, const rp_checkpoint_function *fn, void *const *user, int n, int segments,
                                         rp_tensor *input, const rp_checkpoint_options *options, rp_tensor **output)
{
    RP_GIVEN(ctx, ctx && fn && input && output);
    rp_checkpoint_options own;

    RP_TAKE(ctx, own, options, size);
    RP_CHECK(ctx, n > 0 && segments > 0 && segments <= n, RP_ERR_ARG, "rp_checkpoint_sequential: %d segments of %d functions; 1 to %d are allowed",
             segments, n, n > 0 ? n : 0);
    for (int i = 0; i < n; i++) RP_CHECK(ctx, fn[i], RP_ERR_ARG, "rp_checkpoint_sequential: function %d is NULL", i);
    RP_SAME_CTX(ctx, input->ctx, "input");
    RP_SAME_CTX(ctx, options && options->policy ? options->policy->ctx : NULL, "policy");
    segment_part *part = rp__host_alloc(ctx, n * (int64_t)sizeof *part);
    if (!part) return RP_ERR_MEMORY;
    rp_tape_mark before = rp__tape_mark(ctx);
    bool outer          = rp__regions_defer(ctx, true);
    rp_status status    = run_parts(ctx, fn, user, part, n, input, options, segments, output);
    rp__regions_defer(ctx, outer);
    if (status != RP_OK) rp__tape_rewind(ctx, before);
    rp__release(part);
    return status;
}

rp_status (rp_checkpoint_sequential)(rp_ctx *ctx, const rp_checkpoint_function *fn, void *const *user, int n, int segments, rp_tensor *input,
                                     const rp_checkpoint_options *options, rp_tensor **output)
{
    return rp_checkpoint_sequential_sized(RP_FIRST_CHECKPOINT_OPTIONS, ctx, fn, user, n, segments, input, options, output);
}
