/* base/status.c -- the texts and exit codes of status.def, and the recording of errors in a context. */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *text; int exit_code; } status_table[RP_STATUS_COUNT] = {
#define RP_STATUS(name, sentence, code) [RP_##name] = { sentence, code },
#include "base/status.def"
#undef RP_STATUS
};

const char *rp_status_text(rp_status status)
{
    return (unsigned)status < RP_STATUS_COUNT ? status_table[status].text : "unknown status";
}

int rp_status_exit_code(rp_status status)
{
    return (unsigned)status < RP_STATUS_COUNT ? status_table[status].exit_code : 1;
}

rp_status rp__fail(rp_ctx *ctx, rp_status status, const char *fmt, ...)
{
    char text[RP_ERROR_CHARS];   /* the arguments may point into the old message */
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (char *p = text; *p; p++)   /* names come from files: a message stays one line */
        if ((unsigned char)*p < 32) *p = '?';
    memcpy(ctx->error, text, sizeof text);
    return status;
}

const char *rp_error(const rp_ctx *ctx) { return ctx->error; }

void rp__bug(const char *file, int line, const char *condition)
{
    fprintf(stderr, "reprise: internal error at %s:%d: %s\n", file, line, condition);
    abort();
}
