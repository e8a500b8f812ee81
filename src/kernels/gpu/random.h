/* kernels/gpu/random.h -- Philox4x32-10 as in base/philox.h, with the same bits. */
#ifndef RP_GPU_RANDOM_H
#define RP_GPU_RANDOM_H

typedef struct { u32 word[4]; } random4;

FN random4 philox(u64 key, u32 c0, u32 c1, u32 c2, u32 c3)
{
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
    random4 r;

    UNROLL for (int round = 0; round < 10; round++) {
        u32 h0 = MULHI(0xD2511F53u, c0), l0 = 0xD2511F53u * c0, h1 = MULHI(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ k0;
        c1 = l1;
        c2 = h0 ^ c3 ^ k1;
        c3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    r.word[0] = c0;
    r.word[1] = c1;
    r.word[2] = c2;
    r.word[3] = c3;
    return r;
}

/* rp__stream_block: the words of elements 4*block .. 4*block+3 of row `row` of a batch. stream: the address of a step and a sample_base. */
FN random4 stream_block(u64 key, u64 stream, i64 row, i64 block)
{
    i64 step   = G(const i64, stream)[0];
    u64 sample = (u64)(G(const i64, stream)[1] + row);

    return philox(key, (u32)block, (u32)sample, (u32)step, (u32)(sample >> 32) ^ (u32)((u64)step >> 32) << 16);
}

/* Uniform in [0, 1) with 24 bits. */
FN float uniform(u32 word) { return (float)(word >> 8) * (1.0f / 16777216.0f); }

#endif
