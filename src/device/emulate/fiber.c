/* device/emulate/fiber.c -- runs the blocks of a grid, one after the other, and the threads of a block on fibers.
 *
 *   grid ──▶ block ──▶ a thread runs on a fiber until it ends or must wait, then the next one whose turn it is ──▶ ... ──▶ all have ended
 *
 *   the thread ended, the next one is fresh      it begins on the same fiber, without a switch
 *   the thread waits, the next one is fresh      it begins on a fiber of the stack `idle`
 *   the next one has begun                       its fiber goes on; if the thread ended, its own fiber becomes idle
 *
 * A thread waits in a barrier of its block or in an operation of its warp. If no thread can run and some wait, the kernel would hang on a GPU; the
 * process aborts with a message. Fibers live as long as the process: an idle one waits at the top of its loop.
 */
#include "device/emulate/emulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"

#ifdef RP_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
/* Define RP_PORTABLE_FIBERS to test the switch of fibers that other machines use. */
#if defined(__x86_64__) && !defined(RP_PORTABLE_FIBERS)
#define RP_FAST_FIBERS
#else
#include <ucontext.h>
#endif

enum {
    MOST          = RP_EMULATE_THREADS,
    WARPS         = MOST / RP_EMULATE_WARP,
    STACK_BYTES   = 256 << 10,          /* addresses; a stack takes the pages that it touches */
    MEASURED      = 512,                /* most kernels whose static shared memory is filled */
    MEASURES      = 3,
    COPIES        = 256,                /* most copies under way of one thread */
    PENDING_BYTE  = 0xff,               /* of a copy's target, and of shared memory at the start of a block: NaN in fp32 and bf16 */
    COPY_BYTES    = 16,
    STAGGER_BYTES = 64,                 /* stacks begin at different lines of the cache */
};

enum { FRESH, READY, AT_BARRIER, IN_WARP, ENDED };      /* states of a thread; the first two can run */

/* Where a fiber continues. `fake`, `bottom` and `bytes` are for AddressSanitizer. */
typedef struct {
#ifdef RP_FAST_FIBERS
    void *sp;
#else
    ucontext_t at;
#endif
    void *fake;
    const void *bottom;
    size_t bytes;
} context;

typedef struct { void *to; const void *from; int valid, group; } copy;

typedef struct {
    int fiber;
    int parity;                 /* which half of the slots the next message uses */
    int n_copies, group;
} thread;

/* The static shared memory that a kernel wrote in the first blocks of its first launches. Empty: from == to. */
typedef struct {
    const rp_gpu_kernel *kernel;
    size_t from, to;            /* offsets in the section */
    int measures;
} shared_range;

typedef struct {
    thread threads[MOST];
    unsigned char states[MOST];         /* apart from the threads: searches read them one after the other */
    copy copies[MOST][COPIES];
    _Alignas(64) unsigned char slots[2][MOST][RP_EMULATE_SLOT_BYTES];
    int order[MOST], place_of[MOST];    /* threads in the order of their turns, and the inverse */
    context fibers[MOST];
    int idle[MOST], n_idle;
    int n, n_ended, n_at_barrier, n_in_warp[WARPS];
    context home, *last;                /* the caller of rp__emulate_grid, and the context that ran before this one */
    const rp_gpu_kernel *kernel;
    const void *args;
    uint64_t random;
    int n_fibers;                       /* that have a stack */
    int limit;                          /* bytes of dynamic shared memory that are open */
    shared_range ranges[MEASURED];
    int n_ranges;
    unsigned char *stacks;
} machine;

rp_emulate_place rp__emulate_now;
uintptr_t rp__emulate_distance;
unsigned char *rp__emulate_dynamic_shared;
static machine *m;
static rp_emulate_schedule schedule = RP_EMULATE_SCHEDULES;     /* not chosen yet */

/* ---- schedules ---- */

static const char *const schedule_names[] = { "forward", "reverse", "random", "greedy" };

const char *rp__emulate_schedule_name(rp_emulate_schedule s) { return schedule_names[s]; }
void rp__emulate_set_schedule(rp_emulate_schedule s) { schedule = s; }

rp_emulate_schedule rp__emulate_get_schedule(void)
{
    if (schedule == RP_EMULATE_SCHEDULES) {
        const char *wanted = getenv("REPRISE_EMU");
        schedule           = RP_EMULATE_FORWARD;
        for (int i = 0; wanted && i < RP_EMULATE_SCHEDULES; i++)
            if (!strcmp(wanted, schedule_names[i])) schedule = (rp_emulate_schedule)i;
    }
    return schedule;
}

static void set_order(void)
{
    for (int i = 0; i < m->n; i++) m->order[i] = schedule == RP_EMULATE_REVERSE ? m->n - 1 - i : i;
    for (int i = m->n - 1; schedule == RP_EMULATE_RANDOM && i > 0; i--) {
        m->random = m->random * 6364136223846793005u + 1442695040888963407u;
        int j = (int)((m->random >> 33) % (uint64_t)(i + 1)), held = m->order[i];
        m->order[i] = m->order[j];
        m->order[j] = held;
    }
    for (int i = 0; i < m->n; i++) m->place_of[m->order[i]] = i;
}

/* ---- contexts ---- */

#ifdef RP_FAST_FIBERS
__attribute__((naked, noinline)) static void swap(void **save __attribute__((unused)), void *load __attribute__((unused)))
{
    __asm__("push %rbp; push %rbx; push %r12");
    __asm__("push %r13; push %r14; push %r15");
    __asm__("mov %rsp, (%rdi); mov %rsi, %rsp");
    __asm__("pop %r15; pop %r14; pop %r13");
    __asm__("pop %r12; pop %rbx; pop %rbp; ret");
}
#endif

static void entered(context *now)
{
    (void)now;
#ifdef RP_ASAN
    __sanitizer_finish_switch_fiber(now->fake, &m->last->bottom, &m->last->bytes);
#endif
}

static __attribute__((noinline)) void change(context *from, context *to)
{
    m->last = from;
#ifdef RP_ASAN
    __sanitizer_start_switch_fiber(&from->fake, to->bottom, to->bytes);
#endif
#ifdef RP_FAST_FIBERS
    swap(&from->sp, to->sp);
#else
    swapcontext(&from->at, &to->at);
#endif
    entered(from);
}

_Noreturn static void fail(const char *reason)
{
    fprintf(stderr, "emulated device: kernel %s, block %d %d %d, thread %d: %s\n", m ? m->kernel->name : "?", rp__emulate_now.block[0],
            rp__emulate_now.block[1], rp__emulate_now.block[2], rp__emulate_now.thread, reason);
    abort();
}

_Noreturn static void fail_stuck(void)
{
    char text[160];
    int in_warp = 0;
    for (int i = 0; i < m->n; i++) in_warp += m->states[i] == IN_WARP;
    snprintf(text, sizeof text, "the block hangs: %d threads wait in a barrier, %d in an operation of their warp, %d have ended", m->n_at_barrier, in_warp,
             m->n_ended);
    fail(text);
}

/* ---- who runs next ---- */

/* A lane of the warp of thread `at` that can run, searched after it, or -1. */
static int ready_lane(int at)
{
    int first = at / RP_EMULATE_WARP * RP_EMULATE_WARP;
    for (int i = 1; i <= RP_EMULATE_WARP; i++) {
        int next = first + (at - first + i) % RP_EMULATE_WARP;
        if (next < m->n && m->states[next] <= READY) return next;
    }
    return -1;
}

static int ready_in_turn(int at)
{
    for (int i = 1, place = m->place_of[at]; i <= m->n; i++) {
        if (++place == m->n) place = 0;
        if (m->states[m->order[place]] <= READY) return m->order[place];
    }
    return -1;
}

/* The thread whose turn it is after thread `at`, or -1: all have ended. */
static int next_after(int at)
{
    int next = schedule == RP_EMULATE_GREEDY ? ready_lane(at) : -1;
    if (next < 0) next = ready_in_turn(at);
    if (next < 0 && m->n_ended < m->n) fail_stuck();
    return next;
}

static void begin(int at, int fiber)
{
    m->states[at]  = READY;
    m->threads[at] = (thread){ .fiber = fiber };
}

/* Leaves a context for the fiber of thread `next`, or for the caller of rp__emulate_grid. */
static void change_to(context *from, int next)
{
    if (next >= 0 && m->states[next] == FRESH) begin(next, m->idle[--m->n_idle]);
    if (next >= 0) rp__emulate_now.thread = next;
    change(from, next < 0 ? &m->home : &m->fibers[m->threads[next].fiber]);
}

/* Runs other threads until this one's turn comes again. */
static void go_on(void)
{
    int at = rp__emulate_now.thread, next = next_after(at);
    if (next != at) change_to(&m->fibers[m->threads[at].fiber], next);
}

static void open_barrier(void)
{
    if (!m->n_at_barrier || m->n_at_barrier + m->n_ended < m->n) return;
    m->n_at_barrier = 0;
    for (int i = 0; i < m->n; i++)
        if (m->states[i] == AT_BARRIER) m->states[i] = READY;
}

void rp__emulate_barrier(void)
{
    int at = rp__emulate_now.thread;
    m->n_at_barrier++;
    m->states[at] = AT_BARRIER;
    open_barrier();
    if (m->states[at] != READY) go_on();
}

/* ---- warps ---- */

void *rp__emulate_slot(int lane)
{
    int at = rp__emulate_now.thread;
    return m->slots[m->threads[at].parity][at / RP_EMULATE_WARP * RP_EMULATE_WARP + lane];
}

void rp__emulate_warp_sync(void)
{
    int at = rp__emulate_now.thread, warp = at / RP_EMULATE_WARP, first = warp * RP_EMULATE_WARP;
    int lanes = m->n - first < RP_EMULATE_WARP ? m->n - first : RP_EMULATE_WARP;
    m->states[at] = IN_WARP;
    if (++m->n_in_warp[warp] < lanes) {
        go_on();
        return;
    }
    m->n_in_warp[warp] = 0;
    memset(m->states + first, READY, (size_t)lanes);
}

void rp__emulate_warp_done(void) { m->threads[rp__emulate_now.thread].parity ^= 1; }

/* ---- copies that complete later ---- */

void rp__emulate_aligned(const void *p, const char *operation)
{
    char text[160];
    if ((uintptr_t)p % COPY_BYTES == 0) return;
    snprintf(text, sizeof text, "the address of %s is not a multiple of %d (remainder %d)", operation, COPY_BYTES, (int)((uintptr_t)p % COPY_BYTES));
    fail(text);
}

void rp__emulate_copy(void *to, const void *from, int valid)
{
    thread *f = &m->threads[rp__emulate_now.thread];
    rp__emulate_aligned(to, "the target of copy16");
    rp__emulate_aligned(from, "the source of copy16");
    if (valid < 0 || valid > COPY_BYTES) fail("copy16 takes 0 to 16 valid bytes");
    if (f->n_copies == COPIES) fail("too many copies are under way");
    m->copies[rp__emulate_now.thread][f->n_copies++] = (copy){ to, from, valid, f->group };
    memset(to, PENDING_BYTE, COPY_BYTES);
}

void rp__emulate_copy_commit(void) { m->threads[rp__emulate_now.thread].group++; }

void rp__emulate_copy_wait(int groups_left)
{
    thread *f    = &m->threads[rp__emulate_now.thread];
    copy *copies = m->copies[rp__emulate_now.thread];
    int kept     = 0;
    for (int i = 0; i < f->n_copies; i++) {
        copy c = copies[i];
        if (c.group >= f->group - groups_left) {
            copies[kept++] = c;
            continue;
        }
        memcpy(c.to, c.from, (size_t)c.valid);
        memset((char *)c.to + c.valid, 0, (size_t)(COPY_BYTES - c.valid));
    }
    f->n_copies = kept;
}

/* ---- static shared memory ---- */

extern unsigned char __start_rp_gpu_shared[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_rp_gpu_shared[] __attribute__((weak, visibility("hidden")));

static size_t section_bytes(void) { return (size_t)((uintptr_t)__stop_rp_gpu_shared - (uintptr_t)__start_rp_gpu_shared); }

static shared_range *range_of(const rp_gpu_kernel *kernel)
{
    for (int i = 0; i < m->n_ranges; i++)
        if (m->ranges[i].kernel == kernel) return &m->ranges[i];
    if (m->n_ranges == MEASURED || !section_bytes()) return NULL;
    m->ranges[m->n_ranges].kernel = kernel;
    return &m->ranges[m->n_ranges++];
}

static void fill_shared(const shared_range *r, bool all)
{
    if (r && all) memset(__start_rp_gpu_shared, PENDING_BYTE, section_bytes());
    else if (r && r->to > r->from) memset(__start_rp_gpu_shared + r->from, PENDING_BYTE, r->to - r->from);
}

static bool untouched(size_t at, size_t bytes)
{
    static const unsigned char fresh[64] = { [0 ... 63] = PENDING_BYTE };
    return !memcmp(__start_rp_gpu_shared + at, fresh, bytes);
}

/* After a block that began with a section of PENDING_BYTE: extends the range by the bytes that changed, in steps of 64. */
static void measure_shared(shared_range *r)
{
    size_t bytes = section_bytes();
    r->measures++;
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < 64 ? bytes - at : 64;
        if (untouched(at, n)) continue;
        if (r->to == r->from) r->from = at;
        if (at < r->from) r->from = at;
        if (at + n > r->to) r->to = at + n;
    }
}

/* ---- blocks ---- */

static void fiber_main(void)
{
    int own = m->threads[rp__emulate_now.thread].fiber;
    entered(&m->fibers[own]);
    for (;;) {
        m->kernel->run(m->args);
        int at = rp__emulate_now.thread;
        m->states[at] = ENDED;
        m->n_ended++;
        open_barrier();
        int next = next_after(at);
        if (next >= 0 && m->states[next] == FRESH) {
            begin(next, own);
            rp__emulate_now.thread = next;
            continue;
        }
        m->idle[m->n_idle++] = own;
        change_to(&m->fibers[own], next);
    }
}

static void make_fiber(int i)
{
    context *c           = &m->fibers[i];
    unsigned char *stack = m->stacks + (size_t)i * STACK_BYTES;
    size_t page          = (size_t)sysconf(_SC_PAGESIZE);
    mprotect(stack, page, PROT_NONE);                   /* a stack that overflows ends the process */
    c->bottom = stack + page;
    c->bytes  = STACK_BYTES - page;
#ifdef RP_FAST_FIBERS
    void **sp = (void **)(void *)(stack + STACK_BYTES - (size_t)(i % 61) * STAGGER_BYTES - 64);
    *--sp     = NULL;                                   /* at the start of a function, the stack pointer is 8 above a multiple of 16 */
    *--sp     = (void *)(uintptr_t)fiber_main;
    sp -= 6;                                            /* the registers that swap loads; their values do not matter */
    c->sp = sp;
#else
    getcontext(&c->at);
    c->at.uc_stack.ss_sp   = stack + page;
    c->at.uc_stack.ss_size = STACK_BYTES - page;
    makecontext(&c->at, fiber_main, 0);
#endif
}

static void *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static bool make_machine(void)
{
    if (m) return true;
    machine *made         = map(sizeof *made);
    unsigned char *stacks = map((size_t)MOST * STACK_BYTES), *shared = map(RP_EMULATE_SHARED_BYTES);
    if (!made || !stacks || !shared) {
        if (made) munmap(made, sizeof *made);
        if (stacks) munmap(stacks, (size_t)MOST * STACK_BYTES);
        if (shared) munmap(shared, RP_EMULATE_SHARED_BYTES);
        return false;
    }
    m                          = made;
    m->stacks                  = stacks;
    m->limit                   = -1;
    rp__emulate_dynamic_shared = shared;
    return true;
}

static void run_block(int shared_bytes)
{
    m->n_ended = m->n_at_barrier = 0;
    memset(m->n_in_warp, 0, sizeof m->n_in_warp);
    memset(m->states, FRESH, (size_t)m->n);
    if (shared_bytes) memset(rp__emulate_dynamic_shared, PENDING_BYTE, (size_t)shared_bytes);
    set_order();
    change_to(&m->home, m->order[0]);
}

/* AddressSanitizer reports an access past the dynamic shared memory that the launch asked for. */
static void limit_shared(int bytes)
{
    if (bytes == m->limit) return;
    m->limit = bytes;
#ifdef RP_ASAN
    __asan_unpoison_memory_region(rp__emulate_dynamic_shared, RP_EMULATE_SHARED_BYTES);
    __asan_poison_memory_region(rp__emulate_dynamic_shared + bytes, (size_t)(RP_EMULATE_SHARED_BYTES - bytes));
#endif
}

static void run_block_at(int64_t at, const int grid[3], int shared_bytes, shared_range *range, bool measure)
{
    rp__emulate_now.block[0] = (int)(at % grid[0]);
    rp__emulate_now.block[1] = (int)(at / grid[0] % grid[1]);
    rp__emulate_now.block[2] = (int)(at / grid[0] / grid[1]);
    fill_shared(range, measure);
    run_block(shared_bytes);
    if (measure) measure_shared(range);
}

static void run_grid(const rp_gpu_kernel *kernel, const int grid[3], int shared_bytes, const void *args)
{
    int64_t n = (int64_t)grid[0] * grid[1] * grid[2];
    rp__emulate_get_schedule();
    for (; m->n_fibers < kernel->threads; m->n_fibers++) make_fiber(m->idle[m->n_idle++] = m->n_fibers);
    m->kernel = kernel;
    m->args   = args;
    m->n      = kernel->threads;
    m->random = 1;
    limit_shared(shared_bytes);
    for (int i = 0; i < 3; i++) rp__emulate_now.blocks[i] = grid[i];
    shared_range *range = range_of(kernel);
    for (int64_t i = 0; i < n; i++)
        run_block_at(schedule == RP_EMULATE_REVERSE ? n - 1 - i : i, grid, shared_bytes, range, range && i == 0 && range->measures < MEASURES);
}

/* Kernels keep denormals, as on a GPU, even if the thread that waits for them flushes its own. */
bool rp__emulate_grid(const rp_gpu_kernel *kernel, const int grid[3], int shared_bytes, const void *args)
{
    if (!make_machine()) return false;
    unsigned mode = rp__fp_enter_exact();
    run_grid(kernel, grid, shared_bytes, args);
    rp__fp_leave(mode);
    return true;
}
