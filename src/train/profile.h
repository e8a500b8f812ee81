/* train/profile.h -- where the time of a few steps goes: a Chrome trace and a table by op.
 *
 *   step_begin ── the context is watched (base/watch.h): each span becomes an event and is added to the sums of its kind ── step_end
 *   write          FOLDER/profile.trace.json   for chrome://tracing and ui.perfetto.dev: steps, their parts, spans, and the live bytes of
 *                                              the ledger at the end of each
 *                  FOLDER/profile.txt          a table by op and pass, page faults, the traffic of the ledger
 *
 * rp__profile_new allocates all memory: a few MiB of host memory outside the ledger, of fixed size and touched as it fills. Events after the
 * first MOST_EVENTS are missing in the trace, which reports their number; the sums include them. A profile reads clocks and changes no
 * bit of a run.
 */
#ifndef RP_TRAIN_PROFILE_H
#define RP_TRAIN_PROFILE_H

#include "base/watch.h"
#include "tape/tape.h"

typedef struct rp_profile rp_profile;

enum { RP_PROFILE_STEPS = 3 };              /* steps that are profiled, at most */

/* errors RP_ERR_MEMORY */
rp_status rp__profile_new(rp_ctx *ctx, rp_profile **out);
void rp__profile_free(rp_profile *profile);

/* Whether to profile step `here` (from 0) of the n steps that this run makes: the second to the fourth, because the first has fresh pages and cold
 * caches. If the run has one step, that one. */
bool rp__profile_wants(int64_t here, int64_t n);
/* Whether step `here` is the last one to profile. */
bool rp__profile_ends(int64_t here, int64_t n);

/* Begin and end a step. Everything that runs on the context in between belongs to it. */
void rp__profile_step_begin(rp_profile *profile, int64_t step);
void rp__profile_step_end(rp_profile *profile, int64_t tokens, const rp_tape_stats *work);
/* Stop watching after a step that failed; it is not counted. */
void rp__profile_step_failed(rp_profile *profile);

int rp__profile_n_steps(const rp_profile *profile);

/* Write both files into the folder. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__profile_write(const rp_profile *profile, const char *folder);
/* The three largest shares of the time, into out: "matmul backward 38.2 %, matmul forward 19.8 %, attention backward 12.0 %". Returns out. */
#define RP_PROFILE_TEXT_CHARS 256
const char *rp__profile_text(const rp_profile *profile, char out[RP_PROFILE_TEXT_CHARS]);

#endif
