// Kernels of bench/gpu/products.c, compiled by NVRTC.
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned u32;

struct args {
    u64 at, sum;
    i64 n;                  // words of 4 bytes
};

#define AT ((i64)blockIdx.x * blockDim.x + threadIdx.x)

__device__ u64 mixed(u64 s)
{
    s = (s ^ (s >> 30)) * 0xbf58476d1ce4e5b9u;
    s = (s ^ (s >> 27)) * 0x94d049bb133111ebu;
    return s ^ (s >> 31);
}

// About normal, with unit variance.
__device__ float drawn(u32 r)
{
    return ((int)(r & 255) + (int)(r >> 8 & 255) + (int)(r >> 16 & 255) + (int)(r >> 24) - 510) / 148.f;
}

// Two bf16 a word.
extern "C" __global__ void fill(const __grid_constant__ args a)
{
    i64 i = AT;
    if (i >= a.n) return;
    u64 r    = mixed((u64)i * 0x9e3779b97f4a7c15u + 1);
    float lo = drawn((u32)r), hi = drawn((u32)(r >> 32));
    u32 word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(hi), "f"(lo));
    ((u32 *)a.at)[i] = word;
}

// A sum of integers is the same in any order.
extern "C" __global__ void hash(const __grid_constant__ args a)
{
    u64 s = 0;
    for (i64 i = AT; i < a.n; i += (i64)gridDim.x * blockDim.x) s += mixed(((u64)i << 32) ^ ((const u32 *)a.at)[i]);
    for (int m = 16; m; m /= 2) s += __shfl_xor_sync(~0u, s, m);
    if (threadIdx.x % 32 == 0) atomicAdd((u64 *)a.sum, s);
}
