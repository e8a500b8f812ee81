/* policy/stack.c -- keeps the active policies, and asks them before the tape records a call.
 *
 * A known call costs a hash and a comparison (policy/known.h). For an unknown call the policies are asked. Since a policy may have state,
 * they are first asked about all earlier calls of the pass, in order, after a reset.
 */
#include "policy/stack.h"

#include "base/list.h"
#include "policy/pass.h"

enum { NONE = -1 };

typedef struct rp_policy_stack {
    rp_ctx *ctx;                        /* NULL: not set up yet */
    rp_policy *base;                    /* the policy of rp_set_policy; NULL: none */
    rp_policy **pushed, **active;       /* active: scratch with room for all of them, filled for the current call */
    int n_pushed, room_pushed, room_active;
    int n_alive;                        /* policies of the context that exist */
    bool armed;                         /* the tape asks this stack */
    rp_policy_pass pass;
    int asked;                          /* calls of this pass that were asked about since the reset; NONE: not from the first call on */
    uint64_t round;                     /* number of the round that `asked` counts */
} rp_policy_stack;

/* ---- one call ---- */

/* Lists policies outermost first. A policy that is on the stack twice is asked once, at its innermost place. Returns the number. */
static int list_active(rp_policy_stack *s)
{
    int n = 0;

    for (int i = -1; i < s->n_pushed; i++) {
        rp_policy *p = i < 0 ? s->base : s->pushed[i];
        bool skip    = !p;
        for (int j = i + 1; j < s->n_pushed; j++) skip = skip || s->pushed[j] == p;
        if (!skip) s->active[n++] = p;
    }
    return n;
}

/* Policies must have been asked about all earlier calls. */
static rp_status ask_call(rp_policy_stack *s, int at, rp_verdict *verdict)
{
    rp_policy_seen *c  = &s->pass.call[at];
    rp_slot_info *info = s->pass.info + c->first_info;
    rp_policy **active = s->pass.active + c->first_active;

    c->nth   = rp__policy_pass_nth(&s->pass, at);
    s->asked = NONE;                    /* until asking has succeeded */
    for (int i = 0; i < c->n_active; i++) {
        if (active[i]->round != s->round) rp__policy_reset(active[i]);
        active[i]->round = s->round;
    }
    for (int i = 0; i < c->n_infos; i++) {
        info[i].call = c->nth;
        RP_TRY(rp__policies_verdict(s->ctx, active, c->n_active, c->op, &info[i], &verdict[i]));
    }
    s->asked = at + 1;
    return RP_OK;
}

/* If earlier calls of this pass were only looked up, ask policies about them first. These answers are known already. */
static rp_status ask(rp_policy_stack *s, int at, rp_verdict *verdict)
{
    rp_verdict ignored[RP_MAX_OUT + RP_MAX_SLOT];

    if (s->asked != at || at == 0) {
        s->round = rp__policy_next_id();
        for (int i = 0; i < at; i++) RP_TRY(ask_call(s, i, ignored));
    }
    return ask_call(s, at, verdict);
}

static rp_status decide(void *self, int at, const rp_op_meta *m, const rp_scope *scope, rp_verdict *verdict)
{
    rp_policy_stack *s = self;

    if (s->asked > at) s->asked = NONE;
    RP_TRY(RP_GROW(s->ctx, s->active, s->room_active, s->n_pushed + 1));
    int n = list_active(s);
    RP_TRY(rp__policy_pass_add(&s->pass, at, m, scope, s->active, n));
    if (!n) return RP_OK;
    rp_policy_known_call *known = rp__policy_pass_known(&s->pass, at);
    if (!known) return RP_ERR_MEMORY;
    if (known->n == RP_POLICY_NOT_ASKED) {
        RP_TRY(ask(s, at, verdict));
        return rp__policy_remember(s->ctx, &s->pass.known, known, verdict, s->pass.call[at].n_infos);
    }
    memcpy(verdict, s->pass.known.verdict + known->first, (size_t)known->n * sizeof *verdict);
    return RP_OK;
}

/* ---- the stack ---- */

static rp_policy_stack *stack_in(const rp_ctx *ctx) { return ctx->part[RP_PART_POLICY]; }

static void open_part(rp_ctx *ctx)
{
    rp_policy_stack *s = stack_in(ctx);

    s->ctx   = s->pass.ctx = ctx;
    s->asked = NONE;
    s->pass.known.hash_mask = UINT64_MAX;
}

static void close_part(rp_ctx *ctx)
{
    rp_policy_stack *s = stack_in(ctx);

    RP_RELEASE(s->pushed, s->active);
    rp__policy_pass_close(&s->pass);
}

const rp_ctx_part rp__part_policy = { .bytes = sizeof(rp_policy_stack), .open = open_part, .close = close_part };

/* Calls are counted as long as a policy may be asked, so that they have the same numbers in every pass. */
static void arm(rp_policy_stack *s)
{
    bool wanted = s->n_alive > 0 || s->base || s->n_pushed;

    if (wanted == s->armed) return;
    s->armed = wanted;
    rp__policy_pass_cut(&s->pass, 0);
    s->asked = NONE;
    rp__tape_ctx(s->ctx)->decider = wanted ? (rp_decider){ decide, s } : (rp_decider){ 0 };
}

void rp__policy_count(rp_ctx *ctx, int more)
{
    stack_in(ctx)->n_alive += more;
    arm(stack_in(ctx));
}

rp_status rp__policy_push(rp_ctx *ctx, rp_policy *policy)
{
    rp_policy_stack *s = stack_in(ctx);

    RP_TRY(RP_GROW(ctx, s->pushed, s->room_pushed, s->n_pushed + 1));
    s->pushed[s->n_pushed++] = policy;
    arm(s);
    return RP_OK;
}

void rp__policy_pop(rp_ctx *ctx)
{
    RP_BUG_IF(!stack_in(ctx)->n_pushed);
    stack_in(ctx)->n_pushed--;
    arm(stack_in(ctx));
}

bool rp__policy_has_seen(const rp_ctx *ctx, const char *glob)
{
    const rp_policy_stack *s = stack_in(ctx);

    for (int i = 0; i < s->pass.n_call; i++)
        if (s->pass.call[i].op && rp__glob(glob, s->pass.call[i].op->name)) return true;
    return false;
}

void rp__policy_hash_mask(rp_ctx *ctx, uint64_t mask) { stack_in(ctx)->pass.known.hash_mask = mask; }

static void set_base(rp_ctx *ctx, rp_policy *policy)
{
    stack_in(ctx)->base = policy;
    arm(stack_in(ctx));
}

void rp__policy_share(rp_ctx *ctx, const rp_ctx *of) { set_base(ctx, stack_in(of)->base); }

rp_status rp_set_policy(rp_ctx *ctx, rp_policy *policy)
{
    RP_GIVEN(ctx, ctx);
    RP_SAME_CTX(ctx, policy ? policy->ctx : NULL, "policy");
    set_base(ctx, policy);
    return RP_OK;
}
