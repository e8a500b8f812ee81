/* cli/hub/progress.c -- the progress of a file: a bar on a terminal, else a line from time to time and at the end.
 *
 *   model.safetensors [=====>          ] 123 MB of 269 MB  12.3 MB/s  0:12 left
 */
#include "cli/hub/hub.h"

enum { WIDEST_BAR = 30, NARROWEST_BAR = 8, TEXT_CHARS = 160 };

static const double bar_seconds = 0.1, line_seconds = 10;      /* between two outputs */

const char *hub_size_text(char out[32], int64_t bytes)
{
    static const char *const unit[] = { "bytes", "kB", "MB", "GB", "TB" };
    double value = (double)bytes;
    int u        = 0;

    for (; value >= 999.5 && u < RP_COUNT(unit) - 1; u++) value /= 1000;
    snprintf(out, 32, u ? "%.3g %s" : "%.0f %s", value, unit[u]);
    return out;
}

void hub_progress_begin(hub_progress *p, int64_t have)
{
    p->before = have;
    p->began = p->shown = rp__seconds();
}

static void put_tail(char *out, size_t room, const hub_progress *p, int64_t have, int64_t bytes, double now)
{
    double rate = now > p->began ? (double)(have - p->before) / (now - p->began) : 0;
    char size[3][32], left[32] = "";

    if (rate > 0 && bytes > have) {
        int64_t s = (int64_t)((double)(bytes - have) / rate);
        if (s < 360000) snprintf(left, sizeof left, "  %" PRId64 ":%02d left", s / 60, (int)(s % 60));
    }
    snprintf(out, room, "%s%s%s  %s/s%s", hub_size_text(size[0], have), bytes < 0 ? "" : " of ", bytes < 0 ? "" : hub_size_text(size[1], bytes),
             hub_size_text(size[2], (int64_t)rate), left);
}

/* The bar fills the free columns. Without room for a short bar, only the text is printed, cut at the edge. */
static void progress_draw(const hub_progress *p, const char *name, const char *tail, int64_t have, int64_t bytes)
{
    int columns = p->columns > 0 ? p->columns : 80, room = columns - 3 - (int)strlen(name) - (int)strlen(tail);
    char bar[WIDEST_BAR + 2] = "", line[512];

    if (room > WIDEST_BAR) room = WIDEST_BAR;
    if (room >= NARROWEST_BAR && bytes > 0) {
        int full = (int)((double)have / (double)bytes * (room - 2));
        for (int i = 1; i < room - 1; i++) bar[i] = i <= full ? '=' : i == full + 1 ? '>' : ' ';
        bar[0]        = '[';
        bar[room - 1] = ']';
        bar[room]     = ' ';
    }
    snprintf(line, sizeof line, "%.200s %s%s", name, bar, tail);
    fprintf(stderr, "\r%-*.*s", columns - 1, columns - 1, line);
    fflush(stderr);
}

void hub_progress_show(hub_progress *p, const char *name, int64_t have, int64_t bytes)
{
    double now = rp__seconds();
    char tail[TEXT_CHARS];

    if (now - p->shown < (p->terminal ? bar_seconds : line_seconds)) return;
    p->shown = now;
    put_tail(tail, sizeof tail, p, have, bytes, now);
    p->drawn = p->terminal;
    if (p->terminal) progress_draw(p, name, tail, have, bytes);
    else fprintf(stderr, "%s: %s\n", name, tail);
}

void hub_progress_done(hub_progress *p, const char *name, const char *result)
{
    int columns = p->columns > 0 ? p->columns : 80;

    if (p->drawn) fprintf(stderr, "\r%*s", columns - 1, "");
    fprintf(stderr, "%s%s: %s\n", p->drawn ? "\r" : "", name, result);
    p->drawn = false;
}
