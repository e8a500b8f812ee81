/* cost/builtin.c -- the table of a machine that was not measured: peaks by ISA and threads, times the share of them that is reached.
 *
 *   peak of a thread   FLOPs per cycle of its units x its clock
 *   memory             a figure for two threads, scaled to n threads by n / (1 + n / 12)
 *   caches             half of the largest cache that the system reports; `near` times as fast as memory
 *
 * Sources of the shares. "amx" was fitted to the step times of docs/speed.json and the overheads of docs/budget.json (two threads of an
 * Intel Xeon 6-167), which are off by 3 % (fp32: 4 %). "avx512-bf16" of family 26 is the table that `reprise calibrate` measured on two threads
 * of an AMD Zen 5. Its steps take 2 to 4 % longer. The others are older. They were measured in training steps of the same Xeon limited to that
 * level. AMD's family 25 (Zen 4) is half of Zen 5's units by width and was not measured.
 *
 * Absolute times are off by the machine's real clock and memory, often by a third. Ratios between ops, on which plans depend, are more
 * accurate. The clock is not queried: virtual machines do not report it, and a table must be the same each time.
 */
#include "cost/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    double product[RP_COST_PASSES], attention[RP_COST_PASSES], loss[RP_COST_PASSES];    /* fractions of the peak */
} reached;

typedef struct {
    const char *isa;
    unsigned family;                    /* of the CPU; 0: any */
    double clock, fp32, bf16;           /* cycles/s · FLOPs per cycle of the units that run products of this dtype */
    double rest;                        /* fraction of fp32 that pointwise ops reach */
    double memory, update[2];           /* bytes/s of two threads · bytes/s of an optimizer update, in fp32 and bf16 */
    reached of_fp32, of_bf16;
} unit;

/* How many times faster caches are than memory, from the same fits. They hardly distinguish 2 from 5. */
static const double near_by = 3;

/* If bf16 is computed in fp32, it has the shares of fp32. */
#define BASE    { { 0.75, 0.75 }, { 0.5, 0.55 }, { 0.65, 0.65 } }
#define AVX2    { { 0.65, 0.65 }, { 0.4, 0.45 }, { 0.6, 0.6 } }
#define AVX512  { { 0.74, 0.73 }, { 0.5, 0.57 }, { 0.75, 0.73 } }
#define TILES   { { 0.42, 0.3 }, { 0.22, 0.31 }, { 0.28, 0.19 } }
#define XEON    { { 0.97, 0.84 }, { 0.55, 0.67 }, { 0.8, 0.7 } }
#define ZEN5    { { 0.8, 0.8 }, { 0.64, 0.7 }, { 0.82, 0.82 } }
#define ZEN5_16 { { 0.86, 0.83 }, { 0.62, 0.72 }, { 0.82, 0.8 } }

#define OLDER   30.9e9, { 40.1e9, 30.1e9 }

static const unit units[] = {
    { "base",        0,  3.3e9, 8,  8,    0.25, OLDER, BASE, BASE },                                    /* SSE2: 4 products and 4 sums */
    { "neon",        0,  3e9,   16, 16,   0.25, OLDER, BASE, BASE },                                    /* 2 FMA of 4; not measured */
    { "neon-bf16",   0,  3e9,   16, 64,   0.25, OLDER, BASE, BASE },                                    /* 2 bfmmla of 2 x 2 x 4; not measured */
    { "avx2",        0,  3.3e9, 32, 32,   0.2,  OLDER, AVX2, AVX2 },                                    /* 2 FMA of 8 */
    { "avx512",      0,  3.3e9, 64, 64,   0.2,  OLDER, AVX512, AVX512 },                                /* 2 FMA of 16 */
    { "avx512-bf16", 26, 4.1e9, 64, 128,  0.2,  50e9,  { 72e9, 73e9 }, ZEN5, ZEN5_16 },                 /* 2 FMA of 16, 2 of 32 in bf16 */
    { "avx512-bf16", 0,  3.7e9, 32, 64,   0.25, OLDER, ZEN5, ZEN5_16 },     /* Zen 4, half as wide; Intel CPUs with avx512-bf16 have AMX, or are slower by it */
    { "amx",         0,  3.3e9, 64, 1024, 0.2,  25e9,  { 24.7e9, 15.4e9 }, XEON, TILES },               /* tdpbf16ps: 16 x 16 x 32 in 16 cycles */
};

/* The reference: one thread, in double, one element at a time. */
static const rp_cost_row reference = { 0.5e-6, 1e9, 1.5e9, 0 };

static void set_all(rp_cost_table *t, rp_dtype dtype, rp_cost_row row)
{
    for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++) *rp__cost_row(t, rp__op_count(), dtype, pass) = row;
}

static void set_op(rp_cost_table *t, const rp_op *op, rp_dtype dtype, double forward, double backward, double bandwidth)
{
    *rp__cost_row(t, rp__cost_place(op), dtype, RP_FORWARD)  = (rp_cost_row){ 2e-6, forward, bandwidth, 0 };
    *rp__cost_row(t, rp__cost_place(op), dtype, RP_BACKWARD) = (rp_cost_row){ 2e-6, backward, bandwidth, 0 };
}

static void set_share(rp_cost_table *t, const rp_op *op, rp_dtype dtype, double peak, const double share[RP_COST_PASSES], double bandwidth)
{
    set_op(t, op, dtype, peak * share[RP_FORWARD], peak * share[RP_BACKWARD], bandwidth);
}

static void set_kernels(rp_cost_table *t, const unit *u, const rp_cost_machine *m, rp_dtype dtype)
{
    const reached *share = dtype == RP_BF16 ? &u->of_bf16 : &u->of_fp32;
    double n = m->threads, thread = u->clock * n, shared = 0.5 * n * (1 + 2 / 12.0) / (1 + n / 12);
    double peak = thread * (dtype == RP_BF16 ? u->bf16 : u->fp32), bandwidth = u->memory * shared;

    set_share(t, &rp_op_matmul, dtype, peak, share->product, bandwidth);
    set_share(t, &rp_op_batched_matmul, dtype, peak, share->product, bandwidth);
    set_share(t, &rp_op_grouped_matmul, dtype, peak, share->product, bandwidth);
    set_share(t, &rp_op_linear_cross_entropy, dtype, peak, share->loss, bandwidth);
    set_share(t, &rp_op_attention, dtype, peak, share->attention, bandwidth);
    set_all(t, dtype, (rp_cost_row){ 1e-6, thread * u->rest * u->fp32, bandwidth, 0 });
    t->move[dtype] = u->update[dtype == RP_BF16] * shared;
}

/* Returns the family in a name such as "AMD EPYC … 26-2" (26); 0: not in the name. */
static unsigned family_of(const rp_cost_machine *m)
{
    const char *last = strrchr(m->cpu, ' ');
    unsigned family  = 0, model;

    return last && sscanf(last, " %u-%u", &family, &model) == 2 ? family : 0;
}

static const unit *find_unit(const rp_cost_machine *m)
{
    for (int i = 0; i < RP_COUNT(units); i++)
        if (!strcmp(units[i].isa, m->isa) && (!units[i].family || units[i].family == family_of(m))) return &units[i];
    return NULL;
}

double rp__cost_system_cache(int threads)
{
    double second = (double)sysconf(_SC_LEVEL2_CACHE_SIZE), third = (double)sysconf(_SC_LEVEL3_CACHE_SIZE);
    double all    = fmax(second, 0) * threads;

    return 0.5 * fmax(third, all);
}

rp_status rp__cost_builtin(rp_ctx *ctx, const rp_cost_machine *machine, rp_cost_table **out)
{
    const unit *u = find_unit(machine);
    rp_cost_table *t;

    RP_TRY(rp__cost_table_new(ctx, RP_COST_GUESSED, &t));
    t->machine = *machine;
    rp__cost_machine_name(machine, t->name);
    if (u) t->cache = rp__cost_system_cache(machine->threads);
    if (u) t->near = near_by;
    for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++) {
        rp_dtype dtype = rp__cost_dtypes[d];
        set_all(t, dtype, reference);
        t->move[dtype] = reference.bandwidth;
        if (u && dtype != RP_F64) set_kernels(t, u, machine, dtype);
    }
    t->move[RP_U8] = u ? RP_COST_CODED_SHARE * t->move[RP_F32] : reference.bandwidth;
    *out = t;
    return RP_OK;
}
