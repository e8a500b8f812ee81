/* view/page.h -- writes a step as one self-contained HTML page.
 *
 * It shows memory over the step, the arena as address x time, the fate of each slot, step time against budgets, and the losses of a run.
 *
 * The page needs no network and no other file. Its data is one JSON object in the page, from which its script draws the pictures. Tables
 * are plain HTML and can be read without scripts. The page works in black and white (classes differ in pattern and lightness as well as in
 * hue), on a phone (one column), in print and by keyboard. Texts may contain any characters: they are escaped.
 */
#ifndef RP_PAGE_H
#define RP_PAGE_H

#include "base/base.h"

typedef struct {                    /* a buffer of the step */
    int64_t bytes, offset;          /* as requested · in the arena */
    int begin, end;                 /* events: [begin, end) */
    rp_mem_class mem_class;         /* its class when it is taken … */
    int kept_from, kept_until;      /* … and between these events it is RP_MEM_SAVED; -1: never */
    int owner;                      /* index in rp_page.owner */
} rp_page_buffer;

typedef struct { const char *path, *name; } rp_page_owner;          /* "layers.3.mlp.up", "matmul" */

typedef struct {                    /* one run of a call; events from begin on belong to it */
    int begin;
    const char *phase, *path, *op;  /* "forward", "replay", "backward", "other" (then path is "" and op names the buffer) */
} rp_page_work;

typedef struct {                    /* a row of the table of fates: a group of slots that are alike */
    const char *path, *op, *shape, *fate, *why;
    int64_t bytes;                  /* of one slot */
    int count;
    double seconds;                 /* of recomputing one slot once */
    double seconds_per_mib;         /* saved by 1 MiB more for it; 0 if it is kept */
} rp_page_slot;

typedef struct { const char *name; int64_t bytes; double overhead; bool measured; } rp_page_point;      /* name NULL: a point of the curve */
typedef struct { int64_t step; double loss, val_loss, lr; bool has_val; } rp_page_loss;
typedef struct { int64_t step; const char *prompt, *text; } rp_page_sample;                            /* a prompt that the run continued */
typedef struct { const char *name, *value; } rp_page_fact;          /* "reserved", "1.53 GiB"; in the order in which they are shown */

typedef struct {
    const char *title;              /* "SmolLM2-135M, 512 x 2, bf16" */
    int64_t budget, reserved, peak; /* bytes; budget 0: none */
    double overhead;                /* of this step, as for a point of the curve; not finite: unknown */
    int n_events, n_buffers, n_owners, n_works, n_slots, n_points, n_losses, n_facts, n_samples;
    const rp_page_buffer *buffer;   /* sorted by begin */
    const rp_page_owner *owner;
    const rp_page_work *work;
    const rp_page_slot *slot;
    const rp_page_point *point;
    const rp_page_loss *loss;
    const rp_page_fact *fact;
    const rp_page_sample *sample;
} rp_page;

/* Writes the page. A list without entries (n_losses 0) is left out together with its heading. Events are numbered [0, n_events). Buffers
 * and works must be sorted by begin. Doubles that are not finite are left out of the pictures. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__page_write(rp_ctx *ctx, const rp_page *page, const char *file);

#endif
