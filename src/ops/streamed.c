/* ops/streamed.c -- blocks of a matrix and of its gradient, fetched and sent (see streamed.h). */
#include "ops/streamed.h"

#include "ops/reduce_async.h"

static int which(const rp_streamed *s, int64_t row) { return (int)(row / s->block % 2); }

static int64_t elems_from(const rp_streamed *s, int64_t row)
{
    return (s->rows - row < s->block ? s->rows - row : s->block) * s->width;
}

/* ---- blocks ---- */

int64_t rp__streamed_first(const rp_streamed *s, int64_t row)
{
    const rp_quant_type *type = rp__quant_type(s->dtype);

    if (!type) return 0;
    return s->sliced ? row * s->width % rp__quant_group(type) : row * s->width;
}

int64_t rp__streamed_window(rp_dtype dtype, int64_t elems)
{
    const rp_quant_type *type = rp__quant_type(dtype);

    if (!type) return elems * rp_dtype_bytes(dtype);
    return rp__quant_bytes(type, elems) + (type->group > 1 ? rp__quant_bytes(type, rp__quant_group(type)) + type->head_bytes : 0);
}

/* The range to fetch: the block's elements, or the bytes from the start of its first group to its end. */
static rp_comm_part to_fetch(const rp_streamed *s, int64_t row)
{
    const rp_quant_type *type = rp__quant_type(s->dtype);
    int64_t first = row * s->width, n = elems_from(s, row);

    if (!type) return (rp_comm_part){ first, n };
    int64_t at = rp__quant_bytes(type, first - rp__streamed_first(s, row));
    return (rp_comm_part){ at, rp__quant_bytes(type, first + n) - at };
}

static rp_status streamed_ask(rp_streamed *s, int64_t row)
{
    const rp_meta whole = rp_meta_2d(s->dtype, s->rows, s->width);

    if (row >= s->rows) return RP_OK;
    rp_comm_part part = to_fetch(s, row);
    return rp__window_fetch(s->c, rp__sliced_elems(&whole), rp__data(s->c->in[s->in]), (int)rp__sliced_bytes(s->dtype), part.first, part.count,
                            s->window[which(s, row)], &s->coming[which(s, row)]);
}

rp_status rp__streamed_block(rp_streamed *s, int64_t row, const void **out)
{
    if (!s->sliced) {
        *out = rp__data_at(s->c->in[s->in], row * s->width);
        return RP_OK;
    }
    if (!s->begun) RP_TRY(streamed_ask(s, row));
    s->begun = true;
    RP_TRY(streamed_ask(s, row + s->block));
    *out = s->window[which(s, row)];
    return rp__group_wait(s->c, &s->coming[which(s, row)]);
}

/* ---- gradients ---- */

void *rp__streamed_gradient(const rp_streamed *s, int64_t row)
{
    return s->sliced ? s->gradient[which(s, row)] : rp__data_at(s->c->grad_in[s->in], row * s->width);
}

/* Sums the block in flight. */
static rp_status streamed_settle(rp_streamed *s)
{
    int64_t row = s->on_its_way;

    if (row < 0) return RP_OK;
    s->on_its_way = -1;
    return rp__window_sum(s->c, s->rows * s->width, rp__grad_dtype(s->c, s->in), s->gradient[which(s, row)], row * s->width, elems_from(s, row),
                          s->received, &s->sent, s->c->grad_in[s->in], s->c->grad_adds[s->in]);
}

rp_status rp__streamed_send(rp_streamed *s, int64_t row)
{
    if (!s->sliced) return RP_OK;
    if (row == 0) RP_TRY(rp__reduce_async_settle(s->c->ctx, s->c->grad_in[s->in]));
    RP_TRY(streamed_settle(s));
    s->on_its_way = row;
    return rp__window_send(s->c, s->rows * s->width, rp__grad_dtype(s->c, s->in), s->gradient[which(s, row)], row * s->width,
                           elems_from(s, row), s->received, &s->sent);
}

rp_status rp__streamed_end(rp_streamed *s)
{
    if (!s->sliced) return RP_OK;
    RP_TRY(streamed_settle(s));
    if (!s->c->grad_adds[s->in]) rp__clear_rest(rp__group(s->c->ctx), s->rows * s->width, s->c->grad_in[s->in]);
    return RP_OK;
}
