/* disk_queue_test.h -- for tests of offloading: bytes by seed, and what a process holds open. */
#ifndef RP_DISK_QUEUE_TEST_H
#define RP_DISK_QUEUE_TEST_H

#include <pthread.h>
#include <time.h>

#include "io_test.h"

static inline uint32_t draw(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

static inline void fill_bytes(uint8_t *at, int64_t bytes, uint32_t seed)
{
    for (int64_t i = 0; i < bytes; i++) at[i] = (uint8_t)(draw(&seed) >> 8);
}

static inline int n_open_files(void) { return n_files_in("/proc/self/fd"); }

static inline void *do_nothing(void *user) { return user; }

/* A sanitizer begins a thread of its own with the first one: the count starts behind that. */
static inline int n_threads(void)
{
    pthread_t first;

    assert_int_equal(pthread_create(&first, NULL, do_nothing, NULL), 0);
    assert_int_equal(pthread_join(first, NULL), 0);
    nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
    return n_files_in("/proc/self/task");
}

/* A thread that was joined stays listed for a moment. */
static inline void assert_threads(int expected)
{
    for (int tries = 0; tries < 2000 && n_files_in("/proc/self/task") != expected; tries++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    assert_int_equal(n_files_in("/proc/self/task"), expected);
}

/* Setups: the ways of I/O. */
static inline int use_thread(void **state)
{
    (void)state;
    return setenv("REPRISE_IO", "thread", 1);
}

static inline int use_what_there_is(void **state)
{
    (void)state;
    return unsetenv("REPRISE_IO");
}

static inline int64_t live_bytes(rp_ctx *ctx, int device)
{
    rp_mem m;

    rp_mem_read(ctx, device, false, &m);
    return m.live_bytes;
}

#endif
