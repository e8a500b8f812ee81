/* ops/reduce_async.c -- sums over ranks that overlap with backward (see reduce_async.h). */
#include "ops/reduce_async.h"

enum { MOST_UNDER_WAY = 256 };

typedef struct {
    rp_reduction sum;
    rp_tensor *slice;                   /* owned by backward; not counted, so that it does not appear to be shared */
    bool adds;
    int64_t offset, bytes;              /* in the buffer */
    uint8_t *received;
    rp_comm_request request;
} left;

struct rp_reduce_async {
    rp_tensor *buffer;
    left under_way[MOST_UNDER_WAY];     /* a ring with `n` entries, starting at `first` */
    int first, n;
    int64_t head;                       /* end of the newest entry */
};

static left *at(rp_reduce_async *b, int i) { return &b->under_way[(b->first + i) % MOST_UNDER_WAY]; }

/* ---- one sum ---- */

int64_t rp__reduce_async_room(const rp_ctx *ctx, const rp_comm *group, int64_t n, int64_t bytes)
{
    int ranks    = rp__comm_ranks(group);
    int64_t room = rp__slice_in(ctx, n, 0, ranks).room;

    return rp__mem_rounded(ctx, n * bytes) + rp__mem_rounded(ctx, ranks * room * bytes) + rp__mem_rounded(ctx, rp__between_room(ctx, room, bytes));
}

/* Finishes the oldest sum. */
static rp_status reduce_async_finish(rp_reduce_async *b)
{
    left *l       = at(b, 0);
    rp_slice mine = rp__slice_in(l->sum.ctx, l->sum.n, l->sum.rank, l->sum.ranks);

    b->first = (b->first + 1) % MOST_UNDER_WAY;
    b->n--;
    RP_TRY(rp__reduction_finish(&l->sum, l->received, mine.count, 0, l->slice, l->adds, &l->request));
    if (!l->adds) rp__clear_rest(l->sum.group, l->sum.n, l->slice);
    return RP_OK;
}

/* ---- the buffer ---- */

/* Is [offset, offset + bytes) unused? */
static bool is_free(rp_reduce_async *b, int64_t offset, int64_t bytes)
{
    for (int i = 0; i < b->n; i++) {
        const left *l = at(b, i);
        if (offset < l->offset + l->bytes && l->offset < offset + bytes) return false;
    }
    return true;
}

/* Takes bytes after the newest entry, else at the start. Finishes the oldest sums until they are free. */
static rp_status reduce_async_make_room(rp_reduce_async *b, int64_t bytes, int64_t *offset)
{
    int64_t size = rp_meta_bytes(&b->buffer->m);

    *offset = b->head + bytes <= size ? b->head : 0;
    while (b->n == MOST_UNDER_WAY || !is_free(b, *offset, bytes)) RP_TRY(reduce_async_finish(b));
    b->head = *offset + bytes;
    return RP_OK;
}

static rp_status reduce_async_begin(rp_reduce_async *b, left *l, const void *whole, int64_t room)
{
    rp_comm_part *part = rp__comm_list(l->sum.group, RP_LIST_WHAT);
    uint8_t *copy = (uint8_t *)rp__tensor_data(b->buffer) + l->offset;
    int64_t sent  = rp__mem_rounded(l->sum.ctx, l->sum.n * l->sum.bytes);

    l->sum.stride  = room;
    l->received    = copy + sent;
    l->sum.between = l->received + rp__mem_rounded(l->sum.ctx, l->sum.ranks * room * l->sum.bytes);
    rp__mem_copy(l->sum.ctx, copy, whole, l->sum.n * l->sum.bytes);
    rp__reduction_piece(&l->sum, 0, part);
    return rp__reduction_start(&l->sum, part, copy, 0, l->received, &l->request);
}

/* ---- sums ---- */

rp_status rp__reduce_async_settle(rp_ctx *ctx, const rp_tensor *slice)
{
    rp_reduce_async *b = rp__ops_ctx(ctx)->reduce_async;

    for (int last = b ? b->n - 1 : -1; last >= 0; last--) {
        if (slice && at(b, last)->slice->storage != slice->storage) continue;
        for (int i = 0; i <= last; i++) RP_TRY(reduce_async_finish(b));
        return RP_OK;
    }
    return RP_OK;
}

rp_status rp__reduce_async_begin(const rp_reduction *r, const void *whole, int64_t room, rp_tensor *slice, bool adds, bool *is_left)
{
    rp_reduce_async *b  = rp__ops_ctx(r->ctx)->reduce_async;
    int64_t bytes = b ? rp__reduce_async_room(r->ctx, r->group, r->n, r->bytes) : 0;
    left l        = { .sum = *r, .slice = slice, .adds = adds, .bytes = bytes };

    if (!b || r->ranks == 1) return RP_OK;
    if (bytes > rp_meta_bytes(&b->buffer->m)) return rp__reduce_async_settle(r->ctx, slice);
    RP_TRY(reduce_async_make_room(b, bytes, &l.offset));
    RP_TRY(reduce_async_begin(b, &l, whole, room));
    *at(b, b->n++) = l;
    *is_left       = true;
    return RP_OK;
}

/* Requests are waited for, because their memory will be freed. */
void rp__reduce_async_drop(rp_ctx *ctx)
{
    rp_reduce_async *b = rp__ops_ctx(ctx)->reduce_async;

    for (; b && b->n; b->n--, b->first = (b->first + 1) % MOST_UNDER_WAY)
        if (at(b, 0)->request.id) (void)rp__comm_wait(ctx, at(b, 0)->sum.group, &at(b, 0)->request, "an overlapping sum");
}

/* ---- open and close ---- */

int64_t rp__reduce_async_bytes(const rp_ctx *ctx)
{
    const rp_reduce_async *b = rp__ops_ctx(ctx)->reduce_async;

    return b ? rp_meta_bytes(&b->buffer->m) : 0;
}

rp_status rp__reduce_async_open(rp_ctx *ctx, int64_t bytes)
{
    rp_meta meta = rp_meta_1d(RP_F32, rp__mem_rounded(ctx, bytes) / (int64_t)sizeof(float));
    rp_reduce_async *b = rp__host_alloc(ctx, sizeof *b);

    if (!b) return RP_ERR_MEMORY;
    rp_status status = rp__tensor_new_named(ctx, &meta, RP_MEM_COMM, "the buffer of overlapping sums", &b->buffer);
    if (status == RP_OK) rp__ops_ctx(ctx)->reduce_async = b;
    else rp__release(b);
    return status;
}

void rp__reduce_async_close(rp_ctx *ctx)
{
    rp_reduce_async *b = rp__ops_ctx(ctx)->reduce_async;

    if (!b) return;
    rp__reduce_async_drop(ctx);
    rp_tensor_unref(b->buffer);
    rp__release(b);
    rp__ops_ctx(ctx)->reduce_async = NULL;
}
