/* state/public.c -- files of a program's tensors and optimizer states; reprise/train.h documents the functions.
 *
 *   { "__metadata__": { "format": "pt", "reprise.steps": "12" }, "w": …, "optimizer/w.exp_avg": …, "optimizer/w.exp_avg_sq": … }
 */
#include "reprise/train.h"
#include "base/quant.h"
#include "optim/optim.h"
#include "safetensors/safetensors.h"
#include "state/parts.h"

#include <stdio.h>
#include <string.h>

#define STATES "optimizer/"
#define STEPS "reprise.steps"

/* The tensors that a file holds: those of the program, then those of the optimizer. */
typedef struct {
    rp_ctx *ctx;
    const char *call, *path;
    int n, n_own;
    rp_state_tensor *tensor;
    char **name;                        /* of the optimizer's tensors */
    uint64_t *checksum;
    struct rp_optimizer *optimizer;
} own_file;

static bool is_state(const char *name) { return !strncmp(name, STATES, sizeof STATES - 1); }

/* ---- the list ---- */

static rp_status check_tensor(const own_file *f, rp_tensor *const *tensors, int i)
{
    const rp_tensor *t = tensors[i];
    const char *name   = rp_tensor_name(t);

    RP_CHECK(f->ctx, *name, RP_ERR_ARG, "%s: tensor %d (%s) has no name: call rp_tensor_set_name", f->call, i, rp_meta_str(&t->m));
    RP_CHECK(f->ctx, !is_state(name), RP_ERR_ARG, "%s: the name '%s' begins with '" STATES "', as those of optimizer states do", f->call, name);
    RP_CHECK(f->ctx, !rp__is_quant(t->m.dtype), RP_ERR_DTYPE, "%s: '%s' is quantised, which files of programs do not hold (%s)", f->call, name,
             rp_meta_str(&t->m));
    RP_CHECK(f->ctx, rp_tensor_is_dense(t), RP_ERR_SHAPE, "%s: the view %s of '%s' is not dense", f->call, rp_meta_str(&t->m), name);
    for (int j = 0; j < i; j++)
        RP_CHECK(f->ctx, strcmp(rp_tensor_name(tensors[j]), name) != 0, RP_ERR_ARG, "%s: the tensors %d and %d are both named '%s'", f->call, j, i, name);
    return RP_OK;
}

static rp_status list_states(own_file *f)
{
    rp_optim *o = f->optimizer ? rp__optimizer_optim(f->optimizer) : NULL;
    char text[1024];

    for (int i = 0; o && i < rp__optim_n_tensors(o); i++) {
        const char *name = NULL;
        rp_tensor *t     = rp__optim_tensor(o, i, &name);
        rp_meta whole    = rp__optim_tensor_whole(o, i, &rp__optimizer_param(f->optimizer, rp__optim_tensor_param(o, i))->m);
        snprintf(text, sizeof text, STATES "%s", name);
        f->name[i] = rp__host_text(f->ctx, text);
        if (!f->name[i]) return RP_ERR_MEMORY;
        f->tensor[f->n++] = (rp_state_tensor){ .name = f->name[i], .tensor = t, .whole = whole, .optim = o, .at = i };
    }
    return RP_OK;
}

static rp_status open_list(own_file *f, rp_tensor *const *tensors, int n)
{
    int states = f->optimizer ? rp__optim_n_tensors(rp__optimizer_optim(f->optimizer)) : 0;

    RP_CHECK(f->ctx, n >= 0, RP_ERR_ARG, "%s: %d tensors", f->call, n);
    for (int i = 0; i < n; i++) {
        RP_CHECK(f->ctx, tensors[i], RP_ERR_ARG, "%s: tensor %d is NULL", f->call, i);
        RP_TRY(rp__same_ctx(f->ctx, tensors[i]->ctx, f->call, "tensor"));
    }
    for (int i = 0; i < n; i++) RP_TRY(check_tensor(f, tensors, i));
    f->tensor   = rp__host_alloc(f->ctx, (n + states) * (int64_t)sizeof *f->tensor);
    f->name     = f->tensor ? rp__host_alloc(f->ctx, states * (int64_t)sizeof *f->name) : NULL;
    f->checksum = f->name ? rp__host_alloc(f->ctx, (n + states) * (int64_t)sizeof *f->checksum) : NULL;
    if (!f->checksum) return RP_ERR_MEMORY;
    for (int i = 0; i < n; i++) f->tensor[i] = (rp_state_tensor){ .name = rp_tensor_name(tensors[i]), .tensor = tensors[i], .whole = tensors[i]->m };
    f->n = f->n_own = n;
    return list_states(f);
}

static void close_list(own_file *f)
{
    for (int i = 0; f->name && i < f->n - f->n_own; i++) rp__release(f->name[i]);
    RP_RELEASE(f->checksum, f->name, f->tensor);
}

static rp_status with_list(own_file *f, rp_tensor *const *tensors, int n, rp_status (*run)(const own_file *))
{
    rp_status status = open_list(f, tensors, n);

    if (status == RP_OK) status = run(f);
    close_list(f);
    return status;
}

/* ---- saving ---- */

static rp_status write_list(const own_file *f)
{
    char steps[32];
    const rp_safetensors_pair pair = { STEPS, steps };

    RP_CHECK(f->ctx, !f->ctx->options.shapes_only, RP_ERR_META, "rp_save: a shapes-only context has no data to save in '%s'", f->path);
    snprintf(steps, sizeof steps, "%" PRId64, rp_optimizer_steps(f->optimizer));
    return rp__state_write_file(f->ctx, f->path, 0, 1, f->tensor, f->n, f->optimizer != NULL, &pair, f->checksum);
}

rp_status rp_save(rp_ctx *ctx, const char *path, rp_tensor *const *tensors, int n_tensors, rp_optimizer *optimizer)
{
    RP_GIVEN(ctx, ctx && path && (tensors || !n_tensors));
    RP_SAME_CTX(ctx, optimizer ? rp__optimizer_ctx(optimizer) : NULL, "optimizer");
    own_file f = { .ctx = ctx, .call = "rp_save", .path = path, .optimizer = optimizer };

    return with_list(&f, tensors, n_tensors, write_list);
}

/* ---- loading ---- */

_Static_assert(RP_SAFETENSORS_MAX_DIM == RP_MAX_DIM, "a file holds every shape of a tensor, and no other");

static rp_status check_one(const own_file *f, const rp_safetensors *set, const rp_state_tensor *t)
{
    const rp_meta *m         = rp__state_whole(t);
    const rp_safetensor *has = rp__safetensors_find(set, t->name);

    RP_CHECK(f->ctx, has, RP_ERR_MATCH, "rp_load: '%s' lacks the tensor '%s'", f->path, t->name);
    rp_meta there = { .dtype = m->dtype, .ndim = has->ndim };
    memcpy(there.dim, has->dim, (size_t)there.ndim * sizeof there.dim[0]);
    RP_CHECK(f->ctx, has->dtype == rp__safetensors_dtype_of(m->dtype), RP_ERR_DTYPE, "rp_load: '%s' holds '%s' as %s, but the tensor is %s", f->path, t->name,
             rp__safetensors_dtype_name(has->dtype), rp_dtype_name(m->dtype));
    RP_CHECK(f->ctx, rp_meta_same_shape(&there, m), RP_ERR_SHAPE, "rp_load: '%s' holds '%s' as %s, but the tensor is %s", f->path, t->name,
             rp_meta_str(&there), rp_meta_str(m));
    return RP_OK;
}

static bool is_listed(const own_file *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->tensor[i].name, name)) return true;
    return false;
}

static rp_status check_steps(const own_file *f, const rp_safetensors *set, int64_t *steps)
{
    const char *text = rp__safetensors_metadata(set, STEPS);

    *steps = 0;
    if (!f->optimizer) return RP_OK;
    RP_CHECK(f->ctx, text, RP_ERR_MATCH, "rp_load: '%s' was saved without an optimizer", f->path);
    RP_CHECK(f->ctx, rp__parse_int(text, 0, INT64_MAX, steps), RP_ERR_FORMAT, "rp_load: '%s' has '%.40s' as the number of steps", f->path, text);
    return RP_OK;
}

static rp_status check_file(const own_file *f, const rp_safetensors *set, int64_t *steps)
{
    RP_TRY(check_steps(f, set, steps));
    for (int i = 0; i < f->n; i++) RP_TRY(check_one(f, set, &f->tensor[i]));
    for (int64_t i = 0; i < rp__safetensors_n_tensors(set); i++) {
        const char *name = rp__safetensors_at(set, i)->name;
        if (!f->optimizer && is_state(name)) continue;
        RP_CHECK(f->ctx, is_listed(f, name), RP_ERR_MATCH, "rp_load: '%s' has a further tensor '%.200s'", f->path, name);
    }
    return RP_OK;
}

/* A state on disk, window by window. */
static rp_status load_windows(const rp_state_tensor *t, const rp_safetensors *set, const rp_safetensor *from)
{
    int64_t size = rp_dtype_bytes(t->whole.dtype), n = rp_meta_elems(&t->whole), count;
    void *data;

    for (int64_t at = 0; at < n; at += count) {
        RP_TRY(rp__optim_window(t->optim, t->at, at, &data, &count));
        RP_TRY(rp__safetensors_get(set, from, at * size, count * size, data));
        RP_TRY(rp__optim_window_keep(t->optim));
    }
    return RP_OK;
}

static rp_status load_one(const rp_state_tensor *t, const rp_safetensors *set)
{
    const rp_safetensor *from = rp__safetensors_find(set, t->name);
    rp_status status          = RP_OK;
    rp_host h;

    if (!t->tensor) return load_windows(t, set, from);
    if (!from->bytes) return RP_OK;
    RP_TRY(rp__tensor_host_all(t->tensor, RP_HOST_WRITE, &h));
    if (h.data) status = rp__safetensors_get(set, from, 0, from->bytes, h.data);
    rp__tensor_host_end(&h);
    rp__tensor_wrote(t->tensor, "rp_load");
    return status;
}

static rp_status load_list(const own_file *f)
{
    rp_safetensors *set;
    int64_t steps;

    RP_TRY(rp__safetensors_open(f->ctx, f->path, &set));
    rp_status status = check_file(f, set, &steps);
    bool real        = !f->ctx->options.shapes_only;
    for (int i = 0; i < f->n && status == RP_OK && real; i++) status = load_one(&f->tensor[i], set);
    rp__safetensors_close(set);
    if (status == RP_OK && f->optimizer) rp__optimizer_resume(f->optimizer, steps);
    return status;
}

rp_status rp_load(rp_ctx *ctx, const char *path, rp_tensor *const *tensors, int n_tensors, rp_optimizer *optimizer)
{
    RP_GIVEN(ctx, ctx && path && (tensors || !n_tensors));
    RP_SAME_CTX(ctx, optimizer ? rp__optimizer_ctx(optimizer) : NULL, "optimizer");
    own_file f = { .ctx = ctx, .call = "rp_load", .path = path, .optimizer = optimizer };

    return with_list(&f, tensors, n_tensors, load_list);
}
