/* base/team.h -- the threads that run kernels: one team per process, started on first use and kept.
 *
 *   rp__team_run(3, 8, work, arg)          parts        0  1  2  3  4  5  6  7
 *                                          dealt to     caller | thread 1 | thread 2      the same each time, so data stays in the same caches
 *                                                          ^ a thread that has finished takes parts that others have not begun
 *
 * Results do not depend on which thread runs a part, because a part writes only data that no other part reads. So the bits are the same if the
 * team is smaller than requested, or if other processes use the cores; only the time differs. The caller never waits for a thread that has not begun.
 *
 *   thread:  waits ──new round──> enters ──parts──> leaves ──> waits: spinning, then yielding its core, then asleep
 *   caller:  opens a round ──parts──> closes it: threads that have not entered stay out ──> waits until all that entered have left
 */
#ifndef RP_TEAM_H
#define RP_TEAM_H

#include <stdint.h>

enum {
    RP_TEAM_MOST  = 1024,
    RP_TEAM_BYTES = 1 << 15,        /* waking a thread takes about as long as moving this many bytes; smaller work runs on the caller's thread */
};

/* part: 0 … parts-1, each once. thread: 0 … threads-1, never the same for two parts at a time; use it as an index into scratch. */
typedef void rp_team_work(void *arg, int64_t part, int thread);

/* Runs all parts on at most `threads` threads, the caller's included, and returns when they are done. The caller runs all parts itself inside a
 * part, or while another caller uses the team. Never fails: if the system refuses a thread, the others do its work. The team's threads flush
 * denormals; the caller's floating-point mode is not changed (rp__fp_enter). */
void rp__team_run(int threads, int64_t parts, rp_team_work *work, void *arg);

/* The start of part `part` when 0 … n is divided into `parts` at multiples of `step`; it ends where the next one starts. The same numbers always
 * give the same division. */
static inline int64_t rp__part_from(int64_t n, int64_t step, int64_t parts, int64_t part)
{
    int64_t steps = (n + step - 1) / step, at = steps * part / parts * step;

    return at < n ? at : n;
}

/* Items [from, to) of a kernel's work. */
typedef void rp_team_range(const void *arg, int64_t from, int64_t to);

/* Runs `work` on 0 … n, divided at multiples of `step` into more ranges than threads, so that a late thread costs little. If `bytes`, the memory
 * touched in all, is small, the caller runs it undivided. Results must not depend on the division. */
void rp__team_ranges(int threads, int64_t n, int64_t step, int64_t bytes, rp_team_range *work, const void *arg);

#endif
