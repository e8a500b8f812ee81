/* recipe/elsewhere.c -- hints for keys of other systems that are not translated (elsewhere.def). */
#include "recipe/internal.h"

static const struct { const char *key, *hint; } elsewhere[] = {
#define RP_ELSEWHERE(key, hint) { key, hint },
#include "recipe/elsewhere.def"
#undef RP_ELSEWHERE
};

static bool is_end_of(const char *end, const char *path)
{
    size_t n = strlen(path), m = strlen(end);

    return !strcmp(path, end + 1) || (n > m && !strcmp(path + n - m, end));
}

const char *rp__recipe_elsewhere(const char *path)
{
    for (int i = 0; i < RP_COUNT(elsewhere); i++)
        if (elsewhere[i].key[0] == '.' ? is_end_of(elsewhere[i].key, path) : !strcmp(elsewhere[i].key, path)) return elsewhere[i].hint;
    return NULL;
}

bool rp__recipe_has_key(const char *path) { return rp__recipe_find_key(path) >= 0; }

const char *rp__recipe_elsewhere_at(int i) { return i < RP_COUNT(elsewhere) ? elsewhere[i].hint : NULL; }
