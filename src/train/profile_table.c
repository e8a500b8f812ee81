/* train/profile_table.c -- the profile as a table: the time of a step by op and pass. All figures are the average of one step.
 *
 *   op                    pass        calls    seconds    share   GFLOP/s      GB/s
 *   matmul                backward      420    0.21042   41.1 %     812.4     31.23
 *   …
 *   between                                    0.00540    1.1 %
 */
#include "train/profile_internal.h"

#include "cost/cost.h"

enum { RATE_CHARS = 24 };

typedef struct { double n, seconds; } profile_scale;      /* number of steps, and their seconds */

static double mean(double sum, const profile_scale *s) { return sum / s->n; }

static const char *rate(char out[RATE_CHARS], int64_t n, double seconds, int digits)
{
    if (n && seconds > 0) snprintf(out, RATE_CHARS, "%.*f", digits, (double)n / seconds * 1e-9);
    else snprintf(out, RATE_CHARS, "-");
    return out;
}

static void put_row(const profile_row *r, const profile_scale *s, profile_out *out)
{
    char flops[RATE_CHARS], bytes[RATE_CHARS];

    rp__profile_put(out, "%-22s%-10s%7.4g%12.6f%8.1f %%%11s%10s\n", r->name, rp__profile_doings[r->doing], mean((double)r->calls, s),
                    mean(r->seconds, s), 100 * r->seconds / s->seconds, rate(flops, r->flops, r->seconds, 1),
                    rate(bytes, r->bytes, r->seconds, 2));
}

/* Returns the seconds outside all spans: the tape, the ledger, the code of the model. */
static double put_rows(const profile_row *row, int n, const profile_scale *s, profile_out *out)
{
    double left = s->seconds;

    rp__profile_put(out, "%-22s%-10s%7s%12s%10s%11s%10s\n", "op", "pass", "calls", "seconds", "share", "GFLOP/s", "GB/s");
    for (int i = 0; i < n; i++) {
        put_row(&row[i], s, out);
        left -= row[i].seconds;
    }
    rp__profile_put(out, "%-22s%-10s%7s%12.6f%8.1f %%\n", "between", "", "", mean(left, s), 100 * left / s->seconds);
    return left;
}

static void put_passes(const profile_row *row, int n, double left, const profile_scale *s, profile_out *out)
{
    rp__profile_put(out, "\n%-22s%12s%10s%11s%10s\n", "pass", "seconds", "share", "GFLOP/s", "GB/s");
    for (int d = 0; d < RP_DOINGS; d++) {
        profile_row all = { 0 };
        char flops[RATE_CHARS], bytes[RATE_CHARS];
        for (int i = 0; i < n; i++) {
            if ((int)row[i].doing != d) continue;
            all.calls += row[i].calls;
            all.seconds += row[i].seconds;
            all.flops += row[i].flops;
            all.bytes += row[i].bytes;
        }
        if (!all.calls) continue;
        rp__profile_put(out, "%-22s%12.6f%8.1f %%%11s%10s\n", rp__profile_doings[d], mean(all.seconds, s), 100 * all.seconds / s->seconds,
                        rate(flops, all.flops, all.seconds, 1), rate(bytes, all.bytes, all.seconds, 2));
    }
    rp__profile_put(out, "%-22s%12.6f%8.1f %%\n", "between", mean(left, s), 100 * left / s->seconds);
}

static int64_t profile_table_bytes_of(const profile_row *row, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++) sum += row[i].bytes;
    return sum;
}

static void put_memory(const rp_profile *p, int64_t moved, const profile_scale *s, profile_out *out)
{
    char text[3][RP_SIZE_CHARS];
    profile_step sum = { 0 };

    for (int i = 0; i < p->n_steps; i++) {
        const profile_step *step = &p->step[i];
        sum.minor_faults += step->minor_faults;
        sum.major_faults += step->major_faults;
        sum.n_takes += step->n_takes;
        sum.taken_bytes += step->taken_bytes;
        sum.work.moved_bytes += step->work.moved_bytes;
    }
    rp__profile_put(out, "\na step: %.1f page faults (%.1f of them read from disk); %s read and written by the spans above;\n",
                    mean((double)(sum.minor_faults + sum.major_faults), s), mean((double)sum.major_faults, s),
                    rp__size_text(text[0], (int64_t)mean((double)moved, s)));
    rp__profile_put(out, "%.0f blocks of %s taken from the ledger, %s moved to make room\n", mean((double)sum.n_takes, s),
                    rp__size_text(text[1], (int64_t)mean((double)sum.taken_bytes, s)),
                    rp__size_text(text[2], (int64_t)mean((double)sum.work.moved_bytes, s)));
}

static void put_head(const rp_profile *p, const profile_scale *s, profile_out *out)
{
    const profile_step *first = &p->step[0], *last = &p->step[p->n_steps - 1];
    char machine[RP_COST_MACHINE_CHARS];
    int64_t tokens = 0;

    for (int i = 0; i < p->n_steps; i++) tokens += p->step[i].tokens;
    rp__profile_put(out, "steps %" PRId64 " to %" PRId64 ": %.6f s each on average, %.0f tokens/s, on %s\n", first->step, last->step,
                    mean(s->seconds, s), (double)tokens / s->seconds, rp__cost_machine_text(p->ctx, machine));
    rp__profile_put(out, "calls, seconds and bytes are those of one step; GFLOP/s and GB/s as each op declares\n\n");
}

void rp__profile_put_table(const rp_profile *p, const profile_row *row, int n, profile_out *out)
{
    profile_scale s = { .n = p->n_steps };

    for (int i = 0; i < p->n_steps; i++) s.seconds += p->step[i].ended - p->step[i].began;
    put_head(p, &s, out);
    double left = put_rows(row, n, &s, out);
    put_passes(row, n, left, &s, out);
    put_memory(p, profile_table_bytes_of(row, n), &s, out);
    if (p->n_left_out) rp__profile_put(out, "%" PRId64 " spans are missing in the trace, which is full\n", p->n_left_out);
}
