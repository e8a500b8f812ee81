/* comm/guard.h -- a thread that checks whether the other processes of a job still run, even while this rank's own threads wait.
 *
 *   main thread      computes │ waits for a request: checks the verdict │ is inside a call of the MPI library
 *   guard, each second        └ has this rank's parent process exited? the launcher? a rank on this machine?
 *                               has a call of the MPI library exceeded the time limit?
 *
 * The guard gives a verdict once a process has been gone for RP_GUARD_GRACE seconds; this leaves the launcher time to end this rank normally. A main
 * thread that waits for a request sees the verdict and fails with an error. If it stays inside the MPI library, watch.lost ends the process.
 */
#ifndef RP_COMM_GUARD_H
#define RP_COMM_GUARD_H

#include "comm/internal.h"

typedef struct rp_guard rp_guard;

#define RP_GUARD_TICK 1.0
#define RP_GUARD_GRACE 5.0

/* Starts the guard. errors RP_ERR_MEMORY · RP_ERR_BACKEND the thread cannot be started */
rp_status rp__guard_open(rp_ctx *ctx, rp_comm *world);
/* Starts watching the ranks on this machine. All ranks must call it. errors RP_ERR_MEMORY · as rp__comm_share */
rp_status rp__guard_meet(rp_ctx *ctx, rp_comm *world);
void rp__guard_close(rp_comm *world);           /* here and below, a world without a guard is fine */
void rp__guard_limit(rp_guard *guard, double seconds);

/* Bracket every call of the MPI library. `operation` names the call in the message if it does not return. */
void rp__guard_enter(rp_comm *comm, const char *operation);
void rp__guard_leave(rp_comm *comm);
/* From now on ranks may exit: only the launcher and the time limit are checked. */
void rp__guard_part(rp_comm *world);

/* Describes the process that has exited: "rank 1 (process 4711) is gone". NULL: none has. Cheap. */
const char *rp__guard_verdict(const rp_comm *comm);
/* Writes "; rank 1 (process 4711) is stopped" if a signal has stopped a rank on this machine, else "". Returns out. */
#define RP_GUARD_CHARS 160
const char *rp__guard_stopped(const rp_comm *comm, char out[RP_GUARD_CHARS]);

#endif
