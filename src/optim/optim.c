/* optim/optim.c -- the parts that all optimizers share: the table, the states, the norm. */
#include "optim/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/watch.h"
#include "policy/names.h"

#define RP_OPTIM(name) extern const rp_optim_kind rp__optim_##name;
#include "optim/optim.def"
#undef RP_OPTIM

static const rp_optim_kind *const kinds[] = {
#define RP_OPTIM(name) &rp__optim_##name,
#include "optim/optim.def"
#undef RP_OPTIM
};

static const rp_optim_kind *find_kind(const char *name)
{
    for (int i = 0; i < RP_COUNT(kinds); i++)
        if (!strcmp(kinds[i]->name, name)) return kinds[i];
    return NULL;
}

static rp_status check_config(rp_ctx *ctx, const rp_optim_config *c)
{
    static const char *const names[] = {
#define RP_OPTIM(name) #name,
#include "optim/optim.def"
#undef RP_OPTIM
        NULL,
    };
    const char *near = rp__nearest(c->name, names);

    RP_CHECK(ctx, find_kind(c->name), RP_ERR_CONFIG, "unknown optimizer '%s'%s%s%s", c->name, near ? "; did you mean '" : "",
             near ? near : "", near ? "'?" : "");
    RP_CHECK(ctx, c->beta1 >= 0 && c->beta1 < 1, RP_ERR_CONFIG, "optimizer.betas: %g is not in [0, 1)", c->beta1);
    RP_CHECK(ctx, c->beta2 >= 0 && c->beta2 < 1, RP_ERR_CONFIG, "optimizer.betas: %g is not in [0, 1)", c->beta2);
    RP_CHECK(ctx, c->eps >= 0, RP_ERR_CONFIG, "optimizer.eps: %g is negative", c->eps);
    RP_CHECK(ctx, c->momentum >= 0, RP_ERR_CONFIG, "optimizer.momentum: %g is negative", c->momentum);
    RP_CHECK(ctx, c->weight_decay >= 0, RP_ERR_CONFIG, "optimizer.weight_decay: %g is negative", c->weight_decay);
    RP_CHECK(ctx, c->state_dtype == RP_F32 || c->state_dtype == RP_BF16 || c->state_dtype == RP_U8, RP_ERR_DTYPE,
             "optimizer.state_dtype: %s, expected fp32, bf16 or uint8", rp_dtype_name(c->state_dtype));
    return RP_OK;
}

static rp_status choose_decay(rp_optim *o, const rp_optim_config *c)
{
    for (int i = 0; i < o->n_params; i++) o->slots[i].decays = true;
    for (int g = 0; g < c->n_no_decay; g++) {
        bool matched = false;
        for (int i = 0; i < o->n_params; i++) {
            if (!rp__module_called(c->model, o->slots[i].param.path, c->no_decay[g], RP_CALLED_WITHIN)) continue;
            o->slots[i].decays = false;
            matched            = true;
        }
        RP_CHECK(o->ctx, matched, RP_ERR_MATCH, "optimizer.no_decay: '%s' matches no parameter", c->no_decay[g]);
    }
    return RP_OK;
}

static rp_status make_named(rp_optim *o, int i, rp_dtype dtype, int part, const char *state)
{
    char name[768];

    snprintf(name, sizeof name, "%s.%s", o->slots[i].param.path, state);
    char *kept = rp__host_text(o->ctx, name);
    if (!kept) return RP_ERR_MEMORY;
    o->names[o->n_named++] = (rp_optim_named){ .name = kept, .dtype = dtype, .param = i, .part = part };
    return RP_OK;
}

static rp_meta part_meta(int part, rp_dtype dtype, const rp_meta *param)
{
    rp_meta meta = *param;

    if (rp__optim_each(part) > 1) return rp_meta_1d(dtype, rp__optim_part_elems(part, rp_meta_elems(param)));
    meta.dtype = dtype;
    return meta;
}

static rp_status make_tensor(rp_optim *o, int i, rp_dtype dtype, int part, const char *state)
{
    rp_meta meta = part_meta(part, dtype, &o->slots[i].param.tensor->m);
    rp_tensor *t;

    RP_TRY(make_named(o, i, dtype, part, state));
    if (o->config.offload) return RP_OK;
    rp_optim_named *named = &o->names[o->n_named - 1];
    RP_TRY(rp__tensor_new_named(o->ctx, &meta, RP_MEM_OPTIM, named->name, &t));
    t->name                = named->name;
    named->tensor          = t;
    o->slots[i].part[part] = t;
    rp__tensor_zero(t);
    return RP_OK;
}

/* A state, and absmax of its blocks if it is in 8 bits. */
static rp_status make_state(rp_optim *o, int i, int k)
{
    char absmax[64];

    RP_TRY(make_tensor(o, i, o->config.state_dtype, k, o->kind->state_name[k]));
    if (o->config.state_dtype != RP_U8) return RP_OK;
    snprintf(absmax, sizeof absmax, "%s_absmax", o->kind->state_name[k]);
    return make_tensor(o, i, RP_F32, RP_OPTIM_ABSMAX + k, absmax);
}

static rp_status make_states(rp_optim *o, int i)
{
    const rp_optim_slot *s = &o->slots[i];

    if (s->param.frozen) return RP_OK;
    RP_CHECK(o->ctx, rp_meta_is_float(&s->param.tensor->m), RP_ERR_DTYPE,
             "the parameter '%s' is %s: only floating-point ones are optimized", s->param.path,
             rp_meta_str(&s->param.tensor->m));
    RP_CHECK(o->ctx, o->config.state_dtype != RP_U8 || s->param.slice.first % RP_OPTIM_BLOCK == 0 || !s->param.slice.count, RP_ERR_ARG,
             "the slice of '%s' begins at element %" PRId64 ", within a block of %d: states in 8 bits need whole blocks", s->param.path,
             s->param.slice.first, RP_OPTIM_BLOCK);
    for (int k = 0; k < RP_OPTIM_MAX_STATES && o->kind->state_name[k]; k++)
        if (o->kind->wants_state(&o->config, k)) RP_TRY(make_state(o, i, k));
    if (o->config.master_weights && s->param.tensor->m.dtype == RP_BF16) RP_TRY(make_tensor(o, i, RP_F32, RP_OPTIM_MASTER, "master"));
    return RP_OK;
}

/* Without states (SGD without momentum) no store is opened. */
static rp_status open_state_store(rp_optim *o)
{
    if (!o->config.offload || !o->n_named) return RP_OK;
    rp_state_store_group *groups = rp__host_alloc(o->ctx, o->n_params * (int64_t)sizeof *groups);
    if (!groups) return RP_ERR_MEMORY;
    for (int i = 0; i < o->n_params; i++) {
        groups[i].n    = o->slots[i].param.slice.count;
        groups[i].room = o->slots[i].param.slice.room;
    }
    for (int i = 0; i < o->n_named; i++) {
        rp_state_store_group *g = &groups[o->names[i].param];
        g->elem_bytes[o->names[i].part] = (int)rp_dtype_bytes(o->names[i].dtype);
        g->each[o->names[i].part]       = (int)rp__optim_each(o->names[i].part);
    }
    rp_status status = rp__state_store_open(o->ctx, o->config.offload, groups, o->n_params, &o->store);
    rp__release(groups);
    return status;
}

static uint64_t key_of(uint64_t seed, const char *path)
{
    return rp__hash(path, strlen(path), rp__hash("optimizer", 9, rp__hash(&seed, sizeof seed, RP_HASH_START)));
}

/* Sums of squares stay on a device that has kernels for a step's results. */
static rp_status keep_sums(rp_optim *o)
{
    const rp_kernels *k = rp__kernels(o->ctx);

    if (!k->step_sums || !o->ctx->on.queue) return RP_OK;
    k->step_sums(o->n_params, &o->sums, &o->ctx->on);
    if (!o->sums) return RP_OK;
    o->read = rp__host_alloc(o->ctx, o->n_params * (int64_t)sizeof *o->read);
    if (!o->read) return RP_ERR_MEMORY;
    rp__mem_fill(o->ctx, o->sums, 0, o->n_params * (int64_t)sizeof *o->sums);
    return RP_OK;
}

static rp_status optim_fill(rp_optim *o, const rp_optim_config *config, const rp_optim_param *params, int n_params)
{
    o->slots = rp__host_alloc(o->ctx, n_params * (int64_t)sizeof *o->slots);
    o->names =
        o->slots ? rp__host_alloc(o->ctx, n_params * (int64_t)RP_OPTIM_PARTS * (int64_t)sizeof *o->names) : NULL;
    if (!o->names) return RP_ERR_MEMORY;
    o->n_params = n_params;
    for (int i = 0; i < n_params; i++) {
        o->slots[i].param = params[i];
        o->slots[i].key   = key_of(o->ctx->seed, params[i].path);
        if (!params[i].slice.room) o->slots[i].param.slice.count = rp_meta_elems(&params[i].tensor->m);
    }
    RP_TRY(choose_decay(o, config));
    for (int i = 0; i < n_params; i++) RP_TRY(make_states(o, i));
    RP_TRY(open_state_store(o));
    RP_TRY(keep_sums(o));
    rp__optim_refresh_masters(o);
    return RP_OK;
}

rp_status rp__optim_new(rp_ctx *ctx, const rp_optim_config *config, const rp_optim_param *params, int n_params,
                        rp_optim **out)
{
    RP_TRY(check_config(ctx, config));
    rp_optim *o = rp__host_alloc(ctx, sizeof *o);
    if (!o) return RP_ERR_MEMORY;
    *o = (rp_optim){ .ctx = ctx, .kind = find_kind(config->name), .config = *config };
    o->config.no_decay = NULL;
    rp_status status   = optim_fill(o, config, params, n_params);
    o->config.offload     = NULL;
    if (status != RP_OK) rp__optim_free(o);
    else *out = o;
    return status;
}

void rp__optim_free(rp_optim *o)
{
    if (!o) return;
    rp__state_store_close(o->store);
    for (int i = 0; i < o->n_params; i++)
        for (int k = 0; k < RP_OPTIM_PARTS; k++) rp_tensor_unref(o->slots[i].part[k]);
    for (int i = 0; o->names && i < o->n_params * RP_OPTIM_PARTS; i++) rp__release(o->names[i].name);
    RP_RELEASE(o->names, o->slots, o->read, o);
}

void rp__optim_refresh_masters(rp_optim *o)
{
    if (o->store) rp__state_store_forget(o->store, RP_OPTIM_MASTER);
    for (int i = 0; i < o->n_params; i++) {
        rp_tensor *master = o->slots[i].part[RP_OPTIM_MASTER];
        if (!master) continue;
        rp__tensor_copy(master, o->slots[i].param.tensor);
        rp__tensor_wrote(master, "the optimizer");
    }
}

static double squares_in_order(const rp_tensor *grad, int64_t n)
{
    double sum = 0;

    for (int64_t e = 0; e < n; e++) sum += rp_elem_get(grad, e) * rp_elem_get(grad, e);
    return sum;
}

double *rp__optim_sum(rp_optim *o, int i, bool launches) { return o->sums && launches ? o->sums + i : &o->slots[i].sum_squares; }

void rp__optim_sum_settle(rp_optim *o, int i, bool launches)
{
    if (o->sums && !launches) rp__mem_put(o->ctx, o->sums + i, &o->slots[i].sum_squares, sizeof *o->sums);
}

void rp__optim_begin(rp_optim *o)
{
    for (int i = 0; i < o->n_params; i++) o->slots[i].sum_squares = 0;
    if (o->sums) rp__mem_fill(o->ctx, o->sums, 0, o->n_params * (int64_t)sizeof *o->sums);
}

bool rp__optim_queues(const rp_optim *o) { return o->sums && !o->store; }
void rp__optim_queue_norm(const rp_optim *o, double max_norm) { rp__kernels(o->ctx)->step_norm(o->sums, o->n_params, max_norm, &o->ctx->on); }

void rp__optim_measure(rp_optim *o, int i, const rp_tensor *grad)
{
    bool launches       = rp__optim_launches(o, o->slots[i].param.tensor, grad);
    const rp_kernels *k = rp__optim_kernels(o, o->slots[i].param.tensor, grad, launches);
    rp_slice slice      = o->slots[i].param.slice;
    double *sum         = rp__optim_sum(o, i, launches);
    double began        = rp__watch_begin(o->ctx);
    unsigned mode       = rp__fp_enter();

    if (!launches) rp__mem_enter(o->ctx);
    if (!grad->storage->data) o->slots[i].sum_squares = 0;
    else if (k->sum_squares)
        k->sum_squares(grad->m.dtype, rp__tensor_data(grad), slice.first, slice.count, sum, &o->ctx->on);
    else *sum = squares_in_order(grad, slice.count);
    if (!launches) rp__mem_leave(o->ctx);
    if (grad->storage->data) rp__optim_sum_settle(o, i, launches);
    rp__fp_leave(mode);
    rp__watch_end(o->ctx, (rp_span){ .doing = RP_DOING_UPDATE, .name = "norm", .path = o->slots[i].param.path,
                                     .bytes = rp_meta_bytes(&grad->m), .began = began });
}

double rp__optim_squares(const rp_optim *o)
{
    double sum = 0;

    if (o->sums) rp__mem_copy(o->ctx, o->read, o->sums, o->n_params * (int64_t)sizeof *o->sums);
    rp__mem_sync(o->ctx);       /* kernels write sum_squares */
    for (int i = 0; i < o->n_params; i++) sum += o->sums ? o->read[i] : o->slots[i].sum_squares;
    return sum;
}

double rp__optim_norm(const rp_optim *o) { return sqrt(rp__optim_squares(o)); }

double rp__clip_scale(double norm, double max_norm)
{
    double scale = max_norm / (norm + 1e-6);

    return scale < 1 ? scale : 1;
}

rp_tensor *rp__optim_tensor(const rp_optim *o, int i, const char **name)
{
    if (i < 0 || i >= o->n_named) return NULL;
    *name = o->names[i].name;
    return o->names[i].tensor;
}

int64_t rp__optim_state_bytes(rp_dtype dtype, int64_t n)
{
    int64_t blocks = dtype == RP_U8 ? rp__optim_part_elems(RP_OPTIM_ABSMAX, n) : 0;

    return n * rp_dtype_bytes(dtype) + blocks * (int64_t)sizeof(float);
}

int64_t rp__optim_coded_bytes(const rp_optim *o)
{
    int64_t bytes = 0;

    for (int i = 0; i < o->n_named; i++)
        if (o->names[i].dtype == RP_U8) bytes += rp__optim_state_bytes(RP_U8, o->slots[o->names[i].param].param.slice.count);
    return bytes;
}

int rp__optim_n_tensors(const rp_optim *o) { return o->n_named; }
int rp__optim_tensor_param(const rp_optim *o, int i) { return o->names[i].param; }

rp_meta rp__optim_tensor_whole(const rp_optim *o, int i, const rp_meta *param) { return part_meta(o->names[i].part, o->names[i].dtype, param); }

rp_slice rp__optim_tensor_slice(const rp_optim *o, int i, rp_slice param)
{
    int part = o->names[i].part;

    return (rp_slice){ rp__optim_part_elems(part, param.room), rp__optim_part_elems(part, param.first), rp__optim_part_elems(part, param.count) };
}
