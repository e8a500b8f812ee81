/* base/json_out.h -- writes a JSON file in pieces: text that the caller composes, and values that jansson formats. The file
 * is replaced completely or not at all. */
#ifndef RP_JSON_OUT_H
#define RP_JSON_OUT_H

#include <jansson.h>

#include "base/file.h"

/* After a failed piece, nothing more is written. */
typedef struct {
    rp_ctx *ctx;
    const char *name;                   /* of the contents, for messages: "a plan" */
    rp_file_writer *file;
    int64_t lost;                       /* rp__json_lost when the file was opened */
    rp_status status;
} rp_json_out;

/* Errors: RP_ERR_IO, RP_ERR_MEMORY. Close the file after success. */
rp_status rp__json_out_open(rp_ctx *ctx, const char *path, const char *name, rp_json_out *out);
void rp__json_out_text(rp_json_out *w, const char *text);
/* Takes ownership of the value; NULL counts as memory that ran out while it was built. */
void rp__json_out_value(rp_json_out *w, json_t *value);
/* Give the file its name, or discard it after a failed piece. Errors: those of the first failed piece, RP_ERR_IO,
 * RP_ERR_MEMORY. */
rp_status rp__json_out_close(rp_json_out *w);

#endif
