/* base/device.h -- a device: the kernels that run there, its memory, and the argument that describes where a kernel runs.
 *
 * A device is a line in tensor/devices.def. Callers ask the context's device for its kernels (rp__kernels of kernels/kernels.h) and pass each
 * kernel an rp_on. They name no device. docs/decisions/025-device-seam.md has the reasons.
 */
#ifndef RP_DEVICE_H
#define RP_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "reprise/reprise.h"

/* The host can read the memory of test devices. Under ASan each block lies on the heap. Programs for ARM are tested by qemu-user, which moves pages one
 * by one. */
#if defined(RP_ASAN) || defined(__aarch64__)
#define RP_UNSEALED
#endif

/* The last argument of each kernel, or the member `on` of its description. */
typedef struct rp_on {
    int threads;                /* the nominal team; it affects the bits of results */
    struct rp_queue *queue;     /* kernels, copies and fills run later, in the order of this queue; NULL: they are complete when they return */
} rp_on;

/* Records of the calls of a queue. A record can be repeated with one call of the driver.
 *   begin     note the calls of the queue from now on
 *   end       stop, and return the record. NULL: a call needs the host, as a wait or a copy to or from host memory does, or memory ran out
 *   same      do both have the same calls, with the same addresses and values? Neither may be prepared
 *   prepare   make it ready for `repeat`; false: the driver refuses
 *   free      NULL is fine */
struct rp_record;
typedef struct rp_records {
    void (*begin)(const rp_on *on);
    struct rp_record *(*end)(const rp_on *on);
    bool (*same)(const struct rp_record *a, const struct rp_record *b);
    bool (*prepare)(struct rp_record *r, const rp_on *on);
    void (*repeat)(const struct rp_record *r, const rp_on *on);
    void (*free)(struct rp_record *r);
} rp_records;

/* A lane of copies beside a queue, for values that leave a device for a while. Copies of a lane run in their order, while the queue goes on.
 *   pin     makes the first `bytes` bytes of a range of `most` bytes of host memory fit for the lane; false: copies of them wait
 *   out     copies to host memory, after everything in the queue so far
 *   back    copies from host memory, after everything in the queue so far
 *   await   later calls of the queue run after the copies that read or write a byte of this range of the device */
typedef struct rp_lane {
    bool (*pin)(void *base, int64_t bytes, int64_t most, const rp_on *on);
    void (*out)(void *to, const void *from, int64_t bytes, bool pinned, const rp_on *on);
    void (*back)(void *to, const void *from, int64_t bytes, bool pinned, const rp_on *on);
    void (*await)(const void *at, int64_t bytes, const rp_on *on);
} rp_lane;

/* Physical memory when a space cannot grow: `free` bytes are left, `others` bytes belong to the driver and to other programs. */
typedef struct { int64_t free, others; } rp_memory_left;

/* The functions of a device's memory. The memory space above (base/mem.h) does the counting. All take addresses; only reserve can fail. */
typedef struct rp_memory {
    bool on_host;               /* the host reads and writes it like its own memory */
    bool far;                   /* the host has no access at all: code between rp__mem_enter and rp__mem_leave works on copies (base/shadow.h) */
    int64_t align;              /* blocks start at multiples of this and are rounded up to it; a power of two */
    /* Records an error if the device cannot be used on this machine. NULL: it always can. errors RP_ERR_BACKEND */
    rp_status (*ready)(rp_ctx *ctx);
    /* The bits of results may depend on it: "NVIDIA H200, compute capability 9.0, driver for CUDA 13.0, kernels by NVRTC 13.0".
     * Static text, after `ready`. NULL: the device computes on the host. */
    const char *(*card)(void);
    /* The same for people, with the memory that the driver and other programs held at the start. */
    const char *(*about)(void);
    /* Bytes of physical memory that are left; -1: the device cannot be used on this machine. NULL: its memory is the host's. */
    int64_t (*left)(void);
    /* Reserves addresses for `limit` bytes (0: as many as possible) and sets *bytes to the number reserved. NULL: refused. */
    uint8_t *(*reserve)(int64_t limit, int64_t *bytes);
    void (*release)(uint8_t *base, int64_t bytes);
    void (*commit)(uint8_t *base, int64_t bytes, const rp_on *on);       /* puts physical memory behind these addresses now */
    /* Puts physical memory behind the first `bytes` of a reserved range before they are used. False: there is not enough, and *left says why.
     * NULL: memory comes on first use. */
    bool (*grow)(uint8_t *base, int64_t bytes, rp_memory_left *left);
    int64_t copies_at;          /* offset in bytes that is added to each address passed to copy, fill and commit */
    /* A queue of this device; open returns NULL without memory. Both NULL: the device has no queues. close waits as sync does. */
    struct rp_queue *(*open)(void);
    void (*close)(struct rp_queue *queue);
    /* In a queue, copy and fill are complete when sync returns. Until then the caller keeps the bytes at both ends as they are: a copy may read its
     * source as late as that. Both ends may be in any memory, the host's included; they may overlap. */
    void (*copy)(void *to, const void *from, int64_t bytes, const rp_on *on);
    void (*fill)(void *at, int byte, int64_t bytes, const rp_on *on);
    /* Copies from host memory in a queue. The caller may change or free the source when it returns. NULL: copy and sync do the same. */
    void (*put)(void *to, const void *from, int64_t bytes, const rp_on *on);
    void (*sync)(const rp_on *on);
    /* mark returns a number for everything in the queue so far, and reach waits until that is complete, but not for later calls. At most one mark may
     * wait to be reached: a second one waits for the first. Marks are reached in their order. reach returns the device's seconds from the mark before to
     * this one; 0: they are not known. NULL: sync does. */
    uint64_t (*mark)(const rp_on *on);
    double (*reach)(const rp_on *on, uint64_t mark);
    void (*seal)(uint8_t *base, int64_t bytes, bool sealed);             /* forbids or allows access from ops; NULL: ops always have access */
    const char *(*failed)(const rp_on *on);     /* the first error of the queue so far, static text; NULL: none. A NULL function: there never is one */
    const rp_records *records;          /* NULL: queues keep no records */
    const rp_lane *lane;                /* NULL: queues have no lane */
    void (*begin)(const rp_on *on);     /* host code that acts as a kernel takes its turn in the queue; NULL: the code does not run on the host */
} rp_memory;

extern const rp_memory rp__memory_host;
/* Host memory that the host may access only between rp__mem_enter and rp__mem_leave. Any other access is SIGSEGV. It has queues: copies and fills
 * wait until sync or rp__mem_enter, and until then the target of a copy holds RP_PENDING_BYTE. */
enum { RP_PENDING_BYTE = 0xa5 };
extern const rp_memory rp__memory_sealed;
/* The same with the block alignment of a GPU. */
extern const rp_memory rp__memory_apart;

extern const rp_memory rp__memory_cuda, rp__memory_emu;     /* device/memory.c */

struct rp_op_meta;
typedef struct rp_device {
    const char *name;
    const struct rp_kernels *(*kernels)(void);      /* never NULL; a NULL entry means that the op runs its reference */
    const rp_memory *memory;
    /* Does the device run forward, or backward, of this call with its own kernels? NULL: the host runs the code of all ops and updates. */
    bool (*runs)(const struct rp_op_meta *call, bool backward);
} rp_device;

#endif
