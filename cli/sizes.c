/* cli/sizes.c -- sizes as text. */
#include "cli/sizes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static bool exact;

void cli_sizes_exact(bool on) { exact = on; }

/* Rounds to so many decimals, to the nearest or up. */
static double round_digits(double value, int decimals, bool up)
{
    double unit = pow(10, decimals);

    return (up ? ceil(value * unit) : round(value * unit)) / unit;
}

static const char *short_text(char *out, int64_t bytes, bool up)
{
    static const char *const unit[] = { "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes / 1024;
    int u        = 0;

    if (bytes < 1024) {
        snprintf(out, RP_SIZE_CHARS, "%" PRId64 " byte%s", bytes, bytes == 1 ? "" : "s");
        return out;
    }
    for (; u < RP_COUNT(unit) - 1 && round_digits(value, 0, up) >= 1000; u++) value /= 1024;
    int decimals = round_digits(value, 3, up) < 1 ? 3 : round_digits(value, 2, up) < 10 ? 2 : round_digits(value, 1, up) < 100 ? 1 : 0;
    snprintf(out, RP_SIZE_CHARS, "%.*f %s", decimals, round_digits(value, decimals, up), unit[u]);
    return out;
}

const char *cli_size_short(char *out, int64_t bytes) { return short_text(out, bytes, false); }

const char *cli_size(char *out, int64_t bytes) { return exact ? rp__size_text(out, bytes) : short_text(out, bytes, false); }

const char *cli_size_up(char *out, int64_t bytes) { return exact ? rp__size_text_up(out, bytes) : short_text(out, bytes, true); }

static const char *cell(char *out, int64_t bytes, bool up)
{
    if (!exact && bytes) return short_text(out, bytes, up);
    snprintf(out, RP_SIZE_CHARS, "%" PRId64, bytes);
    return out;
}

const char *cli_size_cell(char *out, int64_t bytes) { return cell(out, bytes, false); }

const char *cli_size_cell_up(char *out, int64_t bytes) { return cell(out, bytes, true); }
