/* gguf/split.c -- opens a model that is split into several GGUF files by llama-gguf-split.
 *
 *   small-00001-of-00003.gguf   split.no 0, split.count 3, all metadata, the first tensors
 *   small-00002-of-00003.gguf   split.no 1, split.count 3, further tensors …
 *
 * The caller names the first file, which has the metadata. The names of the others follow from its name.
 */
#include "gguf/internal.h"

#include <stdio.h>
#include <string.h>

enum { MOST_PARTS = 65535 };            /* split.count has 16 bits */
#define ENDING_CHARS 32

/* The whole number under `key`; `otherwise` if the key is absent or not a whole number. */
static int64_t split_number_of(const rp_gguf *g, const char *key, int64_t otherwise)
{
    const rp_gguf_value *v = rp__gguf_get(g, key);

    return v && (v->kind == RP_GGUF_INT || v->kind == RP_GGUF_UINT) ? v->i : otherwise;
}

static void ending(int64_t no, int64_t count, char out[ENDING_CHARS])
{
    snprintf(out, ENDING_CHARS, "-%05d-of-%05d.gguf", (int)no + 1, (int)count);
}

static rp_status check_first(const rp_gguf *g, int64_t count)
{
    int64_t no = split_number_of(g, "split.no", 0);
    char want[ENDING_CHARS];

    RP_CHECK(g->ctx, count <= MOST_PARTS && no >= 0 && no < count, RP_ERR_FORMAT, "'%s' says it is part %" PRId64 " of %" PRId64,
             g->label, no, count);
    ending(0, count, want);
    RP_CHECK(g->ctx, no == 0, RP_ERR_FORMAT, "'%s' is part %" PRId64 " of a model in %" PRId64
             " files; name the first, which ends in '%s'", g->label, no + 1, count, want);
    RP_CHECK(g->ctx, rp__ends_with(g->label, want), RP_ERR_FORMAT, "'%s' is the first of %" PRId64
             " files, which are found by their names; its own does not end in '%s'", g->label, count, want);
    return RP_OK;
}

static rp_status open_part(rp_gguf *g, int64_t no, int64_t count)
{
    char *path = rp__host_text(g->ctx, g->label), name[ENDING_CHARS];
    rp_gguf *part = NULL;

    if (!path) return RP_ERR_MEMORY;
    ending(no, count, name);
    memcpy(path + strlen(path) - strlen(name), name, strlen(name));      /* all endings have the same length */
    rp_status status = rp__gguf_open_one(g->ctx, path, NULL, &part);
    rp__release(path);
    if (status != RP_OK) return status;
    g->part[g->n_parts++] = part;
    RP_CHECK(g->ctx, split_number_of(part, "split.no", -1) == no && split_number_of(part, "split.count", -1) == count, RP_ERR_FORMAT,
             "'%s' is not part %" PRId64 " of %" PRId64 " by its own 'split.no' and 'split.count'", part->label, no + 1, count);
    return RP_OK;
}

rp_status rp__gguf_join(rp_gguf *g)
{
    int64_t count = split_number_of(g, "split.count", 1), want = split_number_of(g, "split.tensors.count", -1);

    if (count <= 1) return RP_OK;
    RP_TRY(check_first(g, count));
    g->part = rp__host_alloc(g->ctx, (count - 1) * (int64_t)sizeof(rp_gguf *));
    if (!g->part) return RP_ERR_MEMORY;
    for (int64_t no = 1; no < count; no++) RP_TRY(open_part(g, no, count));
    RP_TRY(rp__gguf_list_tensors(g));
    RP_CHECK(g->ctx, want < 0 || want == g->n_listed, RP_ERR_FORMAT, "'%s' says its files have %" PRId64 " tensors, they have %"
             PRId64, g->label, want, g->n_listed);
    return RP_OK;
}
