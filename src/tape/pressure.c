/* tape/pressure.c -- chooses the values to drop when an allocation would exceed the memory limit.
 *
 *   addresses   | params | hole | saved 1 | grad | saved 2 | user's | saved 3 | hole .... | limit
 *                        └────────── a stretch ───────────┘
 *
 * An allocation needs its bytes in one piece. So the candidates are stretches of addresses in which every block is a hole or can be
 * removed:
 *
 *   dropped   a value that only the tape holds, if calls that may be rerun can make it from values still available
 *   moved     down, so that several holes become one: must-keep values, values about to be read, gradients, values expensive to recompute
 *
 * Both have a cost in FLOPs. Dropping costs the calls that recompute the value, including those of its missing inputs. Moving costs its
 * bytes. A loss is a cost divided by the square root of the idle time: the number of ops since the value was last touched. The stretch
 * with the smallest loss per byte freed is chosen. Nothing is measured: the record and addresses decide, so a rehearsal decides the same.
 *
 * Source: Kirisame et al. 2021, "Dynamic tensor rematerialization", which divides by the idle time itself. A forward's oldest values are
 * read last by its backward, but values still to be made are not known yet. The square root recomputes a tenth less (chains, models).
 * Comparing stretches follows Zhang et al. 2023, "Coop: memory is not a commodity".
 */
#include "tape/internal.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    int64_t offset, bytes;
    rp_storage *storage;            /* NULL: a hole */
    int value;                      /* that can be dropped; NONE: it can only be moved */
    double idle, cost;              /* ops since it was last touched · cost of dropping it */
} block;

typedef struct {                    /* all known addresses, in order */
    block *block;
    int n;
    double idle;                    /* mean over droppable bytes */
    double dearest;                 /* largest loss per byte */
    int64_t droppable;              /* bytes that can be dropped */
} layout;

typedef struct {
    int first, n;                   /* of blocks; n 0: no stretch */
    double bound;                   /* blocks with a larger loss per byte are moved; if negative, all are moved */
    double cost, loss;              /* loss: per byte */
} stretch;

/* ---- values that can be dropped ---- */

/* Does only the tape hold it? The running call may have it open. */
static bool is_ours(const tape_value *v)
{
    const rp_tensor *t = v->held;

    return t && t->storage->bytes > 0 && t->refs - 1 + t->storage->refs - 1 == v->opened;
}

/* Has backward passed the value's call, and so all its readers? A region that is not replayed yet may still count it as a read. */
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

/* Returns the shortest stretch from block `first` on that gives a hole of `bytes`; n 0: none. */
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

/* If merging holes is enough, it is compared by its whole cost, because it frees nothing for later. */
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

static void log_dropped(const rp_tape *tape, const rp_tape_stats *before)
{
    int64_t n = tape->stats.n_evicted - before->n_evicted;
    char size[RP_SIZE_CHARS];

    if (n)
        rp__log(tape->ctx, RP_LOG_WARNING, "the memory limit drops %" PRId64 " value%s of %s, which backward computes or reads again", n, n == 1 ? "" : "s",
                rp__size_text(size, tape->stats.evicted_bytes - before->evicted_bytes));
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
    stretch s             = best_stretch(&l, bytes);
    rp_tape_stats before  = tape->stats;
    if (s.n) make_hole(tape, &l, &s);
    log_dropped(tape, &before);
    *droppable = l.droppable;
    rp__release(l.block);
    return s.n > 0;
}
