/* base/status.c -- the texts and exit codes of status.def, the recording of errors in a context, and messages for the program. */
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

/* Arguments may contain names from files and texts from other ranks. They must not start a new line or control the terminal. */
static void write_line(char *out, size_t room, const char *fmt, va_list args)
{
    vsnprintf(out, room, fmt, args);
    rp__shown_only(out);
}

rp_status rp_fail(rp_ctx *ctx, rp_status status, const char *format, ...)
{
    if (!ctx || !format) return status;
    char text[RP_ERROR_CHARS];          /* the arguments may point into the old message */
    va_list args;

    va_start(args, format);
    write_line(text, sizeof text, format, args);
    va_end(args);
    memcpy(ctx->error, text, sizeof text);
    ctx->n_errors++;
    return status;
}

rp_status rp__same_ctx(rp_ctx *ctx, const rp_ctx *other, const char *call, const char *name)
{
    RP_CHECK(ctx, !other || other == ctx, RP_ERR_ARG, "%s: the %s is of another context", call, name);
    return RP_OK;
}

void rp__fail_line(rp_ctx *ctx, const char *fmt, ...)
{
    size_t used = strlen(ctx->error);
    va_list args;

    if (used + 2 > sizeof ctx->error) return;
    ctx->error[used] = '\n';
    va_start(args, fmt);
    write_line(ctx->error + used + 1, sizeof ctx->error - used - 1, fmt, args);
    va_end(args);
}

void rp__log(const rp_ctx *ctx, rp_log_level level, const char *fmt, ...)
{
    char text[RP_LOG_CHARS];
    va_list args;

    if (!ctx->options.log) return;
    va_start(args, fmt);
    write_line(text, sizeof text, fmt, args);
    va_end(args);
    ctx->options.log(level, text, ctx->options.log_user);
}

/* A context that could not be created takes its message along. */
static _Thread_local char refusal[RP_ERROR_CHARS];

void rp__refusal_set(const rp_ctx *ctx) { snprintf(refusal, sizeof refusal, "%s", ctx ? ctx->error : ""); }

const char *rp_error(const rp_ctx *ctx)
{
    if (!ctx) return refusal;
    return ctx->error;
}

void rp__bug(const char *file, int line, const char *condition)
{
    fprintf(stderr, "reprise: internal error at %s:%d: %s\n", file, line, condition);
    abort();
}
