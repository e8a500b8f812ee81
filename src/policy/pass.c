/* policy/pass.c -- adds calls with their texts. A text contains attributes only through shapes and FLOPs. */
#include "policy/pass.h"

#include "base/list.h"
#include "ops/call.h"

#include <string.h>

enum { MAX_SLOTS = RP_MAX_OUT + RP_MAX_SLOT };

void rp__policy_pass_cut(rp_policy_pass *p, int n)
{
    if (n >= p->n_call) return;
    p->n_info   = p->call[n].first_info;
    p->n_active = p->call[n].first_active;
    p->n_text   = p->call[n].text;
    p->n_call   = n;
}

void rp__policy_pass_close(rp_policy_pass *p)
{
    RP_RELEASE(p->call, p->info, p->active, p->text);
    rp__policy_known_close(&p->known);
}

/* ---- the text of a call ---- */

static void append(rp_policy_pass *p, const void *from, size_t bytes)
{
    memcpy(p->text + p->n_text, from, bytes);
    p->n_text += (int)bytes;
}

static void append_metas(rp_policy_pass *p, const rp_meta *m, int n)
{
    for (int i = 0; i < n; i++) {
        int32_t head[] = { (int32_t)m[i].dtype, m[i].ndim };
        append(p, head, sizeof head);
        append(p, m[i].dim, (size_t)m[i].ndim * sizeof m[i].dim[0]);
    }
}

/* Upper bound in bytes: op, path, numbers, metas and policies. */
static int64_t text_room(const rp_op_meta *m, const rp_scope *scope, const rp_policy_seen *c)
{
    int64_t metas = (m->n_in + m->n_out + m->n_slot) * (int64_t)sizeof(rp_meta);

    return (int64_t)strlen(m->op->name) + (int64_t)strlen(scope->path) + 2 + metas + (8 + c->n_active) * (int64_t)sizeof(uint64_t);
}

static rp_status write_text(rp_policy_pass *p, const rp_op_meta *m, const rp_scope *scope, int64_t flops, rp_policy_seen *c)
{
    int32_t counts[] = { m->n_in, m->n_out, m->n_slot, c->n_active };

    RP_TRY(RP_GROW(p->ctx, p->text, p->room_text, p->n_text + (int)text_room(m, scope, c)));
    append(p, m->op->name, strlen(m->op->name) + 1);
    append(p, scope->path, strlen(scope->path) + 1);
    c->n_kind = p->n_text - c->text;
    append(p, &scope->module, sizeof scope->module);
    append(p, &flops, sizeof flops);
    append(p, counts, sizeof counts);
    append_metas(p, m->in, m->n_in);
    append_metas(p, m->out, m->n_out);
    append_metas(p, m->slot, m->n_slot);
    for (int i = 0; i < c->n_active; i++) append(p, &p->active[c->first_active + i]->id, sizeof(uint64_t));
    c->n_text = p->n_text - c->text;
    return RP_OK;
}

/* ---- adding a call ---- */

static void describe(const rp_policy_pass *p, const rp_op_meta *m, const rp_scope *scope, int64_t flops, rp_slot_info *info)
{
    for (int i = 0; i < m->n_out + m->n_slot; i++) {
        bool by_product     = i >= m->n_out;
        const rp_meta *meta = rp__op_made(m, i);
        info[i] = (rp_slot_info){
            .path = scope->path, .module = scope->module, .op = m->op->name, .output = by_product ? i - m->n_out : i,
            .by_product = by_product, .meta = *meta, .bytes = rp_meta_bytes(meta), .flops = flops,
            .is_rehearsal = p->ctx->options.shapes_only,
        };
    }
}

rp_policy_known_call *rp__policy_pass_known(rp_policy_pass *p, int at)
{
    const rp_policy_seen *c = &p->call[at];

    return rp__policy_known(p->ctx, &p->known, at ? p->call[at - 1].state : 0, p->text + c->text, c->n_text);
}

static rp_status enter(rp_policy_pass *p, const rp_policy_seen *c)
{
    p->call[p->n_call++]  = *c;
    rp_policy_known_call *known = rp__policy_pass_known(p, p->n_call - 1);
    if (known) p->call[p->n_call - 1].state = known->state;
    else rp__policy_pass_cut(p, p->n_call - 1);
    return known ? RP_OK : RP_ERR_MEMORY;
}

rp_status rp__policy_pass_add(rp_policy_pass *p, int at, const rp_op_meta *m, const rp_scope *scope, rp_policy *const *active, int n)
{
    int64_t flops = m->op->cost ? m->op->cost(m, RP_FORWARD).flops : 0;

    rp__policy_pass_cut(p, at);
    RP_TRY(RP_GROW(p->ctx, p->call, p->room_call, at + 1));
    while (p->n_call < at) RP_TRY(enter(p, &(rp_policy_seen){ .text = p->n_text, .first_info = p->n_info, .first_active = p->n_active }));
    rp_policy_seen c = { .op = m->op, .text = p->n_text, .first_info = p->n_info, .first_active = p->n_active, .n_active = n };
    RP_TRY(RP_GROW(p->ctx, p->active, p->room_active, p->n_active + n));
    RP_TRY(RP_GROW(p->ctx, p->info, p->room_info, p->n_info + MAX_SLOTS));
    if (n) memcpy(p->active + p->n_active, active, (size_t)n * sizeof(rp_policy *));
    if (n) describe(p, m, scope, flops, p->info + p->n_info);
    c.n_infos = n ? m->n_out + m->n_slot : 0;
    RP_TRY(write_text(p, m, scope, flops, &c));
    p->n_info += c.n_infos;
    p->n_active += n;
    return enter(p, &c);
}

int rp__policy_pass_nth(const rp_policy_pass *p, int at)
{
    const rp_policy_seen *c = &p->call[at];

    for (int i = at - 1; i >= 0; i--) {
        const rp_policy_seen *before = &p->call[i];
        if (before->op == c->op && before->n_kind == c->n_kind && !memcmp(p->text + before->text, p->text + c->text, (size_t)c->n_kind))
            return before->nth + 1;
    }
    return 0;
}
