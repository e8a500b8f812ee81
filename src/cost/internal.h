/* cost/internal.h -- the cost table itself, for those who make, keep and ask it.
 *
 *   machine.c   which machine this is                    calls.c     the calls that are timed
 *   builtin.c   rows from what the CPU is                run.c       one of them, run over and over
 *   device.c    rows from a data sheet                   measure.c   times of the calls, of an update, of the disk
 *   file.c      a table as text, and back                fit.c       rows from times
 *   comm.c      what ranks say to each other            pace.c      times of the calls one after the other
 *   cost.c           opened, and asked
 *
 *   row      fp32            bf16            int32   fp64         one for each op of the registry, and one for all others
 *   matmul   forward backwd  forward backwd    -     forward …    rate 0: the op has none, the others' is asked
 *
 * The rows of fp64 are those of the reference, in whatever dtype it runs.
 */
#ifndef RP_COST_INTERNAL_H
#define RP_COST_INTERNAL_H

#include "cost/cost.h"
#include "cost/timed.h"

enum { RP_COST_PASSES = 2, RP_COST_NAME_CHARS = RP_COST_MACHINE_CHARS, RP_COST_LINE_CHARS = 160 };

#define RP_COST_FILE_BYTES (INT64_C(1) << 20)       /* no table is longer */

/* Two machines that agree in all of this run at the same speed, as far as one can know without timing. */
typedef struct {
    char cpu[96];                   /* "Intel Xeon Processor 6-167": name, family, model */
    char level[16];                 /* of the kernels: "v4", … "none" */
    char isa[16];                   /* what products run on at best: "amx", "avx512-bf16", "avx512", "avx2", "base", "none" */
    char product[2][64];            /* who multiplies fp32, bf16: "own amx", "own v3" */
    int threads;
} rp_cost_machine;

typedef enum { RP_COST_GUESSED, RP_COST_OF_DEVICE, RP_COST_QUICK, RP_COST_FULL } rp_cost_origin;

typedef struct { double overhead, rate, bandwidth; } rp_cost_row;      /* seconds · FLOP/s · bytes/s */

struct rp_cost_table {
    rp_cost_origin origin;
    rp_cost_machine machine;        /* of a device: empty */
    char name[RP_COST_NAME_CHARS];
    rp_cost_row *row;               /* [ops of the registry + 1][RP_DTYPES][RP_COST_PASSES] */
    double move[RP_DTYPES], offload;        /* bytes/s */
    double cache, near;             /* bytes that stay in the caches between calls, 0: unknown · how much faster they are than memory */
    bool overlap;                    /* what ranks send each other is moved by others than their cores */
    double link, node_link, latency;        /* bytes/s of one rank in its node and between nodes, 0: unknown · seconds of a message */
    int64_t node;                   /* ranks of a node; 0: they are all in one. None of these four is measured, or in its file */
    double unsteady;                /* of one that was measured just now; not in its file */
    int64_t memory;
    char *path;                     /* where it was saved */
};

/* ---- tables ---- */

/* Without rows. errors RP_ERR_MEMORY */
rp_status rp__cost_table_new(rp_ctx *ctx, rp_cost_origin origin, rp_cost_table **out);

/* Place in the registry; rp__op_count(), the place of all others, for an op that is not there. */
int rp__cost_place(const rp_op *op);

static inline rp_cost_row *rp__cost_row(const rp_cost_table *t, int op, rp_dtype dtype, rp_pass pass)
{
    return &t->row[(op * RP_DTYPES + (int)dtype) * RP_COST_PASSES + (int)pass];
}

uint64_t rp__cost_links_hash(const rp_cost_table *table, uint64_t hash);

/* What a pass of a call does, by its op's word or else by what it declares; nothing where nothing runs. */
rp_cost rp__cost_work(const rp_op_meta *call, rp_pass pass);
static inline int64_t rp__cost_bytes(rp_cost work) { return work.read_bytes + work.write_bytes; }

/* "matmul"; "others" behind the last. */
const char *rp__cost_op_name(int op);
/* The lines of a table: floating dtypes, passes. */
extern const rp_dtype rp__cost_dtypes[3];
extern const char *const rp__cost_pass_names[RP_COST_PASSES];

/* ---- where tables come from ---- */

void rp__cost_machine_find(rp_ctx *ctx, rp_cost_machine *out);
/* What CPUID says of an x86 CPU: register EAX of leaf 1. */
void rp__cost_cpu_model(unsigned signature, unsigned *family, unsigned *model);
bool rp__cost_machine_same(const rp_cost_machine *a, const rp_cost_machine *b);
/* "Intel Xeon Processor 6-167, 2 threads, amx" */
void rp__cost_machine_name(const rp_cost_machine *m, char out[RP_COST_NAME_CHARS]);

/* Half of the largest cache there is for so many threads, by the system's word; 0: it does not say. */
double rp__cost_system_cache(int threads);
/* A function of the machine and its caches: nothing is timed. errors RP_ERR_MEMORY */
rp_status rp__cost_builtin(rp_ctx *ctx, const rp_cost_machine *machine, rp_cost_table **out);

/* ---- files ---- */

/* The text of a table; yours to rp__release. errors RP_ERR_MEMORY */
rp_status rp__cost_text(rp_ctx *ctx, const rp_cost_table *table, char **text);
/* And back; `path` is for messages. *foreign: another version of Reprise wrote it, *out is as it was.
 * errors RP_ERR_FORMAT · RP_ERR_MEMORY */
rp_status rp__cost_parse(rp_ctx *ctx, const char *path, const char *text, int64_t bytes, bool *foreign, rp_cost_table **out);
/* Four digits: more would be noise, and the file is to be read. */
double rp__cost_rounded(double x);
/* Where the table of a machine is kept; yours to rp__release. *path is NULL where there is no such place. errors RP_ERR_MEMORY */
rp_status rp__cost_path(rp_ctx *ctx, const rp_cost_machine *machine, char **path);

/* ---- measuring ---- */

/* When a call is timed. The reference is hundreds of times slower than kernels are and gets calls of its own. */
enum { RP_COST_TINY = 1, RP_COST_SLOW = 2, RP_COST_SOON = 4, RP_COST_LATE = 8 };

typedef struct {
    const char *op;
    int when;                       /* TINY: always, for the overhead · SLOW: by the reference · SOON: by kernels · LATE: unless quick */
    rp_op_case call;
} rp_cost_call;

int rp__cost_n_calls(void);
const rp_cost_call *rp__cost_call_at(int i);

typedef struct {                    /* a time, and for what */
    int op;                         /* place in the registry */
    int when;
    rp_dtype dtype;
    rp_pass pass;
    rp_cost work;
    double seconds, slowest;        /* of the rounds' medians, the least and the greatest */
} rp_cost_sample;

enum { RP_COST_MOST_RUNS = 31 };

/* The middle of n values, which it sorts; 0 of none. */
double rp__cost_middle(double *value, int n);

/* sample: of every call, dtype and pass.  *pace: the time of all calls of a dtype, one after the other, over the sum of their own.
 * The median of n <= RP_COST_MOST_RUNS turns.  errors RP_ERR_MEMORY */
rp_status rp__cost_pace(rp_ctx *ctx, rp_dtype dtype, const rp_cost_sample *sample, int n, double *pace);

/* Rows from times, the others' row from those of all ops.  pace: of each dtype; all times of its rows are multiplied by it. */
void rp__cost_fit(rp_cost_table *table, const rp_cost_sample *sample, int n, const double pace[RP_DTYPES]);

/* "matmul                bf16 forward      12.1 us    2.1e+12 FLOP/s    3.1e+10 bytes/s" */
const char *rp__cost_line(const rp_cost_table *table, int op, rp_dtype dtype, rp_pass pass, char out[RP_COST_LINE_CHARS]);

#endif
