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

#endif
