/* plan/cost_builtin.c -- a table before anything was measured: peaks by ISA and threads, times what is reached of them.
 *
 *   peak of a thread   FLOP a cycle of its units x 3.3 GHz, about what cores of servers run at with all of them busy
 *   memory             18 GB/s for the first thread, 200 GB/s at most: n threads have 18 n / (1 + n / 12)
 *
 * What is reached was measured on two threads of a Xeon with AMX, in training steps; v3 and base on the same CPU, held to that level.
 * Absolute times are off by the clock and the memory a machine really has, often by a third; how ops stand to one another, which is what
 * plans go by, is closer. Clocks are not asked for: virtual machines do not tell them, and a table must be the same each time.
 */
#include "plan/cost_inside.h"

#include <string.h>

#define CLOCK 3.3e9

typedef struct {
    double product[RP_COST_PASSES], attention[RP_COST_PASSES], loss[RP_COST_PASSES];    /* shares of the peak */
} reached;

typedef struct {
    const char *isa;
    double fp32, bf16;                  /* FLOP a cycle of the units that run products of that dtype */
    double rest;                        /* share of fp32 that pointwise ops reach */
    reached of_fp32, of_bf16;
} unit;

/* Where bf16 is computed in fp32 it takes what fp32 takes. */
#define BASE    { { 0.75, 0.75 }, { 0.5, 0.55 }, { 0.65, 0.65 } }
#define AVX2    { { 0.65, 0.65 }, { 0.4, 0.45 }, { 0.6, 0.6 } }
#define AVX512  { { 0.74, 0.73 }, { 0.5, 0.57 }, { 0.75, 0.73 } }
#define VDP     { { 0.7, 0.65 }, { 0.25, 0.28 }, { 0.65, 0.6 } }
#define TILES   { { 0.25, 0.21 }, { 0.115, 0.138 }, { 0.28, 0.235 } }

static const unit units[] = {
    { "base",        8,  8,    0.25, BASE, BASE },              /* SSE2: 4 products and 4 sums */
    { "avx2",        32, 32,   0.2,  AVX2, AVX2 },              /* 2 FMA of 8 */
    { "avx512",      64, 64,   0.2,  AVX512, AVX512 },          /* 2 FMA of 16 */
    { "avx512-bf16", 32, 64,   0.25, AVX512, VDP },             /* AMD's, half as wide; the Intel CPUs that have it have AMX, or are slower by it */
    { "amx",         64, 1024, 0.2,  AVX512, TILES },           /* tdpbf16ps: 16 x 16 x 32 in 16 cycles */
};

/* The reference: one thread, in double, an element at a time. */
static const rp_cost_row reference = { 0.5e-6, 1e9, 1.5e9 };

static void set_all(rp_cost_table *t, rp_dtype dtype, rp_cost_row row)
{
    for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++) *rp__cost_row(t, rp__op_count(), dtype, pass) = row;
}

static void set_op(rp_cost_table *t, const rp_op *op, rp_dtype dtype, double forward, double backward, double bandwidth)
{
    *rp__cost_row(t, rp__cost_place(op), dtype, RP_FORWARD)  = (rp_cost_row){ 2e-6, forward, bandwidth };
    *rp__cost_row(t, rp__cost_place(op), dtype, RP_BACKWARD) = (rp_cost_row){ 2e-6, backward, bandwidth };
}

static void set_share(rp_cost_table *t, const rp_op *op, rp_dtype dtype, double peak, const double share[RP_COST_PASSES], double bandwidth)
{
    set_op(t, op, dtype, peak * share[RP_FORWARD], peak * share[RP_BACKWARD], bandwidth);
}

/* bf16 is converted on the way, which takes more of a thread than its bytes save. */
static void set_kernels(rp_cost_table *t, const unit *u, const rp_cost_machine *m, rp_dtype dtype)
{
    const reached *share = dtype == RP_BF16 ? &u->of_bf16 : &u->of_fp32;
    double n = m->threads, thread = CLOCK * n, bandwidth = 18e9 * n / (1 + n / 12) * (dtype == RP_BF16 ? 0.75 : 1);
    double peak = thread * (dtype == RP_BF16 ? u->bf16 : u->fp32);

    set_share(t, &rp_op_matmul, dtype, peak, share->product, bandwidth);
    set_share(t, &rp_op_grouped_matmul, dtype, peak, share->product, bandwidth);
    set_share(t, &rp_op_linear_cross_entropy, dtype, peak, share->loss, bandwidth);
    set_share(t, &rp_op_attention, dtype, peak, share->attention, bandwidth);
    set_all(t, dtype, (rp_cost_row){ 1e-6, thread * u->rest * u->fp32, bandwidth });
    t->move[dtype] = 1.3 * bandwidth;
}

static const unit *find_unit(const char *isa)
{
    for (int i = 0; i < RP_COUNT(units); i++)
        if (!strcmp(units[i].isa, isa)) return &units[i];
    return NULL;
}

rp_status rp__cost_builtin(rp_ctx *ctx, const rp_cost_machine *machine, rp_cost_table **out)
{
    const unit *u = find_unit(machine->isa);
    rp_cost_table *t;

    RP_TRY(rp__cost_table_new(ctx, RP_COST_GUESSED, &t));
    t->machine = *machine;
    rp__cost_machine_name(machine, t->name);
    for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++) {
        rp_dtype dtype = rp__cost_dtypes[d];
        set_all(t, dtype, reference);
        t->move[dtype] = reference.bandwidth;
        if (u && dtype != RP_F64) set_kernels(t, u, machine, dtype);
    }
    *out = t;
    return RP_OK;
}
