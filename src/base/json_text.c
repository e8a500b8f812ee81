/* base/json_text.c -- wrappers of jansson that detect its failed allocations (see json_text.h). */
#include "base/json_text.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* ---- writing ---- */

typedef struct { char *at; size_t n, room; bool lost; } growing;

/* Appends a part and a terminating zero. After a failed part nothing more is appended. */
static int json_text_add(const char *part, size_t bytes, void *user)
{
    growing *g = user;

    if (!g->lost && g->n + bytes + 1 > g->room) {
        size_t room = 2 * g->room + bytes + 64;
        char *grown = realloc(g->at, room);
        g->lost     = !grown;
        if (grown) *g = (growing){ grown, g->n, room, false };
    }
    if (g->lost) return -1;
    memcpy(g->at + g->n, part, bytes);
    g->n += bytes;
    g->at[g->n] = 0;
    return 0;
}

char *rp__json_text(const json_t *value, size_t flags)
{
    growing g = { 0 };

    if (json_dump_callback(value, json_text_add, &g, flags) == 0 && !g.lost) return g.at;
    free(g.at);
    return NULL;
}

/* ---- reading and copying ---- */

static json_malloc_t before;                /* jansson's functions to allocate … */
static json_free_t release;                 /* … and to free, as they were before */
static _Thread_local bool ran_out;
static _Thread_local int64_t n_lost;        /* failed allocations of this thread */
static _Thread_local void *spare;           /* used for the first allocation that fails while a text is read; NULL: none */
static _Thread_local size_t spare_bytes;

static void *watched(size_t bytes)
{
    void *p = before(bytes);

    if (p) return p;
    ran_out = true;
    n_lost++;
    if (bytes > spare_bytes) return NULL;
    p           = spare;
    spare       = NULL;
    spare_bytes = 0;
    return p;
}

/* If the program set its own allocator, that one stays in use, because it must free its own memory. */
static void watch(void)
{
    json_get_alloc_funcs(&before, &release);
    json_set_alloc_funcs(watched, release);
}

static void watch_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch);
}

static void begin_watch(void)
{
    watch_once();
    ran_out = false;
}

int64_t rp__json_lost(void)
{
    watch_once();
    return n_lost;
}

/* Returns the value, or NULL if an allocation failed, because a part may be missing. */
static json_t *if_whole(json_t *value)
{
    if (!ran_out) return value;
    json_decref(value);
    return NULL;
}

typedef struct { const char *at; size_t left; } source;

/* Passes a few bytes at a time, and none after a failed allocation. jansson's token grows by at least 16 bytes, so at most once per piece. */
static size_t next_piece(void *to, size_t room, void *user)
{
    source *s    = user;
    size_t piece = s->left < 8 ? s->left : 8;

    if (ran_out || piece > room) return 0;
    memcpy(to, s->at, piece);
    s->at += piece;
    s->left -= piece;
    return piece;
}

/* jansson loses a byte if a token cannot grow. If that byte is the closing quote of a string, jansson reads and writes beyond its buffers. So the
 * spare block has room for the longest token, and the text ends at the failure. */
static json_t *read_guarded(const char *text, size_t bytes, size_t flags, json_error_t *error)
{
    source s = { text, bytes };

    spare        = before(2 * bytes + 64);
    spare_bytes  = spare ? 2 * bytes + 64 : 0;
    ran_out      = !spare;
    json_t *root = json_load_callback(next_piece, &s, flags, error);
    release(spare);
    spare       = NULL;
    spare_bytes = 0;
    return if_whole(root);
}

json_t *rp__json_read(const char *text, size_t bytes, size_t flags, json_error_t *error)
{
    begin_watch();
    json_t *root = read_guarded(text, bytes, flags, error);
    if (!ran_out || !error) return root;
    snprintf(error->text, sizeof error->text, "memory ran out");
    error->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
    return NULL;
}

json_t *rp__json_copy(const json_t *value)
{
    begin_watch();
    return if_whole(json_copy((json_t *)value));
}

json_t *rp__json_deep_copy(const json_t *value)
{
    begin_watch();
    return if_whole(json_deep_copy(value));
}

bool rp__json_hash_without(const json_t *object, const char *key, uint64_t *out)
{
    json_t *rest = rp__json_copy(object);
    char *text   = NULL;

    if (rest) json_object_del(rest, key);
    if (rest) text = rp__json_text(rest, JSON_COMPACT | JSON_SORT_KEYS);
    if (text) *out = rp__hash(text, strlen(text), RP_HASH_START);
    json_decref(rest);
    free(text);
    return text != NULL;
}
