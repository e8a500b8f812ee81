/* base/mem.h -- one memory space per device: a ledger over a pool.
 *
 *   reserved address range (mapped once on huge pages, touched lazily or when populated; no base at all in a shapes-only context)
 *   [ used | free | used | used | free ........ | never used yet ................ ]
 *                                               ^ reserved_bytes = high water of the pool
 *
 * The ledger counts every byte by class. The pool (pool.h) gives offsets: best fit over free extents, lowest address on
 * ties, so the same sequence of requests gives the same offsets, with memory behind it or without. That is what
 * makes a run on shapes alone predict a real one to the byte. A step that was placed beforehand takes its blocks at given offsets instead.
 */
#ifndef RP_MEM_H
#define RP_MEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/device.h"
#include "reprise/reprise.h"

#define RP_ALIGN 64             /* on the host: of parts of scratch, and of lines of the cache */
static inline int64_t rp__align_up(int64_t bytes) { return (bytes + RP_ALIGN - 1) / RP_ALIGN * RP_ALIGN; }

typedef struct rp_mem_space rp_mem_space;

typedef struct {                /* one allocation or release, as it happened */
    bool take;
    rp_mem_class mem_class;
    int64_t bytes, offset;
    int64_t taken;              /* bytes as the pool rounds them */
    bool reclass;               /* neither: what is there is of this class from now on */
    const char *what;           /* of a take: the asker, borrowed for the time of the call; else NULL */
} rp_mem_event;

/* limit_bytes bounds reserved bytes (0: the machine is the limit). shapes_only: offsets without memory. */
rp_status rp__mem_space_new(rp_ctx *ctx, const rp_memory *memory, int64_t limit_bytes, bool shapes_only, rp_mem_space **out);
void rp__mem_space_free(rp_mem_space *space);

/* `what` names the asker in the message of RP_ERR_MEMORY. bytes may be 0 (a block of no bytes still has an offset). */
rp_status rp__mem_take(rp_ctx *ctx, rp_mem_space *space, rp_mem_class mem_class, int64_t bytes, const char *what,
                       int64_t *offset);
void rp__mem_give(rp_mem_space *space, rp_mem_class mem_class, int64_t bytes, int64_t offset);
/* What a take of so many bytes takes on device 0. */
int64_t rp__mem_rounded(const rp_ctx *ctx, int64_t bytes);
void rp__mem_reclass(rp_mem_space *space, rp_mem_class from, rp_mem_class to, int64_t bytes, int64_t offset);

/* Asked when a take finds no place under the limit. `bytes`: a stretch that would do, rounded as takes are. True: something was given back,
 * and the place is looked for again; what is asked must not take from the space itself. False: the take fails, and its message says
 * *droppable, the bytes that could be given back but would leave no stretch that long. NULL: nobody is asked. */
typedef bool (*rp_mem_pressure)(void *user, int64_t bytes, int64_t *droppable);
void rp__mem_on_pressure(rp_mem_space *space, rp_mem_pressure hook, void *user);

/* What a take can be put into, in the order of addresses; the last hole ends at the limit and may be empty. */
int rp__mem_n_holes(const rp_mem_space *space);
void rp__mem_hole(const rp_mem_space *space, int i, int64_t *offset, int64_t *bytes);

/* Move a block down, to the beginning of the hole that ends where it begins; its contents come along. Returns its offset from then on:
 * whoever remembers its address has the old one. Observers see a release and a take. */
int64_t rp__mem_slide(rp_mem_space *space, rp_mem_class mem_class, int64_t bytes, int64_t offset);

/* Address of an offset; NULL in a shapes-only space. */
void *rp__mem_at(const rp_mem_space *space, int64_t offset);

/* ---- bytes. Addresses may be in any space of the context or in none, which is the host's other memory ---- */

/* Returns when the bytes are there. They may overlap. */
void rp__mem_copy(const rp_ctx *ctx, void *to, const void *from, int64_t bytes);
void rp__mem_fill(const rp_ctx *ctx, void *at, int byte, int64_t bytes);

/* Around code on the host that stands for a kernel: the code of an op, an update. In between it may read and write every space of the context;
 * outside it may not where rp__mem_on_host says no. They nest. */
void rp__mem_enter(rp_ctx *ctx);
void rp__mem_leave(rp_ctx *ctx);
bool rp__mem_on_host(const rp_mem_space *space);

void rp__mem_read(const rp_mem_space *space, rp_mem *out);
void rp__mem_reset_peak(rp_mem_space *space);

/* Make the pool at least this large now (a rehearsal's high water), so that no later step grows it. */
rp_status rp__mem_reserve(rp_ctx *ctx, rp_mem_space *space, int64_t bytes);

/* The pool ends where its last block does, as if it had never been larger, and its peaks begin again. */
void rp__mem_trim(rp_mem_space *space);

/* From here on the pool takes no more than `bytes`, or than its limit where that is less. A pool that has not been used is mapped anew, no
 * larger than that: a limit of address space may have left it too little, and counts all of it. errors RP_ERR_MEMORY addresses */
rp_status rp__mem_limit(rp_ctx *ctx, rp_mem_space *space, int64_t bytes);
/* A pool that has not been used gives up its addresses but for a few, until rp__mem_limit. errors as there */
rp_status rp__mem_yield(rp_ctx *ctx, rp_mem_space *space);
/* Addresses that it holds. */
int64_t rp__mem_mapped(const rp_mem_space *space);

/* Puts memory behind all of the pool now, the team together, so that no step takes a page fault in it. */
void rp__mem_populate(const rp_ctx *ctx, const rp_mem_space *space);

/* From here on the next n takes get these offsets, in order, and are of these sizes: a take of another size is RP_ERR_STATE. After them, and
 * after follow(NULL, 0), best fit again. An offset that is not free is RP_ERR_STATE, too: the step is not the one that was placed. */
typedef struct { int64_t bytes, offset; } rp_mem_place;
void rp__mem_follow(rp_mem_space *space, const rp_mem_place *place, int n);

/* Visit what is in use, by rising offset: stretches between what is free. */
void rp__mem_used(const rp_mem_space *space, void (*visit)(void *user, int64_t offset, int64_t bytes), void *user);

/* Called for each event, for tests and timelines; NULL stops. */
void rp__mem_observe(rp_mem_space *space, void (*observer)(void *user, const rp_mem_event *event), void *user);

#endif
