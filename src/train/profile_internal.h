/* train/profile_internal.h -- the data of a profile. profile.c collects it, profile_table.c and profile_trace.c write it. */
#ifndef RP_TRAIN_PROFILE_INTERNAL_H
#define RP_TRAIN_PROFILE_INTERNAL_H

#include "train/profile.h"

enum { MOST_EVENTS = 1 << 17, MOST_KINDS = 1 << 13, KIND_PLACES = 2 * MOST_KINDS, SHAPES_CHARS = 128 };

typedef struct {                        /* spans with the same properties, and their sums */
    uint64_t key;
    rp_doing doing;
    const char *name, *path;
    char shapes[SHAPES_CHARS];          /* of an op's inputs */
    int64_t flops, bytes;               /* of one span; 0 for "others" */
    int64_t calls, all_flops, all_bytes;
    double seconds;                     /* of all its spans */
} profile_kind;

typedef struct { int32_t kind; double began, ended; int64_t live_bytes; } profile_event;

typedef struct {
    int64_t step, tokens;
    double began, ended;
    int64_t minor_faults, major_faults;
    int64_t n_takes, taken_bytes;       /* allocations from the ledger */
    rp_tape_stats work;
} profile_step;

/* kind[0 .. RP_DOINGS): "others" of each doing, for spans that come when no more kinds fit. */
struct rp_profile {
    rp_ctx *ctx;
    rp_watch watch;
    int n_steps, n_kinds, n_events;
    int64_t n_left_out;                 /* events that did not fit */
    bool running;
    profile_step step[RP_PROFILE_STEPS];
    profile_kind *kind;
    profile_event *event;
    int32_t *place;                     /* hash table: index of the kind by key, linear probing; 0: empty */
};

/* Names such as "forward": the category in the trace, the pass in the table. */
extern const char *const rp__profile_doings[RP_DOINGS];

typedef struct {                        /* a line of the table: all kinds of one doing and name */
    rp_doing doing;
    const char *name;
    int64_t calls, flops, bytes;
    double seconds;
} profile_row;

/* The rows by falling seconds, then doing and name, without parts. *rows is yours to rp__release. errors RP_ERR_MEMORY */
rp_status rp__profile_rows(const rp_profile *p, profile_row **rows, int *n);

/* A text file that is being written; it gets its name when it is closed. */
typedef struct {
    rp_ctx *ctx;
    struct rp_file_writer *file;
    char *text;                         /* a buffer: text that is not in the file yet */
    int used;
    rp_status status;                   /* the first error of all puts */
} profile_out;
rp_status rp__profile_out_open(rp_ctx *ctx, const char *folder, const char *name, profile_out *out);
void rp__profile_put(profile_out *out, const char *fmt, ...) RP_PRINTF(2, 3);
/* Give the file its name, or discard it if a put failed. errors RP_ERR_IO */
rp_status rp__profile_out_close(profile_out *out);

void rp__profile_put_table(const rp_profile *p, const profile_row *row, int n, profile_out *out);
void rp__profile_put_trace(const rp_profile *p, profile_out *out);

#endif
