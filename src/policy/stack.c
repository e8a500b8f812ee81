/* policy/stack.c -- the tape asks here before it records a call.
 *
 *   log      the calls of this pass, each with a text of what it is and the number of its state
 *   table    the state before a call, and its text -> the state after it, and the verdicts of the call
 *   asked    of how many calls of this pass the policies have been asked, in order, since their reset; NONE: not from the beginning
 *
 * A call that is found in the table costs a hash and a comparison. Its text has what a policy can see, and which policies are active: attributes
 * show in the shapes and the flops alone. Two passes are in the same state after the same calls, never by an accident of the hash. */
#include "policy/stack.h"

#include <stdatomic.h>

#include "base/list.h"

enum { NONE = -1, MOST_KNOWN = 1 << 16, MAX_SLOTS = RP_MAX_OUT + RP_MAX_SLOT };

typedef struct {
    const rp_op *op;                    /* NULL: a call that was recorded unseen */
    uint64_t state;                     /* after it: a number for it and all before it */
    int64_t text, n_text, n_kind;       /* in text[]; op and path alone stand first */
    int first_info, n_infos;            /* its slots in info[]; none without a policy */
    int first_active, n_active;         /* the policies, from outside in, in active[] */
    int call;                           /* rp_slot_info.call, once it was asked about */
} logged_call;

typedef struct {
    uint64_t hash, before, state;       /* of before and text; state 0: free */
    int64_t text, n_text;               /* in known_text[] */
    int first, n;                       /* its verdicts; n NONE: it has not been asked about */
} known_call;

typedef struct { void *at; int n, room; } list;

typedef struct rp_policy_stack {
    rp_ctx *ctx;
    rp_policy *base;
    list pushed;                        /* rp_policy * */
    int n_alive;
    bool armed;
    list log, info, active, text;       /* logged_call, rp_slot_info, rp_policy *, char */
    int asked;
    uint64_t round;                     /* of the asking that `asked` counts */
    known_call *known;                  /* open addressing */
    int n_known, room_known;
    list verdict, known_text;           /* rp_verdict, char: of the known calls */
    uint64_t hash_mask;                 /* what counts of a hash: all but in tests */
} rp_policy_stack;

uint64_t rp__policy_next_id(void)
{
    static _Atomic uint64_t last;

    return atomic_fetch_add(&last, 1) + 1;
}

static rp_status reserve(rp_ctx *ctx, list *l, int more, int64_t size)
{
    return l->n + more <= l->room ? RP_OK : rp__list_grow(ctx, &l->at, size, &l->room, sizeof l->room, l->n + more);
}

/* ---- the log ---- */

static logged_call *call_at(const rp_policy_stack *s, int i) { return (logged_call *)s->log.at + i; }

static void truncate_log(rp_policy_stack *s, int n)
{
    if (n >= s->log.n) return;
    s->info.n   = call_at(s, n)->first_info;
    s->active.n = call_at(s, n)->first_active;
    s->text.n   = (int)call_at(s, n)->text;
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

/* ---- the text of a call ---- */

static void stack_put(rp_policy_stack *s, const void *from, size_t bytes)
{
    memcpy((char *)s->text.at + s->text.n, from, bytes);
    s->text.n += (int)bytes;
}

static void put_metas(rp_policy_stack *s, const rp_meta *m, int n)
{
    for (int i = 0; i < n; i++) {
        int32_t head[] = { (int32_t)m[i].dtype, m[i].ndim };
        stack_put(s, head, sizeof head);
        stack_put(s, m[i].dim, (size_t)m[i].ndim * sizeof m[i].dim[0]);
    }
}

/* At most: numbers, metas and policies beside op and path. */
static int64_t text_room(const rp_op_meta *m, const rp_scope *scope, const logged_call *c)
{
    int64_t metas = (m->n_in + m->n_out + m->n_slot) * (int64_t)sizeof(rp_meta);

    return (int64_t)strlen(m->op->name) + (int64_t)strlen(scope->path) + 2 + metas + (8 + c->n_active) * (int64_t)sizeof(uint64_t);
}

static rp_status write_text(rp_policy_stack *s, const rp_op_meta *m, const rp_scope *scope, int64_t flops, logged_call *c)
{
    int32_t counts[] = { m->n_in, m->n_out, m->n_slot, c->n_active };

    RP_TRY(reserve(s->ctx, &s->text, (int)text_room(m, scope, c), 1));
    stack_put(s, m->op->name, strlen(m->op->name) + 1);
    stack_put(s, scope->path, strlen(scope->path) + 1);
    c->n_kind = s->text.n - c->text;
    stack_put(s, &scope->module, sizeof scope->module);
    stack_put(s, &flops, sizeof flops);
    stack_put(s, counts, sizeof counts);
    put_metas(s, m->in, m->n_in);
    put_metas(s, m->out, m->n_out);
    put_metas(s, m->slot, m->n_slot);
    for (int i = 0; i < c->n_active; i++) stack_put(s, &((rp_policy **)s->active.at)[c->first_active + i]->id, sizeof(uint64_t));
    c->n_text = s->text.n - c->text;
    return RP_OK;
}

static const char *text_of(const rp_policy_stack *s, const logged_call *c) { return (const char *)s->text.at + c->text; }

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

/* ---- the table ---- */

static bool is_known_as(const rp_policy_stack *s, const known_call *k, uint64_t hash, uint64_t before, const char *text, int64_t n)
{
    return k->hash == hash && k->before == before && k->n_text == n && !memcmp((const char *)s->known_text.at + k->text, text, (size_t)n);
}

/* The call, or the free place where it belongs; NULL without a table. */
static known_call *find_known(const rp_policy_stack *s, uint64_t hash, uint64_t before, const char *text, int64_t n)
{
    for (uint64_t i = hash; s->room_known; i++) {
        known_call *k = &s->known[i & (uint64_t)(s->room_known - 1)];
        if (!k->state || is_known_as(s, k, hash, before, text, n)) return k;
    }
    return NULL;
}

static void forget_known(rp_policy_stack *s)
{
    if (s->known) memset(s->known, 0, (size_t)s->room_known * sizeof *s->known);
    s->n_known = s->verdict.n = s->known_text.n = 0;
}

static void put_known(rp_policy_stack *larger, const known_call *k)
{
    *find_known(larger, k->hash, k->before, (const char *)larger->known_text.at + k->text, k->n_text) = *k;
}

static rp_status grow_known(rp_policy_stack *s)
{
    rp_policy_stack larger = *s;

    if (s->n_known >= MOST_KNOWN) forget_known(s);
    if (s->n_known * 2 < s->room_known) return RP_OK;
    larger.room_known = s->room_known ? s->room_known * 2 : 1024;
    larger.known      = rp__host_alloc(s->ctx, larger.room_known * (int64_t)sizeof *s->known);
    if (!larger.known) return RP_ERR_MEMORY;
    for (int i = 0; i < s->room_known; i++)
        if (s->known[i].state) put_known(&larger, &s->known[i]);
    rp__release(s->known);
    s->known      = larger.known;
    s->room_known = larger.room_known;
    return RP_OK;
}

/* The logged call `at` in the table, entered if it is new. NULL: memory. */
static known_call *known_of(rp_policy_stack *s, int at)
{
    const logged_call *c = call_at(s, at);
    uint64_t before      = at ? call_at(s, at - 1)->state : 0;
    uint64_t hash        = rp__hash(text_of(s, c), (size_t)c->n_text, rp__hash(&before, sizeof before, RP_HASH_SEED)) & s->hash_mask;

    if (grow_known(s) != RP_OK || reserve(s->ctx, &s->known_text, (int)c->n_text, 1) != RP_OK) return NULL;
    known_call *k = find_known(s, hash, before, text_of(s, c), c->n_text);
    if (k->state) return k;
    *k = (known_call){ .hash = hash, .before = before, .state = rp__policy_next_id(), .text = s->known_text.n, .n_text = c->n_text, .n = NONE };
    memcpy((char *)s->known_text.at + k->text, text_of(s, c), (size_t)c->n_text);
    s->known_text.n += (int)c->n_text;
    s->n_known++;
    return k;
}

/* ---- entering ---- */

static rp_status enter(rp_policy_stack *s, const logged_call *c)
{
    *call_at(s, s->log.n++) = *c;
    known_call *k = known_of(s, s->log.n - 1);
    if (k) call_at(s, s->log.n - 1)->state = k->state;
    else truncate_log(s, s->log.n - 1);
    return k ? RP_OK : RP_ERR_MEMORY;
}

/* Calls that were recorded while nobody counted. */
static rp_status log_unseen(rp_policy_stack *s, int at)
{
    RP_TRY(reserve(s->ctx, &s->log, at + 1 - s->log.n, sizeof(logged_call)));
    while (s->log.n < at)
        RP_TRY(enter(s, &(logged_call){ .first_info = s->info.n, .first_active = s->active.n, .text = s->text.n }));
    return RP_OK;
}

static rp_status log_call(rp_policy_stack *s, int at, const rp_op_meta *m, const rp_scope *scope)
{
    logged_call c = { .op = m->op };
    int64_t flops = m->op->cost ? m->op->cost(m, RP_FORWARD).flops : 0;

    truncate_log(s, at);
    RP_TRY(log_unseen(s, at));
    c.first_info = s->info.n;
    c.text       = s->text.n;
    RP_TRY(list_active(s, &c));
    if (c.n_active) {
        RP_TRY(reserve(s->ctx, &s->info, MAX_SLOTS, sizeof(rp_slot_info)));
        describe(s, m, scope, flops, (rp_slot_info *)s->info.at + s->info.n);
        c.n_infos = m->n_out + m->n_slot;
    }
    RP_TRY(write_text(s, m, scope, flops, &c));
    s->info.n += c.n_infos;
    s->active.n += c.n_active;
    return enter(s, &c);
}

static rp_status remember(rp_policy_stack *s, known_call *k, const rp_verdict *verdict, int n)
{
    RP_TRY(reserve(s->ctx, &s->verdict, n, sizeof *verdict));
    k->first = s->verdict.n;
    k->n     = n;
    memcpy((rp_verdict *)s->verdict.at + s->verdict.n, verdict, (size_t)n * sizeof *verdict);
    s->verdict.n += n;
    return RP_OK;
}

/* ---- one call ---- */

static int count_call(const rp_policy_stack *s, int at)
{
    const logged_call *c = call_at(s, at), *before;

    for (int i = at - 1; i >= 0; i--) {
        before = call_at(s, i);
        if (before->op == c->op && before->n_kind == c->n_kind && !memcmp(text_of(s, before), text_of(s, c), (size_t)c->n_kind))
            return before->call + 1;
    }
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
static rp_status stack_ask(rp_policy_stack *s, int at, rp_verdict *verdict)
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
    if (!call_at(s, at)->n_active) return RP_OK;
    known_call *known = known_of(s, at);
    if (!known) return RP_ERR_MEMORY;
    if (known->n != NONE) {
        memcpy(verdict, (rp_verdict *)s->verdict.at + known->first, (size_t)known->n * sizeof *verdict);
        return RP_OK;
    }
    RP_TRY(stack_ask(s, at, verdict));
    return remember(s, known, verdict, call_at(s, at)->n_infos);
}

/* ---- the stack ---- */

static rp_policy_stack *stack_in(const rp_ctx *ctx) { return ctx->part[RP_PART_POLICY]; }

static void close_part(rp_ctx *ctx)
{
    rp_policy_stack *s = stack_in(ctx);

    rp__release(s->pushed.at);
    rp__release(s->log.at);
    rp__release(s->info.at);
    rp__release(s->active.at);
    rp__release(s->text.at);
    rp__release(s->known);
    rp__release(s->known_text.at);
    rp__release(s->verdict.at);
}

const rp_ctx_part rp__part_policy = { .bytes = sizeof(rp_policy_stack), .close = close_part };

/* Set up at first use, and the tape with it: setting a policy cannot fail any more. NULL after RP_ERR_MEMORY. */
static rp_policy_stack *stack_of(rp_ctx *ctx)
{
    rp_policy_stack *s = stack_in(ctx);

    if (s->ctx) return s;
    if (rp__tape_open(ctx) != RP_OK) return NULL;
    s->ctx       = ctx;
    s->asked     = NONE;
    s->hash_mask = UINT64_MAX;
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
    stack_in(ctx)->n_alive--;
    arm(stack_in(ctx));
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
    RP_BUG_IF(!stack_in(ctx)->pushed.n);
    stack_in(ctx)->pushed.n--;
    arm(stack_in(ctx));
}

bool rp__policy_has_seen(const rp_ctx *ctx, const char *glob)
{
    const rp_policy_stack *s = stack_in(ctx);

    for (int i = 0; i < s->log.n; i++) {
        const rp_op *op = call_at(s, i)->op;
        if (op && rp__glob(glob, op->name)) return true;
    }
    return false;
}

void rp__policy_hash_mask(rp_ctx *ctx, uint64_t mask) { stack_in(ctx)->hash_mask = mask; }

static rp_status set_base(rp_ctx *ctx, rp_policy *policy)
{
    rp_policy_stack *s = stack_in(ctx);

    if (!policy && !s->ctx) return RP_OK;
    if (!stack_of(ctx)) return RP_ERR_MEMORY;
    s->base = policy;
    arm(s);
    return RP_OK;
}

rp_status rp__policy_share(rp_ctx *ctx, const rp_ctx *of) { return set_base(ctx, stack_in(of)->base); }

rp_status rp_set_policy(rp_ctx *ctx, rp_policy *policy)
{
    RP_GIVEN(ctx, ctx);
    RP_SAME_CTX(ctx, policy ? policy->ctx : NULL, "policy");
    return set_base(ctx, policy);
}
