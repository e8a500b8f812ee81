/* policy/ask.c -- asks one policy about a slot: its first rule that applies decides. */
#include "policy/policy.h"

void rp__policy_reset(rp_policy *policy)
{
    for (int i = 0; i < policy->n_rules; i++) {
        policy->rule[i].n_matched = policy->rule[i].n_decided = 0;
        if (policy->rule[i].reset) policy->rule[i].reset(policy->rule[i].user);
    }
}

/* Every slot that the conditions hold for is counted, even if another rule decides it. So the meaning of a rule does not depend on its position. */
static bool counts(rp_rule *rule, const rp_slot_info *slot)
{
    if (!rp__condition_holds_for_slot(rule->when, slot)) return false;
    return !rule->k || rp__every(rule->n_matched++, rule->k, rule->offset);
}

static int ask_function(const rp_rule *rule, const rp_slot_info *slot)
{
    if (rule->predicate) return rule->predicate(slot, rule->user) ? RP_KEEP : RP_PREFER_RECOMPUTE;
    return (int)rule->function(slot, rule->user);
}

rp_status rp__policy_ask(rp_ctx *ctx, rp_policy *policy, const rp_slot_info *slot, rp_answer *out)
{
    int given = RP_NO_FATE, at = -1;

    for (int i = 0; i < policy->n_rules; i++) {
        rp_rule *rule = &policy->rule[i];
        if (at >= 0 && !rule->k) continue;
        int fate = RP_NO_FATE;
        if (!rule->when) fate = ask_function(rule, slot);
        else if (counts(rule, slot)) fate = rule->fate;
        RP_CHECK(ctx, rp__is_fate(fate) || (fate & ~RP_ALLOW_MUTATION) == RP_NO_FATE, RP_ERR_ARG,
                 "policy '%s' returned %d for '%s' %s, which is not a fate", policy->name, fate, slot->path, slot->op);
        if (at >= 0 || (fate & ~RP_ALLOW_MUTATION) == RP_NO_FATE) continue;
        given = fate;
        at    = i;
        rule->n_decided++;
    }
    *out = (rp_answer){ .fate = given & ~RP_ALLOW_MUTATION, .allow_mutation = given & RP_ALLOW_MUTATION, .by = policy->name, .yields = policy->yields };
    if (at >= 0 && policy->rule[at].by) {
        out->by      = policy->rule[at].by;
        out->is_rule = true;
    }
    return RP_OK;
}
