/* status.h -- what every call that can fail returns. The list is src/base/status.def. */
#ifndef REPRISE_STATUS_H
#define REPRISE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RP_API __attribute__((visibility("default")))
#define RP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define RP_API
#define RP_PRINTF(fmt, args)
#endif

typedef enum {
    RP_OK = 0,
    RP_ERR_ARG,         /* an argument is wrong */
    RP_ERR_SHAPE,       /* shapes do not fit together */
    RP_ERR_DTYPE,       /* a dtype is not supported here */
    RP_ERR_CONFIG,      /* a configuration is wrong */
    RP_ERR_FORMAT,      /* a file is malformed */
    RP_ERR_MATCH,       /* a name or pattern matches nothing */
    RP_ERR_UNSUPPORTED, /* this is not supported */
    RP_ERR_EXISTS,      /* something is already there */
    RP_ERR_IO,          /* a file cannot be read or written */
    RP_ERR_MEMORY,      /* memory ran out, or the limit was reached */
    RP_ERR_BUDGET,      /* no plan fits the memory budget */
    RP_ERR_META,        /* a value was asked of a tensor that has only a shape */
    RP_ERR_MUTATED,     /* a tensor was changed between forward and backward */
    RP_ERR_REPLAY,      /* a replay differs from the first pass */
    RP_ERR_STATE,       /* a call came at the wrong time */
    RP_ERR_NONFINITE,   /* a value is not finite */
    RP_ERR_BACKEND,     /* a library below failed */
    RP_ERR_INTERRUPTED, /* a signal asked to stop */
    RP_STATUS_COUNT
} rp_status;

/* The status as one short sentence ("memory ran out"). Never NULL. */
RP_API const char *rp_status_text(rp_status status);

/* The exit code a program should end with for this status: 0, 1, 2, 3, or 130 for RP_ERR_INTERRUPTED, where 128 + the signal says more. */
RP_API int rp_status_exit_code(rp_status status);

#ifdef __cplusplus
}
#endif
#endif
