/* kernels/levels.c -- selects the kernel table of this machine once, from cpuid or, on ARM64, from the kernel. */
#include "kernels/kernels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#define RP_CPU_LEVEL(name, runs, pays) extern const rp_kernels rp_table_##name;
#include "kernels/levels.def"
#undef RP_CPU_LEVEL

static const rp_kernels table_none = { .level = "none" };

const rp_kernels *rp__kernels_none(void) { return &table_none; }

static bool always(void) { return true; }

/* A build for tests may lack levels. */
#define MAYBE __attribute__((unused)) static bool
#ifdef __x86_64__
MAYBE runs_v3(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"); }

MAYBE runs_v4(void)
{
    return runs_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
}

/* Leaf 7.1, EAX bit 5: AVX512_BF16. */
MAYBE runs_zen4(void)
{
    unsigned a, b, c, d;

    return runs_v4() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 5);
}

MAYBE pays_zen4(void) { return !__builtin_cpu_is("intel"); }

/* Leaf 7.0, EDX bits 24 and 22: AMX-TILE and AMX-BF16. A process must ask Linux for the 8 KiB of tile state; the permission holds for all its
 * threads (Documentation/arch/x86/xstate.rst). Kernels that do not save tiles refuse. */
MAYBE runs_amx(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    unsigned a, b, c, d, wanted = 1u << 24 | 1u << 22;

    if (!runs_zen4() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & wanted) != wanted) return false;
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
#elif defined(__aarch64__)
MAYBE runs_mmla(void) { return getauxval(AT_HWCAP2) & HWCAP2_BF16; }
#endif

static const struct { const rp_kernels *table; bool (*runs)(void), (*pays)(void); } levels[] = {
#define RP_CPU_LEVEL(name, runs, pays) { &rp_table_##name, runs, pays },
#include "kernels/levels.def"
#undef RP_CPU_LEVEL
};

int rp__kernels_levels(const rp_kernels **out, int max)
{
    int n = 0;

#if defined(__x86_64__)
    __builtin_cpu_init();
#endif
    for (int i = 0; i < RP_COUNT(levels) && n < max; i++)
        if (levels[i].runs()) out[n++] = levels[i].table;
    return n;
}

static _Atomic(const rp_kernels *) chosen;

void rp__kernels_force(const rp_kernels *table) { atomic_store(&chosen, table); }

/* The level that REPRISE_CPU names if it runs here, else the highest that pays. */
static const rp_kernels *levels_choose(void)
{
    const char *forced     = getenv("REPRISE_CPU");
    const rp_kernels *best = NULL;

    if (forced && !strcmp(forced, "none")) return &table_none;
#if defined(__x86_64__)
    __builtin_cpu_init();
#endif
    for (int i = 0; i < RP_COUNT(levels); i++) {
        if (!levels[i].runs()) continue;
        if (forced && !strcmp(levels[i].table->level, forced)) return levels[i].table;
        if (levels[i].pays()) best = levels[i].table;
    }
    return best;
}

const rp_kernels *rp__kernels_cpu(void)
{
    const rp_kernels *table = atomic_load(&chosen);

    if (table) return table;
    table = levels_choose();
    atomic_store(&chosen, table);
    return table;
}
