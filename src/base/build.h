/* base/build.h -- do two processes run the same build? */
#ifndef RP_BUILD_H
#define RP_BUILD_H

#include "base/base.h"

/* Of the library's code and constants in memory: a few milliseconds. */
uint64_t rp__build_hash(void);

#endif
