/* base/sized.h -- structs that callers give or want filled may be of another size here: the caller was compiled against an older header, or a newer
 * one. Headers pass the size with each call, by a macro of the function's name; the function of that name itself is for callers from before there was
 * one, and for pointers to it: it knows the size that the struct had then. A struct only ever grows at its end.
 */
#ifndef RP_SIZED_H
#define RP_SIZED_H

#include "base/base.h"

/* Bytes of each struct when the sizes began to be passed. They never change. */
enum {
    RP_FIRST_CTX_OPTIONS = 32, RP_FIRST_BACKWARD_OPTIONS = 24, RP_FIRST_CHECKPOINT_OPTIONS = 24, RP_FIRST_OFFLOAD_OPTIONS = 24,
    RP_FIRST_MODEL_OPTIONS = 32, RP_FIRST_MEM = 144, RP_FIRST_STEP_FACTS = 224, RP_FIRST_METRICS = 136, RP_FIRST_OP = 104,
};

/* own = what is given, zeros behind it. False: what is given says something that own has no place for. */
bool rp__sized_take(void *own, size_t own_bytes, const void *given, size_t bytes);
/* Fill a caller's struct, zeros behind what own has. */
void rp__sized_give(void *to, size_t bytes, const void *own, size_t own_bytes);

/* For functions that take options: from here on `options` is our own copy of them, or NULL. errors RP_ERR_UNSUPPORTED */
#define RP_TAKE(ctx, own, options, bytes) \
    do { \
        if (!(options)) break; \
        RP_CHECK((ctx), rp__sized_take(&(own), sizeof(own), (options), (bytes)), RP_ERR_UNSUPPORTED, \
                 "%s: the options set what version %s of the library does not have", __func__, rp_version()); \
        (options) = &(own); \
    } while (0)

#endif
