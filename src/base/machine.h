/* base/machine.h -- how much memory the machine has available for this process. */
#ifndef RP_MACHINE_H
#define RP_MACHINE_H

#include <stdint.h>

enum { RP_MACHINE_PATH_CHARS = 4096 };

/* Bytes this process may still allocate: the smallest of MemAvailable, the unused allowance of its control group and of each group above it
 * (version 1 or 2), and its resource limits. The result changes all the time: call it once. */
int64_t rp__machine_memory(void);
/* The same with another file of groups and another root of the group files, for tests. */
int64_t rp__machine_memory_in(const char *groups, const char *root);
/* Total bytes the process may use under the same limits, including its present use. Limits on data and on addresses count mapped bytes: `pool`
 * bytes of the mapping are the arena's own and are added back; `later` bytes are still to be mapped besides it and are subtracted. */
int64_t rp__machine_process(int64_t pool, int64_t later);
/* Resident bytes of this process; 0 if the system does not report them. */
int64_t rp__machine_resident(void);
/* Bytes of addresses that this process has mapped. */
int64_t rp__machine_mapped(void);
/* Bytes of addresses that the stacks of so many threads take. */
int64_t rp__machine_stacks(int threads);

#endif
