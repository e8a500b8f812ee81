/* view/page.h -- a step as one self-contained HTML page: memory over the step, the arena as address x time, what becomes of every slot,
 * the curve of budgets, the losses of a run.
 *
 * The page needs no network and no file beside it. Its data is one JSON object in it; pictures are drawn from that by its own script, and
 * tables stand in the HTML, so that without scripts they can be read. It reads in black and white (classes differ in pattern and
 * lightness, not in hue alone), on a phone (one column), printed, and with the keyboard. Texts may hold anything: they are escaped.
 */
#ifndef RP_PAGE_H
#define RP_PAGE_H

#include "base/base.h"

typedef struct {                    /* a buffer of the step */
    int64_t bytes, offset;          /* as requested · in the arena */
    int begin, end;                 /* events: [begin, end) */
    rp_mem_class mem_class;         /* when it is taken … */
    int kept_from, kept_until;      /* … and between these events RP_MEM_SAVED; -1: never */
    int owner;                      /* in rp_page.owner */
} rp_page_buffer;

typedef struct { const char *path, *what; } rp_page_owner;          /* "layers.3.mlp.up", "matmul" */

typedef struct {                    /* a running of a call: events from begin on are its */
    int begin;
    const char *phase, *path, *op;  /* "forward", "replay", "backward", "other" (then path is "" and op what happens) */
} rp_page_work;

typedef struct {                    /* a line of the table of fates: slots alike */
    const char *path, *op, *shape, *fate, *why;
    int64_t bytes;                  /* of one */
    int count;
    double seconds;                 /* of running it again, once */
    double seconds_per_mib;         /* what another MiB for it would be worth; 0 where it is kept */
} rp_page_slot;

typedef struct { const char *name; int64_t bytes; double overhead; bool measured; } rp_page_point;      /* name NULL: of the curve */
typedef struct { int64_t step; double loss, val_loss, lr; bool has_val; } rp_page_loss;
typedef struct { const char *name, *value; } rp_page_fact;          /* "reserved", "1.53 GiB"; in the order in which they are told */

typedef struct {
    const char *title;              /* "SmolLM2-135M, 512 x 2, bf16" */
    int64_t budget, reserved, peak; /* budget 0: none */
    double overhead;                /* of this step, as of a point of the curve; not finite: unknown */
    int n_events, n_buffers, n_owners, n_works, n_slots, n_points, n_losses, n_facts;
    const rp_page_buffer *buffer;   /* in the order of begin */
    const rp_page_owner *owner;
    const rp_page_work *work;
    const rp_page_slot *slot;
    const rp_page_point *point;
    const rp_page_loss *loss;
    const rp_page_fact *fact;
} rp_page;

/* Write the page. What there is nothing of (n_losses 0) is left out with its heading. Events are of [0, n_events), buffers and works in the
 * order of begin; a double that is not finite is left out of the pictures. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__page_write(rp_ctx *ctx, const rp_page *page, const char *file);

#endif
