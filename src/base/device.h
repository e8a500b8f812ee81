/* base/device.h -- a device: the kernels that run there, its memory, and what a kernel is told of where it runs.
 *
 * A device is a line in tensor/devices.def. Callers ask the context's device for its kernels (rp__kernels of kernels/kernels.h) and pass each
 * kernel an rp_on. They name no device. docs/decisions/025-device-seam.md has the reasons.
 */
#ifndef RP_DEVICE_H
#define RP_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* The last argument of each kernel, or the member `on` of its description. */
typedef struct rp_on {
    int threads;                /* the nominal team: it is part of the bits */
    struct rp_queue *queue;     /* kernels and copies run later, in its order; NULL: they are complete when they return */
} rp_on;

/* The memory behind a space (base/mem.h), which does the counting. Functions take addresses; none of them fails but reserve. */
typedef struct rp_memory {
    bool on_host;               /* the host reads and writes it like its own */
    int64_t align;              /* each block begins at a multiple of it, and takes one: a power of two */
    /* Addresses for `limit` bytes, or for as many as there are (0); *bytes of them. NULL: refused. */
    uint8_t *(*reserve)(int64_t limit, int64_t *bytes);
    void (*release)(uint8_t *base, int64_t bytes);
    void (*commit)(uint8_t *base, int64_t bytes, const rp_on *on);       /* puts memory behind these addresses now */
    int64_t copies_at;          /* what copy, fill and commit are given instead of an address: so many bytes behind it */
    /* The first two begin at once and end before sync returns. Either end of a copy may be in any memory, the host's too; they may overlap. */
    void (*copy)(void *to, const void *from, int64_t bytes, const rp_on *on);
    void (*fill)(void *at, int byte, int64_t bytes, const rp_on *on);
    void (*sync)(const rp_on *on);
    void (*seal)(uint8_t *base, int64_t bytes, bool sealed);             /* NULL: the code of ops always reaches it */
} rp_memory;

extern const rp_memory rp__memory_host;
/* Memory of the host that the host may touch only between rp__mem_enter and rp__mem_leave: any other access is SIGSEGV. */
extern const rp_memory rp__memory_sealed;
/* And its blocks lie where a GPU's would. */
extern const rp_memory rp__memory_apart;

typedef struct rp_device {
    const char *name;
    const struct rp_kernels *(*kernels)(void);      /* never NULL; an entry that is NULL means: the op runs its reference */
    const rp_memory *memory;
} rp_device;

#endif
