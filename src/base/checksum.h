/* base/checksum.h -- a checksum that detects damaged data at memory speed. It does not protect against deliberate changes.
 *
 * FNV-1a over 64-bit words in eight lanes. Each step is a bijection of its lane, so a single changed word always changes the result. Data may be
 * added in any number of calls; every call but the last must add whole 64-byte blocks.
 */
#ifndef RP_CHECKSUM_H
#define RP_CHECKSUM_H

#include <string.h>

#include "base/base.h"

typedef struct { uint64_t lane[8], bytes; } rp_checksum;

static inline rp_checksum rp__checksum_begin(void)
{
    rp_checksum c = { .bytes = 0 };

    for (uint64_t i = 0; i < 8; i++) c.lane[i] = RP_HASH_START + i;
    return c;
}

static inline void rp__checksum_block(rp_checksum *c, const uint8_t *from)
{
    uint64_t word[8];

    memcpy(word, from, sizeof word);
    for (int i = 0; i < 8; i++) c->lane[i] = (c->lane[i] ^ word[i]) * 0x100000001b3ull;
}

static inline void rp__checksum_add(rp_checksum *c, const void *data, int64_t bytes)
{
    const uint8_t *p = data;
    uint8_t last[64] = { 0 };

    RP_BUG_IF(bytes < 0 || c->bytes % 64);
    c->bytes += (uint64_t)bytes;
    for (; bytes >= 64; bytes -= 64, p += 64) rp__checksum_block(c, p);
    if (!bytes) return;
    memcpy(last, p, (size_t)bytes);
    rp__checksum_block(c, last);
}

static inline uint64_t rp__checksum_end(const rp_checksum *c) { return rp__hash(c, sizeof *c, RP_HASH_START); }

#endif
