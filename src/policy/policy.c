/* policy/policy.c -- names of fates; policies and their rules. */
#include "policy/policy.h"

#include "base/bump.h"
#include "base/list.h"
#include "policy/read.h"
#include "policy/known.h"
#include "policy/stack.h"

/* ---- fates ---- */

/* Reprise's names come first, in the order of rp_fate. */
static const struct { const char *name; int fate; } fates[] = {
    { "keep", RP_KEEP }, { "recompute", RP_RECOMPUTE }, { "offload", RP_OFFLOAD }, { "prefer_keep", RP_PREFER_KEEP },
    { "prefer_recompute", RP_PREFER_RECOMPUTE }, { "prefer_offload", RP_PREFER_OFFLOAD },
    { "save", RP_KEEP }, { "must_save", RP_KEEP }, { "must_keep", RP_KEEP }, { "must_recompute", RP_RECOMPUTE },
    { "must_offload", RP_OFFLOAD }, { "must_cpu_offload", RP_OFFLOAD }, { "prefer_save", RP_PREFER_KEEP },
    { "prefer_cpu_offload", RP_PREFER_OFFLOAD },
};

const char *rp__fate_name(int fate) { return fates[fate].name; }

int rp__fate_find(const char *name)
{
    for (int i = 0; i < RP_COUNT(fates); i++)
        if (!strcmp(name, fates[i].name)) return fates[i].fate;
    return RP_NO_FATE;
}

const char *rp__fate_hint(const char *name, char out[RP_HINT_CHARS])
{
    const char *names[RP_COUNT(fates) + 1] = { NULL };

    for (int i = 0; i < RP_COUNT(fates); i++) names[i] = fates[i].name;
    return rp__hint(name, names, out);
}

/* ---- create and free ---- */

rp_status rp_policy_new(rp_ctx *ctx, const char *name, rp_policy **out)
{
    RP_GIVEN(ctx, ctx && name && out);
    rp_policy *policy = rp__host_alloc(ctx, sizeof *policy);
    char *own         = policy ? rp__host_text(ctx, name) : NULL;

    if (!own) {
        rp__release(policy);
        return RP_ERR_MEMORY;
    }
    rp__policy_count(ctx, 1);
    *policy = (rp_policy){ .ctx = ctx, .name = own, .id = rp__policy_next_id(), .doc = { .bump = { .ctx = ctx } } };
    *out    = policy;
    return RP_OK;
}

void rp_policy_free(rp_policy *policy)
{
    if (!policy) return;
    rp__policy_count(policy->ctx, -1);
    for (int i = 0; i < policy->n_rules && policy->owns_plugins; i++)
        if (policy->rule[i].when) rp__condition_close(policy->rule[i].when);
    rp__bump_free(&policy->doc.bump);
    RP_RELEASE(policy->rule, policy->name, policy);
}

/* ---- rules ---- */

rp_status rp__policy_add(rp_policy *policy, const rp_rule *rule)
{
    RP_TRY(RP_GROW(policy->ctx, policy->rule, policy->room, policy->n_rules + 1));
    policy->rule[policy->n_rules++] = *rule;
    policy->id                      = rp__policy_next_id();
    return RP_OK;
}

/* Returns a part of `when` with its glob. NULL: RP_ERR_MEMORY. */
static rp_condition *glob_part(rp_policy *policy, rp_condition_kind kind, const char *glob)
{
    rp_bump *bump   = &policy->doc.bump;
    rp_condition *c = rp__bump_alloc(bump, (int64_t)sizeof *c);

    if (!c) return NULL;
    c->kind  = kind;
    c->place = (rp_place){ policy->name, 0 };
    c->glob  = rp__bump_text(bump, glob, (int64_t)strlen(glob));
    return c->glob ? c : NULL;
}

static rp_status add_glob(rp_policy *policy, rp_condition *when, rp_condition_kind kind, const char *glob)
{
    if (!glob) return RP_OK;
    when->part[when->n_parts] = glob_part(policy, kind, glob);
    return when->part[when->n_parts++] ? RP_OK : RP_ERR_MEMORY;
}

rp_status rp_policy_rule(rp_policy *policy, const char *path, const char *op, rp_fate fate)
{
    RP_GIVEN(policy ? policy->ctx : NULL, policy);
    rp_bump *bump      = &policy->doc.bump;
    rp_condition *when = rp__bump_alloc(bump, (int64_t)sizeof *when);

    RP_CHECK(policy->ctx, rp__is_fate((int)fate), RP_ERR_ARG, "policy '%s': there is no fate %d", policy->name, (int)fate);
    if (!when || !(when->part = rp__bump_alloc(bump, 2 * (int64_t)sizeof *when->part))) return RP_ERR_MEMORY;
    when->kind  = RP_CONDITION_ALL;
    when->place = (rp_place){ policy->name, 0 };
    RP_TRY(add_glob(policy, when, RP_CONDITION_PATH, path));
    RP_TRY(add_glob(policy, when, RP_CONDITION_OP, op));
    return rp__policy_add(policy, &(rp_rule){ .place = when->place, .when = when, .fate = (int)fate });
}

rp_status rp_policy_call(rp_policy *policy, rp_policy_function function, void (*reset)(void *user), void *user)
{
    RP_GIVEN(policy ? policy->ctx : NULL, policy && function);
    return rp__policy_add(policy, &(rp_rule){ .place = { policy->name, 0 }, .function = function, .reset = reset, .user = user });
}

rp_status rp_policy_keep_if(rp_policy *policy, rp_policy_predicate predicate, void (*reset)(void *user), void *user)
{
    RP_GIVEN(policy ? policy->ctx : NULL, policy && predicate);
    return rp__policy_add(policy, &(rp_rule){ .place = { policy->name, 0 }, .predicate = predicate, .reset = reset, .user = user });
}

/* ---- rules without an effect ---- */

static const char *part_of(const rp_condition *when, rp_condition_kind kind)
{
    for (int i = 0; when && i < when->n_parts; i++)
        if (when->part[i]->kind == kind) return when->part[i]->glob;
    return NULL;
}

/* Write "rule 2 (path 'layers.*', op 'matmul')", or the rule's place in a text. Writes at most `room` bytes; returns the full length. */
static int describe_rule(const rp_rule *rule, int number, char *out, size_t room)
{
    const char *path = part_of(rule->when, RP_CONDITION_PATH), *op = part_of(rule->when, RP_CONDITION_OP);

    if (!rule->when) return snprintf(out, room, "rule %d (a function)\n", number);
    if (rule->by) return snprintf(out, room, "rule %d (%s)\n", number, rule->by);
    return snprintf(out, room, "rule %d (%s%s%s%s%s%s%s)\n", number, path ? "path '" : "", path ? path : "", path ? "'" : "", path && op ? ", " : "",
                    op ? "op '" : "", op ? op : "", op ? "'" : path ? "" : "everything");
}

/* Write all lines and return their bytes; out NULL: only count. */
static int64_t write_idle(const rp_policy *policy, char *out, int64_t room)
{
    int64_t used = 0;

    for (int i = 0; i < policy->n_rules; i++)
        if (!policy->rule[i].n_decided) used += describe_rule(&policy->rule[i], i + 1, out ? out + used : NULL, out ? (size_t)(room - used) : 0);
    return used;
}

rp_status rp_policy_idle(const rp_policy *policy, char **text)
{
    RP_GIVEN(policy ? policy->ctx : NULL, policy && text);
    RP_CHECK(policy->ctx, policy->round, RP_ERR_STATE, "policy '%s' has not been asked yet", policy->name);
    int64_t bytes = write_idle(policy, NULL, 0);
    char *lines   = bytes ? rp__host_alloc(policy->ctx, bytes + 1) : NULL;
    if (bytes && !lines) return RP_ERR_MEMORY;
    if (bytes) write_idle(policy, lines, bytes + 1);
    *text = lines;
    return RP_OK;
}
