/* ops/declared.c -- users' ops: their registry, and the checks that keep a mistake in one from causing a crash. */
#include "base/sized.h"
#include "base/list.h"
#include "ops/declared.h"

#include <stdio.h>
#include <string.h>

enum {
    KNOWN_FLAGS = RP_OP_RANDOM | RP_OP_EFFECT | RP_OP_COLLECTIVE | RP_OP_VARIADIC | RP_OP_GRAD_PASS | RP_OP_REPLAYS | RP_OP_SUMS | RP_OP_DECIDES
};

/* ---- one call ---- */

enum { TITLE_CHARS = 96 };

/* "rmsnorm", or "own op 'swish'" */
static const char *title(const rp_op *op, char out[TITLE_CHARS])
{
    bool built_in = rp__op_find(op->name) == op;

    snprintf(out, TITLE_CHARS, "%s%s%s", built_in ? "" : "own op '", op->name, built_in ? "" : "'");
    return out;
}

/* `all`: every meta must be declared. Slots need not be if the call has no backward, because it then has no slots. */
static rp_status check_metas(const rp_op_meta *m, const char *kind, const rp_meta *metas, int n, bool all)
{
    char name[TITLE_CHARS];

    for (int i = 0; i < n; i++) {
        if (metas[i].dtype == RP_DTYPES && !all) continue;
        RP_CHECK(m->ctx, metas[i].dtype != RP_DTYPES, RP_ERR_SHAPE, "%s: shape declares no %s %d", title(m->op, name), kind, i);
        RP_CHECK(m->ctx, rp__meta_check(m->ctx, &metas[i]) == RP_OK, RP_ERR_SHAPE, "%s: %s %d is %s, which is not a valid shape",
                 title(m->op, name), kind, i, rp_meta_str(&metas[i]));
    }
    return RP_OK;
}

static rp_status check_scratch(const rp_op_meta *m, const char *pass, int64_t bytes)
{
    char name[TITLE_CHARS];

    RP_CHECK(m->ctx, bytes >= 0, RP_ERR_SHAPE, "%s: %s needs %" PRId64 " bytes of scratch, which is not a valid size",
             title(m->op, name), pass, bytes);
    return RP_OK;
}

rp_status rp__op_check_declared(const rp_op_meta *m, int n_in)
{
    const rp_op *op = m->op;
    char name[TITLE_CHARS];

    RP_CHECK(m->ctx, m->n_in == n_in, RP_ERR_SHAPE, "%s: shape sets n_in to %d, but the call has %d", title(op, name), m->n_in, n_in);
    RP_CHECK(m->ctx, m->n_out >= 1 && m->n_out <= op->n_out, RP_ERR_SHAPE, "%s: shape declares %d outputs, the op has 1 to %d",
             title(op, name), m->n_out, op->n_out);
    RP_CHECK(m->ctx, m->n_slot >= 0 && m->n_slot <= op->n_slot, RP_ERR_SHAPE, "%s: shape declares %d slots, the op has at most %d",
             title(op, name), m->n_slot, op->n_slot);
    RP_CHECK(m->ctx, !(m->needs & ~op->needs), RP_ERR_SHAPE, "%s: shape adds bits to needs (0x%" PRIx32 ")",
             title(op, name), m->needs & ~op->needs);
    RP_TRY(check_metas(m, "output", m->out, m->n_out, true));
    RP_TRY(check_metas(m, "slot", m->slot, m->n_slot, m->want_grad));
    RP_TRY(check_scratch(m, "forward", m->scratch_bytes));
    return check_scratch(m, "backward", m->scratch_backward_bytes);
}

/* ---- the context's registered ops ---- */

static void close_part(rp_ctx *ctx)
{
    rp_ops_ctx *ops = rp__ops_ctx(ctx);

    for (int i = 0; i < ops->n_own; i++) rp__release((void *)ops->own[i]);
    rp__release(ops->own);
}

const rp_ctx_part rp__part_ops = { .bytes = sizeof(rp_ops_ctx), .close = close_part };

const rp_op *rp__op_find_in(const rp_ctx *ctx, const char *name)
{
    const rp_ops_ctx *ops = rp__ops_ctx(ctx);
    const rp_op *built_in = rp__op_find(name);

    for (int i = 0; i < ops->n_own && !built_in; i++)
        if (!strcmp(ops->own[i]->name, name)) return ops->own[i];
    return built_in;
}

static uint32_t first_bits(int n) { return RP_IN(n) - 1; }

static rp_status check_count(rp_ctx *ctx, const rp_op *op, const char *kind, int n, int low, int high)
{
    RP_CHECK(ctx, n >= low && n <= high, RP_ERR_ARG, "own op '%s': %d %s, expected %d to %d", op->name, n, kind, low, high);
    return RP_OK;
}

static rp_status check_bits(rp_ctx *ctx, const rp_op *op, const char *field, uint32_t bits, uint32_t known)
{
    RP_CHECK(ctx, !(bits & ~known), RP_ERR_ARG, "own op '%s': %s refers to tensors that the op does not have (bits 0x%" PRIx32 ")", op->name, field,
             bits & ~known);
    return RP_OK;
}

static rp_status check_fields(rp_ctx *ctx, const rp_op *op)
{
    uint32_t in = first_bits(op->n_in), all = in | first_bits(op->n_out) * RP_OUT(0) | first_bits(op->n_slot) * RP_SLOT(0);

    RP_TRY(check_bits(ctx, op, "needs", op->needs, all));
    RP_TRY(check_bits(ctx, op, "no_grad_in", op->no_grad_in, in));
    RP_TRY(check_bits(ctx, op, "wide_grad_in", op->wide_grad_in, in));
    RP_TRY(check_bits(ctx, op, "writes_in", op->writes_in, in));
    RP_CHECK(ctx, !(op->flags & ~(uint32_t)KNOWN_FLAGS), RP_ERR_ARG, "own op '%s': unknown flags 0x%" PRIx32, op->name,
             op->flags & ~(uint32_t)KNOWN_FLAGS);
    RP_CHECK(ctx, !op->writes_in || (op->flags & RP_OP_EFFECT), RP_ERR_ARG, "own op '%s': it writes inputs without RP_OP_EFFECT", op->name);
    return RP_OK;
}

static rp_status check_op(rp_ctx *ctx, const rp_op *op)
{
    RP_CHECK(ctx, op->name && *op->name, RP_ERR_ARG, "own op: its name is missing");
    RP_CHECK(ctx, op->shape && op->forward, RP_ERR_ARG, "own op '%s': %s is missing", op->name, op->shape ? "forward" : "shape");
    RP_TRY(check_count(ctx, op, "inputs", op->n_in, 1, RP_MAX_IN));
    RP_TRY(check_count(ctx, op, "outputs", op->n_out, 1, RP_MAX_OUT));
    RP_TRY(check_count(ctx, op, "slots", op->n_slot, 0, RP_MAX_SLOT));
    RP_CHECK(ctx, op->attr_size <= RP_MAX_ATTR, RP_ERR_ARG, "own op '%s': %zu bytes of attributes, at most %d", op->name, op->attr_size,
             RP_MAX_ATTR);
    return check_fields(ctx, op);
}

static rp_status add_op(rp_ctx *ctx, const rp_op *op)
{
    rp_ops_ctx *ops = rp__ops_ctx(ctx);

    RP_TRY(check_op(ctx, op));
    RP_CHECK(ctx, !rp__op_find_in(ctx, op->name), RP_ERR_ARG, "own op '%s': the name is taken by %s", op->name,
             rp__op_find(op->name) ? "a built-in op" : "another one");
    RP_TRY(RP_GROW(ctx, ops->own, ops->room_own, ops->n_own + 1));
    ops->own[ops->n_own++] = op;
    return RP_OK;
}

/* The context keeps a copy with this library's size of rp_op. */
rp_status rp_op_register_sized(size_t size, rp_ctx *ctx, const rp_op *op)
{
    RP_GIVEN(ctx, ctx);
    rp_op own;

    RP_TAKE(ctx, own, op, size);
    RP_CHECK(ctx, op, RP_ERR_ARG, "own op: the op is NULL");
    rp_op *copy = rp__host_alloc(ctx, sizeof *copy);
    if (!copy) return RP_ERR_MEMORY;
    *copy            = own;
    rp_status status = add_op(ctx, copy);
    if (status != RP_OK) rp__release(copy);
    return status;
}

rp_status (rp_op_register)(rp_ctx *ctx, const rp_op *op) { return rp_op_register_sized(RP_FIRST_OP, ctx, op); }
