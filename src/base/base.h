/* base/base.h -- errors, the context, checked host memory, text helpers. Every other folder includes this.
 *
 * A context owns an error message, one memory space per device (base/mem.h), the random stream's step and sample (base/philox.h) and one
 * part for each higher folder that keeps something per context.
 * Errors are values: RP_CHECK starts one, RP_TRY passes it on, nothing else hides control flow.
 */
#ifndef RP_BASE_H
#define RP_BASE_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reprise/reprise.h"
#include "base/device.h"
#include "base/mem.h"

#define RP_ERROR_CHARS 1024
#define RP_LOG_CHARS (RP_ERROR_CHARS + 512)
#define RP_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define RP_MAX_DEVICES 6

/* Adds a line to the error message, for the few errors that show their surroundings. */
void rp__fail_line(rp_ctx *ctx, const char *fmt, ...) RP_PRINTF(2, 3);
/* Gives the program a message that is no error, such as "the memory limit drops ...". Does nothing if the context has no `log`. */
void rp__log(const rp_ctx *ctx, rp_log_level level, const char *fmt, ...) RP_PRINTF(3, 4);

#define RP_CHECK(ctx, cond, status, ...) \
    do { if (!(cond)) return rp_fail((ctx), (status), __VA_ARGS__); } while (0)
/* For public functions: a required argument is not NULL. If `ctx` itself is NULL, no message is recorded. */
#define RP_GIVEN(ctx, cond) RP_CHECK((ctx), (cond), RP_ERR_ARG, "%s: an argument is NULL", __func__)
/* For public functions of two objects: both belong to the same context. `other` NULL: the object is optional and not given. errors RP_ERR_ARG */
#define RP_SAME_CTX(ctx, other, name) RP_TRY(rp__same_ctx((ctx), (other), __func__, (name)))
rp_status rp__same_ctx(rp_ctx *ctx, const rp_ctx *other, const char *call, const char *name);
#define RP_TRY(expr) \
    do { rp_status rp_try_ = (expr); if (rp_try_ != RP_OK) return rp_try_; } while (0)
/* RP_TRY for functions that clean up: sets `status` and jumps to `done`. */
#define RP_TRY_GOTO(expr) \
    do { status = (expr); if (status != RP_OK) goto done; } while (0)
/* A bug of the library, never of the user: aborts with file and line. */
#define RP_BUG_IF(cond) \
    do { if (cond) rp__bug(__FILE__, __LINE__, #cond); } while (0)
void rp__bug(const char *file, int line, const char *condition);

/* ---- the context ---- */

/* The data that a folder above base keeps in a context. It is zeroed and allocated with the context, so its use cannot fail.
 * base/parts.def lists the parts from the lowest folder to the highest. Parts are opened in that order and closed in reverse; either function may be
 * NULL. The order matters: the tape's values refer to offloaded slots, and its calls to ops that the part of ops owns. Memory spaces are freed
 * last. */
typedef struct {
    int64_t bytes;
    void (*open)(rp_ctx *ctx);          /* sets the fields that do not start as zero */
    void (*close)(rp_ctx *ctx);         /* frees what the part owns */
} rp_ctx_part;
enum {
#define RP_PART(name, folder) RP_PART_##name,
#include "base/parts.def"
#undef RP_PART
    RP_PARTS
};

struct rp_ctx {
    char error[RP_ERROR_CHARS];
    int64_t n_errors;                   /* messages recorded so far; shows whether a user's function recorded one */
    rp_ctx_options options;
    int threads;                        /* the nominal team; it affects the bits of results */
    rp_on on;                           /* where kernels run: device 0 and its queue */
    int n_devices;
    const rp_device *device[RP_MAX_DEVICES];
    rp_mem_space *space[RP_MAX_DEVICES];
    int host;                           /* index of the device whose memory the host can address; 0 if device 0 is one */
    bool far;                           /* the host has no access to device 0: rp__mem_inside gives it copies */
    uint64_t turn;                      /* number of outermost rp__mem_enter calls so far */
    int inside;                         /* number of rp__mem_enter calls not yet matched by rp__mem_leave */
    int held;                           /* the same of rp__mem_hold and rp__mem_unhold */
    int64_t fault_countdown;            /* > 0: that many allocations from now, one fails; tests only */
    bool fault_pieces;                  /* each piece of a bump is a block of its own, whose allocation may fail; tests only */
    void (*fault_watch)(rp_ctx *ctx);   /* called before each allocation; NULL: no call; tests only */
    int64_t alloc_count;                /* allocations requested so far, failed ones included */
    uint64_t seed;                      /* the random stream: base/philox.h */
    int64_t step, sample_base;
    struct rp_file_pages *pages;        /* files that are mapped (base/file.h); NULL: none */
    const struct rp_watch *watch;       /* receives timed spans (base/watch.h); NULL: off */
    void *part[RP_PARTS];               /* only its folder reads it, through a typed function such as rp__tape_ctx */
};

void rp__refusal_set(const rp_ctx *ctx);      /* rp_error(NULL) returns this context's message from now on; NULL: none */
rp_ctx *rp__ctx_alloc(void);            /* zeroed, with its parts; NULL if memory ran out */
void rp__parts_open(rp_ctx *ctx);
void rp__parts_close(rp_ctx *ctx);

/* Host memory for bookkeeping (nodes, names): zeroed, counted by fault injection, not in the ledger.
 * NULL after recording RP_ERR_MEMORY. Release with rp__release (NULL is fine). */
void *rp__host_alloc(rp_ctx *ctx, int64_t bytes);
void *rp__host_grow(rp_ctx *ctx, void *old, int64_t old_bytes, int64_t new_bytes);   /* old stays valid on failure */
char *rp__host_text(rp_ctx *ctx, const char *text);
void rp__release(void *p);
/* Releases several pointers, in order. */
#define RP_RELEASE(...) rp__release_all((void *[]){ __VA_ARGS__ }, RP_COUNT(((void *[]){ __VA_ARGS__ })))
void rp__release_all(void *const *p, int n);

/* True if fault injection makes this allocation fail. */
bool rp__fault_fires(rp_ctx *ctx);

/* enter makes the calling thread flush denormals, as the team's threads do; enter_exact makes it keep them, as GPUs do; leave restores the caller's
 * floating-point mode. */
unsigned rp__fp_enter(void);
unsigned rp__fp_enter_exact(void);
void rp__fp_leave(unsigned saved);
/* bf16 rounds to nearest even; NaN stays NaN. All conversions use these two functions. */
static inline uint16_t rp__bf16_from_f32(float f)
{
    union { float f; uint32_t u; } v = { .f = f };
    uint32_t rounded = v.u + 0x7fffu + ((v.u >> 16) & 1u), nan = v.u | 0x400000u;

    return (uint16_t)(((v.u & 0x7fffffffu) > 0x7f800000u ? nan : rounded) >> 16);
}
static inline float rp__f32_from_bf16(uint16_t h)
{
    union { uint32_t u; float f; } v = { .u = (uint32_t)h << 16 };

    return v.f;
}

/* ---- text (base/text.c) ---- */

/* `*` matches any run of characters, dots included; everything else is literal. */
bool rp__glob(const char *pattern, const char *text);

/* "8589934592 bytes (8.00 GiB)" into out[RP_SIZE_CHARS]; returns out. */
#define RP_SIZE_CHARS 64
const char *rp__size_text(char *out, int64_t bytes);

/* The same with the readable part rounded up: a limit of that size has room for `bytes`. */
const char *rp__size_text_up(char *out, int64_t bytes);

/* Classifies the first character of an untrusted text, for printing on a terminal:
 *   AS_IS     a character that is safe to print
 *   CONTROL   a control character (newlines too), or a mark or override of direction
 *   BYTE      a byte that is not UTF-8
 *   CUT       the first bytes of a character that continues beyond `bytes`
 * *n is its length in bytes, *point the character, or the byte. */
typedef enum { RP_SHOWN_AS_IS, RP_SHOWN_CONTROL, RP_SHOWN_BYTE, RP_SHOWN_CUT } rp_shown;
rp_shown rp__shown(const char *text, size_t bytes, int *n, uint32_t *point);
/* Replaces in place every character that is not AS_IS by '?'. The result is one line and no longer than before. */
void rp__shown_only(char *text);

/* An integer of bytes, or a number with KB MB GB (powers of ten) or KiB MiB GiB TiB. False on anything else. */
bool rp__size_parse(const char *text, int64_t *bytes);

/* The name in the NULL-terminated list with the smallest edit distance to `name`, or NULL if none is close. */
const char *rp__nearest(const char *name, const char *const *list);
/* " (did you mean 'x'?)" into out, or "" if nothing in the NULL-terminated list is close; returns out. */
#define RP_HINT_CHARS 128
const char *rp__hint(const char *name, const char *const *list, char out[RP_HINT_CHARS]);

/* A whole decimal number in [low, high]; false on anything else (empty, sign alone, trailing text, overflow). */
bool rp__parse_int(const char *text, int64_t low, int64_t high, int64_t *out);
/* A finite or infinite decimal number in the C locale; the whole text must be one. */
bool rp__parse_double(const char *text, double *out);

bool rp__ends_with(const char *text, const char *end);

/* FNV-1a, 64 bit. */
uint64_t rp__hash(const void *data, size_t bytes, uint64_t start);
#define RP_HASH_START 0xcbf29ce484222325ull

/* Seconds of the monotonic clock. For metrics only: no result may depend on them. */
double rp__seconds(void);
double rp__cpu_seconds(void);               /* processor time of the calling thread */

#endif
