/* policy/verdict.c -- combines the answers of several policies for one slot, and checks that the result is possible. */
#include "policy/stack.h"

#include "ops/call.h"

static bool is_must(int fate) { return fate < RP_PREFER_KEEP; }

/* Returns the prefix of a policy's name in messages; a rule is named by its place alone. */
static const char *kind_of(const rp_answer *a) { return a->is_rule ? "" : "policy "; }

static const char *slot_name(const rp_slot_info *slot, char out[256])
{
    snprintf(out, 256, "slot '%.160s' %.48s %s %d", slot->path, slot->op, slot->by_product ? "by-product" : "output", slot->output);
    return out;
}

/* Drop a fate that is impossible. Ops that decide are exempt even from must-rules: "recompute everything" means everything that can be
 * recomputed, and keeping a decision costs almost nothing. Errors: RP_ERR_CONFIG an impossible must-rule. */
static rp_status check_possible(rp_ctx *ctx, const rp_op *op, const rp_slot_info *slot, rp_answer *a)
{
    bool possible = rp__op_replays(op) || (a->fate != RP_RECOMPUTE && a->fate != RP_PREFER_RECOMPUTE);
    char name[256];

    RP_CHECK(ctx, possible || !is_must(a->fate) || (op->flags & RP_OP_DECIDES), RP_ERR_CONFIG, "%s: %s'%s' says recompute, but %s is never recomputed: %s",
             slot_name(slot, name), kind_of(a), a->by, op->name,
             op->flags & RP_OP_COLLECTIVE ? "it communicates with other ranks" : "it has side effects");
    if (!possible) a->fate = RP_NO_FATE;
    return RP_OK;
}

/* Add the answer of the next inner policy to the combined answer of the outer ones. */
static rp_status combine(rp_ctx *ctx, const rp_slot_info *slot, const rp_answer *inner, rp_answer *so_far)
{
    bool both_must = is_must(inner->fate) && is_must(so_far->fate) && !inner->yields && !so_far->yields;
    char name[256];

    RP_CHECK(ctx, !both_must || inner->fate == so_far->fate, RP_ERR_CONFIG, "%s: %s'%s' says %s, %s'%s' says %s", slot_name(slot, name),
             kind_of(so_far), so_far->by, rp__fate_name(so_far->fate), kind_of(inner), inner->by, rp__fate_name(inner->fate));
    if (inner->fate != RP_NO_FATE && (!is_must(so_far->fate) || (so_far->yields && is_must(inner->fate)))) *so_far = *inner;
    return RP_OK;
}

rp_status rp__policies_verdict(rp_ctx *ctx, rp_policy *const *active, int n, const rp_op *op, const rp_slot_info *slot, rp_verdict *out)
{
    rp_answer all = { .fate = RP_NO_FATE }, one;

    for (int i = 0; i < n; i++) {
        RP_TRY(rp__policy_ask(ctx, active[i], slot, &one));
        RP_TRY(check_possible(ctx, op, slot, &one));
        RP_TRY(combine(ctx, slot, &one, &all));
    }
    *out = (rp_verdict){ .fate = (unsigned char)all.fate };
    if (all.fate == RP_NO_FATE) return RP_OK;
    out->must           = is_must(all.fate);
    out->fate           = (unsigned char)(out->must ? all.fate : all.fate - RP_PREFER_KEEP);
    out->allow_mutation = all.allow_mutation;
    out->by             = all.by;
    return RP_OK;
}
