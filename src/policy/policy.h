/* policy/policy.h -- an ordered list of rules; the first that answers decides.
 *
 *   rule   a condition and a fate    recipe.yaml:12   { path: "*.mlp", op: matmul, fate: keep }
 *          or a function             "mine"           gives a fate, or none and leaves the slot to the next rule
 */
#ifndef RP_POLICY_H
#define RP_POLICY_H

#include "policy/condition.h"

typedef struct {
    rp_place place;
    const char *by;                             /* in messages: "recipe.yaml:12"; NULL: the policy's name */
    rp_condition *when;                         /* kind ALL; NULL: a function is asked */
    int64_t k, offset, n_matched;               /* of the slots that `when` holds for every k-th; k 0: all. n_matched: in this pass */
    int64_t n_decided;                          /* slots it has answered for in this pass */
    int fate;                                   /* rp_fate, RP_ALLOW_MUTATION or'ed to it */
    rp_policy_function function;                /* this … */
    rp_policy_predicate predicate;              /* … or that */
    void (*reset)(void *user);
    void *user;
} rp_rule;

struct rp_policy {
    rp_ctx *ctx;
    char *name;
    uint64_t id;                                /* a new one with every change */
    uint64_t round;                             /* the asking it was last reset for: see stack.c */
    rp_rule *rule;
    int n_rules, room;
    rp_yaml_doc doc;                            /* texts and conditions of its own rules */
    bool owns_plugins;                          /* the libraries were opened for it */
    bool yields;                                /* its musts give way to those of other policies */
};

/* What one policy says about one slot. */
typedef struct {
    int fate;                                   /* RP_KEEP to RP_PREFER_OFFLOAD, or RP_NO_FATE */
    bool allow_mutation, is_rule;               /* is_rule: `by` is a place */
    bool yields;                                /* as of the policy */
    const char *by;
} rp_answer;

/* errors RP_ERR_ARG a function gave what is no fate */
rp_status rp__policy_ask(rp_ctx *ctx, rp_policy *policy, const rp_slot_info *slot, rp_answer *out);
/* A pass that asks begins. */
void rp__policy_reset(rp_policy *policy);
/* Add a rule; what it points at must outlive the policy. errors RP_ERR_MEMORY */
rp_status rp__policy_add(rp_policy *policy, const rp_rule *rule);
/* rp_policy_read but for the plug-ins, which are not opened: messages go to the report. */
rp_status rp__policy_parse(rp_ctx *ctx, const char *name, const char *text, rp_report *report, rp_policy **out);

static inline bool rp__is_fate(int fate) { return (fate & ~RP_ALLOW_MUTATION) >= RP_KEEP && (fate & ~RP_ALLOW_MUTATION) < RP_NO_FATE; }
/* "keep", "prefer_offload". */
const char *rp__fate_name(int fate);
/* RP_NO_FATE: no fate is spelled so. */
int rp__fate_find(const char *name);
/* " (did you mean 'keep'?)" or "". */
const char *rp__fate_hint(const char *name, char out[RP_HINT_CHARS]);

#endif
