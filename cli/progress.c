/* cli/progress.c -- the progress of a run: a bar on a terminal, else plain lines.
 *
 *   step 12/100 [=====>          ] loss 2.3456  1234 tokens/s  peak 1.23 GiB  1:02 left
 */
#include "cli/progress.h"
#include "cli/sizes.h"

#include <string.h>

enum { TEXT_CHARS = 256, WIDEST_BAR = 40, NARROWEST_BAR = 8 };

static const char *left_text(char *out, size_t room, double seconds)
{
    int64_t s = seconds < 0 || seconds > 1e9 ? -1 : (int64_t)(seconds + 0.5);

    if (s < 0) out[0] = 0;
    else if (s < 3600) snprintf(out, room, "  %d:%02d left", (int)(s / 60), (int)(s % 60));
    else snprintf(out, room, "  %d:%02d:%02d left", (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
    return out;
}

static void bar(char *out, int width, int64_t step, int64_t n_steps)
{
    int64_t total = n_steps > 0 ? n_steps : 1, done = step > total ? total : step;
    int full = (int)(done * (width - 2) / total);

    for (int i = 1; i < width - 1; i++) out[i] = i <= full ? '=' : i == full + 1 ? '>' : ' ';
    out[0]         = '[';
    out[width - 1] = ']';
    out[width]     = 0;
}

/* The bar fills the free columns. Without room for a short bar, only the text is printed, cut at the edge. */
static void progress_draw(const cli_progress *p, const char *head, const char *tail, int64_t step)
{
    int columns = p->columns > 0 ? p->columns : 80, room = columns - 3 - (int)strlen(head) - (int)strlen(tail);
    char drawn[WIDEST_BAR + 1] = "", line[2 * TEXT_CHARS + WIDEST_BAR + 4];

    if (room > WIDEST_BAR) room = WIDEST_BAR;
    if (room >= NARROWEST_BAR) bar(drawn, room, step, p->n_steps);
    snprintf(line, sizeof line, "%s %s%s%s", head, drawn, drawn[0] ? " " : "", tail);
    fprintf(p->to, "\r%-*.*s", columns - 1, columns - 1, line);
}

void cli_progress_step(cli_progress *p, const rp_metrics *m, double seconds_left)
{
    char head[TEXT_CHARS], tail[TEXT_CHARS], size[RP_SIZE_CHARS], left[64], val[64] = "";

    snprintf(head, sizeof head, "step %" PRId64 "/%" PRId64, m->step, p->n_steps);
    if (m->has_val_loss) snprintf(val, sizeof val, "  val_loss %.4f", m->val_loss);
    snprintf(tail, sizeof tail, "loss %.4f%s  %.0f tokens/s  peak %s%s", m->loss, val, m->tokens_per_second,
             cli_size_short(size, m->peak_memory_active), left_text(left, sizeof left, seconds_left));
    if (p->terminal) progress_draw(p, head, tail, m->step);
    else fprintf(p->to, "%s  lr %.4g  grad_norm %.4g  %s\n", head, m->lr, m->grad_norm, tail);
    fflush(p->to);
    p->shown = true;
}

void cli_progress_break(cli_progress *p)
{
    if (!p->shown) return;
    p->shown = false;
    if (!p->terminal) return;
    fprintf(p->to, "\n");
    fflush(p->to);
}
