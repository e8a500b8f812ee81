/* tape/verify.c -- compares the values of a replay with those of the first pass.
 *
 * A fingerprint has one hash for each of at most MOST_BLOCKS stretches of a value's bytes. It is bookkeeping, not data: at most 8 KiB per
 * value, so comparing changes nothing in the ledger. In values of up to MOST_BLOCKS elements, each element has its own hash.
 */
#include "tape/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/quant.h"
#include "base/team.h"

enum { MOST_BLOCKS = 1024, AROUND = 2 };

struct tape_print {
    int64_t block_elems;
    int n_blocks;
    uint64_t block[];
};

/* A single-call region takes the turn of the region before it. */
bool rp__verify_wanted(const rp_tape *tape)
{
    const rp_tape_ctx *by = rp__tape_ctx(tape->ctx);
    int turns = tape->last_outermost ? tape->last_outermost : 1, turn = (tape->n_outermost + turns - 1) % turns;

    if (by->verify_all != RP_VERIFY_DEFER) return by->verify_all == RP_VERIFY_ON;
    return by->verify == RP_TAPE_VERIFY_ALWAYS || (by->verify == RP_TAPE_VERIFY_STEP && turn == (int)(tape->ctx->step % turns));
}

static tape_print blocks_of(int64_t elems)
{
    int64_t block = (elems + MOST_BLOCKS - 1) / MOST_BLOCKS;

    return (tape_print){ .block_elems = block ? block : 1, .n_blocks = block ? (int)((elems + block - 1) / block) : 0 };
}

/* Hash the bytes of elements [from, to) of a dense tensor, eight bytes at a time. Hashing single bytes is slower than most ops. The elements of a
 * quantised tensor are its bytes here. */
static uint64_t hash_elems(const rp_tensor *t, int64_t from, int64_t to)
{
    int64_t size           = rp__sliced_bytes(t->m.dtype), bytes = (to - from) * size;
    const unsigned char *p = (const unsigned char *)rp__tensor_data(t) + from * size;
    uint64_t h             = RP_HASH_START ^ (uint64_t)bytes, word;

    for (; bytes >= 8; bytes -= 8, p += 8) {
        memcpy(&word, p, 8);
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return rp__hash(p, (size_t)bytes, h);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static uint64_t hash_block(const rp_tensor *t, const tape_print *print, int i)
{
    int64_t from = i * print->block_elems;

    return hash_elems(t, from, least(from + print->block_elems, rp__sliced_elems(&t->m)));
}

typedef struct { const rp_tensor *t; tape_print *print; } printing;

static void hash_blocks(const void *arg, int64_t from, int64_t to)
{
    const printing *p = arg;

    for (int64_t i = from; i < to; i++) p->print->block[i] = hash_block(p->t, p->print, (int)i);
}

rp_status rp__print_take(rp_ctx *ctx, const rp_tensor *t, tape_print **out)
{
    tape_print shape = blocks_of(rp__sliced_elems(&t->m));

    if (!rp__tensor_real(t)) return RP_OK;
    tape_print *print = rp__host_alloc(ctx, (int64_t)sizeof *print + shape.n_blocks * (int64_t)sizeof print->block[0]);
    if (!print) return RP_ERR_MEMORY;
    *print = shape;
    rp__mem_enter(ctx);
    rp__team_ranges(ctx->threads, print->n_blocks, 1, rp_meta_bytes(&t->m), hash_blocks, &(printing){ t, print });
    rp__mem_leave(ctx);
    *out = print;
    return RP_OK;
}

/* ---- the message ---- */

/* Writes ", [3, 17]" for element 3 * n + 17 of a matrix with n columns, and nothing for a byte of a quantised one. */
static void place_of(const rp_meta *m, int64_t element, char *out, size_t room)
{
    int64_t index[RP_MAX_DIM];
    size_t used = 0;

    *out = 0;
    if (rp__is_quant(m->dtype)) return;
    for (int i = m->ndim - 1; i >= 0; i--) {
        index[i] = element % m->dim[i];
        element /= m->dim[i];
    }
    for (int i = 0; i < m->ndim && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%" PRId64, i ? ", " : ", [", index[i]);
    if (used < room) snprintf(out + used, room - used, m->ndim ? "]" : ", []");
}

/* Show the recorded calls around the one that differs, and the state of each in the replay. */
static void show_calls(const rp_tape *tape, int at)
{
    for (int i = at - AROUND; i <= at + AROUND; i++) {
        if (i < 0 || i >= tape->fates.n_call) continue;
        const tape_call *c = tape->call[i];
        const char *recompute  = i == at ? "differs" : !rp__recompute_runs(tape, i) ? "not replayed" : i < at ? "the same" : "not yet";
        rp__fail_line(tape->ctx, "  %s %5d  %-20.20s %-48.48s %s", i == at ? ">" : " ", i, c->meta.op->name, c->path, recompute);
    }
}

rp_status rp__print_check(rp_tape *tape, int at, const tape_value *v, const rp_tensor *t)
{
    const tape_print *print = v->print;
    char name[VALUE_CHARS], place[64], range[48] = "";
    int i = 0;

    rp__mem_enter(tape->ctx);
    while (i < print->n_blocks && hash_block(t, print, i) == print->block[i]) i++;
    rp__mem_leave(tape->ctx);
    if (i == print->n_blocks) return RP_OK;
    int64_t first = i * print->block_elems, last = least(first + print->block_elems, rp__sliced_elems(&t->m)) - 1;
    place_of(&t->m, first, place, sizeof place);
    if (last > first) snprintf(range, sizeof range, " to %" PRId64, last);
    rp_status status = rp_fail(tape->ctx, RP_ERR_REPLAY, "a replay differs from the first pass: %s (%s), first at %s %" PRId64 "%s%s",
                               rp__value_name(tape, v, name), rp_meta_str(&t->m), rp__is_quant(t->m.dtype) ? "byte" : "element", first, range, place);
    show_calls(tape, at);
    return status;
}
