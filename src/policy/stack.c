/* policy/stack.c -- the tape asks here before it records a call.
 *
 *   log      the calls of this pass, each with a hash of itself and of all before it
 *   table    hash -> the verdicts of that call
 *   asked    of how many calls of this pass the policies have been asked, in order, since their reset; NONE: not from the beginning
 *
 * A call that is found in the table costs its hash. What the hash takes in is what a policy can see, and which policies are active:
 * attributes show in the shapes and the flops alone. */
#include "policy/stack.h"

#include <stdatomic.h>

enum { NONE = -1, MOST_KNOWN = 1 << 16, MAX_SLOTS = RP_MAX_OUT + RP_MAX_SLOT };

typedef struct {
    const rp_op *op;                    /* NULL: a call that was recorded unseen */
    uint64_t hash, kind;                /* with all before it · of op and path alone */
    int first_info, n_infos;            /* its slots in info[]; none without a policy */
    int first_active, n_active;         /* the policies, from outside in, in active[] */
    int call;                           /* rp_slot_info.call, once it was asked about */
} logged_call;

typedef struct { uint64_t hash; int first, n; } known_call;

typedef struct { void *at; int n, room; } list;

typedef struct rp_policy_stack {
    rp_ctx *ctx;
    rp_policy *base;
    list pushed;                        /* rp_policy * */
    int n_alive;
    bool armed;
    list log, info, active;             /* logged_call, rp_slot_info, rp_policy * */
    int asked;
    uint64_t round;                     /* of the asking that `asked` counts */
    known_call *known;                  /* open addressing; hash 0: free */
    int n_known, room_known;
    list verdict;                       /* rp_verdict, of the known calls */
} rp_policy_stack;

uint64_t rp__policy_next_id(void)
{
    static _Atomic uint64_t last;

    return atomic_fetch_add(&last, 1) + 1;
}

static rp_status reserve(rp_ctx *ctx, list *l, int more, int64_t size)
{
    if (l->n + more <= l->room) return RP_OK;
    int room    = (l->n + more) * 2 + 16;
    void *grown = rp__host_grow(ctx, l->at, l->room * size, room * size);
    if (!grown) return RP_ERR_MEMORY;
    l->at   = grown;
    l->room = room;
    return RP_OK;
}

/* ---- the log ---- */

static logged_call *call_at(const rp_policy_stack *s, int i) { return (logged_call *)s->log.at + i; }

static void truncate_log(rp_policy_stack *s, int n)
{
    if (n >= s->log.n) return;
    s->info.n   = call_at(s, n)->first_info;
    s->active.n = call_at(s, n)->first_active;
    s->log.n    = n;
    if (s->asked > n) s->asked = NONE;
}

/* A policy that stands on the stack twice is asked once, where it stands innermost. */
static rp_status list_active(rp_policy_stack *s, logged_call *c)
{
    rp_policy **pushed = s->pushed.at, **to;

    RP_TRY(reserve(s->ctx, &s->active, s->pushed.n + 1, sizeof *to));
    to             = (rp_policy **)s->active.at + s->active.n;
    c->first_active = s->active.n;
    for (int i = -1; i < s->pushed.n; i++) {
        rp_policy *p = i < 0 ? s->base : pushed[i];
        bool again   = !p;
        for (int j = i + 1; j < s->pushed.n; j++) again = again || pushed[j] == p;
        if (!again) to[c->n_active++] = p;
    }
    return RP_OK;
}

static uint64_t hash_call(const rp_policy_stack *s, const rp_op_meta *m, const rp_scope *scope, int64_t flops, const logged_call *c)
{
    uint64_t h = s->log.n ? call_at(s, s->log.n - 1)->hash : RP_HASH_SEED;

    h = rp__hash(&c->kind, sizeof c->kind, h);
    h = rp__hash(&scope->module, sizeof scope->module, h);
    h = rp__hash(&flops, sizeof flops, h);
    for (int i = 0; i < m->n_in; i++) h = rp__meta_hash(&m->in[i], h);
    for (int i = 0; i < m->n_out; i++) h = rp__meta_hash(&m->out[i], h);
    for (int i = 0; i < m->n_slot; i++) h = rp__meta_hash(&m->slot[i], h);
    for (int i = 0; i < c->n_active; i++) {
        const rp_policy *p = ((rp_policy **)s->active.at)[c->first_active + i];
        h = rp__hash(&p->id, sizeof p->id, h);
    }
    return h ? h : 1;
}

static void describe(const rp_policy_stack *s, const rp_op_meta *m, const rp_scope *scope, int64_t flops, rp_slot_info *info)
{
    for (int i = 0; i < m->n_out + m->n_slot; i++) {
        bool by_product     = i >= m->n_out;
        const rp_meta *meta = by_product ? &m->slot[i - m->n_out] : &m->out[i];
        info[i] = (rp_slot_info){
            .path = scope->path, .module = scope->module, .op = m->op->name, .output = by_product ? i - m->n_out : i,
            .by_product = by_product, .meta = *meta, .bytes = rp_meta_bytes(meta), .flops = flops,
            .is_rehearsal = s->ctx->options.shapes_only,
        };
    }
}

/* Calls that were recorded while nobody counted. */
static rp_status log_unseen(rp_policy_stack *s, int at)
{
    RP_TRY(reserve(s->ctx, &s->log, at + 1 - s->log.n, sizeof(logged_call)));
    while (s->log.n < at) {
        uint64_t h = s->log.n ? call_at(s, s->log.n - 1)->hash : RP_HASH_SEED;
        *call_at(s, s->log.n) = (logged_call){ .hash = rp__hash("", 1, h), .first_info = s->info.n, .first_active = s->active.n };
        s->log.n++;
    }
    return RP_OK;
}

static rp_status log_call(rp_policy_stack *s, int at, const rp_op_meta *m, const rp_scope *scope)
{
    logged_call c = { .op = m->op, .first_info = s->info.n, .first_active = s->active.n };
    int64_t flops = m->op->cost ? m->op->cost(m, RP_FORWARD).flops : 0;

    truncate_log(s, at);
    RP_TRY(log_unseen(s, at));
    c.first_info = s->info.n;
    c.kind       = rp__hash(scope->path, strlen(scope->path) + 1, rp__hash(m->op->name, strlen(m->op->name) + 1, RP_HASH_SEED));
    RP_TRY(list_active(s, &c));
    if (c.n_active) {
        RP_TRY(reserve(s->ctx, &s->info, MAX_SLOTS, sizeof(rp_slot_info)));
        describe(s, m, scope, flops, (rp_slot_info *)s->info.at + s->info.n);
        c.n_infos = m->n_out + m->n_slot;
    }
    c.hash = hash_call(s, m, scope, flops, &c);
    s->info.n += c.n_infos;
    s->active.n += c.n_active;
    *call_at(s, s->log.n++) = c;
    return RP_OK;
}

/* ---- the table ---- */

static known_call *find_known(const rp_policy_stack *s, uint64_t hash)
{
    for (uint64_t i = hash; s->room_known; i++) {
        known_call *k = &s->known[i & (uint64_t)(s->room_known - 1)];
        if (!k->hash || k->hash == hash) return k;
    }
    return NULL;
}

static void forget_known(rp_policy_stack *s)
{
    if (s->known) memset(s->known, 0, (size_t)s->room_known * sizeof *s->known);
    s->n_known = s->verdict.n = 0;
}

static rp_status grow_known(rp_policy_stack *s)
{
    rp_policy_stack larger = *s;

    if (s->n_known * 2 < s->room_known) return RP_OK;
    larger.room_known = s->room_known ? s->room_known * 2 : 1024;
    larger.known      = rp__host_alloc(s->ctx, larger.room_known * (int64_t)sizeof *s->known);
    if (!larger.known) return RP_ERR_MEMORY;
    for (int i = 0; i < s->room_known; i++)
        if (s->known[i].hash) *find_known(&larger, s->known[i].hash) = s->known[i];
    rp__release(s->known);
    s->known      = larger.known;
    s->room_known = larger.room_known;
    return RP_OK;
}

static rp_status remember(rp_policy_stack *s, uint64_t hash, const rp_verdict *verdict, int n)
{
    if (s->n_known >= MOST_KNOWN) forget_known(s);
    RP_TRY(grow_known(s));
    RP_TRY(reserve(s->ctx, &s->verdict, n, sizeof *verdict));
    *find_known(s, hash) = (known_call){ hash, s->verdict.n, n };
    memcpy((rp_verdict *)s->verdict.at + s->verdict.n, verdict, (size_t)n * sizeof *verdict);
    s->verdict.n += n;
    s->n_known++;
    return RP_OK;
}

/* ---- one call ---- */

static int count_call(const rp_policy_stack *s, int at)
{
    for (int i = at - 1; i >= 0; i--)
        if (call_at(s, i)->kind == call_at(s, at)->kind && call_at(s, i)->op) return call_at(s, i)->call + 1;
    return 0;
}

/* Ask about the logged call `at`; the policies have been asked about all before it. */
static rp_status ask_call(rp_policy_stack *s, int at, rp_verdict *verdict)
{
    logged_call *c     = call_at(s, at);
    rp_slot_info *info = (rp_slot_info *)s->info.at + c->first_info;
    rp_policy **active = (rp_policy **)s->active.at + c->first_active;

    c->call  = count_call(s, at);
    s->asked = NONE;                    /* until it has gone well */
    for (int i = 0; i < c->n_active; i++) {
        if (active[i]->round != s->round) rp__policy_reset(active[i]);
        active[i]->round = s->round;
    }
    for (int i = 0; i < c->n_infos; i++) {
        info[i].call = c->call;
        RP_TRY(rp__policies_verdict(s->ctx, active, c->n_active, c->op, &info[i], &verdict[i]));
    }
    s->asked = at + 1;
    return RP_OK;
}

/* The calls before are asked about again when this pass came here by known ways; those answers are known. */
static rp_status ask(rp_policy_stack *s, int at, rp_verdict *verdict)
{
    rp_verdict thrown_away[MAX_SLOTS];

    if (s->asked != at || at == 0) {
        s->round = rp__policy_next_id();
        for (int i = 0; i < at; i++) RP_TRY(ask_call(s, i, thrown_away));
    }
    return ask_call(s, at, verdict);
}

static rp_status decide(void *self, int at, const rp_op_meta *m, const rp_scope *scope, rp_verdict *verdict)
{
    rp_policy_stack *s = self;

    RP_TRY(log_call(s, at, m, scope));
    const logged_call *c    = call_at(s, at);
    const known_call *known = find_known(s, c->hash);
    if (!c->n_active) return RP_OK;
    if (known && known->hash) {
        memcpy(verdict, (rp_verdict *)s->verdict.at + known->first, (size_t)known->n * sizeof *verdict);
        return RP_OK;
    }
    RP_TRY(ask(s, at, verdict));
    return remember(s, call_at(s, at)->hash, verdict, call_at(s, at)->n_infos);
}

/* ---- the stack ---- */

static void stack_free(rp_policy_stack *s)
{
    rp__release(s->pushed.at);
    rp__release(s->log.at);
    rp__release(s->info.at);
    rp__release(s->active.at);
    rp__release(s->known);
    rp__release(s->verdict.at);
    rp__release(s);
}

/* The context's, made at first use, and the tape with it: what sets a policy cannot fail any more. */
static rp_policy_stack *stack_of(rp_ctx *ctx)
{
    if (ctx->policies) return ctx->policies;
    rp_policy_stack *s = rp__host_alloc(ctx, sizeof *s);
    if (s) rp__tape_decide_by(ctx, NULL);
    if (!s || !ctx->tape) {
        rp__release(s);
        return NULL;
    }
    s->ctx             = ctx;
    s->asked           = NONE;
    ctx->policies      = s;
    ctx->policies_free = stack_free;
    return s;
}

/* Calls are counted as long as there is a policy that may be asked, so that they have the same numbers in every pass. */
static void arm(rp_policy_stack *s)
{
    const rp_decider me = { decide, s };
    bool wanted         = s->n_alive > 0 || s->base || s->pushed.n;

    if (wanted == s->armed) return;
    s->armed = wanted;
    truncate_log(s, 0);
    rp__tape_decide_by(s->ctx, wanted ? &me : NULL);
}

rp_status rp__policy_born(rp_ctx *ctx)
{
    rp_policy_stack *s = stack_of(ctx);

    if (!s) return RP_ERR_MEMORY;
    s->n_alive++;
    arm(s);
    return RP_OK;
}

void rp__policy_died(rp_ctx *ctx)
{
    ctx->policies->n_alive--;
    arm(ctx->policies);
}

rp_status rp__policy_push(rp_ctx *ctx, rp_policy *policy)
{
    rp_policy_stack *s = stack_of(ctx);

    if (!s) return RP_ERR_MEMORY;
    RP_TRY(reserve(ctx, &s->pushed, 1, sizeof policy));
    ((rp_policy **)s->pushed.at)[s->pushed.n++] = policy;
    arm(s);
    return RP_OK;
}

void rp__policy_pop(rp_ctx *ctx)
{
    RP_BUG_IF(!ctx->policies || !ctx->policies->pushed.n);
    ctx->policies->pushed.n--;
    arm(ctx->policies);
}

bool rp__policy_has_seen(const rp_ctx *ctx, const char *glob)
{
    for (int i = 0; ctx->policies && i < ctx->policies->log.n; i++) {
        const rp_op *op = call_at(ctx->policies, i)->op;
        if (op && rp__glob(glob, op->name)) return true;
    }
    return false;
}

rp_status rp__policy_share(rp_ctx *ctx, const rp_ctx *of)
{
    rp_policy *policy = of->policies ? of->policies->base : NULL;

    if (policy && !stack_of(ctx)) return RP_ERR_MEMORY;
    rp_set_policy(ctx, policy);
    return RP_OK;
}

void rp_set_policy(rp_ctx *ctx, rp_policy *policy)
{
    rp_policy_stack *s = policy ? stack_of(ctx) : ctx->policies;

    if (!s) return;                     /* a policy of this context brought its stack along */
    s->base = policy;
    arm(s);
}
