/* reprise/status.h -- the status that every function that can fail returns. src/base/status.def has the texts and exit codes. */
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
    RP_ERR_ARG,         /* an argument is wrong: NULL, out of range, or of another context */
    RP_ERR_SHAPE,       /* shapes do not fit together */
    RP_ERR_DTYPE,       /* a dtype is not supported here */
    RP_ERR_CONFIG,      /* a configuration is wrong */
    RP_ERR_FORMAT,      /* a file is malformed */
    RP_ERR_MATCH,       /* a name or pattern matches nothing */
    RP_ERR_UNSUPPORTED, /* this is not supported */
    RP_ERR_EXISTS,      /* something exists already, such as the run in output_dir */
    RP_ERR_IO,          /* a file cannot be read or written */
    RP_ERR_MEMORY,      /* memory ran out, or a memory limit would be exceeded */
    RP_ERR_BUDGET,      /* no plan fits the memory budget */
    RP_ERR_META,        /* the operation needs data, and the context is shapes-only */
    RP_ERR_MUTATED,     /* a tensor that backward reads was changed after its forward */
    RP_ERR_REPLAY,      /* a replay differs from the forward */
    RP_ERR_STATE,       /* the call is not allowed in the current state */
    RP_ERR_NONFINITE,   /* a loss, gradient norm or logit is not finite */
    RP_ERR_BACKEND,     /* a library, a device or another rank failed */
    RP_ERR_INTERRUPTED, /* a signal stopped the run */
    RP_STATUS_COUNT
} rp_status;

/* The status as a short text ("memory ran out"); "unknown status" for other values. Never NULL. */
RP_API const char *rp_status_text(rp_status status);

/* The exit code of a program that ends with this status: 0, 1, 2 or 3; 130 for RP_ERR_INTERRUPTED, if 128 + the signal number is not known. */
RP_API int rp_status_exit_code(rp_status status);

#ifdef __cplusplus
}
#endif
#endif
