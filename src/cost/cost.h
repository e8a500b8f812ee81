/* cost/cost.h -- the cost model: the seconds of calls, copies and communication on a machine, for planning.
 *
 * There is one table for each CPU and number of threads:
 *
 *   seconds of a pass of a call = overhead + max(flops / rate, bytes / bandwidth)          (roofline, by op, dtype and pass; device.c adds a term)
 *                               + messages x latency + bytes / link                        (if it talks to other ranks: comm.c)
 *
 * Flops and bytes are those of the op's `cost`. The bandwidth is that of memory. If the bytes of a call fit the caches, neighbouring calls
 * have left them there, and the bandwidth is `near` times larger. link is the bytes/s that one rank sends while all others send, too.
 *
 * The built-in table is derived from the CPU's description. `reprise calibrate` measures a table and stores it in a file, except for the
 * link, because measuring it needs other ranks. plan, explain, sweep and train read the same table, so the same recipe gives the same plan.
 */
#ifndef RP_COST_H
#define RP_COST_H

#include "base/base.h"
#include "ops/call.h"
#include "ops/talk.h"

typedef struct rp_cost_table rp_cost_table;

/* Open the table for this machine and the context's threads: the measured one if its file exists, otherwise the built-in one. Errors:
 * RP_ERR_FORMAT a damaged file, with its name; RP_ERR_IO; RP_ERR_MEMORY. */
rp_status rp__cost_table_open(rp_ctx *ctx, rp_cost_table **out);
/* Open the table of another machine: "name=h100, memory=80GB, flops=989e12, bandwidth=3.35e12, link=450GB/s", in any order. A name alone is
 * looked up in devices.def. `flops` applies to bf16 products; flops_fp32 may be given too. `link` is the bytes/s that one rank sends.
 * `latency` is the time of a message (default 2us). `node` is the number of ranks in a node. They have that link; between nodes, each rank
 * has `node_link`. Without `node` all ranks have `link`. Errors: RP_ERR_CONFIG; RP_ERR_MEMORY. */
rp_status rp__cost_table_device(rp_ctx *ctx, const char *spec, rp_cost_table **out);
void rp__cost_table_free(rp_cost_table *table);

/* Returns the seconds of one pass of a call. Never negative; never 0 if there is work. */
double rp__cost_seconds(const rp_cost_table *table, const rp_op_meta *call, rp_pass pass);
/* Returns the part of these seconds in which the call talks to other ranks, and the bytes that this rank sends. */
double rp__cost_comm_seconds(const rp_cost_table *table, const rp_op_meta *call, rp_pass pass);
int64_t rp__cost_comm_bytes(const rp_op_meta *call, rp_pass pass);
/* Returns the bytes that neighbouring calls find in the caches of this machine; 0: unknown. This is half of the largest cache, because
 * caches hold other data, too. rp__cost_is_near: do so many bytes stay in the caches? */
int64_t rp__cost_cache(const rp_cost_table *table);
bool rp__cost_is_near(const rp_cost_table *table, int64_t bytes);
/* Returns the seconds of writing bytes of this dtype to memory and reading them back later, at the speed of memory. */
double rp__cost_keep(const rp_cost_table *table, rp_dtype dtype, int64_t bytes);
/* Returns the seconds of moving bytes of this dtype through memory once. `bytes` includes reads and writes, as in an optimizer update. RP_U8: those
 * that states in 8 bits add to an update; decoding and encoding them takes longer than memory does. */
double rp__cost_move(const rp_cost_table *table, rp_dtype dtype, int64_t bytes);
/* Returns the bytes/s to the place of offloaded slots and back: a disk, or another device's memory (`to_memory`). Never 0. A disk that was
 * not measured is assumed to be slow; rp__cost_offload_guessed is then true. */
double rp__cost_offload_bandwidth(const rp_cost_table *table, bool to_memory);
bool rp__cost_offload_guessed(const rp_cost_table *table, bool to_memory);
/* Returns the seconds that a step waits for copies of `transfer` seconds each way. Copies out overlap with the forward, copies back with
 * the backward. */
double rp__cost_wait(double transfer, double forward, double backward);
/* Returns the additional seconds of a step that offloads this many bytes. Each byte is copied out and in, which overlaps with nothing.
 * Transfers wait as above; `backward` includes replays. */
double rp__cost_offload_seconds(const rp_cost_table *table, bool to_memory, rp_dtype dtype, int64_t bytes, double forward, double backward);

/* Links of one rank in bytes/s, in its node and between nodes; ranks of a node, 0: all. Until they are measured they are assumptions. */
typedef struct { double link, node_link, latency; int64_t node; } rp_cost_links;
rp_cost_links rp__cost_links(const rp_cost_table *table);
/* Returns the seconds of a call's communication in a world of this many ranks. */
double rp__cost_talk_seconds(const rp_cost_table *table, int world, const rp_talk *talk);
/* Returns the bytes/s that one rank sends to others of its node; 0: unknown. */
double rp__cost_link(const rp_cost_table *table);
/* Can communication overlap with computing? Ranks on one machine copy with the cores that compute, so they cannot. */
bool rp__cost_overlaps(const rp_cost_table *table);

const char *rp__cost_machine(const rp_cost_table *table);       /* "Intel Xeon …, 2 threads, amx" or "h100" */
/* Write the name of the context's machine, with its threads, to out; returns out. */
#define RP_COST_MACHINE_CHARS 160
const char *rp__cost_machine_text(rp_ctx *ctx, char out[RP_COST_MACHINE_CHARS]);
bool rp__cost_measured(const rp_cost_table *table);
int64_t rp__cost_memory(const rp_cost_table *table);            /* of a device, in bytes; 0: not given */
bool rp__cost_is_gpu(const rp_cost_table *table);               /* a line of devices.def, also with other figures */
uint64_t rp__cost_hash(const rp_cost_table *table);             /* of all figures; plan files store it */

/* Measure this machine: every op of the registry that has a cost, in each of its dtypes, both passes and relevant sizes; the optimizer
 * update; the disk of the current folder. Takes at most a minute; `quick` takes seconds, with fewer sizes, each once. `print` is called with
 * one line for each row; may be NULL. Errors: RP_ERR_STATE the context is shapes-only; those of running ops; RP_ERR_MEMORY. */
rp_status rp__cost_measure(rp_ctx *ctx, bool quick, void (*print)(void *user, const char *line), void *user, rp_cost_table **out);
/* Returns the fraction of calls whose slowest round took more than 1.3 times as long as their fastest one, because other work ran on the
 * machine. 0 if each call was measured once. */
double rp__cost_unsteady(const rp_cost_table *table);
/* Write the measured table to $REPRISE_COSTS, else $XDG_CACHE_HOME/reprise/…, else ~/.cache/reprise/…. The file is written under another
 * name, synced and renamed. *path lives as long as the table. Errors: RP_ERR_IO, RP_ERR_MEMORY. */
rp_status rp__cost_table_save(rp_ctx *ctx, rp_cost_table *table, const char **path);
/* Check that the table can be written there; call this before measuring. Errors: RP_ERR_IO, RP_ERR_MEMORY. */
rp_status rp__cost_table_place(rp_ctx *ctx);

#endif
