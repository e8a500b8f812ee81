/* cost/internal.h -- the cost table itself, for the files of cost/ and their tests.
 *
 *   machine.c   identifies the machine                   calls.c     the calls that are timed
 *   builtin.c   rows from the kind of CPU                run.c       runs one of them repeatedly
 *   device.c    rows from a data sheet                   measure.c   times the calls, an update and the disk
 *   file.c      writes a table as text and reads it      fit.c       rows from times
 *   comm.c      seconds of communication                 pace.c      times the calls one after the other
 *   cost.c      opens tables and answers queries
 *
 *   row      fp32            bf16            int32   fp64         one for each op of the registry, and one for all others
 *   matmul   forward backwd  forward backwd    -     forward …    rate 0: the op has no row, and the one for all others is used
 *
 * The rows of fp64 are those of the reference in any dtype.
 */
#ifndef RP_COST_INTERNAL_H
#define RP_COST_INTERNAL_H

#include "cost/cost.h"
#include "cost/timed.h"

enum { RP_COST_PASSES = 2, RP_COST_NAME_CHARS = RP_COST_MACHINE_CHARS, RP_COST_LINE_CHARS = 160 };

/* The bytes/s of states in 8 bits, over those of an update in fp32, where they were not measured. */
#define RP_COST_CODED_SHARE 0.12

#define RP_COST_FILE_BYTES (INT64_C(1) << 20)       /* maximum size of a table file */

/* Two machines that agree in all members are assumed to have the same speed. */
typedef struct {
    char cpu[96];                   /* "Intel Xeon Processor 6-167": name, family, model */
    char level[16];                 /* of the kernels: "v4", … "none" */
    char isa[16];                   /* the best instructions for products: "amx", "avx512-bf16", "avx512", "avx2", "neon-bf16", "neon", "base", "none" */
    char product[2][64];            /* the code for products in fp32 and bf16: "own amx", "own v3" */
    int threads;
} rp_cost_machine;

typedef enum { RP_COST_GUESSED, RP_COST_OF_DEVICE, RP_COST_QUICK, RP_COST_FULL } rp_cost_origin;

/* seconds · FLOP/s · bytes/s · FLOP that each byte of a result costs besides: of devices alone, else 0 */
typedef struct { double overhead, rate, bandwidth, longer; } rp_cost_row;

struct rp_cost_table {
    rp_cost_origin origin;
    rp_cost_machine machine;        /* empty for a device */
    char name[RP_COST_NAME_CHARS];
    rp_cost_row *row;               /* [ops of the registry + 1][RP_DTYPES][RP_COST_PASSES] */
    double move[RP_DTYPES], offload;        /* bytes/s of an update; RP_U8: of its states in 8 bits · of a disk */
    double cache, near;             /* bytes that stay in the caches between calls, 0: unknown · how many times faster caches are than memory */
    bool overlap;                    /* communication does not use the cores of the ranks, so it overlaps with computing */
    double link, node_link, latency;        /* bytes/s of one rank in its node and between nodes, 0: unknown · seconds of a message */
    int64_t node;                   /* ranks of a node; 0: all in one node. link, node_link, latency and node are neither measured nor stored */
    double unsteady;                /* of a table that was just measured; not stored */
    int64_t memory;
    bool gpu;                       /* its bytes are those of the kernels of GPUs */
    char *path;                     /* where it was saved; NULL: not saved */
};

/* ---- tables ---- */

/* Create a table without rows. Errors: RP_ERR_MEMORY. */
rp_status rp__cost_table_new(rp_ctx *ctx, rp_cost_origin origin, rp_cost_table **out);

/* Returns the op's place in the registry. For an unknown op, returns rp__op_count(), the place of the row for all others. */
int rp__cost_place(const rp_op *op);

static inline rp_cost_row *rp__cost_row(const rp_cost_table *t, int op, rp_dtype dtype, rp_pass pass)
{
    return &t->row[(op * RP_DTYPES + (int)dtype) * RP_COST_PASSES + (int)pass];
}

uint64_t rp__cost_links_hash(const rp_cost_table *table, uint64_t hash);

/* Returns the work of a pass of a call, from the op's `cost` or else from its shapes; all 0 if the pass does not run. */
rp_cost rp__cost_work(const rp_op_meta *call, rp_pass pass);
static inline int64_t rp__cost_bytes(rp_cost work) { return work.read_bytes + work.write_bytes; }

/* Returns for example "matmul"; "others" for rp__op_count(). */
const char *rp__cost_op_name(int op);
/* Order of the rows in a table: floating dtypes, passes. */
extern const rp_dtype rp__cost_dtypes[3];
extern const char *const rp__cost_pass_names[RP_COST_PASSES];

/* ---- where tables come from ---- */

void rp__cost_machine_find(rp_ctx *ctx, rp_cost_machine *out);
/* Decode the family and model of an x86 CPU from CPUID: register EAX of leaf 1. */
void rp__cost_cpu_model(unsigned signature, unsigned *family, unsigned *model);
bool rp__cost_machine_same(const rp_cost_machine *a, const rp_cost_machine *b);
/* Writes for example "Intel Xeon Processor 6-167, 2 threads, amx". */
void rp__cost_machine_name(const rp_cost_machine *m, char out[RP_COST_NAME_CHARS]);

/* Returns half of the largest cache for this many threads, as the system reports it; 0: not reported. */
double rp__cost_system_cache(int threads);
/* Create a table from the machine and its caches; nothing is timed. Errors: RP_ERR_MEMORY. */
rp_status rp__cost_builtin(rp_ctx *ctx, const rp_cost_machine *machine, rp_cost_table **out);

/* ---- files ---- */

/* Write a table as text; the caller must rp__release it. Errors: RP_ERR_MEMORY. */
rp_status rp__cost_text(rp_ctx *ctx, const rp_cost_table *table, char **text);
/* Read the text of a table; `path` is for messages. *foreign: another version of Reprise wrote it, and *out is unchanged. Errors:
 * RP_ERR_FORMAT, RP_ERR_MEMORY. */
rp_status rp__cost_parse(rp_ctx *ctx, const char *path, const char *text, int64_t bytes, bool *foreign, rp_cost_table **out);
/* Round to four digits. More digits would be noise, and the file should be readable. */
double rp__cost_rounded(double x);
/* Find the file of a machine's table; the caller must rp__release *path. *path is NULL if there is no folder for it. Errors: RP_ERR_MEMORY. */
rp_status rp__cost_path(rp_ctx *ctx, const rp_cost_machine *machine, char **path);

/* ---- measuring ---- */

/* When to time a call. The reference is hundreds of times slower than kernels and has calls of its own. */
enum { RP_COST_TINY = 1, RP_COST_SLOW = 2, RP_COST_SOON = 4, RP_COST_LATE = 8 };

typedef struct {
    const char *op;
    int when;                       /* TINY: always, for the overhead · SLOW: with the reference · SOON: with kernels · LATE: with kernels, not if quick */
    rp_op_case call;
} rp_cost_call;

int rp__cost_n_calls(void);
const rp_cost_call *rp__cost_call_at(int i);

typedef struct {                    /* a time and its call */
    int op;                         /* place in the registry */
    int when;
    rp_dtype dtype;
    rp_pass pass;
    rp_cost work;
    double seconds, slowest;        /* smallest and largest median of the rounds */
} rp_cost_sample;

enum { RP_COST_MOST_RUNS = 31 };

/* Returns the middle one of n values, which it sorts; 0 if n is 0. */
double rp__cost_middle(double *value, int n);

/* sample: of every call, dtype and pass. *pace: the time of all calls of a dtype, one after the other, divided by the sum of their single
 * times. It is the median of n <= RP_COST_MOST_RUNS turns. Errors: RP_ERR_MEMORY. */
rp_status rp__cost_pace(rp_ctx *ctx, rp_dtype dtype, const rp_cost_sample *sample, int n, double *pace);

/* Compute rows from times, and the row for all others from those of all ops. pace: for each dtype, the factor for all times of its rows. */
void rp__cost_fit(rp_cost_table *table, const rp_cost_sample *sample, int n, const double pace[RP_DTYPES]);

/* Writes for example "matmul                bf16  forward       12.1 us       2100 GFLOP/s        31 GB/s" to out; returns out. */
const char *rp__cost_line(const rp_cost_table *table, int op, rp_dtype dtype, rp_pass pass, char out[RP_COST_LINE_CHARS]);

#endif
