/* explain/internal.h -- what is remembered while a step is watched; explain*.c alone include this. */
#ifndef RP_EXPLAIN_INTERNAL_H
#define RP_EXPLAIN_INTERNAL_H

#include "explain/explain.h"

typedef struct { void *at; int n, room; } explain_list;

struct rp_explain_watch {
    rp_ctx *ctx, *home;                 /* the observed one, and the explanation's own */
    bool lost, in_step;                 /* lost: memory ran out, something is missing */
    explain_list live, log;             /* rp_explain_event: takes of what is live when the step begins; all of the step */
    explain_list module, known;         /* rp_explain_module · const char *, of texts that were copied */
    int64_t live_bytes, most_bytes;
    int most_at;                        /* events of the log up to the peak; 0: the step begins with it */
    uint64_t serial;                    /* of the running that had the last event */
    int n_takes;                        /* of that running */
};

/* Room for one more; NULL: memory. */
void *rp__explain_add(rp_ctx *ctx, explain_list *list, int64_t size);
/* One copy of each text, the explanation's. NULL: memory, and something is lost. */
const char *rp__explain_text(rp_explain *e, const char *text);
/* The module of a path, made where there is none, valid until the next one is made. NULL: memory, and something is lost. */
rp_explain_module *rp__explain_module_of(rp_explain *e, const char *path);
/* Owners and classes at the peak. */
rp_status rp__explain_peak(rp_explain *e);

#endif
