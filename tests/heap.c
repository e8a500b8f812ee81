/* tests/heap.c -- the allocator of tests/heap.h. */
#include "heap.h"

_Atomic int64_t heap_live;
bool heap_keeps;
_Thread_local int64_t heap_countdown;

#if HEAP_IS_OURS
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))    /* to other libraries, too */

extern void *__libc_malloc(size_t bytes), *__libc_calloc(size_t n, size_t bytes), *__libc_realloc(void *p, size_t bytes);
extern void *__libc_memalign(size_t to, size_t bytes);
extern void __libc_free(void *p);

enum { ZONE = 128, ZONE_BYTE = 0xd7, FREED_BYTE = 0xdb, MOST_FREED = 4096 };

typedef struct block {
    struct block *before, *after;
    uint8_t *at;
    size_t bytes;
    int64_t number;
    const void *maker;                  /* the address that malloc returned to */
    bool reached;                       /* a pointer leads to it */
    struct block *next;                 /* of those reached whose own pointers have not been followed yet */
} block;

static block all = { .before = &all, .after = &all };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t n_made, stop_at;

/* At the end of what the C library gave, wherever the red zone ends. */
static block *block_of(void *p)
{
    uintptr_t end = (uintptr_t)p + malloc_usable_size(p);
    return (block *)((end - sizeof(block)) / _Alignof(block) * _Alignof(block));
}

static void die(const char *what, const block *b)
{
    char text[160];
    int n = snprintf(text, sizeof text, "heap: %s block %lld of %zu bytes\n", what, (long long)b->number, b->bytes);

    if (write(STDERR_FILENO, text, (size_t)n) < 0) abort();
    abort();
}

static void print_maker(void)
{
    void *caller[32];

    stop_at = 0;
    backtrace_symbols_fd(caller, backtrace(caller, 32), STDERR_FILENO);
    abort();
}

static void enter(block *b)
{
    pthread_mutex_lock(&lock);
    b->number         = ++n_made;
    b->before         = all.before;
    b->after          = &all;
    all.before->after = b;
    all.before        = b;
    pthread_mutex_unlock(&lock);
    heap_live++;
    if (b->number == stop_at) print_maker();
}

static void leave(block *b)
{
    pthread_mutex_lock(&lock);
    b->before->after = b->after;
    b->after->before = b->before;
    pthread_mutex_unlock(&lock);
    heap_live--;
}

static void *guard(void *p, size_t bytes, const void *maker)
{
    if (!p) return NULL;
    block *b = block_of(p);
    *b       = (block){ .at = p, .bytes = bytes, .maker = maker };
    memset(b->at + bytes, ZONE_BYTE, (size_t)((uint8_t *)b - b->at) - bytes);
    enter(b);
    return p;
}

static void check(const block *b, const void *p)
{
    if (b->at != p) die("a write far past the end of some block, or a free of none; read as", b);
    for (const uint8_t *z = b->at + b->bytes; z < (const uint8_t *)b; z++)
        if (*z != ZONE_BYTE) die("a write past the end of", b);
}

static bool refused(void)
{
    bool no = heap_countdown > 0 && --heap_countdown == 0;

    if (no) errno = ENOMEM;
    return no;
}

/* With a red zone. What overflows is more than the C library has. */
static size_t room_of(size_t bytes)
{
    size_t room;

    return __builtin_add_overflow(bytes, ZONE + sizeof(block) + _Alignof(block), &room) ? SIZE_MAX : room;
}

/* ---- the C library's functions ---- */

SHOWN void *malloc(size_t bytes) { return refused() ? NULL : guard(__libc_malloc(room_of(bytes)), bytes, __builtin_return_address(0)); }

SHOWN void *calloc(size_t n, size_t each)
{
    size_t bytes;

    if (refused()) return NULL;
    if (__builtin_mul_overflow(n, each, &bytes)) bytes = SIZE_MAX;
    return guard(__libc_calloc(1, room_of(bytes)), bytes, __builtin_return_address(0));
}

SHOWN void free(void *p)
{
    int error = errno;

    if (!p) return;
    block *b = block_of(p);
    check(b, p);
    leave(b);
    memset(p, FREED_BYTE, b->bytes < MOST_FREED ? b->bytes : MOST_FREED);
    b->at = NULL;                       /* a second free is seen */
    __libc_free(p);
    errno = error;
}

SHOWN void *realloc(void *p, size_t bytes)
{
    const void *maker = __builtin_return_address(0);

    if (refused()) return NULL;
    if (!p) return guard(__libc_malloc(room_of(bytes)), bytes, maker);
    if (!bytes) {
        free(p);
        return NULL;
    }
    block old = *block_of(p);
    check(block_of(p), p);
    leave(block_of(p));
    void *grown = __libc_realloc(p, room_of(bytes));
    if (!grown) guard(p, old.bytes, old.maker);
    return guard(grown, bytes, maker);
}

static void *aligned(size_t to, size_t bytes, const void *maker) { return guard(__libc_memalign(to, room_of(bytes)), bytes, maker); }

SHOWN void *memalign(size_t to, size_t bytes) { return aligned(to, bytes, __builtin_return_address(0)); }
SHOWN void *aligned_alloc(size_t to, size_t bytes) { return aligned(to, bytes, __builtin_return_address(0)); }

SHOWN int posix_memalign(void **out, size_t to, size_t bytes)
{
    void *p = aligned(to, bytes, __builtin_return_address(0));

    if (p) *out = p;
    return p ? 0 : ENOMEM;
}

/* ---- leaks ---- */

static block **sorted;                  /* by address: the blocks that were live when the search began */
static size_t n_sorted;
static block *to_follow;

static int by_address(const void *a, const void *b)
{
    const uint8_t *x = (*(block *const *)a)->at, *y = (*(block *const *)b)->at;
    return (x > y) - (x < y);
}

/* The block that an address lies in. */
static block *holder(uintptr_t address)
{
    size_t low = 0, high = n_sorted;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)sorted[middle]->at <= address) low = middle + 1;
        else high = middle;
    }
    if (!low || address > (uintptr_t)sorted[low - 1]->at + sorted[low - 1]->bytes) return NULL;
    return sorted[low - 1];
}

static void reach_block(block *b)
{
    if (!b || b->reached) return;
    b->reached = true;
    b->next    = to_follow;
    to_follow  = b;
}

static void reach_from(const uint8_t *at, size_t bytes)
{
    const uint8_t *end = at + bytes;
    uintptr_t word;

    for (at += -(uintptr_t)at % sizeof word; at + sizeof word <= end; at += sizeof word) {
        memcpy(&word, at, sizeof word);
        reach_block(holder(word));
    }
}

/* Roots: what each loaded object may write, and this thread's variables. What the loader made is its own. */
static int reach_object(struct dl_phdr_info *object, size_t size, void *user)
{
    bool is_loader = object->dlpi_addr == getauxval(AT_BASE), *foreign = user;

    (void)size;
    if (strstr(object->dlpi_name, "libmpi") || strstr(object->dlpi_name, "libcuda.so")) *foreign = true;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        const uint8_t *at      = (const uint8_t *)(object->dlpi_addr + part->p_vaddr);
        if (part->p_type == PT_TLS && object->dlpi_tls_data) reach_from(object->dlpi_tls_data, part->p_memsz);
        if (part->p_type != PT_LOAD) continue;
        if (part->p_flags & PF_W) reach_from(at, part->p_memsz);
        if (!is_loader) continue;
        for (size_t k = 0; k < n_sorted; k++)
            if ((const uint8_t *)sorted[k]->maker >= at && (const uint8_t *)sorted[k]->maker < at + part->p_memsz) reach_block(sorted[k]);
    }
    return 0;
}

static bool sort_blocks(void)
{
    size_t room = (size_t)heap_live;

    sorted = __libc_malloc((room + 1) * sizeof *sorted);
    for (block *b = all.after; sorted && b != &all && n_sorted < room; b = b->after) sorted[n_sorted++] = b;
    if (sorted) qsort(sorted, n_sorted, sizeof *sorted, by_address);
    return sorted != NULL;
}

/* How many blocks behind number `from` nothing leads to. MPI's own are not ours. */
static int print_leaks(int64_t from)
{
    bool foreign = false;
    int n    = 0;

    for (const block *b = all.after; b != &all; b = b->after) check(b, b->at);
    if (!sort_blocks()) return 1;
    dl_iterate_phdr(reach_object, &foreign);
    while (to_follow) {
        const block *b = to_follow;
        to_follow      = b->next;
        reach_from(b->at, b->bytes);
    }
    for (size_t k = 0; k < n_sorted && !foreign; k++) {
        const block *b = sorted[k];
        if (b->reached || b->number <= from) continue;
        fprintf(stderr, "heap: block %lld of %zu bytes is left; REPRISE_HEAP_BLOCK=%lld prints who made it\n", (long long)b->number, b->bytes,
                (long long)b->number);
        n++;
    }
    return n;
}

/* ---- the program ---- */

static void lock_all(void) { pthread_mutex_lock(&lock); }
static void unlock_all(void) { pthread_mutex_unlock(&lock); }

int __real_main(int argc, char **argv);
int __wrap_main(int argc, char **argv);

int __wrap_main(int argc, char **argv)
{
    const char *number = getenv("REPRISE_HEAP_BLOCK");

    pthread_atfork(lock_all, unlock_all, unlock_all);
    if (number) stop_at = strtoll(number, NULL, 10);
    close(STDIN_FILENO);        /* so 0 is the descriptor of some file */
    int64_t before = n_made;
    int status     = __real_main(argc, argv);
    return status || heap_keeps ? status : print_leaks(before) != 0;
}
#endif
