/* base/sized.h -- public structs whose size differs between the caller's header and this library, because one of them is older.
 *
 * A struct only ever grows at its end. In the headers, a macro with the function's name passes the caller's size of the struct. The function of that
 * name itself serves callers compiled before the macro existed, and pointers to the function: it assumes the size that the struct had then.
 */
#ifndef RP_SIZED_H
#define RP_SIZED_H

#include "base/base.h"

/* Bytes of each struct when callers began to pass sizes. They never change. */
enum {
    RP_FIRST_CTX_OPTIONS = 32, RP_FIRST_BACKWARD_OPTIONS = 24, RP_FIRST_CHECKPOINT_OPTIONS = 24, RP_FIRST_OFFLOAD_OPTIONS = 24,
    RP_FIRST_MODEL_OPTIONS = 32, RP_FIRST_MEM = 144, RP_FIRST_STEP_FACTS = 224, RP_FIRST_METRICS = 136, RP_FIRST_OP = 104,
    RP_FIRST_INIT = 24, RP_FIRST_OPTIMIZER_OPTIONS = 120, RP_FIRST_UPDATE = 24,
};

/* Copies the caller's struct to `own` and fills the rest with zeros. False: the caller set a field that `own` does not have. */
bool rp__sized_take(void *own, size_t own_bytes, const void *given, size_t bytes);
/* Copies `own` to the caller's struct and fills the rest with zeros. */
void rp__sized_give(void *to, size_t bytes, const void *own, size_t own_bytes);

/* For functions with options: replaces `options` by a pointer to our own copy; NULL stays NULL. errors RP_ERR_UNSUPPORTED */
#define RP_TAKE(ctx, own, options, bytes) \
    do { \
        if (!(options)) break; \
        RP_CHECK((ctx), rp__sized_take(&(own), sizeof(own), (options), (bytes)), RP_ERR_UNSUPPORTED, \
                 "%s: the options set a field that version %s of the library does not have", __func__, rp_version()); \
        (options) = &(own); \
    } while (0)

#endif
