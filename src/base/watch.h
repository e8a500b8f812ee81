/* base/watch.h -- reports to a watcher how a context spends its time.
 *
 *   began ── one activity: a pass of an op, an update, a batch read ── ended ─▶ ended(span)
 *
 * Spans of one context never overlap partly: one follows another or lies inside it. Only RP_DOING_PART contains others. Spans are reported when
 * they end, so a part is reported after the spans inside it. Without a watcher the cost is a test of one pointer. The watcher must not fail, take
 * memory of the context or run anything on it.
 */
#ifndef RP_WATCH_H
#define RP_WATCH_H

#include "base/base.h"

typedef enum {
    RP_DOING_PART,              /* of a step: forward, backward, update */
    RP_DOING_FORWARD, RP_DOING_REPLAY, RP_DOING_BACKWARD,     /* an op's code */
    RP_DOING_GRADIENT,          /* sums the gradients of several readers */
    RP_DOING_UPDATE,            /* of one parameter, or the norm of its gradient for clipping */
    RP_DOING_OFFLOAD,           /* a slot is written, read back or waited for */
    RP_DOING_DATA,              /* a batch is read */
    RP_DOINGS
} rp_doing;

typedef struct {
    rp_doing doing;
    const char *name;           /* the op or the activity; lives as long as the context */
    const char *path;           /* of the parameter; NULL: the path of the running call, if one runs */
    const void *call;           /* rp_op_meta of an op's pass; else NULL */
    int64_t bytes;              /* read and written, if `call` does not give that */
    double began, ended;        /* rp__seconds */
} rp_span;

typedef struct rp_watch {
    void (*ended)(void *user, const rp_span *span);
    void *user;
} rp_watch;

static inline double rp__watch_begin(const rp_ctx *ctx) { return ctx->watch ? rp__seconds() : 0; }

static inline void rp__watch_end(const rp_ctx *ctx, rp_span span)
{
    if (!ctx->watch) return;
    span.ended = rp__seconds();
    ctx->watch->ended(ctx->watch->user, &span);
}

#endif
