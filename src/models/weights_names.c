/* models/weights_names.c -- names of weights between the families' tables and ours.
 *
 *   "model.layers.12.self_attn.q_proj.weight"   last part off, match "model.layers.*.self_attn.q_proj" with the block's number
 *   "layers.12.attn.q.weight"                   the other side of the pair, number and last part back in
 *
 *   "model.layers.*.mlp.experts.*.up_proj"      a second number there is that of a piece: ours has the pieces in one parameter */
#include "models/family.h"

#include <string.h>

enum { MAX_NUMBERS = 2 };

/* The digits of each star. */
typedef struct {
    const char *text[MAX_NUMBERS];
    int digits[MAX_NUMBERS];
    int n;
} numbers;

static int digits_at(const char *text, const char *end)
{
    int n = 0;

    while (text + n < end && text[n] >= '0' && text[n] <= '9') n++;
    return n > 1 && *text == '0' ? 0 : n;
}

/* Does `text` match up to `end`, `*` standing for a number as it is written? */
static bool matches(const char *pattern, const char *text, const char *end, numbers *found)
{
    found->n = 0;
    for (; *pattern; pattern++) {
        if (*pattern != '*') {
            if (text == end || *text++ != *pattern) return false;
            continue;
        }
        int digits = digits_at(text, end);
        if (!digits || found->n == MAX_NUMBERS) return false;
        found->text[found->n]     = text;
        found->digits[found->n++] = digits;
        text += digits;
    }
    return text == end;
}

static bool fill(const char *pattern, const numbers *with, const char *tail, char out[RP_WEIGHT_NAME_CHARS])
{
    size_t used = 0;
    int star    = 0;

    for (; *pattern && used < RP_WEIGHT_NAME_CHARS; pattern++) {
        if (*pattern != '*') {
            out[used++] = *pattern;
            continue;
        }
        used += (size_t)snprintf(out + used, RP_WEIGHT_NAME_CHARS - used, "%.*s", with->digits[star], with->text[star]);
        star++;
    }
    if (used >= RP_WEIGHT_NAME_CHARS) return false;
    return snprintf(out + used, RP_WEIGHT_NAME_CHARS - used, "%s", tail) < (int)(RP_WEIGHT_NAME_CHARS - used);
}

static bool has_pieces(const rp_name_pair *pair)
{
    const char *star = strchr(pair->theirs, '*');

    return star && strchr(star + 1, '*');
}

/* The pair whose side matches all of the name but its last part, which begins at *tail. */
static const rp_name_pair *find(const rp_name_pair *table, int n, bool ours, const char *name, const char **tail, numbers *found)
{
    *tail = strrchr(name, '.');
    for (int i = 0; i < n && *tail; i++)
        if (matches(ours ? table[i].ours : table[i].theirs, name, *tail, found)) return &table[i];
    return NULL;
}

bool rp__weight_in_pieces(const rp_name_pair *table, int n, const char *path)
{
    numbers found;
    const char *tail;
    const rp_name_pair *pair = find(table, n, true, path, &tail, &found);

    return pair && has_pieces(pair);
}

bool rp__weight_piece_theirs(const rp_name_pair *table, int n, const char *path, int64_t piece, char out[RP_WEIGHT_NAME_CHARS])
{
    numbers found;
    const char *tail;
    char number[24];
    const rp_name_pair *pair = find(table, n, true, path, &tail, &found);

    if (!pair) return false;
    if (has_pieces(pair)) {
        if (found.n == MAX_NUMBERS) return false;
        found.digits[found.n] = snprintf(number, sizeof number, "%" PRId64, piece);
        found.text[found.n++] = number;
    }
    return fill(pair->theirs, &found, tail, out);
}

bool rp__weight_piece_ours(const rp_name_pair *table, int n, const char *name, char out[RP_WEIGHT_NAME_CHARS], int64_t *piece)
{
    numbers found;
    const char *tail;
    const rp_name_pair *pair = find(table, n, false, name, &tail, &found);
    char number[24];

    *piece = 0;
    if (!pair) return false;
    if (has_pieces(pair)) {
        snprintf(number, sizeof number, "%.*s", found.digits[1] < 20 ? found.digits[1] : 20, found.text[1]);
        if (!rp__parse_int(number, 0, INT32_MAX, piece)) return false;
    }
    return fill(pair->ours, &found, tail, out);
}

bool rp__weight_name_theirs(const rp_name_pair *table, int n, const char *path, char out[RP_WEIGHT_NAME_CHARS])
{
    return rp__weight_piece_theirs(table, n, path, 0, out);
}

bool rp__weight_name_ours(const rp_name_pair *table, int n, const char *name, char out[RP_WEIGHT_NAME_CHARS])
{
    int64_t piece;

    return rp__weight_piece_ours(table, n, name, out, &piece);
}
