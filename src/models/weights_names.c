/* models/weights_names.c -- names of weights between the families' tables and ours.
 *
 *   "model.layers.12.self_attn.q_proj.weight"   last part off, match "model.layers.*.self_attn.q_proj" with the block's number
 *   "layers.12.attn.q.weight"                   the other side of the pair, number and last part back in */
#include "models/family.h"

#include <string.h>

/* Does `text` (n characters) match, `*` standing for digits? Then the digits are in *number (*digits of them). */
static bool matches(const char *pattern, const char *text, size_t n, const char **number, int *digits)
{
    const char *star = strchr(pattern, '*');
    size_t before    = star ? (size_t)(star - pattern) : strlen(pattern), after = star ? strlen(star + 1) : 0;

    *digits = 0;
    *number = text;
    if (!star) return n == before && !memcmp(pattern, text, n);
    if (n <= before + after || memcmp(pattern, text, before) || memcmp(star + 1, text + n - after, after)) return false;
    *number = text + before;
    *digits = (int)(n - before - after);
    for (int i = 0; i < *digits; i++)
        if ((*number)[i] < '0' || (*number)[i] > '9') return false;
    return **number != '0' || *digits == 1;
}

static bool fill(const char *pattern, const char *number, int digits, const char *tail, char out[RP_WEIGHT_NAME_CHARS])
{
    const char *star = strchr(pattern, '*');
    int before       = star ? (int)(star - pattern) : (int)strlen(pattern);
    int n            = snprintf(out, RP_WEIGHT_NAME_CHARS, "%.*s%.*s%s%s", before, pattern, digits, number,
                                star ? star + 1 : "", tail);

    return n < RP_WEIGHT_NAME_CHARS;
}

static bool translate(const rp_name_pair *table, int n, bool to_ours, const char *name, char out[RP_WEIGHT_NAME_CHARS])
{
    const char *tail = strrchr(name, '.'), *number;
    int digits;

    for (int i = 0; i < n && tail; i++)
        if (matches(to_ours ? table[i].theirs : table[i].ours, name, (size_t)(tail - name), &number, &digits))
            return fill(to_ours ? table[i].ours : table[i].theirs, number, digits, tail, out);
    return false;
}

bool rp__weight_name_theirs(const rp_name_pair *table, int n, const char *path, char out[RP_WEIGHT_NAME_CHARS])
{
    return translate(table, n, false, path, out);
}

bool rp__weight_name_ours(const rp_name_pair *table, int n, const char *name, char out[RP_WEIGHT_NAME_CHARS])
{
    return translate(table, n, true, name, out);
}
