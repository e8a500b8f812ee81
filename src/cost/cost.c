/* cost/cost.c -- opens tables and answers queries about costs. */
#include "cost/internal.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/file.h"
#include "ops/common.h"

const rp_dtype rp__cost_dtypes[3]                        = { RP_F32, RP_BF16, RP_F64 };
const char *const rp__cost_pass_names[RP_COST_PASSES]    = { "forward", "backward" };

/* Ranks on one machine, through its memory: measured with Open MPI 4.1.4, two ranks that sum 64 MiB in place. A message takes 1 us if its
 * receiver is running, and several if the receiver has to be woken. */
static const double link_of_ranks = 2.2e9, latency_of_ranks = 5e-6;

int rp__cost_place(const rp_op *op)
{
    int n = rp__op_count(), at = 0;

    while (at < n && rp__op_at(at) != op) at++;
    return at;
}

const char *rp__cost_op_name(int op) { return op < rp__op_count() ? rp__op_at(op)->name : "others"; }

rp_status rp__cost_table_new(rp_ctx *ctx, rp_cost_origin origin, rp_cost_table **out)
{
    int64_t rows     = (int64_t)(rp__op_count() + 1) * RP_DTYPES * RP_COST_PASSES;
    rp_cost_table *t = rp__host_alloc(ctx, (int64_t)sizeof *t);

    if (!t) return RP_ERR_MEMORY;
    t->origin  = origin;
    t->near    = 1;
    t->link    = link_of_ranks;
    t->latency = latency_of_ranks;
    t->row     = rp__host_alloc(ctx, rows * (int64_t)sizeof *t->row);
    if (!t->row) {
        rp__cost_table_free(t);
        return RP_ERR_MEMORY;
    }
    *out = t;
    return RP_OK;
}

void rp__cost_table_free(rp_cost_table *t)
{
    if (!t) return;
    rp__release(t->row);
    rp__release(t->path);
    rp__release(t);
}

/* ---- opening ---- */

/* Read the table of a file; *out stays NULL if it is for another machine or version. */
static rp_status read_table(rp_ctx *ctx, const char *path, const rp_cost_machine *here, rp_cost_table **out)
{
    char *text    = NULL;
    int64_t bytes = 0;
    bool foreign;

    RP_TRY(rp__file_read(ctx, path, RP_COST_FILE_BYTES, &text, &bytes));
    rp_status status = rp__cost_parse(ctx, path, text, bytes, &foreign, out);
    rp__release(text);
    if (status != RP_OK || foreign || rp__cost_machine_same(&(*out)->machine, here)) return status;
    rp__cost_table_free(*out);
    *out = NULL;
    return RP_OK;
}

rp_status rp__cost_table_open(rp_ctx *ctx, rp_cost_table **out)
{
    rp_cost_table *found = NULL;
    rp_cost_machine here;
    char *path;

    rp__cost_machine_find(ctx, &here);
    RP_TRY(rp__cost_path(ctx, &here, &path));
    rp_status status = path && rp__file_exists(path) ? read_table(ctx, path, &here, &found) : RP_OK;
    rp__release(path);
    if (status == RP_OK && !found) status = rp__cost_builtin(ctx, &here, &found);
    if (status == RP_OK) *out = found;
    return status;
}

/* ---- queries ---- */

static int64_t not_negative(int64_t n) { return n > 0 ? n : 0; }

/* An op without `cost` counts as one operation for each output element. */
rp_cost rp__cost_work(const rp_op_meta *call, rp_pass pass)
{
    const rp_op *op = call->op;
    int64_t elems   = 0;

    if (pass == RP_BACKWARD && !rp__op_runs_back(call)) return (rp_cost){ 0 };
    for (int i = 0; i < call->n_out; i++) elems += rp_meta_elems(&call->out[i]);
    rp_cost work = op->cost ? op->cost(call, pass) : rp__cost(call, pass, elems);
    return (rp_cost){ not_negative(work.flops), not_negative(work.read_bytes), not_negative(work.write_bytes), not_negative(work.comm_bytes) };
}

/* Calls without a kernel run the reference, with the speed of fp64. Among the built-in ops only attention has kernels for views. User ops
 * do not run the reference. */
static rp_dtype dtype_of(const rp_op_meta *call, bool built_in)
{
    bool fast = call->fast && (call->dense || call->op == &rp_op_attention);

    for (int i = 0; i < call->n_in; i++)
        if (rp_meta_is_float(&call->in[i])) return fast || !built_in ? call->in[i].dtype : RP_F64;
    return RP_F32;
}

static const rp_cost_row *cost_row_of(const rp_cost_table *t, const rp_op_meta *call, rp_pass pass)
{
    int others = rp__op_count(), op = rp__cost_place(call->op);
    rp_dtype dtype         = dtype_of(call, op != others);
    const rp_cost_row *row = rp__cost_row(t, op, dtype, pass);

    return row->rate > 0 ? row : rp__cost_row(t, others, dtype, pass);
}

int64_t rp__cost_cache(const rp_cost_table *t) { return (int64_t)t->cache; }
bool rp__cost_is_near(const rp_cost_table *t, int64_t bytes) { return (double)bytes <= t->cache; }

/* The fastest stream that was measured: most pointwise ops compute for longer than memory takes, and their values are written meanwhile. */
double rp__cost_keep(const rp_cost_table *t, rp_dtype dtype, int64_t bytes)
{
    return 2 * (double)bytes / fmax(t->move[dtype], rp__cost_row(t, rp__op_count(), dtype, RP_FORWARD)->bandwidth);
}

double rp__cost_seconds(const rp_cost_table *table, const rp_op_meta *call, rp_pass pass)
{
    rp_cost work = rp__cost_work(call, pass);

    if (work.flops == 0 && rp__cost_bytes(work) == 0) return rp__cost_comm_seconds(table, call, pass);
    const rp_cost_row *row = cost_row_of(table, call, pass);
    double bandwidth = row->bandwidth * (rp__cost_is_near(table, rp__cost_bytes(work)) ? table->near : 1);
    double flops     = (double)work.flops + row->longer * (double)work.write_bytes;
    return row->overhead + fmax(flops / row->rate, (double)rp__cost_bytes(work) / bandwidth) + rp__cost_comm_seconds(table, call, pass);
}

double rp__cost_move(const rp_cost_table *table, rp_dtype dtype, int64_t bytes) { return (double)bytes / table->move[dtype]; }

/* ---- offloading ---- */

/* The write speed of a SATA SSD. Offloading to memory has the speed of this machine's memory; for a device, that of its link to the host. */
static const double disk_guess = 500e6;

static bool in_memory(const rp_cost_table *t, bool to_memory) { return to_memory && t->origin != RP_COST_OF_DEVICE; }

double rp__cost_offload_bandwidth(const rp_cost_table *t, bool to_memory)
{
    if (in_memory(t, to_memory)) return t->move[RP_F32] / 2;
    return t->offload > 0 ? t->offload : disk_guess;
}

bool rp__cost_offload_guessed(const rp_cost_table *t, bool to_memory) { return !in_memory(t, to_memory) && t->offload <= 0; }

double rp__cost_wait(double transfer, double forward, double backward) { return fmax(transfer - forward, 0) + fmax(transfer - backward, 0); }

double rp__cost_offload_seconds(const rp_cost_table *t, bool to_memory, rp_dtype dtype, int64_t bytes, double forward, double backward)
{
    if (bytes <= 0) return 0;
    return rp__cost_move(t, dtype, 4 * bytes) + rp__cost_wait((double)bytes / rp__cost_offload_bandwidth(t, to_memory), forward, backward);
}

const char *rp__cost_machine(const rp_cost_table *table) { return table->name; }
bool rp__cost_measured(const rp_cost_table *table) { return table->origin == RP_COST_QUICK || table->origin == RP_COST_FULL; }
double rp__cost_unsteady(const rp_cost_table *table) { return table->unsteady; }
int64_t rp__cost_memory(const rp_cost_table *table) { return table->memory; }
bool rp__cost_is_gpu(const rp_cost_table *table) { return table->gpu; }

static uint64_t hash_text(const char *text, uint64_t seed) { return rp__hash(text, strlen(text) + 1, seed); }

/* Rows are hashed with their op's name, so a new op without rows does not change the hash. */
static uint64_t hash_rows(const rp_cost_table *t, uint64_t hash)
{
    for (int op = 0; op <= rp__op_count(); op++)
        for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++)
            for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++) {
                const rp_cost_row *row = rp__cost_row(t, op, rp__cost_dtypes[d], pass);
                if (row->rate <= 0) continue;
                hash = hash_text(rp__cost_op_name(op), hash);
                hash = hash_text(rp_dtype_name(rp__cost_dtypes[d]), hash_text(rp__cost_pass_names[pass], hash));
                hash = rp__hash(row, row->longer > 0 ? sizeof *row : offsetof(rp_cost_row, longer), hash);
            }
    return hash;
}

uint64_t rp__cost_hash(const rp_cost_table *t)
{
    uint64_t hash = hash_text(t->machine.product[0], hash_text(t->machine.product[1], hash_text(t->name, RP_HASH_START)));

    hash = rp__hash(t->move, sizeof t->move, hash_rows(t, hash));
    hash = rp__hash(&t->near, sizeof t->near, rp__hash(&t->cache, sizeof t->cache, hash));
    hash = rp__cost_links_hash(t, hash);
    return rp__hash(&t->memory, sizeof t->memory, rp__hash(&t->offload, sizeof t->offload, hash));
}
