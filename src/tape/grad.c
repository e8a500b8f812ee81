/* tape/grad.c -- sums gradients.
 *
 * A gradient exists from the first call that contributes to it until the call that made its value has run its backward. The first
 * contribution is assigned and later ones are added, in the reverse order of the tape. So only the tape fixes the order of every sum.
 *
 *   add (RP_OP_GRAD_PASS)  passes the gradient of its output on as the gradient of its inputs: one tensor with several owners. An
 *                          addition to a gradient that has another owner goes to a copy.
 *   carried                a weight gathered from ranks gets a gradient of the whole weight in every pass, and one sum over ranks is
 *                          enough for all passes. A pass that carries stores its gradient in the slice's tensor; the next starts with it.
 *   views                  a gradient of a view is written into that view of the value's whole gradient. The whole starts as zeros, unless
 *                          the views of one call cover it, as q, k and v cover the value they are slices of.
 */
#include "base/watch.h"
#include "tape/internal.h"

#include <stdio.h>
#include <string.h>

rp_tensor **rp__grad_place(const rp_tape *tape, tape_value *v) { return rp__is_leaf(tape, v) ? &v->held->grad : &v->grad; }

/* The value must not be a leaf. */
static const tape_call *call_of(const rp_tape *tape, const tape_value *v) { return tape->call[rp__fate(tape, rp__number(tape, v))->call]; }

/* Is it a weight gathered from ranks? Its gradient is treated like a parameter's until it is summed over ranks. */
static bool is_gathered(const rp_tape *tape, const tape_value *v)
{
    return !rp__is_leaf(tape, v) && (call_of(tape, v)->meta.op->flags & RP_OP_COLLECTIVE);
}

static rp_meta grad_meta(const rp_tape *tape, const tape_value *v)
{
    rp_meta m = v->m;

    if (is_gathered(tape, v) && rp__tape_ctx(tape->ctx)->wide_grads && m.dtype == RP_BF16) m.dtype = RP_F32;
    if (!rp__is_leaf(tape, v)) return m;
    if (v->held->grad) m.dtype = v->held->grad->m.dtype;
    else if (rp__tape_ctx(tape->ctx)->wide_grads && m.dtype == RP_BF16) m.dtype = RP_F32;
    return m;
}

static rp_status grad_new(rp_tape *tape, tape_value *v, rp_tensor **out)
{
    rp_meta m         = grad_meta(tape, v);
    bool leaf         = rp__is_leaf(tape, v);
    const char *named = leaf && v->held->name ? v->held->name : NULL;
    rp_mem_class c    = leaf ? RP_MEM_GRAD : is_gathered(tape, v) ? RP_MEM_COMM : RP_MEM_TEMP;
    char label[256]   = "a gradient";

    if (named) snprintf(label, sizeof label, "the gradient of %.230s", named);
    RP_TRY(rp__tensor_new_named(tape->ctx, &m, c, label, out));
    rp__tensor_movable(*out, true);
    return RP_OK;
}

/* The leaf that receives the sum of a collective over ranks; NULL if the call does not sum. */
static rp_tensor *summed_into(const rp_tape *tape, const tape_call *c)
{
    return (c->meta.op->flags & RP_OP_SUMS) ? tape->value[c->in[0].value].held : NULL;
}

void rp__grad_resume(rp_tape *tape, tape_value *v)
{
    rp_tensor *leaf = rp__is_leaf(tape, v) ? NULL : summed_into(tape, call_of(tape, v));

    if (!leaf || !leaf->carried || v->grad) return;
    v->grad       = leaf->carried;
    leaf->carried = NULL;
}

bool rp__grad_carries(const rp_tape *tape, const tape_call *c)
{
    return rp__tape_ctx(tape->ctx)->carries && (c->meta.op->flags & RP_OP_SUMS) && c->in[0].whole;
}

void rp__grad_carry(rp_tape *tape, const tape_call *c)
{
    tape_value *v = &tape->value[rp__call_makes(tape, c)[0]];

    summed_into(tape, c)->carried = v->grad;
    v->grad = NULL;
}

rp_status rp__grad_own(rp_tape *tape, tape_value *v, bool *fresh)
{
    rp_tensor **g = rp__grad_place(tape, v), *mine;

    rp__grad_resume(tape, v);
    *fresh = !*g;
    if (*g && (*g)->refs == 1) return RP_OK;
    RP_TRY(grad_new(tape, v, &mine));
    if (*g) rp__tensor_copy(mine, *g);
    rp_tensor_unref(*g);
    *g = mine;
    return RP_OK;
}

/* Prepare the gradient for a write of `elems` different elements. *adds: the write must add to the contents. */
static rp_status ready_grad(rp_tape *tape, tape_value *v, int64_t elems, bool *adds)
{
    bool fresh;

    RP_TRY(rp__grad_own(tape, v, &fresh));
    *adds = !fresh || elems < rp_meta_elems(&v->m);
    if (fresh && *adds) rp__tensor_zero(*rp__grad_place(tape, v));
    return RP_OK;
}

/* Returns a view of the part of the whole gradient that belongs to this input. */
static rp_status grad_part(rp_tape *tape, const tape_input *in, rp_tensor **out)
{
    tape_value *v = &tape->value[in->value];
    rp_tensor *g  = *rp__grad_place(tape, v);

    if (in->whole) {
        *out = rp_tensor_ref(g);
        return RP_OK;
    }
    RP_TRY(rp__tensor_alias(g, out));
    (*out)->m       = in->m;
    (*out)->m.dtype = g->m.dtype;
    (*out)->start   = in->start - (rp__is_leaf(tape, v) ? v->held->start : 0);
    memcpy((*out)->stride, in->stride, sizeof in->stride);
    return RP_OK;
}

static void put_together(rp_tape *tape, rp_tensor *to, const rp_tensor *g, bool adds)
{
    double began = rp__watch_begin(tape->ctx);

    if (adds) rp__tensor_add(to, g);
    else rp__tensor_copy(to, g);
    rp__watch_end(tape->ctx, (rp_span){ .doing = RP_DOING_GRADIENT, .name = adds ? "add" : "copy", .began = began,
                                        .bytes = rp_meta_bytes(&g->m) + (1 + adds) * rp_meta_bytes(&to->m) });
}

/* Add g to the gradient of the input, or make g the gradient if there is none yet. */
static rp_status pass_on(rp_tape *tape, const tape_input *in, rp_tensor *g)
{
    tape_value *v = &tape->value[in->value];
    rp_tensor *to;
    bool adds;

    rp__grad_resume(tape, v);
    if (in->whole && !rp__is_leaf(tape, v) && !v->grad) {
        v->grad = rp_tensor_ref(g);
        return RP_OK;
    }
    RP_TRY(ready_grad(tape, v, rp_meta_elems(&in->m), &adds));
    RP_TRY(grad_part(tape, in, &to));
    put_together(tape, to, g, adds);
    rp__tensor_wrote(to, "backward");
    rp_tensor_unref(to);
    return RP_OK;
}

static rp_status open_needs(rp_tape *tape, const tape_call *c, rp_op_call *run)
{
    uint32_t needs = c->meta.needs;

    for (int i = 0; i < c->meta.n_in; i++)
        if (needs & RP_IN(i)) RP_TRY(rp__input_open(tape, c, i, &run->in[i]));
    for (int i = 0, n_out = c->meta.n_out; i < n_out + c->meta.n_slot; i++) {
        if (!(needs & rp__op_made_bit(&c->meta, i))) continue;
        tape_value *v = &tape->value[rp__call_makes(tape, c)[i]];
        RP_BUG_IF(!v->held);
        RP_TRY(rp__value_check(tape, v, c));
        *(i < n_out ? &run->out[i] : &run->slot[i - n_out]) = rp_tensor_ref(v->held);
        v->opened++;
    }
    return RP_OK;
}

static void close_made(rp_tape *tape, int value, rp_tensor *opened)
{
    tape->value[value].opened -= opened != NULL;
    rp_tensor_unref(opened);
}

static void close_call(rp_tape *tape, const tape_call *c, rp_op_call *run)
{
    const int *made = rp__call_makes(tape, c);

    for (int i = 0; i < c->meta.n_in; i++) rp__input_close(tape, c, i, run->in[i]);
    for (int i = 0; i < c->meta.n_out; i++) close_made(tape, made[i], run->out[i]);
    for (int i = 0; i < c->meta.n_slot; i++) close_made(tape, made[c->meta.n_out + i], run->slot[i]);
    for (int i = 0; i < RP_MAX_IN; i++) rp_tensor_unref(run->grad_in[i]);
}

/* Does every index have its own element? */
static bool one_place_each(const rp_meta *m, const int64_t *stride)
{
    for (int i = 0; i < m->ndim; i++) {
        int64_t below = 0;
        for (int j = 0; j < m->ndim; j++)
            if (j != i && m->dim[j] > 1 && stride[j] <= stride[i]) below += (m->dim[j] - 1) * stride[j];
        if (m->dim[i] > 1 && below >= stride[i]) return false;
    }
    return true;
}

/* Are they two separate stretches of dimension d of one tensor, `low` before `high`? */
static bool in_a_row(const tape_input *low, const tape_input *high, int d)
{
    int64_t step = low->stride[d], apart = high->start - low->start;
    rp_meta both = low->m;

    for (int i = 0; i < low->m.ndim; i++)
        if (low->stride[i] != high->stride[i] || (i != d && low->m.dim[i] != high->m.dim[i])) return false;
    if (step <= 0 || apart % step || apart / step < low->m.dim[d]) return false;
    both.dim[d] = apart / step + high->m.dim[d];
    return one_place_each(&both, low->stride);
}

/* Recognises only slices of one dimension without common elements. Other disjoint views are reported as overlapping, which is safe. */
static bool disjoint(const tape_input *a, const tape_input *b)
{
    const tape_input *low = a->start <= b->start ? a : b, *high = low == a ? b : a;

    for (int d = 0; d < a->m.ndim && a->m.ndim == b->m.ndim; d++)
        if (in_a_row(low, high, d)) return true;
    return false;
}

/* Does an earlier input of the call show some of the same elements? The op may write both gradients in one pass. */
static bool repeats(const tape_call *c, int i)
{
    for (int j = 0; j < i; j++)
        if (c->in[j].value == c->in[i].value && !disjoint(&c->in[j], &c->in[i])) return true;
    return false;
}

static bool too_wide(const rp_tape *tape, const tape_call *c, int i)
{
    return grad_meta(tape, &tape->value[c->in[i].value]).dtype != c->in[i].m.dtype && !(c->meta.op->wide_grad_in & RP_IN(i));
}

/* If the op cannot write the value's own gradient, it writes a separate tensor, which is added afterwards. */
static bool apart(const rp_tape *tape, const tape_call *c, int i) { return repeats(c, i) || too_wide(tape, c, i); }

static rp_status open_apart(rp_tape *tape, const tape_call *c, int i, rp_tensor **out)
{
    rp_meta m = c->in[i].m;

    if (!too_wide(tape, c, i)) m.dtype = grad_meta(tape, &tape->value[c->in[i].value]).dtype;
    RP_TRY(rp__tensor_new_named(tape->ctx, &m, RP_MEM_TEMP, "a gradient", out));
    rp__tensor_movable(*out, true);
    return RP_OK;
}

/* Does the op write into the value's own gradient? */
static bool direct(const rp_tape *tape, const tape_call *c, int i)
{
    return rp__input_wants(tape, c, i) && !rp__op_passes(&c->meta, i) && !apart(tape, c, i);
}

/* Inputs that are parts of one value share its gradient. It is prepared once for all of them. */
static rp_status open_direct(rp_tape *tape, const tape_call *c, int i, rp_op_call *run)
{
    const tape_input *in = &c->in[i];
    int64_t elems        = 0;
    int first            = i;

    for (int j = c->meta.n_in - 1; j >= 0; j--) {
        if (c->in[j].value != in->value || !direct(tape, c, j)) continue;
        elems += rp_meta_elems(&c->in[j].m);
        first = j;
    }
    if (first == i) RP_TRY(ready_grad(tape, &tape->value[in->value], elems, &run->grad_adds[i]));
    run->grad_adds[i] = run->grad_adds[first];
    return grad_part(tape, in, &run->grad_in[i]);
}

static rp_status open_grads(rp_tape *tape, const tape_call *c, rp_op_call *run)
{
    for (int i = 0; i < c->meta.n_in; i++) {
        if (direct(tape, c, i)) RP_TRY(open_direct(tape, c, i, run));
        else if (rp__input_wants(tape, c, i) && !rp__op_passes(&c->meta, i)) RP_TRY(open_apart(tape, c, i, &run->grad_in[i]));
    }
    return RP_OK;
}

static rp_status after_call(rp_tape *tape, const tape_call *c, rp_op_call *run)
{
    for (int i = 0; i < c->meta.n_in; i++) {      /* release these first, so that the others add to this tensor and not to a copy */
        if (!direct(tape, c, i)) continue;
        rp__tensor_wrote(run->grad_in[i], c->meta.op->name);
        rp_tensor_unref(run->grad_in[i]);
        run->grad_in[i] = NULL;
    }
    for (int i = 0; i < c->meta.n_in; i++) {
        if (!rp__input_wants(tape, c, i) || direct(tape, c, i)) continue;
        RP_TRY(pass_on(tape, &c->in[i], rp__op_passes(&c->meta, i) ? run->grad_out[0] : run->grad_in[i]));
    }
    return RP_OK;
}

rp_status rp__call_backward(rp_tape *tape, const tape_call *c)
{
    rp_op_call run   = { .meta = &c->meta, .stream = c->stream };
    rp_status status = RP_OK;
    bool computes    = false;

    for (int i = 0; i < c->meta.n_out; i++) run.grad_out[i] = tape->value[rp__call_makes(tape, c)[i]].grad;
    for (int i = 0; i < c->meta.n_in; i++) computes = computes || (rp__input_wants(tape, c, i) && !rp__op_passes(&c->meta, i));
    if (computes) {
        RP_TRY_GOTO(open_needs(tape, c, &run));
        RP_TRY_GOTO(open_grads(tape, c, &run));
        RP_TRY_GOTO(rp__op_backward(&run));
        rp__op_add_flops(&tape->stats.step_flops, &c->meta, RP_BACKWARD);
    }
    RP_TRY_GOTO(after_call(tape, c, &run));
done:
    close_call(tape, c, &run);
    return status;
}
