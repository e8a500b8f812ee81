/* base/team.h -- the threads that kernels run on: one team a process, started when it is first needed, kept.
 *
 *   rp__team_run(3, 8, work, arg)          parts        0  1  2  3  4  5  6  7
 *                                          dealt to     caller | thread 1 | thread 2      the same each time: what lies in whose cache stays there
 *                                                          ^ who is through takes over what others have not begun
 *
 * Which thread runs a part never shows: a part writes what no other part reads. So a team that is smaller than asked for, or that
 * other work on the machine keeps from the cores, gives the same bits, only later; nobody waits for a thread that has not begun.
 *
 *   thread:  waits ──new round──> enters ──parts──> leaves ──> waits: spinning, then yielding its core, then asleep
 *   caller:  opens a round ──parts──> closes it: who has not entered stays out ──> waits until all who entered have left
 */
#ifndef RP_TEAM_H
#define RP_TEAM_H

#include <stdint.h>

enum {
    RP_TEAM_MOST  = 1024,
    RP_TEAM_BYTES = 1 << 15,        /* what a thread moves about as fast as another one wakes: less work is not worth the team */
};

/* part: 0 … parts-1, each once. thread: 0 … threads-1, no two parts at once with the same one: the number of a piece of scratch. */
typedef void rp_team_work(void *arg, int64_t part, int thread);

/* Runs all parts and returns when they are done, on at most `threads` threads, the caller's among them. Inside a part, or while another
 * caller has the team, the caller runs them all. Never fails: threads the system refuses are done without. Its own threads flush
 * denormals; the caller's mode is the caller's (rp__fp_enter). */
void rp__team_run(int threads, int64_t parts, rp_team_work *work, void *arg);

/* Part `part` of `parts` of 0 … n as [from, to), cut at multiples of `step`: the same cut for the same numbers. */
static inline int64_t rp__part_from(int64_t n, int64_t step, int64_t parts, int64_t part)
{
    int64_t steps = (n + step - 1) / step, at = steps * part / parts * step;

    return at < n ? at : n;
}

/* Items [from, to) of a kernel's work. */
typedef void rp_team_range(const void *arg, int64_t from, int64_t to);

/* Runs `work` on 0 … n, cut at multiples of `step` into more ranges than threads, so that a late thread costs little; whole, on the
 * caller's thread, where the `bytes` that all of it touches are too few to wake anyone. For work whose results show no cut. */
void rp__team_ranges(int threads, int64_t n, int64_t step, int64_t bytes, rp_team_range *work, const void *arg);

#endif
