/* explain/internal.h -- the state of a watched step. Only explain/ includes this file. */
#ifndef RP_EXPLAIN_INTERNAL_H
#define RP_EXPLAIN_INTERNAL_H

#include "explain/explain.h"

typedef struct { void *at; int n, room; } explain_list;

struct rp_explain_watch {
    rp_ctx *ctx, *home;                 /* the observed context, and the explanation's own */
    bool lost, in_step;                 /* lost: memory ran out and an event is missing */
    explain_list live, log;             /* rp_explain_event: takes of buffers live when the step begins; all events of the step */
    explain_list module, known;         /* rp_explain_module · const char *, the copied texts */
    int64_t live_bytes, most_bytes;
    int most_at;                        /* number of log events up to the peak; 0: the step begins with it */
    uint64_t serial;                    /* of the running call that had the last event */
    int n_takes;                        /* number of takes in that call */
};

/* Adds one zeroed entry. Returns NULL if out of memory. */
void *rp__explain_add(rp_ctx *ctx, explain_list *list, int64_t size);
/* Returns the explanation's one copy of a text. NULL: out of memory; sets `lost`. */
const char *rp__explain_text(rp_explain *e, const char *text);
/* Returns the module of a path, adding it if needed; valid until the next one is added. NULL: out of memory; sets `lost`. */
rp_explain_module *rp__explain_module_of(rp_explain *e, const char *path);
/* Finds owners and classes at the peak. errors RP_ERR_MEMORY */
rp_status rp__explain_peak(rp_explain *e);

#endif
