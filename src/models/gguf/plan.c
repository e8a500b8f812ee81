/* models/gguf/plan.c -- the type of each tensor, and how rows become its bytes.
 *
 * Types are chosen as llama.cpp's converter does: vectors, norms, routers and positions are F32, and rows that are no whole number of blocks
 * are F16. With 4 bits the output is Q8_0, because it loses most; llama-quantize keeps it in more bits, too. */
#include "models/gguf/plan.h"

#include <string.h>

static const char *const written[] = { "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1" };

const char *rp__gguf_types_text(char out[RP_GGUF_TYPES_CHARS])
{
    size_t used = 0;

    for (int i = 0; i < RP_COUNT(written); i++)
        used += (size_t)snprintf(out + used, RP_GGUF_TYPES_CHARS - used, "%s%s", i ? ", " : "", written[i]);
    return out;
}

/* ---- types ---- */

static bool is_matrix(const rp_gguf_planned *p)
{
    bool weight = rp__ends_with(p->name, ".weight") || rp__ends_with(p->name, ".lora_a") || rp__ends_with(p->name, ".lora_b");

    return weight && p->ndim > 1 && !rp__ends_with(p->name, "_norm.weight") && !strstr(p->name, ".ffn_gate_inp.") && strcmp(p->name, "position_embd.weight");
}

static bool has_output(const rp_gguf_exporter *x)
{
    for (int64_t i = 0; i < x->n; i++)
        if (!strcmp(x->planned[i].name, "output.weight")) return true;
    return false;
}

/* The matrix of the output: its own, or the embedding that it shares. */
static bool is_output(const rp_gguf_exporter *x, const rp_gguf_planned *p)
{
    return !strcmp(p->name, "output.weight") || (!strcmp(p->name, "token_embd.weight") && !has_output(x));
}

static void note(rp_gguf_exporter *x, const rp_gguf_planned *p, const char *wanted, const char *type, const char *why)
{
    char reason[96];

    snprintf(reason, sizeof reason, why, p->dim[p->ndim - 1]);
    rp__report_note(x->report, (rp_place){ p->name, 0 }, "%s instead of %s: %s", type, wanted, reason);
}

static const char *in_blocks(rp_gguf_exporter *x, const rp_gguf_planned *p, const char *wanted, const char *type)
{
    if (p->dim[p->ndim - 1] % rp__gguf_block_elems(type) == 0) return type;
    note(x, p, wanted, "F16", "rows of %" PRId64 " elements are no whole number of blocks");
    return "F16";
}

static const char *type_of(rp_gguf_exporter *x, const rp_gguf_planned *p)
{
    const char *wanted = x->options->type, *own = p->copy ? p->copy->type : NULL;

    if (!wanted) {                      /* each keeps its own, if that can be written */
        bool changed = p->from.whole || p->from.adapted;
        if (!changed || rp__gguf_can_write(own)) return own;
        const char *type = in_blocks(x, p, own, "Q8_0");
        if (!strcmp(type, "Q8_0")) note(x, p, own, type, "the adapter changes it, and its own type cannot be written");
        return type;
    }
    if (p->divisors || !is_matrix(p)) return "F32";
    if (strncmp(wanted, "Q4", 2) || !is_output(x, p)) return in_blocks(x, p, wanted, wanted);
    const char *type = in_blocks(x, p, wanted, "Q8_0");
    if (!strcmp(type, "Q8_0")) note(x, p, wanted, type, "the output loses most in 4 bits");
    return type;
}

static void count_type(rp_gguf_outcome *o, const char *type)
{
    int i = 0;

    while (i < o->n_types && strcmp(o->of[i].type, type)) i++;
    if (i == RP_GGUF_TYPES) return;
    if (i == o->n_types) o->of[o->n_types++].type = type;
    o->of[i].tensors++;
}

rp_status rp__gguf_declare_all(rp_gguf_exporter *x)
{
    *x->outcome = (rp_gguf_outcome){ .tensors = x->n };
    for (int64_t i = 0; i < x->n; i++) {
        rp_gguf_planned *p = &x->planned[i];
        int64_t elems      = 1;
        for (int k = 0; k < p->ndim; k++) elems *= p->dim[k];
        p->type = type_of(x, p);
        RP_TRY(rp__gguf_add_tensor(x->writer, p->name, p->type, p->ndim, p->dim));
        count_type(x->outcome, p->type);
        x->outcome->bytes += rp__gguf_bytes_of(p->type, elems);
    }
    return RP_OK;
}

/* ---- rows ---- */

rp_status rp__gguf_take_room(rp_gguf_exporter *x, int64_t bytes)
{
    if (bytes <= x->room_bytes) return RP_OK;
    rp__release(x->room);
    x->room       = rp__host_alloc(x->ctx, bytes);
    x->room_bytes = x->room ? bytes : 0;
    return x->room ? RP_OK : RP_ERR_MEMORY;
}

rp_status rp__gguf_put_rows(void *user, const float *rows, int64_t n, int64_t width)
{
    rp_gguf_exporter *x = user;
    const char *type    = x->current->type;
    int64_t bytes       = rp__gguf_bytes_of(type, n * width);

    RP_TRY(rp__gguf_take_room(x, bytes));
    RP_CHECK(x->ctx, rp__gguf_quantise(type, rows, n * width, x->room), RP_ERR_UNSUPPORTED,
             "tensor '%s' has an element that is not finite, or too large for %s", x->current->name, type);
    return rp__gguf_put(x->writer, x->room, bytes);
}

/* ---- the end ---- */

rp_status rp__gguf_finish(rp_gguf_exporter *x)
{
    rp_gguf_writer *writer = x->writer;

    RP_CHECK(x->ctx, !x->report->lost, RP_ERR_MEMORY, "cannot allocate a note");
    x->writer = NULL;
    return rp__gguf_commit(writer);
}

static void exporter_close(rp_gguf_exporter *x)
{
    rp__gguf_discard(x->writer);
    rp__gguf_model_close(&x->m);
    RP_RELEASE(x->room, x->planned);
}

rp_status rp__gguf_export_by(rp_gguf_export_all *all, rp_gguf_exporter *x, rp_model *model, rp_model_files *files, const char *path)
{
    x->ctx           = rp__model_ctx(model);
    x->m.model       = model;
    rp_status status = rp__gguf_model_open(model, files, &x->m);

    if (status == RP_OK && !files->is_gguf) status = rp__gguf_check_config(x->ctx, x->m.config);
    if (status == RP_OK) status = all(x, files, path);
    exporter_close(x);
    return status;
}
