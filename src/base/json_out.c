/* base/json_out.c -- writes a JSON file in pieces: see json_out.h. */
#include "base/json_out.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"

rp_status rp__json_out_open(rp_ctx *ctx, const char *path, const char *name, rp_json_out *out)
{
    *out = (rp_json_out){ .ctx = ctx, .name = name, .lost = rp__json_lost() };
    return rp__file_create(ctx, path, &out->file);
}

void rp__json_out_text(rp_json_out *w, const char *text)
{
    if (w->status == RP_OK) w->status = rp__file_put(w->file, text, (int64_t)strlen(text));
}

void rp__json_out_value(rp_json_out *w, json_t *value)
{
    char *text = value ? rp__json_text(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) : NULL;

    if ((!text || rp__json_lost() != w->lost) && w->status == RP_OK)
        w->status = rp_fail(w->ctx, RP_ERR_MEMORY, "no memory to write %s", w->name);
    if (text) rp__json_out_text(w, text);
    free(text);
    json_decref(value);
}

rp_status rp__json_out_close(rp_json_out *w)
{
    if (w->status == RP_OK) return rp__file_commit(w->file);
    rp__file_discard(w->file);
    return w->status;
}
