/* base/watch.h -- what a context spends its time on, told to whoever watches it.
 *
 *   began ── one thing is done: a pass of an op, an update, a batch read ── ended ─▶ told(span)
 *
 * Spans of one context never cross: one lies behind another or inside it, and only RP_DOING_PART has others inside. They are told when they
 * end, so a part after what is in it. Where nobody watches it costs a test of one pointer. The watcher must not fail, take memory of
 * the context or run anything on it.
 */
#ifndef RP_WATCH_H
#define RP_WATCH_H

#include "base/base.h"

typedef enum {
    RP_DOING_PART,              /* of a step: forward, backward, update */
    RP_DOING_FORWARD, RP_DOING_REPLAY, RP_DOING_BACKWARD,     /* an op's code */
    RP_DOING_GRADIENT,          /* gradients of several readers put together */
    RP_DOING_UPDATE,            /* of one parameter; or its gradient is measured, for clipping */
    RP_DOING_OFFLOAD,           /* a slot goes away, comes back, is waited for */
    RP_DOING_DATA,              /* a batch is read */
    RP_DOINGS
} rp_doing;

typedef struct {
    rp_doing doing;
    const char *name;           /* the op, or what is done; lives as long as the context */
    const char *path;           /* of the parameter; NULL: that of the running call, if one runs */
    const void *call;           /* rp_op_meta of an op's pass; else NULL */
    int64_t bytes;              /* read and written, where no call says that */
    double began, ended;        /* rp__seconds */
} rp_span;

typedef struct rp_watch {
    void (*told)(void *user, const rp_span *span);
    void *user;
} rp_watch;

static inline double rp__watch_begin(const rp_ctx *ctx) { return ctx->watch ? rp__seconds() : 0; }

static inline void rp__watch_end(const rp_ctx *ctx, rp_span span)
{
    if (!ctx->watch) return;
    span.ended = rp__seconds();
    ctx->watch->told(ctx->watch->user, &span);
}

#endif
