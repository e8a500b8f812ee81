/* kernels/levels.c -- which level's table this machine runs, from cpuid, once. */
#include "kernels/kernels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

extern const rp_kernels rp_table_base;
#if defined(__x86_64__)
extern const rp_kernels rp_table_v3, rp_table_v4;
#endif

static const rp_kernels table_none = { .level = "none" };

const rp_kernels *rp__kernels_none(void) { return &table_none; }

int rp__kernels_levels(const rp_kernels **out, int max)
{
    const rp_kernels *all[3] = { &rp_table_base };
    int n = 1;

#if defined(__x86_64__)
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
    if (v3) all[n++] = &rp_table_v3;
    if (v4) all[n++] = &rp_table_v4;
#endif
    if (n > max) n = max;
    memcpy(out, all, (size_t)n * sizeof *out);
    return n;
}

static _Atomic(const rp_kernels *) chosen;

void rp__kernels_force(const rp_kernels *table) { atomic_store(&chosen, table); }

const rp_kernels *rp__kernels_cpu(void)
{
    const rp_kernels *table = atomic_load(&chosen), *all[3];

    if (table) return table;
    const char *forced = getenv("REPRISE_CPU");
    int n = rp__kernels_levels(all, RP_COUNT(all));
    table = all[n - 1];
    for (int i = 0; forced && i < n; i++)
        if (!strcmp(all[i]->level, forced)) table = all[i];
    if (forced && !strcmp(forced, "none")) table = &table_none;
    atomic_store(&chosen, table);
    return table;
}
