/* device/emulate/internal.h -- the parts of the emulated driver.
 *
 *   driver.c    the table, devices, modules, launches, checks of handles, failures on demand
 *   memory.c    device addresses, the bytes behind them, pinned memory
 *   stream.c    queues, events, copies and fills; runs calls when the host waits
 *   capture.c   captures and graphs
 *
 * One lock protects all state. Each function of the driver takes it with RP_ENTER and keeps it while kernels run.
 */
#ifndef RP_EMULATE_INTERNAL_H
#define RP_EMULATE_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/driver.h"
#include "device/emulate/emulate.h"
#include "device/launch.h"

/* Error codes of the driver that driver.h does not need. */
enum {
    EMU_NOT_INITIALIZED = 3, EMU_INVALID_CONTEXT = 201, EMU_ILLEGAL_STATE = 401, EMU_NOT_READY = 600, EMU_ALREADY_REGISTERED = 712,
    EMU_NOT_SUPPORTED = 801,
    EMU_CAPTURE_MERGE = 902, EMU_CAPTURE_UNMATCHED = 903, EMU_CAPTURE_UNJOINED = 904, EMU_CAPTURE_ISOLATION = 905, EMU_CAPTURED_EVENT = 907,
    EMU_CAPTURE_WRONG_THREAD = 908,
};

/* ---- entry ---- */

enum {
#define RP_CUDA(name, parameters) EMU_##name,
#include "device/cuda.def"
#undef RP_CUDA
    EMU_FUNCTIONS
};

#define RP_CUDA(name, parameters) int rp__emulated_##name parameters;
#include "device/cuda.def"
#undef RP_CUDA

/* Takes the lock until the function returns. Returns from it if the call must fail before it does anything. */
#define RP_ENTER(name) \
    __attribute__((cleanup(rp__emulated_leave))) int entered_ = rp__emulated_enter(EMU_##name); \
    if (entered_) return entered_
int rp__emulated_enter(int function);
void rp__emulated_leave(int *entered);

/* ---- objects ---- */

typedef enum { EMU_STREAM, EMU_EVENT, EMU_MODULE, EMU_FUNCTION, EMU_GRAPH, EMU_EXECUTABLE } emu_kind;
typedef struct emu_object {
    emu_kind kind;
    struct emu_object *next;
} emu_object;

/* A new object in the list of handles, zeroed; NULL without memory. `bytes` is the size of a struct that begins with an emu_object. */
void *rp__emulated_new(emu_kind kind, size_t bytes);
/* The object of a handle that the program passed, or NULL if it is not one of this kind. */
void *rp__emulated_find(const void *handle, emu_kind kind);
void rp__emulated_drop(void *object);

/* ---- calls ---- */

typedef struct { int refs; bool done; double ms; } emu_record;      /* one call of cuEventRecord */

typedef enum { EMU_LAUNCH, EMU_COPY, EMU_FILL, EMU_RECORD, EMU_WAIT, EMU_RUN_GRAPH, EMU_JOIN } emu_call_kind;
typedef struct emu_call {
    emu_call_kind kind;
    const rp_gpu_kernel *kernel;
    int grid[3], shared_bytes;
    uint64_t to, from;
    size_t bytes;
    unsigned char byte;
    void *staged;                   /* read before the call returned: bytes of a pageable source, or the arguments of a launch */
    emu_record *record;
    struct emu_body *body;
    bool *ran;                      /* nodes of the graph that have run */
    int n_ran;
    uint64_t number;
    struct emu_call *next;
} emu_call;

enum { EMU_TIPS = 16 };
typedef struct { int n, at[EMU_TIPS]; } emu_tips;                   /* nodes of a graph */
typedef struct { emu_call call; int lane; emu_tips after; } emu_node;
typedef struct emu_body { int refs, n, room; emu_node *nodes; } emu_body;

typedef struct emu_stream {
    emu_object object;
    struct emu_stream *later;       /* the stream that was created next */
    emu_call *first, *last;
    int lane;
    struct emu_session *session;    /* the capture that it takes part in */
    emu_tips tips;                  /* nodes that the next node follows */
} emu_stream;

typedef struct emu_session {
    uint64_t id;
    emu_stream *origin;
    int mode, error;                /* error: the capture is invalid, and why */
    pthread_t thread;
    emu_body *body;
    struct emu_session *next;
} emu_session;

typedef struct {
    emu_object object;
    unsigned flags;
    emu_record *record;             /* NULL: never recorded outside a capture */
    uint64_t captured;              /* id of the session that recorded it last, or 0 */
    emu_tips tips;
} emu_event;

typedef struct { emu_object object; emu_body *body; } emu_graph;    /* also of an executable */

/* ---- driver.c ---- */

/* An error that all later calls return. */
void rp__emulated_break(int code);
int rp__emulated_broken(void);
/* The code of a failure on demand for this call, or 0. */
int rp__emulated_demanded(const char *name);

/* ---- memory.c ---- */

int rp__emulated_open_memory(void);
void rp__emulated_close_memory(void);
int rp__emulated_live_memory(void);
bool rp__emulated_on_device(uint64_t at);
/* The bytes of an accessible device range, of a host range itself, or NULL. */
unsigned char *rp__emulated_bytes(uint64_t at, size_t bytes);
/* The range lies in memory of cuMemHostAlloc. */
bool rp__emulated_pinned(uint64_t at, size_t bytes);
/* A part of the range lies in such memory, and another part does not. A driver refuses to copy it. */
bool rp__emulated_leaves_pin(uint64_t at, size_t bytes);

/* ---- stream.c ---- */

emu_stream *rp__emulated_streams(void);
emu_call *rp__emulated_call(emu_call_kind kind);
/* Adds a call to a stream, or to the graph that it captures. Takes the call over, also if it fails. */
int rp__emulated_submit(emu_stream *stream, emu_call *call);
void rp__emulated_free_call(emu_call *call);
void rp__emulated_release_record(emu_record *record);
/* Runs calls until the stream is empty. */
int rp__emulated_drain(emu_stream *stream);
int rp__emulated_waiting(void);
int64_t rp__emulated_idle_waits(void);
/* A call that waits reads or writes a byte of this range. */
bool rp__emulated_in_use(uint64_t at, size_t bytes);
void rp__emulated_close_streams(void);

/* ---- capture.c ---- */

emu_session *rp__emulated_session(uint64_t id);
/* Makes a capture invalid; returns `code`. */
int rp__emulated_spoil(emu_session *session, int code);
/* Fails if a capture forbids calls such as cuMemHostAlloc to this thread. */
int rp__emulated_unsafe(void);
int rp__emulated_capture_call(emu_stream *stream, emu_call *call);
int rp__emulated_capture_record(emu_stream *stream, emu_event *event);
int rp__emulated_capture_wait(emu_stream *stream, emu_event *event);
void rp__emulated_release_body(emu_body *body);
void rp__emulated_close_captures(void);

#endif
