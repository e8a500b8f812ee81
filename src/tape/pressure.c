/* tape/pressure.c -- what is dropped when a take would go past the memory limit.
 *
 *   addresses   | params | hole | saved 1 | grad | saved 2 | user's | saved 3 | hole .... | limit
 *                        └────────── a stretch ───────────┘
 *
 * A take needs its bytes in one piece, so what is compared are stretches of addresses, in which everything is a hole, or goes:
 *
 *   dropped   what the tape alone holds, where calls that may run again make the same of what is still there
 *   moved     down, so that several holes become one: what a must keeps, what is about to be read, gradients, and what is dear to make again
 *
 * Both have a cost in FLOPs: of the calls that make it again, with all that is gone above it, or of moving its bytes. A loss is a cost by
 * the square root of the time, in ops, for which nobody has touched it. That stretch goes which loses least by the byte it gives back.
 * Nothing is measured: the record and addresses decide, so that a rehearsal decides the same.
 *
 * After Kirisame et al. 2021, "Dynamic tensor rematerialization", which divides by the time itself: what a forward has not touched for long
 * is what its backward comes to last, but what it will still make is not known yet, and the root recomputes a tenth less (chains, models).
 * That stretches are what counts is Zhang et al. 2023, "Coop: memory is not a commodity".
 */
#include "tape/internal.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    int64_t offset, bytes;
    rp_storage *storage;            /* NULL: a hole */
    int value;                      /* that can be dropped; NONE: it can only be moved */
    double idle, cost;              /* ops since it was touched · of dropping it */
} block;

typedef struct {                    /* all that is known of the addresses, in order */
    block *block;
    int n;
    double idle;                    /* of what can be dropped, in the mean */
    double dearest;                 /* loss by the byte */
    int64_t droppable;              /* bytes */
} layout;

typedef struct {
    int first, n;                   /* of blocks; n 0: there is no such stretch */
    double bound;                   /* what loses more by the byte is moved; below 0 all is */
    double cost, loss;              /* loss: by the byte */
} stretch;

/* ---- what can go ---- */

/* Nobody else has it: only the call that runs may have it open. */
static bool is_ours(const tape_value *v)
{
    const rp_tensor *t = v->held;

    return t && t->storage->bytes > 0 && t->refs - 1 + t->storage->refs - 1 == v->opened;
}

/* Backward has passed its call, and with it all who read it. A region that has not run again yet still counts it among what it reads. */
static bool is_over(const rp_tape *tape, const rp_fate_value *f)
{
    return tape->passed != NONE && !tape->fates.retain && f->call >= tape->passed;
}

static bool can_drop(const rp_tape *tape, int value)
{
    const tape_value *v    = &tape->value[value];
    const rp_fate_value *f = rp__fate(tape, value);

    if (f->call == NONE || v->pins || f->pending) return false;
    if (f->offloaded || is_over(tape, f)) return true;
    if (f->fate == RP_OFFLOAD || (v->must && f->fate == RP_KEEP)) return false;
    return v->held->storage->version == v->version && tape->call[f->call]->may;
}

static double cost_of(rp_tape *tape, int value)
{
    const rp_fate_value *f = rp__fate(tape, value);

    if (f->offloaded) return (double)(FLOPS_A_BYTE * rp_meta_bytes(&tape->value[value].m));
    return is_over(tape, f) ? 0 : rp__recompute_cost(tape, f->call);
}

static void pressure_drop(rp_tape *tape, int value)
{
    const rp_fate_value *f = rp__fate(tape, value);
    bool over              = is_over(tape, f);

    if (!f->offloaded && !over) rp__recompute_claim(tape, f->call);
    tape->stats.n_evicted += !over;
    tape->stats.evicted_bytes += over ? 0 : rp_meta_bytes(&tape->value[value].m);
    rp__fates_unfetch(&tape->fates, value);
}

/* ---- the layout ---- */

static block block_of(rp_storage *s)
{
    return (block){ .offset = s->offset, .bytes = rp__mem_rounded(s->ctx, s->bytes), .storage = s, .value = NONE };
}

static double loss_of(const block *b) { return b->cost / sqrt(b->idle) / (double)b->bytes; }

static void add_held(rp_tape *tape, layout *l, int value)
{
    const tape_value *v = &tape->value[value];
    block *b            = &l->block[l->n];

    if (!is_ours(v) || rp__fate(tape, value)->fetching) return;
    *b = block_of(v->held->storage);
    l->n++;
    if (!can_drop(tape, value)) return;
    b->value   = value;
    b->idle    = (double)(tape->works - v->touched + 1);
    b->cost    = cost_of(tape, value);
    l->dearest = fmax(l->dearest, loss_of(b));
    l->idle += b->idle * (double)b->bytes;
    l->droppable += b->bytes;
}

static int by_address(const void *a, const void *b)
{
    int64_t x = ((const block *)a)->offset, y = ((const block *)b)->offset;

    return (x > y) - (x < y);
}

static void lay_out(rp_tape *tape, layout *l)
{
    rp_mem_space *space = tape->ctx->space[0];

    for (int i = 0; i < rp__mem_n_holes(space); i++) {
        block *b = &l->block[l->n++];
        *b       = (block){ .value = NONE };
        rp__mem_hole(space, i, &b->offset, &b->bytes);
    }
    for (int i = 0; i < tape->fates.n_value; i++) add_held(tape, l, i);
    for (rp_storage *s = rp__tensor_ctx(tape->ctx)->movable; s; s = s->next)
        if (s->bytes > 0) l->block[l->n++] = block_of(s);
    if (l->droppable) l->idle /= (double)l->droppable;
    qsort(l->block, (size_t)l->n, sizeof *l->block, by_address);
}

/* ---- stretches ---- */

static bool is_dropped(const block *b, double bound) { return b->value != NONE && loss_of(b) <= bound; }
static bool is_moved(const block *b, double bound) { return b->storage && !is_dropped(b, bound); }

/* The shortest one from block `first` on that gives a hole of `bytes`. */
static stretch stretch_from(const layout *l, int first, double bound, int64_t bytes)
{
    int64_t hole = 0, dropped = 0, end = l->block[first].offset;
    stretch s    = { .first = first, .bound = bound };

    for (int i = first; i < l->n && l->block[i].offset == end && !is_moved(&l->block[first], bound); i++) {
        const block *b = &l->block[i];
        bool moved     = is_moved(b, bound);
        double cost    = moved ? 2.0 * FLOPS_A_BYTE * (double)b->bytes : b->cost;      /* read and written */
        s.cost += cost;
        s.loss += cost / sqrt(moved || !b->storage ? fmax(l->idle, 1) : b->idle);
        hole += moved ? 0 : b->bytes;
        dropped += is_dropped(b, bound) ? b->bytes : 0;
        end += b->bytes;
        if (hole < bytes) continue;
        s.n = i - first + 1;
        s.loss /= (double)(dropped ? dropped : 1);
        return s;
    }
    return (stretch){ 0 };
}

static stretch best_under(const layout *l, double bound, int64_t bytes)
{
    stretch best = { 0 };

    for (int i = 0; i < l->n; i++) {
        stretch s = stretch_from(l, i, bound, bytes);
        if (s.n && (!best.n || s.loss < best.loss)) best = s;
    }
    return best;
}

/* Where holes are enough when they are put together, that is compared by the whole cost: it gives nothing back for later. */
static stretch best_stretch(const layout *l, int64_t bytes)
{
    stretch best = best_under(l, l->dearest, bytes), moves = best_under(l, -1, bytes);
    double bound = l->dearest;

    for (int halved = 0; best.n && halved < 20; halved++) {
        stretch s = best_under(l, bound /= 2, bytes);
        if (!s.n) break;
        if (s.loss < best.loss) best = s;
    }
    return moves.n && (!best.n || moves.cost <= best.cost) ? moves : best;
}

static void move_down(rp_tape *tape, rp_storage *s)
{
    rp_mem_space *space = tape->ctx->space[0];

    s->offset = rp__mem_slide(space, s->mem_class, s->bytes, s->offset);
    s->data   = rp__mem_at(space, s->offset);
    tape->stats.moved_bytes += s->bytes;
}

static void make_hole(rp_tape *tape, const layout *l, const stretch *s)
{
    const block *first = l->block + s->first, *end = first + s->n;

    for (const block *b = first; b < end; b++)
        if (is_dropped(b, s->bound)) pressure_drop(tape, b->value);
    for (const block *b = first; b < end; b++)
        if (is_moved(b, s->bound)) move_down(tape, b->storage);
}

static int count_blocks(const rp_tape *tape)
{
    int n = tape->fates.n_value + rp__mem_n_holes(tape->ctx->space[0]);

    for (const rp_storage *s = rp__tensor_ctx(tape->ctx)->movable; s; s = s->next) n++;
    return n;
}

bool rp__tape_relieve(void *user, int64_t bytes, int64_t *droppable)
{
    rp_tape *tape = user;
    layout l      = { 0 };

    if (rp__tape_is_planned(tape->ctx)) return false;
    l.block = rp__host_alloc(tape->ctx, count_blocks(tape) * (int64_t)sizeof *l.block);
    if (!l.block) return false;
    rp__recompute_check(tape);
    lay_out(tape, &l);
    stretch s = best_stretch(&l, bytes);
    if (s.n) make_hole(tape, &l, &s);
    *droppable = l.droppable;
    rp__release(l.block);
    return s.n > 0;
}
