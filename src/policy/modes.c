/* policy/modes.c -- builds the conditions and rules of each mode. */
#include "policy/modes.h"

#include "base/bump.h"
#include "policy/read.h"

static rp_condition *condition_new(rp_selection *c, rp_condition_kind kind)
{
    rp_condition *made = rp__bump_alloc(&c->bump, (int64_t)sizeof *made);

    if (made) made->kind = kind;
    return made;
}

/* Add a condition that selects every k-th block of the list. */
static rp_status add_blocks(rp_selection *c, const rp_mode_input *in, int64_t k, int64_t offset)
{
    rp_condition *blocks = condition_new(c, RP_CONDITION_EVERY_K_LAYERS);

    if (!blocks) return RP_ERR_MEMORY;
    blocks->k                       = k;
    blocks->offset                  = offset;
    blocks->layers                  = in->layers;
    c->condition[c->n_conditions++] = blocks;
    return RP_OK;
}

/* "matmul" includes the linear layers of experts. */
static const char *glob_of(const char *op) { return strcmp(op, "matmul") ? op : "*matmul"; }

/* Compares word by word. */
bool rp__mode_saves(const char *op)
{
    static const char list[] = RP_MODE_SAVE;
    char word[sizeof list];

    for (const char *at = list + strcspn(list, "[") + 1; *at && *at != ']'; at += strspn(at, ", ")) {
        size_t n = strcspn(at, ",]");
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        if (rp__glob(glob_of(word), op)) return true;
        at += n;
    }
    return false;
}

static rp_status add_saved_op(rp_selection *c, const rp_mode_input *in, const char *op, const char *by)
{
    rp_condition *named = condition_new(c, RP_CONDITION_OP);

    if (!named) return RP_ERR_MEMORY;
    named->glob = glob_of(op);
    return rp__policy_add(c->policy, &(rp_rule){ .place = in->save_place, .by = by, .when = named, .fate = RP_KEEP });
}

static rp_status add_saved_ops(rp_selection *c, const rp_mode_input *in)
{
    const char *by = rp__place_text(&c->bump, in->save_place);

    if (!by) return RP_ERR_MEMORY;
    for (int i = 0; i < in->n_save; i++) RP_TRY(add_saved_op(c, in, in->save[i], by));
    return RP_OK;
}

static rp_status add_mode(rp_selection *c, const rp_mode_input *in)
{
    if (in->mode == RP_MODE_FULL || in->mode == RP_MODE_SELECTIVE_OP) RP_TRY(add_blocks(c, in, 1, 0));
    if (in->mode == RP_MODE_SELECTIVE_LAYER) RP_TRY(add_blocks(c, in, in->every, in->offset));
    return in->mode == RP_MODE_SELECTIVE_OP ? add_saved_ops(c, in) : RP_OK;
}

rp_status rp__selection_open(rp_ctx *ctx, const rp_mode_input *in, rp_selection *c)
{
    bool has_rules = in->n_rules || (in->mode == RP_MODE_SELECTIVE_OP && in->n_save);

    *c           = (rp_selection){ .bump = { .ctx = ctx } };
    c->condition = rp__bump_alloc(&c->bump, (in->n_conditions + 1) * (int64_t)sizeof *c->condition);
    if (!c->condition) return RP_ERR_MEMORY;
    for (int i = 0; i < in->n_conditions; i++) c->condition[c->n_conditions++] = in->condition[i];
    if (has_rules) RP_TRY(rp_policy_new(ctx, "recipe", &c->policy));
    for (int i = 0; i < in->n_rules; i++) RP_TRY(rp__policy_add(c->policy, &in->rule[i]));
    return add_mode(c, in);
}

void rp__selection_close(rp_selection *c)
{
    rp_policy_free(c->policy);
    rp__bump_free(&c->bump);
    *c = (rp_selection){ 0 };
}
