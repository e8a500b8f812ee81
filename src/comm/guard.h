/* comm/guard.h -- a thread that sees whether the others of a job still live, whatever the ranks' own threads wait for.
 *
 *   main thread      computes │ waits for a request: looks at the verdict │ is inside a call of the library
 *   guard, each second        └ has the process that started this rank gone? the launcher? a rank of this machine?
 *                               does a call of the library last longer than the time limit?
 *
 * A verdict falls when something has been gone for RP_GUARD_GRACE seconds: until then the launcher may end this rank as it should. A main thread
 * that waits for a request sees the verdict and fails with an error. One that stays inside the library is ended by watch.lost.
 */
#ifndef RP_COMM_GUARD_H
#define RP_COMM_GUARD_H

#include "comm/internal.h"

typedef struct rp_guard rp_guard;

#define RP_GUARD_TICK 1.0
#define RP_GUARD_GRACE 5.0

/* errors RP_ERR_MEMORY · RP_ERR_BACKEND no thread can be started */
rp_status rp__guard_open(rp_ctx *ctx, rp_comm *world);
/* Ranks of this machine are looked after from here on. All ranks call it. errors RP_ERR_MEMORY · as rp__comm_share */
rp_status rp__guard_meet(rp_ctx *ctx, rp_comm *world);
void rp__guard_close(rp_comm *world);           /* a world without a guard is fine, here and below */
void rp__guard_limit(rp_guard *guard, double seconds);

/* Around every call of the library; `what` is told where it does not come back. */
void rp__guard_enter(rp_comm *comm, const char *what);
void rp__guard_leave(rp_comm *comm);
/* From here on ranks may go: only the launcher and the time limit count. */
void rp__guard_part(rp_comm *world);

/* Who has gone, "rank 1 (process 4711) is gone"; NULL: nobody. Cheap. */
const char *rp__guard_verdict(const rp_comm *comm);
/* "; rank 1 (process 4711) is stopped", or "": a rank of this machine that a signal holds. Returns out. */
#define RP_GUARD_CHARS 160
const char *rp__guard_stopped(const rp_comm *comm, char out[RP_GUARD_CHARS]);

#endif
