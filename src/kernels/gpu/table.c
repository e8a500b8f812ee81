/* kernels/gpu/table.c -- the table of a GPU's kernels, and which calls they serve. */
#include "kernels/gpu/gpu.h"

#include <pthread.h>
#include <string.h>

#define RP_GPU_ENTRY(name) rp_kernel_##name rp__gpu_op_##name;
#include "kernels/gpu/entries.def"
#undef RP_GPU_ENTRY

static rp_kernels table;
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static void fill(void)
{
    table       = *rp__kernels_cpu();
    table.level = "gpu";
#define RP_GPU_ENTRY(name) table.name = rp__gpu_op_##name;
#include "kernels/gpu/entries.def"
#undef RP_GPU_ENTRY
}

const rp_kernels *rp__kernels_gpu(void)
{
    pthread_once(&filled, fill);
    return &table;
}

/* ---- which calls ---- */

/* A collective copies and sends. Sums that have no kernel are computed on the host. */
static bool always(const rp_op_meta *m)
{
    (void)m;
    return true;
}

static bool dense(const rp_op_meta *m) { return m->dense; }

static bool floats_to_floats(const rp_op_meta *m) { return m->dense && (m->out[0].dtype == RP_F32 || m->out[0].dtype == RP_BF16); }

/* Products and attention of nothing are computed on the host. */
static bool something(const rp_op_meta *m) { return rp_meta_elems(&m->in[0]) > 0 && rp_meta_elems(&m->in[1]) > 0; }
static bool product_of_something(const rp_op_meta *m) { return m->dense && something(m); }

/* Attention takes queries, keys and values that are views of one product. */
static bool rows_of_something(const rp_op_meta *m) { return m->dense_rows && something(m); }

/* An expert is a row of the grid, which has fewer than 65,536. */
static bool grouped_products(const rp_op_meta *m) { return m->in[1].dim[0] < 1 << 16 && product_of_something(m); }

static const struct { const char *name; bool (*serves[2])(const rp_op_meta *m); } served[] = {
#define RP_GPU_OP(name, forward, backward) { #name, { forward, backward } },
#include "kernels/gpu/ops.def"
#undef RP_GPU_OP
};

bool rp__gpu_runs(const rp_op_meta *m, bool backward)
{
    for (int i = 0; i < RP_COUNT(served); i++)
        if (!strcmp(served[i].name, m->op->name)) return served[i].serves[backward](m);
    return false;
}
