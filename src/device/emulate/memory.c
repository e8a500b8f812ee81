/* device/emulate/memory.c -- device memory and pinned memory of the emulated driver.
 *
 *   addresses    a range without access (PROT_NONE). The program sees only these addresses.
 *   bytes        a second range, at one constant distance. Kernels and copies add rp__emulate_distance.
 *
 * Both are divided into chunks of 2 MiB. One chunk stays unused after each reservation, so that an overrun faults.
 * Memory behind chunks comes from cuMemMap, and access to it from cuMemSetAccess. New memory holds 0xff in each byte, which is NaN. It is a private
 * mapping of a small file of such bytes, so a page is filled when it is first used. Mapping a handle twice is not supported. Unmapping loses its
 * content.
 */
#include "device/emulate/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define RP_SMALL_SPACE
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RP_SMALL_SPACE
#endif
#endif

#define CHUNK ((size_t)2 << 20)
#ifdef RP_SMALL_SPACE
#define MOST_BYTES ((size_t)64 << 30)       /* ThreadSanitizer ends the process for larger ranges */
#else
#define MOST_BYTES ((size_t)4 << 40)
#endif
#define LEAST_BYTES ((size_t)64 << 20)
#define FILE_BYTES ((size_t)8 << 20)
#define DEFAULT_TOTAL ((size_t)16 << 30)
#define HANDLE_BASE ((uint64_t)0x5e00000000)

typedef enum { UNUSED, RESERVED, MAPPED, ACCESSIBLE } chunk_state;
typedef struct { size_t chunks, at; bool mapped, released; } physical;
typedef struct pinned { struct pinned *next; unsigned char *at; size_t bytes; bool registered; } pinned;

static unsigned char *addresses, *bytes_behind;
static size_t space_bytes, n_chunks, next_chunk, top_chunk, used, total;      /* no reservation lies above top_chunk */
static unsigned char *states;           /* of each chunk: chunk_state */
static uint32_t *lengths;               /* in chunks, at the first chunk of a reservation */
static uint32_t *owners;                /* index of the physical memory of a mapped chunk */
static int file = -1;
static physical *blocks;
static size_t n_blocks, room_blocks;
static pinned *pins;
static int n_reservations;

static void *map(size_t bytes, int protection)
{
    void *at = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* A file of FILE_BYTES bytes 0xff. Without one, new memory holds zeros. */
static void open_file(void)
{
    unsigned char page[4096];
    memset(page, 0xff, sizeof page);
    file = memfd_create("emulated memory", MFD_CLOEXEC);
    for (size_t i = 0; file >= 0 && i < FILE_BYTES; i += sizeof page)
        if (write(file, page, sizeof page) != (ssize_t)sizeof page) {
            close(file);
            file = -1;
        }
}

int rp__emulated_open_memory(void)
{
    const char *wanted = getenv("REPRISE_EMU_MEMORY");
    long long number   = wanted ? strtoll(wanted, NULL, 10) : 0;
    total              = number > 0 ? (size_t)number : DEFAULT_TOTAL;
    if (addresses) return CUDA_SUCCESS;
    for (space_bytes = MOST_BYTES; space_bytes >= LEAST_BYTES; space_bytes /= 2) {
        addresses    = map(space_bytes + CHUNK, PROT_NONE);
        bytes_behind = addresses ? map(space_bytes + CHUNK, PROT_NONE) : NULL;
        if (bytes_behind) break;
        if (addresses) munmap(addresses, space_bytes + CHUNK);
        addresses = NULL;
    }
    if (!addresses) return CUDA_ERROR_OUT_OF_MEMORY;
    addresses += CHUNK - (uintptr_t)addresses % CHUNK;
    bytes_behind += CHUNK - (uintptr_t)bytes_behind % CHUNK;
    n_chunks = space_bytes / CHUNK;
    states   = map(n_chunks, PROT_READ | PROT_WRITE);
    lengths  = map(n_chunks * sizeof *lengths, PROT_READ | PROT_WRITE);
    owners   = map(n_chunks * sizeof *owners, PROT_READ | PROT_WRITE);
    if (!states || !lengths || !owners) return CUDA_ERROR_OUT_OF_MEMORY;
    rp__emulate_distance = (uintptr_t)bytes_behind - (uintptr_t)addresses;
    open_file();
    return CUDA_SUCCESS;
}

/* ---- ranges ---- */

bool rp__emulated_on_device(uint64_t at) { return at - (uint64_t)(uintptr_t)addresses < space_bytes; }

static bool whole_chunks(uint64_t at, size_t bytes)
{
    uint64_t offset = at - (uint64_t)(uintptr_t)addresses;
    return bytes && bytes % CHUNK == 0 && offset % CHUNK == 0 && offset < space_bytes && bytes <= space_bytes - offset;
}
static size_t chunk_at(uint64_t at) { return (size_t)(at - (uint64_t)(uintptr_t)addresses) / CHUNK; }

static bool all_at_least(size_t first, size_t n, chunk_state least)
{
    for (size_t i = first; i < first + n; i++)
        if (states[i] < least) return false;
    return true;
}

unsigned char *rp__emulated_bytes(uint64_t at, size_t bytes)
{
    uint64_t offset = at - (uint64_t)(uintptr_t)addresses;
    if (!rp__emulated_on_device(at)) return (unsigned char *)(uintptr_t)at;
    if (bytes > space_bytes - offset) return NULL;
    size_t first = chunk_at(at), last = chunk_at(at + (bytes ? bytes - 1 : 0));
    return all_at_least(first, last - first + 1, ACCESSIBLE) ? bytes_behind + offset : NULL;
}

/* The first of `n` unused chunks with an unused one behind them, from `from` on; n_chunks if there are none. */
static size_t find_unused(size_t from, size_t n)
{
    size_t run = 0;
    for (size_t i = from; i < n_chunks; i++) {
        run = states[i] == UNUSED ? run + 1 : 0;
        if (run == n + 1) return i - n;
    }
    return n_chunks;
}

int rp__emulated_cuMemAddressReserve(uint64_t *at, size_t bytes, size_t align, uint64_t wanted, unsigned long long flags)
{
    RP_ENTER(cuMemAddressReserve);
    (void)wanted;       /* a hint */
    if (!at || !bytes || bytes % CHUNK || flags || (align & (align - 1)) || align > CHUNK) return CUDA_ERROR_INVALID_VALUE;
    size_t n = bytes / CHUNK, first;
    if (n >= n_chunks) return CUDA_ERROR_OUT_OF_MEMORY;
    first = find_unused(next_chunk, n);
    if (first == n_chunks) first = find_unused(0, n);
    if (first == n_chunks) return CUDA_ERROR_OUT_OF_MEMORY;
    memset(states + first, RESERVED, n);
    lengths[first] = (uint32_t)n;
    next_chunk     = first + n + 1;
    top_chunk      = next_chunk > top_chunk ? next_chunk : top_chunk;
    n_reservations++;
    *at = (uint64_t)(uintptr_t)addresses + first * CHUNK;
    return CUDA_SUCCESS;
}

int rp__emulated_cuMemAddressFree(uint64_t at, size_t bytes)
{
    RP_ENTER(cuMemAddressFree);
    if (!whole_chunks(at, bytes)) return CUDA_ERROR_INVALID_VALUE;
    size_t first = chunk_at(at), n = bytes / CHUNK;
    if (lengths[first] != n) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = first; i < first + n; i++)
        if (states[i] != RESERVED) return CUDA_ERROR_INVALID_VALUE;
    memset(states + first, UNUSED, n);
    lengths[first] = 0;
    n_reservations--;
    return CUDA_SUCCESS;
}

/* ---- physical memory ---- */

int rp__emulated_cuMemGetInfo_v2(size_t *available, size_t *all)
{
    RP_ENTER(cuMemGetInfo_v2);
    if (!available || !all) return CUDA_ERROR_INVALID_VALUE;
    *available = used < total ? total - used : 0;
    *all       = total;
    return CUDA_SUCCESS;
}

static bool of_the_device(const rp_cuda_allocation *p)
{
    return p && p->type == CU_MEM_ALLOCATION_TYPE_PINNED && p->location.type == CU_MEM_LOCATION_TYPE_DEVICE && p->location.id == 0;
}

int rp__emulated_cuMemGetAllocationGranularity(size_t *bytes, const rp_cuda_allocation *properties, int option)
{
    RP_ENTER(cuMemGetAllocationGranularity);
    if (!bytes || !of_the_device(properties) || option < 0 || option > 1) return CUDA_ERROR_INVALID_VALUE;
    *bytes = CHUNK;
    return CUDA_SUCCESS;
}

int rp__emulated_cuMemCreate(uint64_t *handle, size_t bytes, const rp_cuda_allocation *properties, unsigned long long flags)
{
    RP_ENTER(cuMemCreate);
    int forbidden = rp__emulated_unsafe();
    if (forbidden) return forbidden;
    if (!handle || !bytes || bytes % CHUNK || flags || !of_the_device(properties)) return CUDA_ERROR_INVALID_VALUE;
    if (used > total || bytes > total - used) return CUDA_ERROR_OUT_OF_MEMORY;
    if (n_blocks == room_blocks) {
        physical *more = realloc(blocks, (2 * room_blocks + 16) * sizeof *more);
        if (!more) return CUDA_ERROR_OUT_OF_MEMORY;
        blocks      = more;
        room_blocks = 2 * room_blocks + 16;
    }
    blocks[n_blocks] = (physical){ .chunks = bytes / CHUNK };
    used += bytes;
    *handle = HANDLE_BASE + n_blocks++;
    return CUDA_SUCCESS;
}

static physical *find_block(uint64_t handle)
{
    uint64_t i = handle - HANDLE_BASE;
    return i < n_blocks && !blocks[i].released ? &blocks[i] : NULL;
}

static void give_back(const physical *b)
{
    if (b->released && !b->mapped) used -= b->chunks * CHUNK;
}

int rp__emulated_cuMemRelease(uint64_t handle)
{
    RP_ENTER(cuMemRelease);
    physical *b = find_block(handle);
    if (!b) return CUDA_ERROR_INVALID_VALUE;
    b->released = true;
    give_back(b);
    return CUDA_SUCCESS;
}

/* Memory behind [first, first + n), not accessible yet. The offset in the file follows the address, so that neighbours are one mapping. */
static bool put_memory(size_t first, size_t n)
{
    size_t at = first * CHUNK, end = (first + n) * CHUNK;
    while (at < end) {
        size_t offset = at % FILE_BYTES, piece = FILE_BYTES - offset < end - at ? FILE_BYTES - offset : end - at;
        int flags     = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE | (file < 0 ? MAP_ANONYMOUS : 0);
        if (mmap(bytes_behind + at, piece, PROT_NONE, flags, file, file < 0 ? 0 : (off_t)offset) == MAP_FAILED) return false;
        at += piece;
    }
    return true;
}

static void take_memory(size_t first, size_t n)
{
    mmap(bytes_behind + first * CHUNK, n * CHUNK, PROT_NONE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE | MAP_ANONYMOUS, -1, 0);
    memset(states + first, RESERVED, n);
}

int rp__emulated_cuMemMap(uint64_t at, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags)
{
    RP_ENTER(cuMemMap);
    physical *b = find_block(handle);
    if (!b || !whole_chunks(at, bytes) || offset || flags || bytes != b->chunks * CHUNK) return CUDA_ERROR_INVALID_VALUE;
    if (b->mapped) return EMU_NOT_SUPPORTED;
    size_t first = chunk_at(at);
    for (size_t i = first; i < first + b->chunks; i++)
        if (states[i] != RESERVED) return CUDA_ERROR_INVALID_VALUE;
    if (!put_memory(first, b->chunks)) {
        take_memory(first, b->chunks);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = first; i < first + b->chunks; i++) {
        states[i] = MAPPED;
        owners[i] = (uint32_t)(handle - HANDLE_BASE);
    }
    b->mapped = true;
    b->at     = first;
    return CUDA_SUCCESS;
}

int rp__emulated_cuMemUnmap(uint64_t at, size_t bytes)
{
    RP_ENTER(cuMemUnmap);
    if (!whole_chunks(at, bytes)) return CUDA_ERROR_INVALID_VALUE;
    size_t first = chunk_at(at), end = first + bytes / CHUNK;
    if (!all_at_least(first, end - first, MAPPED) || blocks[owners[first]].at != first) return CUDA_ERROR_INVALID_VALUE;
    const physical *last = &blocks[owners[end - 1]];
    if (last->at + last->chunks != end) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = first; i < end;) {
        physical *b = &blocks[owners[i]];
        i += b->chunks;
        b->mapped = false;
        give_back(b);
    }
    take_memory(first, end - first);
    return CUDA_SUCCESS;
}

int rp__emulated_cuMemSetAccess(uint64_t at, size_t bytes, const rp_cuda_access *access, size_t count)
{
    RP_ENTER(cuMemSetAccess);
    if (!whole_chunks(at, bytes) || !access || count != 1 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
        access->location.type != CU_MEM_LOCATION_TYPE_DEVICE || access->location.id != 0)
        return CUDA_ERROR_INVALID_VALUE;
    size_t first = chunk_at(at), n = bytes / CHUNK;
    if (!all_at_least(first, n, MAPPED)) return CUDA_ERROR_INVALID_VALUE;
    if (mprotect(bytes_behind + first * CHUNK, bytes, PROT_READ | PROT_WRITE)) return CUDA_ERROR_OUT_OF_MEMORY;
    memset(states + first, ACCESSIBLE, n);
    return CUDA_SUCCESS;
}

/* ---- pinned memory ---- */

int rp__emulated_cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
    RP_ENTER(cuMemHostAlloc);
    int forbidden = rp__emulated_unsafe();
    void *block;
    if (forbidden) return forbidden;
    if (!at || !bytes || flags > 7) return CUDA_ERROR_INVALID_VALUE;
    pinned *p = malloc(sizeof *p);
    if (!p || posix_memalign(&block, 4096, bytes)) {
        free(p);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *p   = (pinned){ pins, block, bytes, false };
    pins = p;
    *at  = block;
    return CUDA_SUCCESS;
}

static int unpin(const void *at, bool registered, const char *call)
{
    int forbidden = rp__emulated_unsafe();
    if (forbidden) return forbidden;
    for (pinned **p = &pins; *p; p = &(*p)->next)
        if ((*p)->at == at && (*p)->registered == registered) {
            pinned *gone = *p;
            if (rp__emulated_in_use((uint64_t)(uintptr_t)at, gone->bytes)) {
                fprintf(stderr, "emulated device: %s of a block that a waiting call uses\n", call);
                abort();
            }
            *p = gone->next;
            if (!registered) free(gone->at);
            free(gone);
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

int rp__emulated_cuMemFreeHost(void *at)
{
    RP_ENTER(cuMemFreeHost);
    return unpin(at, false, "cuMemFreeHost");
}

/* Whole pages, none of them pinned already. */
int rp__emulated_cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags)
{
    RP_ENTER(cuMemHostRegister_v2);
    int forbidden = rp__emulated_unsafe();
    if (forbidden) return forbidden;
    if (!at || !bytes || flags || (uintptr_t)at % 4096 || bytes % 4096) return CUDA_ERROR_INVALID_VALUE;
    for (const pinned *p = pins; p; p = p->next)
        if ((unsigned char *)at < p->at + p->bytes && p->at < (unsigned char *)at + bytes) return EMU_ALREADY_REGISTERED;
    pinned *p = malloc(sizeof *p);
    if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
    *p   = (pinned){ pins, at, bytes, true };
    pins = p;
    return CUDA_SUCCESS;
}

int rp__emulated_cuMemHostUnregister(void *at)
{
    RP_ENTER(cuMemHostUnregister);
    return unpin(at, true, "cuMemHostUnregister");
}

bool rp__emulated_leaves_pin(uint64_t at, size_t bytes)
{
    for (const pinned *p = pins; p; p = p->next) {
        uint64_t first = (uint64_t)(uintptr_t)p->at, end = first + p->bytes;
        if (at < end && first < at + bytes && (at < first || at + bytes > end)) return true;
    }
    return false;
}

bool rp__emulated_pinned(uint64_t at, size_t bytes)
{
    for (const pinned *p = pins; p; p = p->next) {
        uint64_t offset = at - (uint64_t)(uintptr_t)p->at;
        if (offset < p->bytes && bytes <= p->bytes - offset) return true;
    }
    return false;
}

/* ---- reset ---- */

int rp__emulated_live_memory(void)
{
    int n = n_reservations;
    for (const pinned *p = pins; p; p = p->next) n++;
    for (size_t i = 0; i < n_blocks; i++) n += !blocks[i].released || blocks[i].mapped;
    return n;
}

void rp__emulated_close_memory(void)
{
    while (pins) {
        pinned *next = pins->next;
        if (!pins->registered) free(pins->at);
        free(pins);
        pins = next;
    }
    for (size_t i = 0; i < n_blocks; i++)
        if (blocks[i].mapped) take_memory(blocks[i].at, blocks[i].chunks);
    for (size_t i = 0, n; i < top_chunk; i += n) {
        n = lengths[i] ? lengths[i] : 1;
        if (lengths[i]) memset(states + i, UNUSED, n);
        if (lengths[i]) lengths[i] = 0;
    }
    free(blocks);
    blocks         = NULL;
    n_blocks       = room_blocks = used = 0;
    n_reservations = 0;
    next_chunk = top_chunk = 0;
}
