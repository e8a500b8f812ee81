/* train/profile.h -- where the time of a few steps goes: a Chrome trace and a table by op.
 *
 *   step_begin ── the context is watched (base/watch.h): every span is an event, and one more in the sums of its kind ── step_end
 *   write          FOLDER/profile.trace.json   for chrome://tracing and ui.perfetto.dev: steps, their parts, spans, and the ledger's live
 *                                              bytes at the end of each
 *                  FOLDER/profile.txt          a table by op and pass, page faults, the ledger's traffic
 *
 * All memory there ever is for it is taken by new, a fixed amount of host memory outside the ledger (a few MiB, touched as it fills). What
 * comes beyond MOST_EVENTS is missing in the trace, which says so; the sums have it all. No bit of a run changes: clocks are read.
 */
#ifndef RP_TRAIN_PROFILE_H
#define RP_TRAIN_PROFILE_H

#include "base/watch.h"
#include "tape/tape.h"

typedef struct rp_profile rp_profile;

enum { RP_PROFILE_STEPS = 3 };              /* at most */

/* errors RP_ERR_MEMORY */
rp_status rp__profile_new(rp_ctx *ctx, rp_profile **out);
void rp__profile_free(rp_profile *profile);

/* Is the step numbered `here` (from 0) among the n that this run makes to be profiled? The second to the fourth: the first one meets fresh
 * pages and cold caches. Of a run of one step, that one. */
bool rp__profile_wants(int64_t here, int64_t n);
/* Is it the last of those? */
bool rp__profile_ends(int64_t here, int64_t n);

/* What runs on the context between the two is the step's. */
void rp__profile_step_begin(rp_profile *profile, int64_t step);
void rp__profile_step_end(rp_profile *profile, int64_t tokens, const rp_tape_stats *work);
/* The step failed: nothing is watched any more, and it does not count. */
void rp__profile_step_failed(rp_profile *profile);

int rp__profile_n_steps(const rp_profile *profile);

/* errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__profile_write(const rp_profile *profile, const char *folder);
/* "matmul backward 38.2 %, matmul forward 19.8 %, attention backward 12.0 %" of the steps' time, into out; returns out. */
#define RP_PROFILE_TEXT_CHARS 256
const char *rp__profile_text(const rp_profile *profile, char out[RP_PROFILE_TEXT_CHARS]);

#endif
