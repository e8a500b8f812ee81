/* ops/collective.c -- gather and reduce over a group of ranks (see collective.h). */
#include "ops/reduce_async.h"

#include "base/quant.h"
#include "base/team.h"

enum {
    PIECES_BYTES = 4 << 20,             /* scratch for one piece of all ranks: large enough to hide latency, small compared with a block's weights */
    WINDOW_BLOCKS = 4,                  /* scratch for received data of a window, in multiples of the window */
    BLOCK        = 512,                 /* elements summed at a time, to stay in the L1 cache */
    WHAT_CHARS   = 256
};

static rp_slice slice_in(const rp_ctx *ctx, const rp_comm *group, int64_t n)
{
    return rp__slice_in(ctx, n, rp__comm_rank(group), rp__comm_ranks(group));
}

rp_slice rp__slice_here(const rp_ctx *ctx, int64_t n) { return slice_in(ctx, rp__group(ctx), n); }

rp_meta rp__attr_whole(const rp_op_meta *m)
{
    const rp_attr_whole *a = m->attr;

    return rp_meta_make(m->in[0].dtype == RP_U8 ? (rp_dtype)a->dtype : m->in[0].dtype, a->ndim, a->dim);
}

static rp_status check_bytes(const rp_op_meta *m, const rp_meta *whole)
{
    RP_CHECK(m->ctx, rp__is_quant(whole->dtype) && !m->in_grad[0], RP_ERR_DTYPE,
             "%s: x is bytes of %s, expected those of a quantised tensor without a gradient", m->op->name, rp_dtype_name(whole->dtype));
    return rp__meta_check(m->ctx, whole);
}

rp_status rp__check_whole(const rp_op_meta *m, rp_meta *whole)
{
    const rp_attr_whole *a = m->attr;

    RP_CHECK(m->ctx, a && a->ndim >= 1 && a->ndim <= RP_MAX_DIM, RP_ERR_ARG, "%s: the shape of the whole has %d dimensions, 1 to %d are expected",
             m->op->name, a ? a->ndim : 0, RP_MAX_DIM);
    for (int i = 0; i < a->ndim; i++)
        RP_CHECK(m->ctx, a->dim[i] >= 1, RP_ERR_ARG, "%s: dimension %d of the whole is %" PRId64, m->op->name, i, a->dim[i]);
    *whole = rp__attr_whole(m);
    if (m->in[0].dtype == RP_U8) return check_bytes(m, whole);
    RP_CHECK(m->ctx, rp_meta_is_float(&m->in[0]), RP_ERR_DTYPE, "%s: x is %s, expected a floating dtype", m->op->name, rp_meta_str(&m->in[0]));
    RP_CHECK(m->ctx, rp__meta_check(m->ctx, whole) == RP_OK, RP_ERR_ARG, "%s: the whole, %s, is too large", m->op->name, rp_meta_str(whole));
    return RP_OK;
}

int64_t rp__part_elems(const rp_ctx *ctx, int64_t n) { return rp__comm_ranks(rp__groups(ctx)->outer) * rp__slice_here(ctx, n).room; }

int64_t rp__gather_sends(const rp_ctx *ctx, const rp_meta *whole, rp_gather_from from)
{
    const rp_comm *group = rp__gather_group(ctx, from);
    int64_t n            = rp__sliced_elems(whole), mine = from == RP_FROM_INNER ? rp__part_elems(ctx, n) : rp__slice_here(ctx, n).room;

    return (rp__comm_ranks(group) - 1) * mine * rp__sliced_bytes(whole->dtype);
}

/* ---- elements ---- */

static void collective_load(rp_dtype dtype, const void *from, int64_t at, int n, float *to)
{
    const uint16_t *half = from;

    if (dtype == RP_BF16)
        for (int i = 0; i < n; i++) to[i] = rp__f32_from_bf16(half[at + i]);
    else memcpy(to, (const float *)from + at, (size_t)n * sizeof *to);
}

static void store(rp_dtype dtype, void *to, int64_t at, int n, const float *from)
{
    uint16_t *half = to;

    if (dtype == RP_BF16)
        for (int i = 0; i < n; i++) half[at + i] = rp__bf16_from_f32(from[i]);
    else memcpy((float *)to + at, from, (size_t)n * sizeof *from);
}

/* ---- summing a piece ---- */

typedef struct {
    const uint8_t *parts;               /* one part per rank, `stride` elements apart */
    rp_dtype from_dtype, to_dtype;
    int ranks;
    int64_t stride, at;                 /* at: where the piece starts in the slice */
    void *to;
    bool adds;
} summing;

static void sum_block(const summing *s, int64_t first, int n)
{
    float sum[BLOCK], next[BLOCK];

    collective_load(s->from_dtype, s->parts, first, n, sum);
    for (int r = 1; r < s->ranks; r++) {
        collective_load(s->from_dtype, s->parts, r * s->stride + first, n, next);
        for (int i = 0; i < n; i++) sum[i] += next[i];
    }
    if (s->adds) {
        collective_load(s->to_dtype, s->to, s->at + first, n, next);
        for (int i = 0; i < n; i++) sum[i] += next[i];
    }
    store(s->to_dtype, s->to, s->at + first, n, sum);
}

static void sum_range(const void *arg, int64_t from, int64_t to)
{
    for (; from < to; from += BLOCK) sum_block(arg, from, to - from < BLOCK ? (int)(to - from) : BLOCK);
}

static void sum_in_double(const summing *s, int64_t n)
{
    const double *parts = (const double *)s->parts;
    double *to          = (double *)s->to + s->at;

    for (int64_t i = 0; i < n; i++) {
        double sum = parts[i];
        for (int r = 1; r < s->ranks; r++) sum += parts[r * s->stride + i];
        to[i] = s->adds ? to[i] + sum : sum;
    }
}

static void sum_on_host(rp_ctx *ctx, summing s, int64_t n, int threads)
{
    int64_t bytes = n * (int64_t)sizeof(float) * (s.ranks + 1), elem = rp_dtype_bytes(s.to_dtype);

    rp__mem_enter(ctx);
    s.parts = rp__mem_inside(ctx, (uint8_t *)(uintptr_t)s.parts, ((s.ranks - 1) * s.stride + n) * rp_dtype_bytes(s.from_dtype));
    s.to    = rp__mem_inside(ctx, (uint8_t *)s.to + s.at * elem, n * elem);
    s.at    = 0;
    if (s.to_dtype == RP_F64) sum_in_double(&s, n);
    else rp__team_ranges(threads, n, BLOCK, bytes, sum_range, &s);
    rp__mem_leave(ctx);
}

static void sum_piece(rp_ctx *ctx, const summing *s, int64_t n, int threads)
{
    const rp_kernels *k = rp__kernels(ctx);
    uint8_t *to         = (uint8_t *)s->to + s->at * rp_dtype_bytes(s->to_dtype);

    if (!n) return;
    if (!k->parts_sum || s->to_dtype == RP_F64 || s->from_dtype == RP_F64 || !rp__mem_at_far(ctx, s->parts)) sum_on_host(ctx, *s, n, threads);
    else k->parts_sum(s->from_dtype, s->parts, s->stride, s->ranks, to, s->to_dtype, s->adds, n, &ctx->on);
}

/* ---- dense data, waiting ---- */

/* The text for messages: "all_gather of layers.3.mlp.up" */
static const char *what_waits(const char *op, const char *path, char out[WHAT_CHARS])
{
    snprintf(out, WHAT_CHARS, "%s%s%.200s", op, path ? " of " : "", path ? path : "");
    return out;
}

static rp_status wait_for(const rp_reduction *r, rp_comm *group, rp_comm_request *request)
{
    char operation[WHAT_CHARS];

    return request->id ? rp__comm_wait(r->ctx, group, request, what_waits(r->op, r->path, operation)) : RP_OK;
}

int64_t rp__dense_room(const rp_op_meta *m, const rp_meta *t) { return m->dense ? 0 : rp_meta_bytes(t); }

rp_tensor rp__dense_in(const rp_tensor *t, rp_dtype dtype, rp_storage *storage, void *room)
{
    rp_tensor dense = *t;
    int64_t stride  = 1;

    *storage        = *t->storage;
    storage->data   = room;
    storage->inside = room;         /* not where the tensor itself was in this turn */
    dense.storage   = storage;
    dense.start     = 0;
    dense.m.dtype   = dtype;
    for (int i = t->m.ndim - 1; i >= 0; i--) {
        dense.stride[i] = stride;
        stride *= t->m.dim[i];
    }
    return dense;
}

const void *rp__dense_data(const rp_tensor *t, void *room)
{
    rp_storage storage;

    if (rp_tensor_is_dense(t)) return rp__tensor_data(t);
    rp_tensor copy = rp__dense_in(t, t->m.dtype, &storage, room);
    rp__tensor_copy(&copy, t);
    return room;
}

/* ---- gather ---- */

void rp__gather_slices(const rp_op_call *c, rp_gather_from from, const void *mine, const rp_meta *whole, rp_tensor *to)
{
    const rp_gathering ask = { from, mine, rp__sliced_elems(whole), (int)rp__sliced_bytes(whole->dtype) };
    char operation[WHAT_CHARS];

    if (rp__comm_ranks(rp__group(c->ctx)) == 1) {
        rp__mem_copy(c->ctx, rp__tensor_data(to), mine, rp_meta_bytes(&to->m));
        return;
    }
    rp_status status = rp__prefetch_gather(c->ctx, &ask, rp__tensor_data(to), what_waits(c->meta->op->name, rp__ops_ctx(c->ctx)->path, operation));
    if (status != RP_OK) rp__op_failed(c, status);
}

/* ---- reduce ---- */

/* Elements of a slice per piece. bf16 uses as many as fp32, because a gradient may have either dtype. */
static int64_t piece_elems(int64_t room, int ranks, int64_t bytes)
{
    int64_t most = PIECES_BYTES / (bytes == 8 ? 8 : 4) / ranks / RP_SLICE_ELEMS * RP_SLICE_ELEMS;

    if (most < RP_SLICE_ELEMS) most = RP_SLICE_ELEMS;
    return room < most ? room : most;
}

/* The dtype of sums exchanged between groups. */
static rp_dtype between_dtype(int64_t bytes) { return bytes == 8 ? RP_F64 : RP_F32; }

int64_t rp__reduce_stride(const rp_ctx *ctx, const rp_comm *group, int64_t n, int64_t bytes)
{
    return piece_elems(slice_in(ctx, group, n).room, rp__comm_ranks(group), bytes);
}

int64_t rp__between_stride(const rp_ctx *ctx, int64_t stride, int64_t bytes)
{
    return piece_elems(stride, rp__comm_ranks(rp__groups(ctx)->replicas), bytes);
}

int64_t rp__between_room(const rp_ctx *ctx, int64_t stride, int64_t bytes)
{
    int copies = rp__comm_ranks(rp__groups(ctx)->replicas);

    return copies == 1 ? 0 : copies * rp__between_stride(ctx, stride, bytes) * rp_dtype_bytes(between_dtype(bytes));
}

int64_t rp__reduce_sends(const rp_ctx *ctx, const rp_meta *whole)
{
    int64_t room = rp__slice_here(ctx, rp_meta_elems(whole)).room, others = rp__comm_ranks(rp__groups(ctx)->replicas) - 1;

    return rp__gather_sends(ctx, whole, RP_FROM_ALL) + others * room * rp_dtype_bytes(between_dtype(rp_dtype_bytes(whole->dtype)));
}

int64_t rp__reduce_scratch(const rp_ctx *ctx, const rp_comm *group, int64_t n, int64_t bytes)
{
    int ranks     = rp__comm_ranks(group);
    int64_t piece = rp__reduce_stride(ctx, group, n, bytes);

    return 2 * ranks * piece * bytes + rp__between_room(ctx, piece, bytes);
}

/* ---- sending parts of slices to the ranks that sum them ---- */

rp_reduction rp__reduction_over(const rp_op_call *c, rp_comm *group, int64_t n, rp_dtype dtype)
{
    return (rp_reduction){ .ctx = c->ctx, .op = c->meta->op->name, .path = rp__ops_ctx(c->ctx)->path, .threads = c->meta->threads, .group = group,
                           .replicas = rp__groups(c->ctx)->replicas, .n = n, .ranks = rp__comm_ranks(group), .rank = rp__comm_rank(group),
                           .bytes = (int)rp_dtype_bytes(dtype), .copies = rp__comm_ranks(rp__groups(c->ctx)->replicas), .dtype = dtype };
}

rp_status rp__group_wait(const rp_op_call *c, rp_comm_request *request)
{
    char operation[WHAT_CHARS];

    return request->id ? rp__comm_wait(c->ctx, rp__group(c->ctx), request, what_waits(c->meta->op->name, rp__ops_ctx(c->ctx)->path, operation)) : RP_OK;
}

/* With one rank the data is copied at once and the request is 0. */
rp_status rp__reduction_start(const rp_reduction *r, const rp_comm_part *part, const uint8_t *from, int64_t origin, void *received, rp_comm_request *out)
{
    *out = (rp_comm_request){ 0 };
    if (r->ranks == 1) {
        rp__mem_copy(r->ctx, received, from + (part[0].first - origin) * r->bytes, part[0].count * r->bytes);
        return RP_OK;
    }
    rp_comm_part *send = rp__comm_list(r->group, RP_LIST_SEND), *receive = rp__comm_list(r->group, RP_LIST_RECEIVE);
    for (int to = 0; to < r->ranks; to++) {
        send[to]    = (rp_comm_part){ part[to].first - origin, part[to].count };
        receive[to] = (rp_comm_part){ to * r->stride, part[r->rank].count };
    }
    return rp__comm_exchange(r->ctx, r->group, from, send, received, receive, r->bytes, out);
}

/* Exchanges the group's sum of n elements with the ranks that have the same slice, then adds the groups' sums. They are `apart` elements apart. */
static rp_status between_groups(const rp_reduction *r, summing s, int64_t n, int64_t apart)
{
    rp_dtype dtype          = between_dtype(r->bytes);
    int64_t elem            = rp_dtype_bytes(dtype);
    rp_comm_request request = { 0 };
    rp_comm_part *part      = rp__comm_list(r->replicas, RP_LIST_WHAT);
    summing own             = s;

    own.to       = r->between + rp__comm_rank(r->replicas) * apart * elem;
    own.to_dtype = dtype;
    own.at       = 0;
    own.adds     = false;
    sum_piece(r->ctx, &own, n, r->threads);
    for (int g = 0; g < r->copies; g++) part[g] = (rp_comm_part){ g * apart, n };
    RP_TRY(rp__comm_gather(r->ctx, r->replicas, own.to, r->between, part, (int)elem, &request));
    RP_TRY(wait_for(r, r->replicas, &request));
    s.parts      = r->between;
    s.from_dtype = dtype;
    s.ranks      = r->copies;
    s.stride     = apart;
    sum_piece(r->ctx, &s, n, r->threads);
    return RP_OK;
}

/* In pieces, so that many groups need no more memory than two. */
static rp_status all_between_groups(const rp_reduction *r, summing s, int64_t n)
{
    int64_t most = rp__between_stride(r->ctx, r->stride, r->bytes), bytes = rp_dtype_bytes(s.from_dtype);

    for (int64_t at = 0; at < n; at += most) {
        summing piece = s;
        piece.parts   = s.parts + at * bytes;
        piece.at      = s.at + at;
        RP_TRY(between_groups(r, piece, n - at < most ? n - at : most, most));
    }
    return RP_OK;
}

rp_status rp__reduction_finish(const rp_reduction *r, const uint8_t *received, int64_t mine, int64_t at, rp_tensor *slice, bool adds, rp_comm_request *request)
{
    summing s = { received, r->dtype, slice->m.dtype, r->ranks, r->stride, at, rp__tensor_data(slice), adds };

    RP_TRY(wait_for(r, r->group, request));
    if (r->copies > 1) return all_between_groups(r, s, mine);
    sum_piece(r->ctx, &s, mine, r->threads);
    return RP_OK;
}

void rp__clear_rest(const rp_comm *group, int64_t n, rp_tensor *slice)
{
    rp_slice here = slice_in(slice->ctx, group, n);
    int64_t bytes = rp_dtype_bytes(slice->m.dtype);

    rp__mem_fill(slice->ctx, (uint8_t *)rp__tensor_data(slice) + here.count * bytes, 0, (here.room - here.count) * bytes);
}

/* ---- a whole, one piece of every slice at a time ---- */

/* Piece i of a rank's part. */
static rp_comm_part piece_of(const rp_reduction *r, rp_comm_part all, int64_t i)
{
    int64_t left = all.count - i * r->stride;

    return (rp_comm_part){ all.first + i * r->stride, left < 0 ? 0 : left < r->stride ? left : r->stride };
}

static rp_comm_part slice_piece(const rp_reduction *r, int rank, int64_t i)
{
    rp_slice s = rp__slice_in(r->ctx, r->n, rank, r->ranks);

    return piece_of(r, (rp_comm_part){ s.first, s.count }, i);
}

void rp__reduction_piece(const rp_reduction *r, int64_t i, rp_comm_part *part)
{
    for (int rank = 0; rank < r->ranks; rank++) part[rank] = slice_piece(r, rank, i);
}

/* The list of parts; one rank without a communicator uses `alone`. */
static rp_comm_part *list_of(const rp_reduction *r, rp_comm_part *alone) { return r->group ? rp__comm_list(r->group, RP_LIST_WHAT) : alone; }

static uint8_t *scratch_of(const rp_reduction *r, int64_t i) { return r->scratch + i % 2 * r->ranks * r->stride * r->bytes; }

static rp_status start_piece(const rp_reduction *r, const void *whole, int64_t i, rp_comm_request *out)
{
    rp_comm_part alone, *part = list_of(r, &alone);

    rp__reduction_piece(r, i, part);
    return rp__reduction_start(r, part, whole, 0, scratch_of(r, i), out);
}

static rp_status reduce_pieces(const rp_reduction *r, const void *whole, int64_t room, rp_tensor *slice, bool adds)
{
    rp_comm_request under_way[2] = { { 0 }, { 0 } };
    int64_t n = (room + r->stride - 1) / r->stride;

    RP_TRY(start_piece(r, whole, 0, &under_way[0]));
    for (int64_t i = 0; i < n; i++) {
        if (i + 1 < n) RP_TRY(start_piece(r, whole, i + 1, &under_way[(i + 1) % 2]));
        RP_TRY(rp__reduction_finish(r, scratch_of(r, i), slice_piece(r, r->rank, i).count, i * r->stride, slice, adds, &under_way[i % 2]));
    }
    return RP_OK;
}

void rp__reduce_whole(const rp_op_call *c, rp_comm *group, const rp_meta *meta, const void *whole, rp_tensor *slice, bool adds)
{
    int64_t n   = rp_meta_elems(meta), room = slice_in(c->ctx, group, n).room;
    rp_reduction r = rp__reduction_over(c, group, n, meta->dtype);

    r.stride         = rp__reduce_stride(c->ctx, group, n, r.bytes);
    r.scratch        = c->scratch;
    r.between        = r.scratch + 2 * r.ranks * r.stride * r.bytes;
    bool left        = false;
    rp_status status = rp__reduce_async_begin(&r, whole, room, slice, adds, &left);
    if (left) return;
    if (status == RP_OK) status = reduce_pieces(&r, whole, room, slice, adds);
    if (status != RP_OK) rp__op_failed(c, status);
    else if (!adds) rp__clear_rest(group, n, slice);
}

/* ---- a window: a range of a whole ---- */

/* The part of [first, first + count) that lies in a rank's slice. */
static rp_comm_part in_slice(const rp_reduction *r, int rank, int64_t first, int64_t count)
{
    rp_slice s   = rp__slice_in(r->ctx, r->n, rank, r->ranks);
    int64_t from = s.first > first ? s.first : first, end = s.first + s.count < first + count ? s.first + s.count : first + count;

    return (rp_comm_part){ from, end > from ? end - from : 0 };
}

/* Elements that one rank sums at a time. It receives that many from every rank, so with many ranks each sends less at once. */
int64_t rp__window_stride(const rp_ctx *ctx, int64_t n, int64_t count)
{
    int64_t room = rp__slice_here(ctx, n).room, ranks = rp__comm_ranks(rp__group(ctx));
    int64_t most = ranks > WINDOW_BLOCKS ? (WINDOW_BLOCKS * count + ranks - 1) / ranks : count;

    most = (most + RP_SLICE_ELEMS - 1) / RP_SLICE_ELEMS * RP_SLICE_ELEMS;
    return room < most ? room : most;
}

int64_t rp__window_room(const rp_ctx *ctx, int64_t n, int64_t count, int64_t bytes)
{
    int64_t stride = rp__window_stride(ctx, n, count);

    return rp__mem_rounded(ctx, rp__comm_ranks(rp__group(ctx)) * stride * bytes) + rp__between_room(ctx, stride, bytes);
}

rp_status rp__window_fetch(const rp_op_call *c, int64_t n, const void *slice, int bytes, int64_t first, int64_t count, void *to, rp_comm_request *out)
{
    rp_reduction r = rp__reduction_over(c, rp__group(c->ctx), n, RP_F32);
    rp_comm_part alone, *part = list_of(&r, &alone);
    int64_t mine = 0;

    *out = (rp_comm_request){ 0 };
    for (int rank = 0; rank < r.ranks; rank++) {
        part[rank] = in_slice(&r, rank, first, count);
        if (rank == r.rank) mine = part[rank].count ? part[rank].first - rp__slice_in(c->ctx, n, rank, r.ranks).first : 0;
        part[rank].first = part[rank].count ? part[rank].first - first : 0;
    }
    if (r.ranks > 1) return rp__comm_gather(c->ctx, r.group, (const uint8_t *)slice + mine * bytes, to, part, bytes, out);
    rp__mem_copy(c->ctx, to, (const uint8_t *)slice + mine * bytes, count * bytes);
    return RP_OK;
}

/* Starts sending piece i of the window: up to r->stride elements of every rank's part of it. */
static rp_status send_piece(const rp_reduction *r, const void *from, int64_t first, int64_t count, int64_t i, void *received, rp_comm_request *out)
{
    rp_comm_part alone, *part = list_of(r, &alone);

    for (int rank = 0; rank < r->ranks; rank++) {
        part[rank] = piece_of(r, in_slice(r, rank, first, count), i);
        if (!part[rank].count) part[rank].first = first;
    }
    return rp__reduction_start(r, part, from, first, received, out);
}

/* Number of pieces, from the longest part of any rank. */
static int64_t pieces_of(const rp_reduction *r, int64_t first, int64_t count)
{
    int64_t most = 0;

    for (int rank = 0; rank < r->ranks; rank++) {
        rp_comm_part part = in_slice(r, rank, first, count);
        if (part.count > most) most = part.count;
    }
    return most ? (most + r->stride - 1) / r->stride : 1;
}

rp_status rp__window_send(const rp_op_call *c, int64_t n, rp_dtype dtype, const void *from, int64_t first, int64_t count, void *received,
                          rp_comm_request *out)
{
    rp_reduction r = rp__reduction_over(c, rp__group(c->ctx), n, dtype);

    r.stride = rp__window_stride(c->ctx, n, count);
    return send_piece(&r, from, first, count, 0, received, out);
}

rp_status rp__window_sum(const rp_op_call *c, int64_t n, rp_dtype dtype, const void *from, int64_t first, int64_t count, void *received,
                         rp_comm_request *sent, rp_tensor *slice, bool adds)
{
    rp_reduction r    = rp__reduction_over(c, rp__group(c->ctx), n, dtype);
    rp_comm_part mine = in_slice(&r, r.rank, first, count);
    int64_t here      = rp__slice_in(c->ctx, n, r.rank, r.ranks).first, pieces;

    r.stride  = rp__window_stride(c->ctx, n, count);
    r.between = (uint8_t *)received + rp__mem_rounded(c->ctx, r.ranks * r.stride * r.bytes);
    pieces    = pieces_of(&r, first, count);
    for (int64_t i = 0; i < pieces; i++) {
        rp_comm_part piece = piece_of(&r, mine, i);
        if (i) RP_TRY(send_piece(&r, from, first, count, i, received, sent));
        RP_TRY(rp__reduction_finish(&r, received, piece.count, piece.count ? piece.first - here : 0, slice, adds, sent));
    }
    return RP_OK;
}
