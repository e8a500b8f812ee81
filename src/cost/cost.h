/* cost/cost.h -- how long a call takes on a machine, as far as a plan needs to know.
 *
 * One table for a CPU and a number of threads:
 *
 *   seconds of a pass of a call = overhead + max(flops / rate, bytes / bandwidth)          (roofline, by op, dtype and pass)
 *                               + messages x latency + bytes / link                        (where it talks to other ranks: comm.c)
 *
 * The bandwidth is that of memory. A call whose bytes fit the caches finds them there, as its neighbours made them: it is `near` times as fast.
 *
 * with flops and bytes as the op's `cost` says; link is what one rank sends a second while all others do. It is built in, from what the CPU
 * says about itself, until `reprise calibrate` has measured it; then a file has it, but for the link, which takes other ranks to measure. plan, explain,
 * sweep and train read the same table, so the same recipe gives the same plan.
 */
#ifndef RP_COST_H
#define RP_COST_H

#include "base/base.h"
#include "ops/call.h"
#include "ops/talk.h"

typedef struct rp_cost_table rp_cost_table;

/* The table for this machine and the context's threads: the measured one where there is a file of it, else the built-in one.
 * errors RP_ERR_FORMAT a file that is damaged, named · RP_ERR_MEMORY */
rp_status rp__cost_table_open(rp_ctx *ctx, rp_cost_table **out);
/* Of another machine: "name=h100, memory=80GB, flops=989e12, bandwidth=3.35e12, link=450GB/s", any order; a name alone is one of devices.def.
 * `flops` are those of bf16 products (flops_fp32 may be given, too). `link` is what one rank sends a second, `latency` (2us) is of a message.
 * `node` ranks have that link, nodes have `node_link` for each of their ranks. Without `node` all ranks have `link`.
 * errors RP_ERR_CONFIG one sentence · RP_ERR_MEMORY */
rp_status rp__cost_table_device(rp_ctx *ctx, const char *spec, rp_cost_table **out);
void rp__cost_table_free(rp_cost_table *table);

/* Of one pass of a call. Never negative, never 0 where there is work. */
double rp__cost_seconds(const rp_cost_table *table, const rp_op_meta *call, rp_pass pass);
/* The part of it in which the call talks to other ranks, and the bytes that this one sends them. */
double rp__cost_comm_seconds(const rp_cost_table *table, const rp_op_meta *call, rp_pass pass);
int64_t rp__cost_comm_bytes(const rp_op_meta *call, rp_pass pass);
/* Bytes that neighbouring calls find in the caches of this machine, 0: not known; and whether so many are found there. Half of the largest
 * cache counts, as other things are in it, too. */
int64_t rp__cost_cache(const rp_cost_table *table);
bool rp__cost_is_near(const rp_cost_table *table, int64_t bytes);
/* Of writing bytes of that dtype to memory and reading them back later. */
double rp__cost_keep(const rp_cost_table *table, rp_dtype dtype, int64_t bytes);
/* Of moving bytes of that dtype through memory once, as the optimizer's update does: those it reads and those it writes. */
double rp__cost_move(const rp_cost_table *table, rp_dtype dtype, int64_t bytes);
/* Bytes per second to the place of offloaded slots, and back: a disk, or another device's memory (`to_memory`). Never 0: a disk that nobody
 * has measured is taken for a slow one, which is a guess. */
double rp__cost_offload_bandwidth(const rp_cost_table *table, bool to_memory);
bool rp__cost_offload_guessed(const rp_cost_table *table, bool to_memory);
/* Seconds that a step waits for `transfer` seconds of copies each way. Transfers out hide behind the forward, transfers back behind the backward. */
double rp__cost_wait(double transfer, double forward, double backward);
/* Seconds that a step takes longer because so many bytes of dtype go there and come back. Each byte is copied out and in, which hides behind
 * nothing. Transfers wait as above; the seconds of the backward include replays. */
double rp__cost_offload_seconds(const rp_cost_table *table, bool to_memory, rp_dtype dtype, int64_t bytes, double forward, double backward);

/* Bytes a second of one rank, in its node and between nodes; ranks of a node, 0: all. Until they are measured they are assumed. */
typedef struct { double link, node_link, latency; int64_t node; } rp_cost_links;
rp_cost_links rp__cost_links(const rp_cost_table *table);
/* Of what a call says, in a world of so many ranks. */
double rp__cost_talk_seconds(const rp_cost_table *table, int world, const rp_talk *talk);
/* Bytes a second that one rank sends to others of its node; 0: unknown. */
double rp__cost_link(const rp_cost_table *table);
/* Can ranks talk beside computing? Those of one machine copy with the cores that compute. */
bool rp__cost_overlaps(const rp_cost_table *table);

const char *rp__cost_machine(const rp_cost_table *table);       /* "Intel Xeon …, 2 threads, amx" or "h100" */
/* The machine the context runs on, with its threads, into out; returns out. */
#define RP_COST_MACHINE_CHARS 160
const char *rp__cost_machine_text(rp_ctx *ctx, char out[RP_COST_MACHINE_CHARS]);
bool rp__cost_measured(const rp_cost_table *table);
int64_t rp__cost_memory(const rp_cost_table *table);            /* of a device, bytes; 0: not said */
uint64_t rp__cost_hash(const rp_cost_table *table);             /* of all its figures: plans name it */

/* Measure this machine: every op of the registry that has a cost, in each dtype it runs in, both passes, at sizes that matter, the
 * optimizer's update, the disk of the current folder. A minute at most; `quick` takes seconds: fewer sizes, each once. `tell` gets a line a
 * row (may be NULL). errors RP_ERR_STATE the context is of shapes alone · those of running ops · RP_ERR_MEMORY */
rp_status rp__cost_measure(rp_ctx *ctx, bool quick, void (*tell)(void *user, const char *line), void *user, rp_cost_table **out);
/* The share of calls that took more than 1.3 times as long at one time as at another while the table was measured: what else the machine
 * did. 0 where each was measured once. */
double rp__cost_unsteady(const rp_cost_table *table);
/* Where the measured table of this machine is kept: $REPRISE_COSTS, else $XDG_CACHE_HOME/reprise/…, else ~/.cache/reprise/….
 * Written aside, synced, renamed; *path lives as long as the table. errors RP_ERR_IO */
rp_status rp__cost_table_save(rp_ctx *ctx, rp_cost_table *table, const char **path);
/* Can it be written there? For those who want to know before they measure. errors RP_ERR_IO */
rp_status rp__cost_table_place(rp_ctx *ctx);

#endif
