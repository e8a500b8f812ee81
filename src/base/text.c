/* base/text.c -- globs, sizes, numbers, similar names, hashes. Numbers are read and written as in the C locale. */
#include "base/base.h"

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool rp__glob(const char *pattern, const char *text)
{
    const char *star = NULL, *resume = text;

    while (*text) {
        if (*pattern == '*') {
            star   = ++pattern;
            resume = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text    = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

/* The readable part has two decimals. up: rounded up, so that a limit of that size has room for `bytes`. */
static const char *size_text(char *out, int64_t bytes, bool up)
{
    static const char *const unit[] = { "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    int u = -1;

    while (value >= 1024 && u < RP_COUNT(unit) - 1) {
        value /= 1024;
        u++;
    }
    if (up) value = ceil(value * 100) / 100;
    if (u < 0) snprintf(out, RP_SIZE_CHARS, "%" PRId64 " byte%s", bytes, bytes == 1 ? "" : "s");
    else snprintf(out, RP_SIZE_CHARS, "%" PRId64 " bytes (%.2f %s)", bytes, value, unit[u]);
    return out;
}

const char *rp__size_text(char *out, int64_t bytes) { return size_text(out, bytes, false); }

const char *rp__size_text_up(char *out, int64_t bytes) { return size_text(out, bytes, true); }

bool rp__parse_double(const char *text, double *out)
{
    static locale_t c_locale;
    char *end;

    if (!c_locale) c_locale = newlocale(LC_ALL_MASK, "C", NULL);
    if (!*text || strchr(" \t\n", *text) || strpbrk(text, "xXpP")) return false;
    double value = strtod_l(text, &end, c_locale);
    if (*end || end == text || isnan(value)) return false;
    *out = value;
    return true;
}

bool rp__parse_int(const char *text, int64_t low, int64_t high, int64_t *out)
{
    char *end;

    if (!(*text == '-' || *text == '+' || (*text >= '0' && *text <= '9'))) return false;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*end || end == text || errno || value < low || value > high) return false;
    *out = value;
    return true;
}

bool rp__size_parse(const char *text, int64_t *bytes)
{
    static const struct { const char *unit; double factor; } units[] = {
        { "", 1 }, { "B", 1 }, { "KB", 1e3 }, { "MB", 1e6 }, { "GB", 1e9 }, { "TB", 1e12 },
        { "KiB", 1024. }, { "MiB", 1048576. }, { "GiB", 1073741824. }, { "TiB", 1099511627776. },
    };
    size_t digits = strspn(text, "0123456789.");
    char number[64];
    double value;

    if (digits == 0 || digits >= sizeof number) return false;
    memcpy(number, text, digits);
    number[digits] = 0;
    const char *unit = text + digits;
    while (*unit == ' ') unit++;
    if (!*unit) return rp__parse_int(number, 0, INT64_MAX, bytes);
    if (!rp__parse_double(number, &value)) return false;
    for (int i = 0; i < RP_COUNT(units); i++) {
        if (strcmp(unit, units[i].unit)) continue;
        value *= units[i].factor;
        if (value >= 9.2e18) return false;
        *bytes = (int64_t)(value + 0.5);
        return true;
    }
    return false;
}

/* Long texts are never close. */
static int edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    int row[LONGEST + 1], n = (int)strlen(b);

    if (n > LONGEST || strlen(a) > LONGEST) return INT_MAX;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal    = row[j];
            int best    = replace < row[j] + 1 ? replace : row[j] + 1;
            row[j]      = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
        }
    }
    return row[n];
}

const char *rp__nearest(const char *name, const char *const *list)
{
    const char *best = NULL;
    int least = (int)strlen(name) / 3 + 2;

    for (; *list; list++) {
        int d = edit_distance(name, *list);
        if (d < least) {
            least = d;
            best  = *list;
        }
    }
    return best;
}

const char *rp__hint(const char *name, const char *const *list, char out[RP_HINT_CHARS])
{
    const char *near = NULL;

    for (int i = 0; list[i] && !near && strlen(name) > 2; i++)
        if (!strncmp(name, list[i], strlen(name))) near = list[i];       /* `name` is a beginning of it */
    if (!near) near = rp__nearest(name, list);
    if (near) snprintf(out, RP_HINT_CHARS, " (did you mean '%s'?)", near);
    else out[0] = 0;
    return out;
}

uint64_t rp__hash(const void *data, size_t bytes, uint64_t start)
{
    const uint8_t *p = data;

    for (size_t i = 0; i < bytes; i++) start = (start ^ p[i]) * 0x100000001b3ull;
    return start;
}

bool rp__ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && !strcmp(text + n - m, end);
}
