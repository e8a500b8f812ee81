/* cli/bench/step.c -- times training steps, and their matrix products alone.
 *
 *   step       forward ─ backward ─ update, AdamW with states in the dtype of the parameters, random weights, pseudo-random tokens
 *   products   the matmuls and attentions that the step called, replays included, alone and on the same shapes; the output head with its
 *              loss counts as the matmul of its shape
 */
#include "cli/bench/internal.h"

#include <string.h>

#include "base/report.h"
#include "models/config.h"
#include "models/model.h"
#include "models/weights.h"
#include "ops/call.h"
#include "optim/optim.h"
#include "policy/modes.h"
#include "reprise/ops.h"
#include "tape/decide.h"
#include "tape/tape.h"
#include "tensor/tensor.h"

#define USUAL true
#define ASKED false
#define RP_BENCH_CALL(...)
#define RP_BENCH_UPDATE(...)
#define RP_BENCH_STEP(model, rows, length, mode, when) { #model, #mode, when, rows, length },

const bench_step rp__bench_steps[] = {
#include "cli/bench/benches.def"
};
const int rp__bench_n_steps = RP_COUNT(rp__bench_steps);

enum { MOST_PRODUCTS = 64, LEAST_STEPS = 3 };

/* ---- the models ---- */

#define GPT2(dropout) \
    "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12," \
    " \"n_positions\": 1024, \"vocab_size\": 50257, \"embd_pdrop\": " dropout ", \"attn_pdrop\": " dropout ", \"resid_pdrop\": " dropout "}"
#define LLAMA(hidden, mlp, layers, heads, kv_heads, vocab, tied) \
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": " #hidden ", \"intermediate_size\": " #mlp \
    ", \"num_hidden_layers\": " #layers ", \"num_attention_heads\": " #heads ", \"num_key_value_heads\": " #kv_heads ", \"vocab_size\": " #vocab \
    ", \"max_position_embeddings\": 8192, \"tie_word_embeddings\": " #tied "}"

static const struct { const char *name, *config; } models[] = {
    { "smollm2-135m", LLAMA(576, 1536, 30, 9, 3, 49152, true) },
    { "llama-s", LLAMA(512, 1408, 8, 8, 4, 32000, false) },
    { "gpt2-124m", GPT2("0.0") },
    { "gpt2-124m-dropout", GPT2("0.1") },
    { "tiny", LLAMA(64, 192, 4, 4, 2, 256, true) },
};

static const char *config_of(const char *name)
{
    int i = 0;

    while (strcmp(models[i].name, name)) RP_BUG_IF(++i == RP_COUNT(models));
    return models[i].config;
}

/* ---- a step ---- */

typedef struct {                        /* a product of the step, and how often it runs */
    const rp_op *op;
    rp_op_case call;
    _Alignas(16) unsigned char attr[RP_MAX_ATTR];
    uint32_t frozen;
    int64_t n_forward, n_backward;
    rp_cost_timed *timed;
} product;

typedef struct {
    rp_ctx *ctx;
    const bench_step *bench;
    rp_dtype dtype;
    rp_model *model;
    rp_optim *optim;
    rp_selection chosen;
    rp_model_batch batch;
    int64_t step;
    uint64_t random;
    product product[MOST_PRODUCTS];
    int n_products;
    bool missed;                        /* more than MOST_PRODUCTS */
} stepping;

static rp_status open_model(stepping *s)
{
    rp_model_config config = { 0 };
    rp_report report;
    json_t *json = json_loads(config_of(s->bench->model), 0, NULL);

    if (!json) return rp_fail(s->ctx, RP_ERR_MEMORY, "out of memory for the config of '%s'", s->bench->model);
    rp__report_open(&report, s->ctx);
    rp_status status = rp__model_config_parse(s->ctx, s->bench->model, json, NULL, &report, &config);
    rp__report_close(&report);
    json_decref(json);
    RP_TRY(status);
    status = rp__model_build(s->ctx, &config, s->dtype, &s->model);
    rp__model_config_drop(&config);
    RP_TRY(status);
    rp__model_init(s->model, 1234);
    return RP_OK;
}

static rp_status open_optim(stepping *s)
{
    rp_optim_config config = { .name = "adamw", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .state_dtype = s->dtype };
    int n                  = rp__model_n_params(s->model);
    rp_optim_param *params = rp__host_alloc(s->ctx, n * (int64_t)sizeof *params);

    if (!params) return RP_ERR_MEMORY;
    for (int i = 0; i < n; i++) params[i] = (rp_optim_param){ .path = rp__model_param(s->model, i)->path, .tensor = rp__model_param(s->model, i)->tensor };
    rp_status status = rp__optim_new(s->ctx, &config, params, n, &s->optim);
    rp__release(params);
    return status;
}

static rp_status step_choose(stepping *s)
{
    bool full        = !strcmp(s->bench->mode, "full");
    rp_mode_input in = { .mode = full ? RP_MODE_FULL : RP_MODE_NONE, .layers = "layers", .every = 1 };
    rp_module *root  = rp__model_root(s->model);

    RP_TRY(rp__selection_open(s->ctx, &in, &s->chosen));
    for (int i = 0; i < s->chosen.n_conditions; i++) rp_module_checkpoint(root, rp_condition_holds, s->chosen.condition[i]);
    return RP_OK;
}

static rp_status open_ids(stepping *s, rp_tensor **tokens, rp_tensor **labels)
{
    rp_meta meta = rp_meta_2d(RP_I32, s->bench->rows, s->bench->length);

    RP_TRY(rp__tensor_new_named(s->ctx, &meta, RP_MEM_TEMP, "tokens", tokens));
    return rp__tensor_new_named(s->ctx, &meta, RP_MEM_TEMP, "labels", labels);
}

static rp_status step_open(stepping *s)
{
    RP_TRY(open_model(s));
    RP_TRY(rp__model_reserve_length(s->model, s->bench->length));
    RP_TRY(open_optim(s));
    RP_TRY(step_choose(s));
    return open_ids(s, &s->batch.tokens, &s->batch.labels);
}

static void step_close(stepping *s)
{
    rp__tape_reset(s->ctx);
    for (int i = 0; i < s->n_products; i++) rp__cost_timed_free(s->product[i].timed);
    for (int i = 0; s->model && i < rp__model_n_params(s->model); i++) rp_tensor_drop_grad(rp__model_param(s->model, i)->tensor);
    rp_tensor_unref(s->batch.tokens);
    rp_tensor_unref(s->batch.labels);
    rp__selection_close(&s->chosen);
    rp__optim_free(s->optim);
    rp__model_free(s->model);
}

static void draw_ids(stepping *s, int32_t *tokens, int32_t *labels)
{
    int64_t vocab = rp__model_config(s->model)->vocab, n = s->bench->rows * s->bench->length;

    for (int64_t i = 0; i < n; i++) {
        s->random = s->random * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (int32_t)((s->random >> 33) % (uint64_t)vocab);
    }
    for (int64_t i = 0; i < n; i++) labels[i] = i % s->bench->length == s->bench->length - 1 ? -100 : tokens[i + 1];
}

static rp_status draw_batch(stepping *s)
{
    rp_host tokens, labels;

    RP_TRY(rp__tensor_host_all(s->batch.tokens, RP_HOST_CHANGE, &tokens));
    rp_status status = rp__tensor_host_all(s->batch.labels, RP_HOST_CHANGE, &labels);
    if (status == RP_OK) draw_ids(s, tokens.data, labels.data);
    rp__tensor_host_end(&labels);
    rp__tensor_host_end(&tokens);
    return status;
}

static void update(stepping *s)
{
    rp_optim_step step = { .step = s->step, .lr = 3e-4, .grad_scale = 1, .measure = true };

    for (int i = 0; i < rp__model_n_params(s->model); i++) {
        rp_tensor *t = rp__model_param(s->model, i)->tensor;
        if (t->grad) rp__optim_update(s->optim, i, t->grad, &step);
        rp_tensor_drop_grad(t);
    }
}

static rp_status run_step(void *self)
{
    stepping *s  = self;
    float weight = 1.0f / (float)(s->bench->rows * (s->bench->length - 1));
    rp_tensor *loss;

    RP_TRY(draw_batch(s));
    rp__pass_begin(s->ctx, ++s->step, 0);
    RP_TRY(rp__model_loss(s->model, &s->batch, &(rp_attr_cross_entropy){ .weight = weight, .ignore_index = -100 }, &loss));
    rp_status status = rp__backward(s->ctx, loss);
    rp_tensor_unref(loss);
    if (status == RP_OK) update(s);
    return status;
}

/* ---- its products ---- */

static void put_dims(const rp_meta *m, int64_t *dim) { memcpy(dim, m->dim, (size_t)m->ndim * sizeof *dim); }

/* The head counts as a linear layer. */
static void describe_head(const rp_op_meta *m, product *p)
{
    p->op = rp__op_find("matmul");
    memcpy(p->attr, &(rp_attr_matmul){ true }, sizeof(rp_attr_matmul));
    put_dims(&m->in[0], p->call.in[0]);
    put_dims(&m->in[1], p->call.in[1]);
}

static void describe(const rp_op_meta *m, product *p)
{
    p->op = m->op;
    memcpy(p->attr, m->attr, m->op->attr_size);
    for (int i = 0; i < m->n_in; i++) {
        put_dims(&m->in[i], p->call.in[i]);
        if (m->in[i].dtype == RP_I32) p->call.int_inputs |= RP_IN(i);      /* int_low and int_high are 0: documents begin at 0 */
    }
}

static bool same(const product *a, const product *b)
{
    return a->op == b->op && a->frozen == b->frozen && a->call.int_inputs == b->call.int_inputs &&
           !memcmp(a->call.in, b->call.in, sizeof a->call.in) && !memcmp(a->attr, b->attr, sizeof a->attr);
}

/* NULL: the op is no product, or too many products. */
static product *find_product(stepping *s, const rp_op_meta *m)
{
    bool head = !strcmp(m->op->name, "linear_cross_entropy");
    product p = { 0 };
    int i     = 0;

    if (!head && strcmp(m->op->name, "matmul") && strcmp(m->op->name, "attention")) return NULL;
    if (head) describe_head(m, &p);
    else describe(m, &p);
    for (int in = 0; in < (head ? 2 : m->n_in); in++) p.frozen |= m->in_grad[in] ? 0 : RP_IN(in);
    while (i < s->n_products && !same(&s->product[i], &p)) i++;
    if (i == MOST_PRODUCTS) {
        s->missed = true;
        return NULL;
    }
    if (i == s->n_products) s->product[s->n_products++] = p;
    return &s->product[i];
}

static rp_status count_call(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict)
{
    product *p = find_product(self, meta);

    (void)at, (void)scope, (void)verdict;
    if (p) p->n_forward++;
    if (p && meta->want_grad) p->n_backward++;
    return RP_OK;
}

static void count_replay(void *self, int at, const char *path, const char *op)
{
    stepping *s = self;
    product *p  = find_product(s, rp__tape_call_at(s->ctx, at).meta);

    (void)path, (void)op;
    if (p) p->n_forward++;
}

/* Run a first step that counts its products, then prepare each product for timing. */
static rp_status find_products(stepping *s)
{
    static const int64_t spread_bytes = INT64_C(1) << 25;
    rp_tape_ctx *tape = rp__tape_ctx(s->ctx);

    tape->decider    = (rp_decider){ count_call, s };
    tape->on_replay  = (rp_call_hook){ count_replay, s };
    rp_status status = run_step(s);
    tape->decider    = (rp_decider){ 0 };
    tape->on_replay  = (rp_call_hook){ 0 };
    RP_BUG_IF(s->missed);
    for (int i = 0; i < s->n_products && status == RP_OK; i++) {
        product *p   = &s->product[i];
        p->call.attr = p->attr;
        status       = rp__cost_timed_new(s->ctx, p->op, &p->call, s->dtype, p->frozen, spread_bytes, &p->timed);
    }
    return status;
}

static rp_status time_product(const product *p, double *sum)
{
    int64_t n[] = { p->n_forward, p->n_backward };

    for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++) {
        if (!n[pass]) continue;
        int runs     = n[pass] < 3 ? 1 : 3;
        double start = rp__seconds();
        for (int i = 0; i < runs; i++) RP_TRY(rp__cost_timed_run(p->timed, pass));
        *sum += (rp__seconds() - start) / runs * (double)n[pass];
    }
    return RP_OK;
}

static rp_status time_products(const stepping *s, double *seconds)
{
    *seconds = 0;
    for (int i = 0; i < s->n_products; i++) RP_TRY(time_product(&s->product[i], seconds));
    return RP_OK;
}

/* ---- rounds ---- */

static rp_status measure(bench_machine *m, stepping *s, rp_bench_row *row)
{
    bench_rounds r = { 0 };
    rp_tape_stats work;
    double alone;

    rp__tape_stats(s->ctx, &work);          /* restarts the counts */
    RP_TRY(find_products(s));
    RP_TRY(time_products(s, &alone));       /* warm-up */
    rp__tape_stats(s->ctx, &work);
    bench_work bench = { .run = run_step, .self = s, .flops = work.step_flops, .dtype = s->dtype };
    while (rp__bench_more(m, &r, LEAST_STEPS)) {
        RP_TRY(rp__bench_round(m, &bench, 1, &r));
        RP_TRY(time_products(s, &alone));
        r.products[r.n - 1] = alone / r.seconds[r.n - 1];
    }
    rp__bench_fill(&r, &bench, row);
    row->products = rp__bench_spread(r.products, r.n);
    return RP_OK;
}

rp_status rp__bench_step(bench_machine *m, const bench_item *item, rp_bench_row *row)
{
    stepping *s = rp__host_alloc(m->ctx, (int64_t)sizeof *s);

    if (!s) return RP_ERR_MEMORY;
    *s               = (stepping){ .ctx = m->ctx, .bench = item->step, .dtype = item->dtype, .random = 1234 };
    rp_status status = step_open(s);
    if (status == RP_OK) status = measure(m, s, row);
    if (status == RP_OK) row->tokens = s->bench->rows * s->bench->length;
    step_close(s);
    rp__release(s);
    return status;
}
