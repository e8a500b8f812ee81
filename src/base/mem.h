/* base/mem.h -- one memory space per device: a ledger over a pool.
 *
 *   reserved address range (mapped once on huge pages, touched lazily or when populated; no base at all in a shapes-only context)
 *   [ used | free | used | used | free ........ | never used yet ................ ]
 *                                               ^ reserved_bytes = high water of the pool
 *
 * The ledger counts every byte by class. The pool (pool.h) assigns offsets: best fit over free extents, lowest address on ties. So the same
 * sequence of requests gets the same offsets, with or without memory behind them. That is why a run on shapes alone predicts a real run to the
 * byte. A step that was placed beforehand takes its blocks at given offsets instead.
 */
#ifndef RP_MEM_H
#define RP_MEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/device.h"
#include "reprise/reprise.h"

#define RP_ALIGN 64             /* of the host's device; size of a cache line */
static inline int64_t rp__align_up(int64_t bytes) { return (bytes + RP_ALIGN - 1) / RP_ALIGN * RP_ALIGN; }

typedef struct rp_mem_space rp_mem_space;

typedef struct {                /* one allocation, release or change of class */
    bool take;
    rp_mem_class mem_class;
    int64_t bytes, offset;
    int64_t taken;              /* bytes rounded up to the space's alignment */
    bool reclass;               /* neither allocation nor release: the block changes to mem_class */
    const char *label;          /* of an allocation: that of rp__mem_take, valid during the call only; else NULL */
} rp_mem_event;

/* Creates a space. limit_bytes bounds reserved bytes (0: only the machine limits it). shapes_only: offsets without memory. errors RP_ERR_MEMORY */
rp_status rp__mem_space_new(rp_ctx *ctx, const rp_memory *memory, int64_t limit_bytes, bool shapes_only, rp_mem_space **out);
void rp__mem_space_free(rp_mem_space *space);

/* Allocates `bytes` (0 is allowed and still gets an offset). `label` names the use of the memory in error messages.
 * errors  RP_ERR_MEMORY · RP_ERR_STATE the request differs from the one that rp__mem_follow announced */
rp_status rp__mem_take(rp_ctx *ctx, rp_mem_space *space, rp_mem_class mem_class, int64_t bytes, const char *label,
                       int64_t *offset);
void rp__mem_give(rp_mem_space *space, rp_mem_class mem_class, int64_t bytes, int64_t offset);
/* The bytes that an allocation of `bytes` occupies on device 0. */
int64_t rp__mem_rounded(const rp_ctx *ctx, int64_t bytes);
void rp__mem_reclass(rp_mem_space *space, rp_mem_class from, rp_mem_class to, int64_t bytes, int64_t offset);

/* Sets a function that is called if an allocation does not fit under the limit; NULL: none. `bytes` is the size of a free stretch that would do,
 * rounded as allocations are. The function must not allocate from the space. It returns true if it freed something; then the allocation is tried
 * again. It returns false if the allocation must fail, and sets *droppable to the bytes it could free without making a stretch that long. */
typedef bool (*rp_mem_pressure)(void *user, int64_t bytes, int64_t *droppable);
void rp__mem_on_pressure(rp_mem_space *space, rp_mem_pressure hook, void *user);

/* Free stretches in the order of addresses. The last one ends at the limit and may be empty. */
int rp__mem_n_holes(const rp_mem_space *space);
void rp__mem_hole(const rp_mem_space *space, int i, int64_t *offset, int64_t *bytes);

/* Moves a block with its contents down to the start of the free stretch that ends where the block begins. Returns its new offset; addresses
 * computed before are invalid. Observers see a release and an allocation. */
int64_t rp__mem_slide(rp_mem_space *space, rp_mem_class mem_class, int64_t bytes, int64_t offset);

/* Address of an offset; NULL in a shapes-only space. */
void *rp__mem_at(const rp_mem_space *space, int64_t offset);

/* ---- bytes. Addresses may be in any space of the context, or in other host memory ---- */

/* Both take their turn among the kernels in the queue of device 0. So kernels and later copies need no wait. Before the host reads a target, or
 * changes or frees a source, it must call rp__mem_sync. Ranges of a copy may overlap. */
void rp__mem_copy(const rp_ctx *ctx, void *to, const void *from, int64_t bytes);
void rp__mem_fill(const rp_ctx *ctx, void *at, int byte, int64_t bytes);
/* The same copy from host memory, which the caller may change or free at once. A GPU need not wait for it. */
void rp__mem_put(const rp_ctx *ctx, void *to, const void *from, int64_t bytes);
/* Waits until everything in the queue of device 0 is complete. */
void rp__mem_sync(const rp_ctx *ctx);
/* mark returns a number for everything in that queue so far; reach waits for this alone, while the device goes on with later calls. A second mark waits
 * for the first. On a device without marks, reach is rp__mem_sync. It returns the seconds of the device since the mark before; 0: they are not known. */
uint64_t rp__mem_mark(const rp_ctx *ctx);
double rp__mem_reach(const rp_ctx *ctx, uint64_t mark);
/* Copies between device 0 and a block of another space, in a lane beside the queue if device 0 has one, else in the queue. Both begin after everything in
 * the queue so far. The source of `out` may be given back at once, because memory that is taken again waits for the lane. The block may be given back and
 * taken for the lane only. await: kernels that are queued later run after the copies from or to these bytes of device 0. */
bool rp__mem_has_lane(const rp_ctx *ctx);
void rp__mem_lane_out(const rp_ctx *ctx, const rp_mem_space *to, int64_t offset, const void *from, int64_t bytes);
void rp__mem_lane_back(const rp_ctx *ctx, void *to, const rp_mem_space *from, int64_t offset, int64_t bytes);
void rp__mem_lane_await(const rp_ctx *ctx, const void *at, int64_t bytes);
/* The card of device 0 and its driver, on which the bits of results may depend; NULL if it computes on the host. Static text. */
const char *rp__mem_card(const rp_ctx *ctx);
/* The same, and how much of its memory the driver and other programs held at the start. */
const char *rp__mem_about(const rp_ctx *ctx);
/* Has the device failed so far? `call` names the running call for the message. errors RP_ERR_BACKEND */
rp_status rp__mem_check(rp_ctx *ctx, const char *call);

/* Another thread than the context's needs its own queue. open sets on->queue, to NULL if device 0 has no queues; close waits and sets it to NULL.
 * errors RP_ERR_MEMORY */
rp_status rp__mem_queue_open(rp_ctx *ctx, rp_on *on);
void rp__mem_queue_close(const rp_ctx *ctx, rp_on *on);
/* Copies in such a queue and waits. False: the device has failed. */
bool rp__mem_copy_in(const rp_ctx *ctx, const rp_on *on, void *to, const void *from, int64_t bytes);

/* Bracket host code that acts as a kernel: the code of an op, an update. Inside, the code may read and write every space of the context. Outside,
 * it must not access a space if rp__mem_on_host returns false. Calls nest. */
void rp__mem_enter(rp_ctx *ctx);
void rp__mem_leave(rp_ctx *ctx);
bool rp__mem_on_host(const rp_mem_space *space);
/* If the host has no access to the space at all (device 0 with ctx->far), code between rp__mem_enter and rp__mem_leave works on copies:
 * rp__mem_inside returns the copy of a block, which is read from the device on first use. rp__mem_leave writes it back. Outside, and on other
 * devices, it returns the block. */
bool rp__mem_is_far(const rp_mem_space *space);
uint8_t *rp__mem_inside(const rp_ctx *ctx, uint8_t *block, int64_t bytes);
/* The same for a block whose contents matter only inside: nothing is copied. */
void *rp__mem_scratch(const rp_ctx *ctx, void *block);
/* Is `at` an address in such a space? */
bool rp__mem_at_far(const rp_ctx *ctx, const void *at);
/* Between them, a message in flight reads and writes spaces. The host's own access needs the bracket all the same. Calls nest. */
void rp__mem_hold(rp_ctx *ctx);
void rp__mem_unhold(rp_ctx *ctx);

void rp__mem_read(const rp_mem_space *space, rp_mem *out);
void rp__mem_reset_peak(rp_mem_space *space);

/* Makes the pool at least this large now (the high water of a rehearsal), so that no later step grows it. errors RP_ERR_MEMORY */
rp_status rp__mem_reserve(rp_ctx *ctx, rp_mem_space *space, int64_t bytes);

/* Shrinks the pool to the end of its last block, as if it had never been larger, and resets the peaks. */
void rp__mem_trim(rp_mem_space *space);

/* Lowers the pool's limit to `bytes`; a lower limit stays. A pool that is still unused is mapped again with that size, because a limit on address
 * space counts the whole mapping and may have left too little. errors RP_ERR_MEMORY no addresses */
rp_status rp__mem_limit(rp_ctx *ctx, rp_mem_space *space, int64_t bytes);
/* Returns most addresses of an unused pool to the system, until rp__mem_limit. errors as there */
rp_status rp__mem_yield(rp_ctx *ctx, rp_mem_space *space);
/* Bytes of addresses that the space has mapped. */
int64_t rp__mem_mapped(const rp_mem_space *space);

/* Puts memory behind the whole pool now, with all threads of the team, so that no step takes a page fault in it. */
void rp__mem_populate(const rp_ctx *ctx, const rp_mem_space *space);

/* The next n allocations get these offsets in order, and must have these sizes. A different size, or an offset in use, is RP_ERR_STATE: the step
 * differs from the one that was placed. After them, and after follow(NULL, 0), best fit applies again. */
typedef struct { int64_t bytes, offset; } rp_mem_place;
void rp__mem_follow(rp_mem_space *space, const rp_mem_place *place, int n);

/* Visits the stretches in use, by rising offset. */
void rp__mem_used(const rp_mem_space *space, void (*visit)(void *user, int64_t offset, int64_t bytes), void *user);

/* Called for each event, for tests and timelines; NULL stops. */
void rp__mem_observe(rp_mem_space *space, void (*observer)(void *user, const rp_mem_event *event), void *user);

#endif
