/* device/gpu.h -- a GPU behind a driver: its context, ranges of memory, streams and kernels.
 *
 *   rp_gpu (one per driver, for the process)
 *     call        the driver's functions                         driver.c
 *     arenas      ranges of addresses, and memory mapped there   memory.c
 *     functions   of the kernels, by their place in the list     launch.c
 *     blas        cuBLASLt, for products                         blas.c
 *   rp_queue      a stream of it, and its first error            queue.c
 *   rp_window     its last launches, which later ones may join   fuse.c
 *   rp_record     calls of a queue, repeated as a graph          record.c
 */
#ifndef RP_GPU_H
#define RP_GPU_H

#include <pthread.h>

#include "base/device.h"
#include "device/blas.h"
#include "device/driver.h"
#include "device/launch.h"

enum { RP_GPU_TEXT = 512, RP_GPU_CARD = 256, RP_GPU_ARENAS = 64, RP_GPU_PIECES = 64, RP_GPU_PINS = 256, RP_GPU_RESULTS = 1024,
       RP_GPU_PINNED_BYTES = 1 << 16, RP_GPU_STAGES = 16, RP_GPU_TRIPS = 64 };

/* ranges: of a kernel in a rule of fusion, else NULL. leads: it is the first one of a rule. */
typedef struct { const rp_gpu_kernel *kernel; void *function; const rp_gpu_ranges *ranges; bool leads; } rp_gpu_function;

typedef struct { uint64_t handle; int64_t bytes; } rp_gpu_piece;
typedef struct { uint64_t at, bytes; } rp_gpu_pin;
/* A range of addresses. Its first `mapped` bytes have physical memory, in pieces. base 0: the entry is free. */
typedef struct {
    uint64_t base;
    int64_t bytes, mapped;
    int n_pieces;
    rp_gpu_piece piece[RP_GPU_PIECES];
} rp_gpu_arena;

typedef struct rp_gpu {
    const char *name;
    bool emulated;
    const char *(*load)(rp_cuda *call, char *text);     /* fills the table; returns the reason if it cannot */
    bool (*load_blas)(rp_blas_calls *call);             /* NULL: there is none */
    pthread_mutex_t slide;                              /* of the memory at `bounce` */
    pthread_mutex_t lock;                               /* of everything below, while it changes */
    bool tried, greeted;                                /* greeted: the log names it */
    const char *unusable;                               /* the reason, or NULL */
    char text[RP_GPU_TEXT];
    char card[RP_GPU_CARD];                             /* the card, the driver and the compiler of the kernels, for states … */
    char about[RP_GPU_CARD + 128];                      /* … and the memory that others hold, for people */
    rp_cuda call;
    void *context;
    int device, capability;                             /* capability: 90 for 9.0 */
    int64_t granularity;                                /* of physical memory */
    void *stream;                                       /* for copies without a queue */
    uint64_t bounce;                                    /* device memory through which ranges that overlap are copied */
    rp_gpu_arena arena[RP_GPU_ARENAS];
    int n_pins;
    rp_gpu_pin pin[RP_GPU_PINS];                        /* pieces of pinned memory of all lanes */
    rp_gpu_function *function;                          /* of each kernel of rp__gpu_kernels, by the kernel's address */
    struct rp_blas *blas;                               /* NULL: products are kernels */
} rp_gpu;

extern rp_gpu rp__gpu_cuda, rp__gpu_emu;

/* A result in pinned memory, and where the host wants it. */
typedef struct { void *to; int64_t at, bytes; } rp_gpu_result;

/* Pinned memory for bytes on their way to the device, `used` of them by calls that may not be complete. */
typedef struct { uint8_t *at; int64_t bytes, used; } rp_gpu_stage;

/* Host memory that the calls between two marks read and write. It is free again when the second mark is reached. */
typedef struct {
    void *event;                                        /* recorded at the second mark */
    bool marked;                                        /* and it may not have been reached */
    int n_stages;                                       /* each stage is larger than the one before; after a wait only the last is kept */
    rp_gpu_stage stage[RP_GPU_STAGES];
    uint8_t *pinned;                                    /* RP_GPU_PINNED_BYTES, of which the results have taken pinned_used */
    int64_t pinned_used;
    int n_results;
    rp_gpu_result result[RP_GPU_RESULTS];
} rp_gpu_stretch;

/* Copies of a lane that the queue has not waited for: the device's memory that they read or write, and the event after each. */
typedef struct { uint64_t at, bytes; int event; } rp_gpu_trip;
typedef struct {
    void *stream;                                       /* NULL: there was no copy */
    void *fork;                                         /* event: the queue before a copy */
    void *event[RP_GPU_TRIPS];
    int n_trips, next;                                  /* next: the event of the next trip */
    rp_gpu_trip trip[RP_GPU_TRIPS];                     /* the oldest first */
    uint8_t *pinned;                                    /* pinned host memory starts there, in pieces of rp_gpu.pin */
    int64_t pinned_bytes;
} rp_gpu_lane;

struct rp_queue {
    rp_gpu *gpu;
    void *stream;
    rp_gpu_lane lane;
    uint64_t n_marks;
    double seconds;                                     /* of the device, before the last mark that was reached, from the mark before it; 0: not known */
    rp_gpu_stretch stretch[2];                          /* calls after mark n use stretch n % 2 */
    struct rp_window *window;                           /* launches that wait for others to join them; NULL: none do */
    uint8_t *room;                                      /* device memory of this queue: rp__gpu_room, the step block, rp__gpu_sums */
    int64_t room_used;                                  /* by launches that wait */
    uint8_t block[RP_GPU_BLOCK_BYTES];                  /* the step block as the host wrote it last */
    struct rp_record *record;                           /* calls are noted there; NULL: they are not (record.c) */
    const char *error;                                  /* the first one: `text`, or NULL */
    char text[RP_GPU_TEXT];
};

/* Opens the GPU on first use; later calls return the same answer. errors RP_ERR_BACKEND */
rp_status rp__gpu_ready(rp_gpu *gpu, rp_ctx *ctx);
/* Bytes of memory that the card has left; -1: it cannot be used. */
int64_t rp__gpu_left(rp_gpu *gpu);
/* The driver's description of memory of this GPU. */
rp_cuda_allocation rp__gpu_allocation(const rp_gpu *gpu);
/* Makes the GPU's context the calling thread's. */
void rp__gpu_enter(const rp_gpu *gpu);
/* Notes an error of the driver, or minus the status of a library, in the queue; later ones are results of the first. Returns true if `code` is no error. */
bool rp__gpu_noted(struct rp_queue *q, int code, const char *call);
/* "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (out of memory)" */
const char *rp__gpu_error(const rp_gpu *gpu, int code, const char *call, char *text);
/* The functions of base/device.h for both drivers. */
uint8_t *rp__gpu_reserve(rp_gpu *gpu, int64_t limit, int64_t *bytes);
void rp__gpu_release(rp_gpu *gpu, const uint8_t *base);
bool rp__gpu_grow(rp_gpu *gpu, const uint8_t *base, int64_t bytes, rp_memory_left *left);
/* Makes the memory through which ranges that overlap are copied. Otherwise the first such copy does. False: there is none. */
bool rp__gpu_prepare_slide(rp_gpu *gpu);
struct rp_queue *rp__gpu_open(rp_gpu *gpu);
void rp__gpu_close(struct rp_queue *q);
void rp__gpu_sync(const rp_on *on);
uint64_t rp__gpu_mark(const rp_on *on);
double rp__gpu_reach(const rp_on *on, uint64_t mark);
void rp__gpu_put(void *to, const void *from, int64_t bytes, const rp_on *on);
const char *rp__gpu_failed(const rp_on *on);
extern const rp_lane rp__gpu_lane;
/* The queue waits for everything in its lane. */
void rp__gpu_join(struct rp_queue *q);
/* A call of the driver that needs nothing from the host. `bytes`, `byte`: of a fill; of a copy with `from`. */
typedef struct {
    const rp_gpu_kernel *kernel;                        /* of a launch, else NULL */
    void *function;                                     /* NULL: the kernel is a call of a library */
    void *event;                                        /* that is recorded, or waited for; else NULL */
    bool waits, aside;                                  /* aside: in the lane */
    unsigned grid[3];
    int byte;
    uint64_t to, from, bytes;
    const void *args;                                   /* of a launch */
} rp_gpu_call;
/* Makes the call after the launches that wait, and notes it if the queue has a record. */
void rp__gpu_issue(struct rp_queue *q, const rp_gpu_call *call);
/* The same without those launches. */
void rp__gpu_issue_at_once(struct rp_queue *q, const rp_gpu_call *call);
/* Copies between the device and the host, in the lane or not. A driver refuses to copy host memory of which a part is pinned, or that belongs to two
 * pieces of pinned memory. So these are several copies. */
void rp__gpu_copy_pieces(struct rp_queue *q, const void *to, const void *from, int64_t bytes, bool aside);
/* The launch joins one that waits, waits itself, or is made. */
void rp__gpu_fuse(struct rp_queue *q, const rp_gpu_function *f, const rp_gpu_launch *launch);
/* Makes the launches that wait. Every call of the driver that concerns the queue's stream comes after it. */
void rp__gpu_flush(struct rp_queue *q);
/* NULL if REPRISE_FUSION is "off", or without memory: then no launch waits. */
struct rp_window *rp__gpu_window(void);
bool rp__gpu_has_waiting(const struct rp_queue *q);
/* A record with such a call cannot be repeated. */
void rp__gpu_needs_host(struct rp_queue *q);
extern const rp_records rp__gpu_records;
/* Loads the kernels. Returns the reason if it cannot, else NULL. */
const char *rp__gpu_load_kernels(rp_gpu *gpu, char *text);
/* The kernel must be in the list, or a call of a library, which has no function. */
const rp_gpu_function *rp__gpu_function_of(const rp_gpu *gpu, const rp_gpu_kernel *kernel);

#endif
