/* base/build.h -- a hash that is equal in two processes if they run the same build. */
#ifndef RP_BUILD_H
#define RP_BUILD_H

#include "base/base.h"

/* Hashes the library's code and constants in memory. Takes a few milliseconds. */
uint64_t rp__build_hash(void);

#endif
