/* tests/heap.h -- malloc, realloc and free of every test program: exact red zones, leaks at the end, and failures on demand.
 *
 *   [ bytes asked for | red zone, 128 bytes or more | block: its size, its number, its neighbours ]
 *
 * A write past the end of a block ends the program when the block is freed, or at the end of main. A test program whose main returns 0 fails
 * if a block made in main is still live and no pointer leads to it: the message has the block's number and size, and with
 * REPRISE_HEAP_BLOCK=NUMBER the program ends where that block is made and prints who made it.
 * A read past the end gets bytes of the red zone, and a freed block's first bytes are overwritten, so that a wrong read gets other values.
 *
 * The standard input is closed before main begins: descriptor 0 is as good as any for a file.
 *
 * heap.c is linked to each test and stands in front of the C library's functions, so other libraries' blocks are guarded, too. A sanitizer
 * brings its own functions and does the same; there the variables below are never written.
 */
#ifndef RP_HEAP_H
#define RP_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#if !defined(RP_SANITIZED) && !defined(RP_ASAN) && defined(__GLIBC__)
#define HEAP_IS_OURS 1
#else
#define HEAP_IS_OURS 0
#endif

extern _Atomic int64_t heap_live;               /* blocks of all threads */
extern bool heap_keeps;                         /* a test was skipped after it began: its blocks may be left */
extern _Thread_local int64_t heap_countdown;    /* > 0: that many allocations of this thread from now, one fails */

#endif
