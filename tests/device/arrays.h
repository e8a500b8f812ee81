/* tests/device/arrays.h -- arrays of N floats in the memory of a rig, and calls that use them. */
#ifndef RP_TEST_ARRAYS_H
#define RP_TEST_ARRAYS_H

#include "base/device.h"
#include "rig.h"

enum { N = 1000, BYTES = N * (int)sizeof(float), BLOCKS = (N + 255) / 256 };

static float host[N];

static inline uint64_t host_at(const void *p) { return (uint64_t)(uintptr_t)p; }
static inline uint64_t array(const rig *r, int i) { return r->base + (uint64_t)i * 4096; }

static inline void fill_host(float *at, float first)
{
    for (int i = 0; i < N; i++) at[i] = first + (float)(i % 17);
}

static inline bool pending(const float *at)
{
    for (int i = 0; i < BYTES; i++)
        if (((const unsigned char *)at)[i] != RP_PENDING_BYTE) return false;
    return true;
}

static inline int copy(const rig *r, uint64_t to, uint64_t from, int lane) { return cu.cuMemcpyAsync(to, from, BYTES, r->stream[lane]); }
static inline int scale(const rig *r, int to, int from, float factor, int lane)
{
    return rig_launch(r, "test_scale", lane, BLOCKS, (test_args){ .x = array(r, from), .z = array(r, to), .n = N, .factor = factor });
}
static inline int add(const rig *r, int to, int from, int lane)
{
    return rig_launch(r, "test_add", lane, BLOCKS, (test_args){ .x = array(r, from), .z = array(r, to), .n = N });
}

#endif
