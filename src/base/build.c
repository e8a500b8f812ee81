/* base/build.c -- a hash of the library's code and constants as they were loaded, which identifies the build.
 *
 * Relocations do not change these bytes, so the same file has the same hash at every load address. Another compiler, other flags or a changed
 * source line give a different hash. */
#include "base/build.h"

#include <link.h>

typedef struct { uintptr_t here; uint64_t hash; } finding;

/* As rp__hash. Under AddressSanitizer there are red zones between constants, which this reads, too. */
__attribute__((no_sanitize_address)) static uint64_t hash_segment(const uint8_t *at, size_t bytes, uint64_t hash)
{
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * 0x100000001b3ull;
    return hash;
}

/* Hashes the readable, non-writable segments of the object that contains `here`. */
static int look(struct dl_phdr_info *info, size_t bytes, void *user)
{
    finding *f    = user;
    bool has_here = false;

    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at        = info->dlpi_addr + p->p_vaddr;
        has_here            = has_here || (p->p_type == PT_LOAD && f->here >= at && f->here - at < p->p_memsz);
    }
    for (int i = 0; has_here && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || p->p_flags & PF_W || !(p->p_flags & PF_R)) continue;
        f->hash = hash_segment((const void *)(info->dlpi_addr + p->p_vaddr), p->p_filesz, f->hash);
    }
    return has_here;
}

uint64_t rp__build_hash(void)
{
    finding f = { .here = (uintptr_t)&rp__build_hash, .hash = RP_HASH_START };

    dl_iterate_phdr(look, &f);
    return f.hash;
}
