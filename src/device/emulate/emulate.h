/* device/emulate/emulate.h -- a GPU's block of threads on one thread of the host. Each thread of the block is a fiber.
 *
 * Kernels use this through kernels/gpu/dialect.h and warp.h; emulate/driver.c runs them. A schedule decides which fiber runs next. A correct kernel
 * gives the same bits under every schedule; a forgotten barrier gives other bits under at least one.
 *
 *   forward, reverse   fibers take turns in the order of their numbers, or against it
 *   random             fibers take turns in an order drawn for each block, always the same one
 *   greedy             one warp runs until all threads of the block must wait; warps overtake each other as far as barriers allow
 *
 * Blocks of a grid run one after the other: from first to last, under `reverse` from last to first.
 * Only one launch may run at a time in a process (static shared memory is static in C); the driver's lock ensures it.
 */
#ifndef RP_EMULATE_H
#define RP_EMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/launch.h"

typedef enum { RP_EMULATE_FORWARD, RP_EMULATE_REVERSE, RP_EMULATE_RANDOM, RP_EMULATE_GREEDY, RP_EMULATE_SCHEDULES } rp_emulate_schedule;

enum {
    RP_EMULATE_WARP = 32,                       /* threads of a warp */
    RP_EMULATE_THREADS = 1024,                  /* most threads of a block */
    RP_EMULATE_SHARED_BYTES = 227 << 10,        /* most dynamic shared memory of a block, if the kernel opts in */
    RP_EMULATE_SHARED_DEFAULT = 48 << 10,       /* most without */
    RP_EMULATE_SLOT_BYTES = 64,                 /* of a lane's message to its warp */
};

/* ---- for kernels ---- */

/* Static shared memory lies in a section of its own, so that the emulator can fill it with 0xff before each block. The text behind the name makes gcc
 * allot no bytes of the file. AddressSanitizer guards no variable of such a section, so its builds have none and fill nothing. */
#ifdef RP_ASAN
#define RP_EMULATE_SHARED static
#elif defined(__x86_64__) && !defined(__clang__)
#define RP_EMULATE_SHARED static __attribute__((section("rp_gpu_shared,\"aw\",@nobits#")))
#else
#define RP_EMULATE_SHARED static __attribute__((section("rp_gpu_shared")))
#endif

typedef struct { int thread, block[3], blocks[3]; } rp_emulate_place;
extern rp_emulate_place rp__emulate_now;
/* From a device address to its bytes on the host. */
extern uintptr_t rp__emulate_distance;
extern unsigned char *rp__emulate_dynamic_shared;

void rp__emulate_barrier(void);
/* Lanes of a warp exchange messages in three steps: each writes its slot, all wait in warp_sync, each reads slots and ends with warp_done. */
void *rp__emulate_slot(int lane);
void rp__emulate_warp_sync(void);
void rp__emulate_warp_done(void);
/* cp.async: the target holds 0xff until the thread waits for the copy's group; then `valid` bytes of the source, then zeros.
 * Both ends must be aligned to 16 bytes, otherwise the process aborts with a message. */
void rp__emulate_copy(void *to, const void *from, int valid);
void rp__emulate_copy_commit(void);
void rp__emulate_copy_wait(int groups_left);
/* Aborts with a message if `p` is not a multiple of 16. `operation` names the instruction. */
void rp__emulate_aligned(const void *p, const char *operation);

/* ---- for the driver and tests ---- */

/* Runs a grid to its end. Grid parts are at least 1. `shared_bytes`: dynamic shared memory, at most RP_EMULATE_SHARED_BYTES.
 * Returns false if there is no memory for the fibers. */
bool rp__emulate_grid(const rp_gpu_kernel *kernel, const int grid[3], int shared_bytes, const void *args);
/* Sets the schedule of this process. Default: REPRISE_EMU=forward|reverse|random|greedy, otherwise forward. */
void rp__emulate_set_schedule(rp_emulate_schedule schedule);
/* Name of a schedule, and the schedule in force. */
const char *rp__emulate_schedule_name(rp_emulate_schedule schedule);
rp_emulate_schedule rp__emulate_get_schedule(void);

/* ---- the emulated driver, for tests ---- */

/* Which stream runs first while the host waits, of those that are not blocked: the oldest, or with `last` the newest.
 * Default: REPRISE_EMU_LANES=first|last, otherwise first. */
void rp__emulate_set_lanes(bool last);
/* Adds kernels that cuModuleGetFunction finds after those of rp__gpu_kernels. NULL removes them. The caller keeps the table. */
void rp__emulate_add_kernels(const rp_gpu_kernel *const *kernels, int n);
/* The nth call of driver function `name` from now (1: the next one) fails with `code` and does nothing. The name "run" counts copies, fills and
 * launches when they run; the failure is then reported by later calls, as on a GPU. Codes 214, 700 to 719 and 999 make all later calls fail. At most
 * 8 at a time. */
void rp__emulate_fail(const char *name, int nth, int code);
/* Number of calls of driver function `name` since the start or the last reset. */
int64_t rp__emulate_calls(const char *name);
/* Number of waits since then that left nothing to run: a GPU stands idle until the host queues more. */
int64_t rp__emulate_idle_waits(void);
/* Number of live objects: streams, events, modules, graphs, allocations, reservations, pinned blocks, and calls that wait. */
int rp__emulate_live(void);
/* Releases everything and forgets errors, as a new process would. Reads the environment again. The caller's context is no longer current. */
void rp__emulate_reset(void);

#endif
