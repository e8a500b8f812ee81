/* comm/self.c -- the engines without other processes: one rank, whose bytes are copied; and simulated ranks, for which no bytes move. */
#include "comm/internal.h"

static bool open_self(rp_engine_group *world, char name[RP_ENGINE_NAME_CHARS], char *why)
{
    (void)why;
    *world = (rp_engine_group){ .rank = 0, .ranks = 1 };
    snprintf(name, RP_ENGINE_NAME_CHARS, "self");
    return true;
}

static bool split_self(const rp_engine_group *whole, int color, rp_engine_group *out, char *why)
{
    (void)color, (void)why;
    *out = *whole;
    return true;
}

static void close_none(rp_engine_group *group) { (void)group; }

static void finish_none(rp_engine_group *world, int code) { (void)world, (void)code; }

static bool gather_self(const rp_engine_group *g, const void *mine, void *all, rp_engine_parts parts, int elem_bytes,
                        rp_engine_request *request, bool *done, char *why)
{
    char *place = (char *)all + (int64_t)parts.first[0] * elem_bytes;

    (void)g, (void)request, (void)why;
    if (parts.count[0] && place != (const char *)mine) memcpy(place, mine, (size_t)parts.count[0] * (size_t)elem_bytes);
    *done = true;
    return true;
}

static bool exchange_self(const rp_engine_group *g, const void *from, rp_engine_parts send, void *into, rp_engine_parts receive,
                          int elem_bytes, rp_engine_request *request, bool *done, char *why)
{
    const char *source = (const char *)from + (int64_t)send.first[0] * elem_bytes;

    RP_BUG_IF(send.count[0] != receive.count[0]);
    return gather_self(g, source, into, receive, elem_bytes, request, done, why);
}

static bool gather_shapes(const rp_engine_group *g, const void *mine, void *all, rp_engine_parts parts, int elem_bytes,
                          rp_engine_request *request, bool *done, char *why)
{
    (void)g, (void)mine, (void)all, (void)parts, (void)elem_bytes, (void)request, (void)why;
    *done = true;
    return true;
}

static bool exchange_shapes(const rp_engine_group *g, const void *from, rp_engine_parts send, void *into, rp_engine_parts receive,
                            int elem_bytes, rp_engine_request *request, bool *done, char *why)
{
    (void)send;
    return gather_shapes(g, from, into, receive, elem_bytes, request, done, why);
}

static bool test_done(rp_engine_request *request, bool *done, char *why)
{
    (void)request, (void)why;
    *done = true;
    return true;
}

static void abort_none(const rp_engine_group *g, int code) { (void)g, (void)code; }

const rp_engine rp__engine_self = {
    .version = RP_ENGINE_VERSION, .open = open_self, .split = split_self, .close = close_none, .finish = finish_none,
    .gather = gather_self, .exchange = exchange_self, .test = test_done, .abort = abort_none,
};

const rp_engine rp__engine_shapes = {
    .version = RP_ENGINE_VERSION, .open = open_self, .split = split_self, .close = close_none, .finish = finish_none,
    .gather = gather_shapes, .exchange = exchange_shapes, .test = test_done, .abort = abort_none,
};
