/* policy/policy.h -- a policy: an ordered list of rules. The first rule that gives a fate decides.
 *
 *   rule   a condition and a fate    recipe.yaml:12   { path: "*.mlp", op: matmul, fate: keep }
 *          or a function             "mine"           returns a fate, or none to leave the slot to the next rule
 */
#ifndef RP_POLICY_H
#define RP_POLICY_H

#include "policy/condition.h"

typedef struct {
    rp_place place;
    const char *by;                             /* name in messages: "recipe.yaml:12"; NULL: the policy's name */
    rp_condition *when;                         /* kind ALL; NULL: a function is called */
    int64_t k, offset, n_matched;               /* use every k-th slot that `when` holds for; k 0: all. n_matched: such slots in this pass */
    int64_t n_decided;                          /* slots this rule has decided in this pass */
    int fate;                                   /* rp_fate, or'ed with RP_ALLOW_MUTATION if set */
    rp_policy_function function;                /* either this … */
    rp_policy_predicate predicate;              /* … or this */
    void (*reset)(void *user);
    void *user;
} rp_rule;

struct rp_policy {
    rp_ctx *ctx;
    char *name;
    uint64_t id;                                /* changes with every change of the policy */
    uint64_t round;                             /* the round it was last reset for: see stack.c */
    rp_rule *rule;
    int n_rules, room;
    rp_yaml_doc doc;                            /* owns the texts and conditions of its own rules */
    bool owns_plugins;                          /* it opened the libraries of its rules, and closes them */
    bool yields;                                /* its must-rules yield to must-rules of other policies */
};

/* The answer of one policy for one slot. */
typedef struct {
    int fate;                                   /* RP_KEEP to RP_PREFER_OFFLOAD, or RP_NO_FATE */
    bool allow_mutation, is_rule;               /* is_rule: `by` is a place in a file */
    bool yields;                                /* copied from the policy */
    const char *by;
} rp_answer;

/* Ask one policy about a slot. Errors: RP_ERR_ARG a function returned an invalid fate. */
rp_status rp__policy_ask(rp_ctx *ctx, rp_policy *policy, const rp_slot_info *slot, rp_answer *out);
/* Reset counters and functions before a pass is asked about. */
void rp__policy_reset(rp_policy *policy);
/* Add a rule. Everything the rule points at must outlive the policy. Errors: RP_ERR_MEMORY. */
rp_status rp__policy_add(rp_policy *policy, const rp_rule *rule);
/* Like rp_policy_read, but without opening plug-ins; messages go to the report. Errors: RP_ERR_CONFIG, RP_ERR_MEMORY. */
rp_status rp__policy_parse(rp_ctx *ctx, const char *name, const char *text, rp_report *report, rp_policy **out);

static inline bool rp__is_fate(int fate) { return (fate & ~RP_ALLOW_MUTATION) >= RP_KEEP && (fate & ~RP_ALLOW_MUTATION) < RP_NO_FATE; }
/* Returns the name of a fate, such as "keep" or "prefer_offload". */
const char *rp__fate_name(int fate);
/* Returns RP_NO_FATE if no fate has this name. */
int rp__fate_find(const char *name);
/* Write a hint such as " (did you mean 'keep'?)" to out, or ""; returns out. */
const char *rp__fate_hint(const char *name, char out[RP_HINT_CHARS]);

#endif
