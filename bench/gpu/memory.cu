// Kernels of bench/gpu/memory.c, compiled by NVRTC. Each takes one struct by value.
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned u32;

struct args {
    u64 x, y, z, w;
    i64 n;                  // vectors, words, cycles or rounds
    int columns, mode;
    float f;
};

#define KERNEL(name) extern "C" __global__ void name(const __grid_constant__ args a)
#define AT ((i64)blockIdx.x * blockDim.x + threadIdx.x)

// A word holds two bf16.
__device__ float low(u32 word) { return __uint_as_float(word << 16); }
__device__ float high(u32 word) { return __uint_as_float(word & 0xffff0000u); }
__device__ u32 pack(float lo, float hi)
{
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
__device__ u32 sum(u32 p, u32 q) { return pack(low(p) + low(q), high(p) + high(q)); }

KERNEL(empty) {}

KERNEL(spin)
{
    i64 begin = clock64();
    while (clock64() - begin < a.n) {}
}

// bf16 values of magnitude 0.5 to 1, of either sign.
KERNEL(fill)
{
    i64 i = AT;
    if (i >= a.n) return;
    u64 s = (u64)i * 6364136223846793005u + 1442695040888963407u;
    s ^= s >> 29;
    s *= 0xbf58476d1ce4e5b9u;
    s ^= s >> 32;
    ((u32 *)a.x)[i] = ((u32)s & 0x807f807fu) | 0x3f003f00u;
}

KERNEL(copy)
{
    i64 i = AT;
    if (i < a.n) ((uint4 *)a.y)[i] = ((const uint4 *)a.x)[i];
}

KERNEL(add)
{
    i64 i = AT;
    if (i >= a.n) return;
    uint4 p = ((const uint4 *)a.x)[i], q = ((const uint4 *)a.y)[i];
    ((uint4 *)a.z)[i] = make_uint4(sum(p.x, q.x), sum(p.y, q.y), sum(p.z, q.z), sum(p.w, q.w));
}

// A block has a row, a thread 8 of its columns.
KERNEL(rmsnorm)
{
    __shared__ float part[32];
    i64 i   = (i64)blockIdx.x * (a.columns / 8) + threadIdx.x;
    bool in = threadIdx.x < a.columns / 8;
    uint4 p = in ? ((const uint4 *)a.x)[i] : make_uint4(0, 0, 0, 0);
    u32 v[4] = { p.x, p.y, p.z, p.w };
    float s  = 0;

    for (int e = 0; e < 4; e++) s += low(v[e]) * low(v[e]) + high(v[e]) * high(v[e]);
    for (int m = 16; m; m /= 2) s += __shfl_xor_sync(~0u, s, m);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    s = 0;
    for (int warp = 0; warp < (int)blockDim.x / 32; warp++) s += part[warp];
    float r = rsqrtf(s / a.columns + 1e-5f);
    if (!in) return;
    uint4 q  = ((const uint4 *)a.w)[threadIdx.x];
    u32 g[4] = { q.x, q.y, q.z, q.w };
    for (int e = 0; e < 4; e++) v[e] = pack(low(v[e]) * r * low(g[e]), high(v[e]) * r * high(g[e]));
    ((uint4 *)a.y)[i] = make_uint4(v[0], v[1], v[2], v[3]);
}

// AdamW of 4 weights a thread: bf16 weights and gradients, states in fp32 (mode 0) or bf16 (1).
__device__ void unpack(uint2 from, float *to)
{
    to[0] = low(from.x), to[1] = high(from.x), to[2] = low(from.y), to[3] = high(from.y);
}
__device__ void read_state(u64 from, i64 i, int mode, float *to)
{
    if (mode) unpack(((const uint2 *)from)[i], to);
    else *(float4 *)to = ((const float4 *)from)[i];
}
__device__ void write_state(u64 to, i64 i, int mode, const float *from)
{
    if (mode) ((uint2 *)to)[i] = make_uint2(pack(from[0], from[1]), pack(from[2], from[3]));
    else ((float4 *)to)[i] = *(const float4 *)from;
}

KERNEL(adamw)
{
    __align__(16) float m[4], v[4], p[4], g[4];
    i64 i = AT;

    if (i >= a.n) return;
    unpack(((const uint2 *)a.x)[i], p);
    unpack(((const uint2 *)a.y)[i], g);
    read_state(a.z, i, a.mode, m);
    read_state(a.w, i, a.mode, v);
    for (int e = 0; e < 4; e++) {
        m[e] = 0.9f * m[e] + 0.1f * g[e];
        v[e] = 0.999f * v[e] + 0.001f * g[e] * g[e];
        p[e] -= a.f * (m[e] / (sqrtf(v[e]) + 1e-8f) + 0.1f * p[e]);
    }
    ((uint2 *)a.x)[i] = make_uint2(pack(p[0], p[1]), pack(p[2], p[3]));
    write_state(a.z, i, a.mode, m);
    write_state(a.w, i, a.mode, v);
}

// Arithmetic that moves no bytes.
KERNEL(burn)
{
    float x = threadIdx.x, y = 0;
    for (i64 i = 0; i < a.n; i++) {
        x = fmaf(x, 0.999f, y);
        y = fmaf(y, 1.001f, x);
    }
    if (x == 12345.f && y == 1.f) ((float *)a.x)[0] = x;
}
