/* explain/explain.h -- what became of every slot of a step, and whose the bytes were at its peak.
 *
 *   watch ─ the ledger is observed from the first byte on
 *   begin ─ [ forward ─ slots ─ replays, backward, update ] ─ end         one step, on data or on shapes
 *
 * What is told adds up exactly: slots that are saved to saved_bytes, owners and classes to peak_bytes, replays of modules
 * to recompute_flops. A module here is a block of a list (layers.3) or a child of the model, with all that is in it.
 */
#ifndef RP_EXPLAIN_H
#define RP_EXPLAIN_H

#include "base/bump.h"
#include "cost/cost.h"
#include "tape/tape.h"

typedef struct {
    const char *path, *op;
    int call, output;                   /* among the calls of this op under this path; output, or by-product where by_product */
    bool by_product;
    bool saved, offload, reads;            /* held when the forward ends, or offloaded then; backward reads it, not replays alone */
    bool gathered;                      /* held then, and a whole weight of slices: no class of slots, but comm */
    rp_fate fate;                       /* RP_KEEP, RP_RECOMPUTE, RP_OFFLOAD */
    const char *by;                     /* "recipe.yaml:12", "region layers.3", "kept: no region" */
    const char *region;                 /* innermost; NULL: none */
    rp_meta meta;
    int64_t bytes, flops;               /* flops: of the call that makes it, once more */
    double seconds;                     /* that takes by the cost table; 0 without one */
} rp_explain_slot;

typedef struct {                        /* who has bytes at the peak */
    const char *path, *what;            /* "layers.3.mlp.up", "matmul" */
    rp_mem_class mem_class;
    int64_t bytes;
    int n;                              /* blocks */
} rp_explain_owner;

typedef struct {
    const char *path;                   /* "layers.3", "output"; "": of no module */
    int n_slots;
    int64_t saved_bytes, offload_bytes, recomputed_bytes;     /* of its slots, when the forward ends */
    int64_t recompute_flops;            /* of all that was replayed in it */
    int64_t peak_at[RP_MEM_CLASSES];
} rp_explain_module;

typedef struct {                        /* what the ledger said, and whose it was */
    bool take, reclass;                 /* neither: given back */
    rp_mem_class mem_class;
    int64_t bytes, offset;
    const char *path, *what;
    rp_tape_phase phase;
    const char *at, *op;                /* where it happened, whoever's it is; op: NULL outside of ops */
} rp_explain_event;

/* Slots alike in all blocks of a list, as one line. */
typedef struct {
    const char *path, *by;              /* "layers.*.mlp.up" where there are several, "region layers.*" */
    const rp_explain_slot *slot;        /* the first of them */
    int n;
} rp_explain_row;

/* What one more rule would do, first of all rules: found by running the step with it. */
typedef struct {
    const char *path, *op;              /* of the rule; its fate is recompute */
    int64_t saved_bytes, peak_bytes;    /* less than without it */
    int64_t flops;                      /* more a step */
} rp_explain_trial;

typedef struct rp_explain_watch rp_explain_watch;

typedef struct {
    rp_bump bump;
    const rp_cost_table *costs;         /* of seconds, borrowed until end; NULL: none are told */
    rp_explain_watch *watch;
    int n_slots, n_modules, n_owners, n_regions, n_trials;
    rp_explain_slot *slot;              /* in the order of the tape */
    rp_explain_module *module;          /* in the order in which they come to have bytes */
    rp_explain_owner *owner;            /* most bytes first */
    rp_explain_trial *trial;            /* least peak first, then least saved */
    bool wants_events;                  /* set it before begin: then also */
    int n_before, n_events;
    rp_explain_event *before, *event;   /* takes of what is live when the step begins; all of the step */
    int64_t peak_bytes, peak_at[RP_MEM_CLASSES];
    const char *peak_event, *peak_path, *peak_op;   /* "forward", "replay", "backward" of an op; "other": peak_op is what was asked for */
    int64_t saved_bytes, offload_bytes;    /* when the forward of the last micro-batch ends */
    int64_t step_flops, recompute_flops;
} rp_explain;

void rp__explain_open(rp_explain *e, rp_ctx *ctx);
void rp__explain_close(rp_explain *e);

/* Observe the ledger of `of`, where nothing is live yet, until end. errors RP_ERR_MEMORY */
rp_status rp__explain_watch_ctx(rp_explain *e, rp_ctx *of);
/* Between pause and resume or begin the ledger may be watched by others; what is live has to be the same at both.
 * errors RP_ERR_MEMORY something was not noted for want of memory */
rp_status rp__explain_pause(rp_explain *e);
void rp__explain_resume(rp_explain *e);
void rp__explain_begin(rp_explain *e);
/* The slots are as they are now. errors RP_ERR_MEMORY */
rp_status rp__explain_slots(rp_explain *e);
/* `work` is what the step did. The observed context is not needed after it. errors RP_ERR_MEMORY */
rp_status rp__explain_end(rp_explain *e, const rp_tape_stats *work);

/* The slots as lines: kept, offloaded, recomputed; of these the most bytes first. *rows is explain's. errors RP_ERR_MEMORY */
rp_status rp__explain_rows(rp_explain *e, rp_explain_row **rows, int *n_rows);
/* "layers.3.mlp" as "layers.*.mlp"; NULL: memory. */
const char *rp__explain_pattern(rp_bump *bump, const char *text);

#endif
