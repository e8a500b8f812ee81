/* base/machine.h -- what the machine leaves to this process. */
#ifndef RP_MACHINE_H
#define RP_MACHINE_H

#include <stdint.h>

enum { RP_MACHINE_PATH_CHARS = 4096 };

/* Bytes this process may still take: the least of MemAvailable, what its control groups (version 2 or 1, every group above it) allow
 * beyond what they use, and its own limits. It changes from moment to moment: ask once. */
int64_t rp__machine_memory(void);
/* The same with the list of groups and their root elsewhere, for tests. */
int64_t rp__machine_memory_in(const char *groups, const char *root);
/* Bytes the whole process may take, with what it has taken: the same limits, of which address space bounds it by what is mapped. Of that,
 * `pool` is for the arena, and `later` is still to be mapped beside it. */
int64_t rp__machine_process(int64_t pool, int64_t later);
/* Resident bytes of this process; 0 where the system does not tell. */
int64_t rp__machine_resident(void);
/* Bytes of addresses that it has mapped. */
int64_t rp__machine_mapped(void);
/* Addresses that the stacks of so many threads take. */
int64_t rp__machine_stacks(int threads);

#endif
