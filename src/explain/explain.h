/* explain/explain.h -- records each slot of a step with its fate, and the owners of the bytes at the peak.
 *
 *   watch ─ the ledger is observed from the first byte on
 *   begin ─ [ forward ─ slots ─ replays, backward, update ] ─ end         one step, on data or on shapes
 *
 * Totals are exact: saved slots add up to saved_bytes, owners and classes to peak_bytes, replays of modules to recompute_flops. A module
 * here is a block of a list (layers.3) or a child of the model, with everything in it.
 */
#ifndef RP_EXPLAIN_H
#define RP_EXPLAIN_H

#include "base/bump.h"
#include "cost/cost.h"
#include "tape/tape.h"

typedef struct {
    const char *path, *op;
    int call, output;                   /* call: number among the calls of this op under this path; output: index of the output or, if by_product, of
                                         * the by-product */
    bool by_product;
    bool saved, offload, reads;         /* held when the forward ends · offloaded then · read by a backward, not only by replays */
    bool gathered;                      /* held then, and a whole weight gathered from slices: of class comm, not a class of slots */
    rp_fate fate;                       /* RP_KEEP, RP_RECOMPUTE, RP_OFFLOAD */
    const char *by;                     /* "recipe.yaml:12", "region layers.3", "kept: no region" */
    const char *region;                 /* innermost; NULL: none */
    rp_meta meta;
    int64_t bytes, flops;               /* flops: of the call that makes it, for one recomputation */
    double seconds;                     /* of the same, by the cost table; 0 without a table */
} rp_explain_slot;

typedef struct {                        /* an owner of bytes at the peak */
    const char *path, *name;            /* "layers.3.mlp.up", "matmul" */
    rp_mem_class mem_class;
    int64_t bytes;
    int n;                              /* number of buffers */
} rp_explain_owner;

typedef struct {
    const char *path;                   /* "layers.3", "output"; "": outside all modules */
    int n_slots;
    int64_t saved_bytes, offload_bytes, recomputed_bytes;     /* of its slots, when the forward ends */
    int64_t recompute_flops;            /* of everything replayed in it */
    int64_t peak_at[RP_MEM_CLASSES];
} rp_explain_module;

typedef struct {                        /* an event of the ledger, with its owner */
    bool take, reclass;                 /* neither: freed */
    rp_mem_class mem_class;
    int64_t bytes, offset;
    const char *path, *name;
    rp_tape_phase phase;
    const char *at, *op;                /* where it happened, regardless of the owner; op: NULL outside of ops */
} rp_explain_event;

/* A group of slots that are alike in all blocks of a list. */
typedef struct {
    const char *path, *by;              /* "layers.*.mlp.up" if n > 1, "region layers.*" */
    const rp_explain_slot *slot;        /* the first one of the group */
    int n;
} rp_explain_row;

/* The effect of one more rule, placed before all others: measured by running the step with it. */
typedef struct {
    const char *path, *op;              /* of the rule; its fate is recompute */
    int64_t saved_bytes, peak_bytes;    /* by how many bytes they are lower with the rule */
    int64_t flops;                      /* added to each step */
} rp_explain_trial;

typedef struct rp_explain_watch rp_explain_watch;

typedef struct {
    rp_bump bump;
    const rp_cost_table *costs;         /* for seconds; borrowed until end; NULL: no seconds */
    rp_explain_watch *watch;
    int n_slots, n_modules, n_owners, n_regions, n_trials;
    rp_explain_slot *slot;              /* in the order of the tape */
    rp_explain_module *module;          /* in the order in which they first own bytes */
    rp_explain_owner *owner;            /* most bytes first */
    rp_explain_trial *trial;            /* lowest peak first, then fewest saved bytes */
    bool wants_events;                  /* set it before begin to record events, too */
    int n_before, n_events;
    rp_explain_event *before, *event;   /* takes of buffers live when the step begins; all events of the step */
    int64_t peak_bytes, peak_at[RP_MEM_CLASSES];
    const char *peak_event, *peak_path, *peak_op;   /* "forward", "replay", "backward" of an op; "other": peak_op names the buffer */
    int64_t saved_bytes, offload_bytes; /* when the forward of the last micro-batch ends */
    int64_t step_flops, recompute_flops;
    int64_t host_fallback_ops;          /* calls in the forward passes of the step; rp_tape_stats */
} rp_explain;

void rp__explain_open(rp_explain *e, rp_ctx *ctx);
void rp__explain_close(rp_explain *e);

/* Observes the ledger of `of` until end. Nothing may be live in it yet. errors RP_ERR_MEMORY */
rp_status rp__explain_watch_ctx(rp_explain *e, rp_ctx *of);
/* Others may observe the ledger between pause and resume or begin. The same buffers must be live at both.
 * errors RP_ERR_MEMORY an event could not be recorded */
rp_status rp__explain_pause(rp_explain *e);
void rp__explain_resume(rp_explain *e);
void rp__explain_begin(rp_explain *e);
/* Records the slots in their present state. errors RP_ERR_MEMORY */
rp_status rp__explain_slots(rp_explain *e);
/* Ends the explanation; `work`: the tape's counts of the step. The observed context may be closed afterwards. errors RP_ERR_MEMORY */
rp_status rp__explain_end(rp_explain *e, const rp_tape_stats *work);

/* Groups the slots into rows: kept, offloaded, recomputed, each with most bytes first. The explanation owns *rows. errors RP_ERR_MEMORY */
rp_status rp__explain_rows(rp_explain *e, rp_explain_row **rows, int *n_rows);
/* Returns "layers.3.mlp" as "layers.*.mlp"; NULL: out of memory. */
const char *rp__explain_pattern(rp_bump *bump, const char *text);

#endif
