/* models/weights_names.c -- converts names of weights between the families' tables and ours.
 *
 *   "model.layers.12.self_attn.q_proj.weight"   remove the last part, match "model.layers.*.self_attn.q_proj" with the block's number
 *   "layers.12.attn.q.weight"                   the other side of the pair, with the number and the last part inserted
 *
 *   "model.layers.*.mlp.experts.*.up_proj"      a second number there is that of a piece: our one parameter holds all pieces */
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

/* Whether `text` up to `end` matches; `*` stands for a number without leading zeros. */
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

static bool weights_names_fill(const char *pattern, const numbers *with, const char *tail, char out[RP_WEIGHT_NAME_CHARS])
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

/* The pair that matches the name without its last part, which begins at *tail. */
static const rp_name_pair *weights_names_find(const rp_name_pair *table, int n, bool ours, const char *name, const char **tail, numbers *found)
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
    const rp_name_pair *pair = weights_names_find(table, n, true, path, &tail, &found);

    return pair && has_pieces(pair);
}

bool rp__weight_piece_theirs(const rp_name_pair *table, int n, const char *path, int64_t piece, char out[RP_WEIGHT_NAME_CHARS])
{
    numbers found;
    const char *tail;
    char number[24];
    const rp_name_pair *pair = weights_names_find(table, n, true, path, &tail, &found);

    if (!pair) return false;
    if (has_pieces(pair)) {
        if (found.n == MAX_NUMBERS) return false;
        found.digits[found.n] = snprintf(number, sizeof number, "%" PRId64, piece);
        found.text[found.n++] = number;
    }
    return weights_names_fill(pair->theirs, &found, tail, out);
}

bool rp__weight_piece_ours(const rp_name_pair *table, int n, const char *name, char out[RP_WEIGHT_NAME_CHARS], int64_t *piece)
{
    numbers found;
    const char *tail;
    const rp_name_pair *pair = weights_names_find(table, n, false, name, &tail, &found);
    char number[24];

    *piece = 0;
    if (!pair) return false;
    if (has_pieces(pair)) {
        snprintf(number, sizeof number, "%.*s", found.digits[1] < 20 ? found.digits[1] : 20, found.text[1]);
        if (!rp__parse_int(number, 0, INT32_MAX, piece)) return false;
    }
    return weights_names_fill(pair->ours, &found, tail, out);
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

/* ---- modules ---- */

/* The pair of the module itself. */
static const rp_name_pair *find_module(const rp_name_pair *table, int n, const char *path, numbers *found)
{
    for (int i = 0; i < n; i++)
        if (matches(table[i].ours, path, path + strlen(path), found)) return &table[i];
    return NULL;
}

/* Whether the pair's module is inside the module at `path`. */
static bool is_inside(const rp_name_pair *pair, const char *path, numbers *found)
{
    char first[RP_WEIGHT_NAME_CHARS];
    const char *end = strchr(pair->ours, '.');

    for (const char *dot = strchr(path, '.'); dot && end; dot = strchr(dot + 1, '.')) end = strchr(end + 1, '.');
    if (!end) return false;
    snprintf(first, sizeof first, "%.*s", (int)(end - pair->ours), pair->ours);
    return matches(first, path, path + strlen(path), found);
}

/* Length of the common prefix of a and b in whole parts, at most `most` characters. */
static size_t common_parts(const char *a, const char *b, size_t most)
{
    size_t same = 0, i = 0;

    for (; i < most && a[i] == b[i] && a[i]; i++)
        if (a[i] == '.') same = i;
    return i == most && (b[i] == '.' || !b[i]) ? i : same;
}

/* Cuts the name before the first star for which there is no number, because it would name one of several modules. */
static size_t cut_at_star(const char *name, size_t length, int most)
{
    for (size_t i = 0; i < length; i++)
        if (name[i] == '*' && most-- == 0) return i ? i - 1 : 0;
    return length;
}

/* Common prefix of the names, in the table's words, of all modules inside the one at `path`; "" if there are none. */
static void shared_name(const rp_name_pair *table, int n, const char *path, numbers *found, char out[RP_WEIGHT_NAME_CHARS])
{
    const char *first = NULL;
    size_t length     = 0;
    numbers here;

    for (int i = 0; i < n; i++) {
        if (!is_inside(&table[i], path, &here)) continue;
        const char *last = strrchr(table[i].theirs, '.');
        if (!first) length = last ? (size_t)(last - table[i].theirs) : 0;
        if (!first) first = table[i].theirs;
        *found = here;
        length = common_parts(first, table[i].theirs, length);
    }
    length = first ? cut_at_star(first, length, found->n) : 0;
    snprintf(out, RP_WEIGHT_NAME_CHARS, "%.*s", (int)length, first ? first : "");
}

/* The prefix is the module's name only if it is longer than that of its parent: their modules may be grouped differently. */
static bool shared_theirs(const rp_name_pair *table, int n, const char *path, char out[RP_WEIGHT_NAME_CHARS])
{
    char own[RP_WEIGHT_NAME_CHARS], around[RP_WEIGHT_NAME_CHARS] = "", parent[RP_WEIGHT_NAME_CHARS];
    const char *dot = strrchr(path, '.');
    numbers found   = { 0 }, unused;

    shared_name(table, n, path, &found, own);
    snprintf(parent, sizeof parent, "%.*s", dot ? (int)(dot - path) : 0, path);
    if (dot) shared_name(table, n, parent, &unused, around);
    return strlen(own) > strlen(around) && weights_names_fill(own, &found, "", out);
}

bool rp__module_name_theirs(const rp_name_pair *table, int n, const char *path, int64_t piece, char out[RP_WEIGHT_NAME_CHARS], bool *pieces)
{
    numbers found;
    char number[24];
    const rp_name_pair *pair = find_module(table, n, path, &found);

    *pieces = pair ? has_pieces(pair) : rp__weight_in_pieces(table, n, path);
    if (!pair) return rp__weight_piece_theirs(table, n, path, piece, out) || shared_theirs(table, n, path, out);
    if (*pieces && found.n == MAX_NUMBERS) return false;
    if (*pieces) {
        found.digits[found.n] = snprintf(number, sizeof number, "%" PRId64, piece);
        found.text[found.n++] = number;
    }
    return weights_names_fill(pair->theirs, &found, "", out);
}
