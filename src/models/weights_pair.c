/* models/weights_pair.c -- pairs every tensor of a file with the parameter, or the piece of one, that it fills.
 *
 *   their name ─ remove a wrapper's prefix ─ respell ─ look up in the family's table ─▶ our path and piece ─▶ part
 */
#include "models/weights_pair.h"

#include <string.h>

#include "models/adapter.h"
#include "models/quant.h"
#include "models/wrapper.h"

typedef rp_weight_loader loader;
typedef rp_weight_part part;
typedef rp_file_tensor file_tensor;

#define FAIL RP_LOADER_FAIL

/* ---- listing ---- */

int64_t rp__weights_n_tensors(const loader *l) { return l->st ? rp__safetensors_n_tensors(l->st) : rp__gguf_n_tensors(l->gguf); }

file_tensor rp__weights_tensor_at(const loader *l, int64_t i)
{
    return l->st ? (file_tensor){ .st = rp__safetensors_at(l->st, i) } : (file_tensor){ .gguf = rp__gguf_tensor_at(l->gguf, i) };
}

static void choose_names(loader *l)
{
    const rp_family *f = l->config->family;
    bool apart         = l->gguf && f->gguf_apart && rp__gguf_find(l->gguf, "blk.0.ffn_gate.0.weight");

    l->name    = !l->gguf ? f->name : apart ? f->gguf_apart : f->gguf_name;
    l->n_names = !l->gguf ? f->n_names : apart ? f->n_gguf_apart : f->n_gguf_names;
}

static bool in_pieces(const loader *l, const rp_param *p) { return rp__weight_in_pieces(l->name, l->n_names, p->path); }

static int64_t pieces_of(const loader *l, const rp_param *p) { return in_pieces(l, p) ? p->whole.dim[0] : 1; }

/* Parts of adapters are excluded; they have their own files. */
static bool is_wanted(const rp_param *p)
{
    int unused;

    return rp__lora_part_of(p->path, &unused) == RP_LORA_NONE;
}

static void list_pieces(const loader *l, const rp_param *p, part *to)
{
    int64_t pieces = pieces_of(l, p);
    rp_meta m      = p->whole;

    if (in_pieces(l, p)) m = rp_meta_make(m.dtype, m.ndim - 1, m.dim + 1);
    for (int64_t i = 0; i < pieces; i++)
        to[i] = (part){ .param = p, .piece = i, .pieces = pieces, .m = m, .first = i * rp_meta_elems(&m) };
}

static rp_status list_parts(loader *l)
{
    int64_t n = 0;

    for (int i = 0; i < rp__model_n_params(l->model); i++) n += pieces_of(l, rp__model_param(l->model, i));
    RP_CHECK(l->ctx, n < INT32_MAX, RP_ERR_SHAPE, "'%s': %" PRId64 " tensors are too many", l->path, n);
    l->part = rp__host_alloc(l->ctx, (n + 1) * (int64_t)sizeof *l->part);
    if (!l->part) return RP_ERR_MEMORY;
    for (int i = 0; i < rp__model_n_params(l->model); i++) {
        const rp_param *p = rp__model_param(l->model, i);
        if (!is_wanted(p)) continue;
        list_pieces(l, p, l->part + l->n_parts);
        l->n_parts += (int)pieces_of(l, p);
    }
    return RP_OK;
}

/* ---- names ---- */

/* Respells the last part of the name as the table of names has it. */
static bool respelled(const rp_family *f, const char *name, char out[RP_WEIGHT_NAME_CHARS])
{
    const char *tail = strrchr(name, '.');

    for (int i = 0; tail && i < f->n_tails; i++)
        if (!strcmp(tail + 1, f->tail[i].theirs))
            return snprintf(out, RP_WEIGHT_NAME_CHARS, "%.*s%s", (int)(tail + 1 - name), name, f->tail[i].ours) < RP_WEIGHT_NAME_CHARS;
    return false;
}

/* Finds our path of a tensor of the file, and the number of its piece. Returns false if the family has no such name. */
static bool path_of(const loader *l, const char *name, char out[RP_WEIGHT_NAME_CHARS], int64_t *piece)
{
    const rp_family *f = l->config->family;
    char inside[RP_WEIGHT_NAME_CHARS], full[RP_WEIGHT_NAME_CHARS], spelled[RP_WEIGHT_NAME_CHARS];

    if (l->config->wrapper) {
        if (!rp__wrapper_inside(l->config->wrapper, name, inside)) return false;
        name = inside;
    }
    if (!l->gguf && respelled(f, name, spelled)) name = spelled;
    if (rp__weight_piece_ours(l->name, l->n_names, name, out, piece)) return true;
    if (l->gguf || !f->prefix || snprintf(full, sizeof full, "%s%s", f->prefix, name) >= (int)sizeof full) return false;
    return rp__weight_piece_ours(l->name, l->n_names, full, out, piece);
}

bool rp__weights_path_of(loader *l, const char *name, char out[RP_WEIGHT_NAME_CHARS])
{
    int64_t piece;

    choose_names(l);
    return path_of(l, name, out, &piece);
}

const char *rp__weight_part_name(const loader *l, const part *p, char out[RP_WEIGHT_NAME_CHARS])
{
    char text[RP_WEIGHT_NAME_CHARS];

    if (!rp__weight_piece_theirs(l->name, l->n_names, p->param->path, p->piece, text)) return p->param->path;
    if (!l->config->wrapper || !rp__wrapper_outside(l->config->wrapper, text, out)) snprintf(out, RP_WEIGHT_NAME_CHARS, "%s", text);
    return out;
}

part *rp__weight_part_find(const loader *l, const char *path, int64_t piece)
{
    for (int i = 0; i < l->n_parts; i += (int)l->part[i].pieces)
        if (!strcmp(l->part[i].param->path, path)) return piece < l->part[i].pieces ? &l->part[i + piece] : NULL;
    return NULL;
}

/* ---- pairing ---- */

/* Recognises formats whose codes need separate scales, such as DeepSeek's F8 blocks and compressed-tensors. */
static bool is_scale(const char *name)
{
    return rp__ends_with(name, ".weight_scale_inv") || rp__ends_with(name, ".weight_scale") || rp__ends_with(name, ".weight_packed") ||
           rp__ends_with(name, ".qzeros");
}

/* Counts a tensor of a wrapper that is outside the text model. */
static bool is_left_out(loader *l, file_tensor t)
{
    if (!l->config->wrapper || !rp__wrapper_leaves_out(l->config->wrapper, name_of(t))) return false;
    l->left_out.tensors++;
    l->left_out.bytes += t.st ? t.st->bytes : t.gguf->bytes;
    return true;
}

static void pair_tensor(loader *l, file_tensor t)
{
    const char *name = name_of(t);
    char path[RP_WEIGHT_NAME_CHARS];
    int64_t piece;
    bool known = path_of(l, name, path, &piece);
    part *to   = known ? rp__weight_part_find(l, path, piece) : NULL;

    if (globs_match(l->config->family->inert_tensor, name) || is_left_out(l, t)) return;
    if (!to && t.st && rp__quant_is_part(name)) return;         /* of codes, which are checked */
    if (known && l->config->tied && !strcmp(path, "output.weight")) l->head = t;
    else if (!to && is_scale(name))
        FAIL(l, RP_ERR_UNSUPPORTED, "tensor '%.200s' belongs to a quantised weight, which is read only from GGUF; use a copy of the model in "
             "bfloat16", name);
    else if (!to) FAIL(l, RP_ERR_FORMAT, "tensor '%.200s' is no weight of this model", name);
    else if (is_some(to->from)) FAIL(l, RP_ERR_FORMAT, "tensors '%.200s' and '%.200s' are the same weight, '%s'", name_of(to->from), name, path);
    else to->from = t;
}

static bool may_be_fresh(const loader *l, const rp_param *p) { return globs_match(l->config->family->may_be_fresh, p->path); }

/* Only if all of them are missing: a file with part of a head is incomplete. */
static void find_fresh(loader *l)
{
    int n = 0, found = 0;

    for (int i = 0; i < l->n_parts; i++) {
        n += may_be_fresh(l, l->part[i].param);
        found += may_be_fresh(l, l->part[i].param) && is_some(l->part[i].from);
    }
    l->fresh = n && !found;
}

bool rp__weight_is_fresh(const loader *l, const rp_param *p) { return l->fresh && may_be_fresh(l, p); }

/* If embeddings are tied, one tensor suffices, under either name, as in transformers. */
static void pair_all(loader *l)
{
    part *embedding = rp__weight_part_find(l, "tok_embeddings.weight", 0);

    for (int64_t i = 0; i < rp__weights_n_tensors(l); i++) pair_tensor(l, rp__weights_tensor_at(l, i));
    if (!embedding || is_some(embedding->from) || !is_some(l->head)) return;
    embedding->from = l->head;
    l->head         = (file_tensor){ .st = NULL };
}

/* Reports one error instead of one for each weight. */
static rp_status check_text(loader *l)
{
    int found = 0;

    for (int i = 0; i < l->n_parts; i++) found += is_some(l->part[i].from);
    RP_CHECK(l->ctx, !l->config->wrapper || found || l->status != RP_OK, RP_ERR_FORMAT, "'%s' has no weights of the text model of this '%s': all "
             "of its %" PRId64 " tensors belong to other parts", l->path, l->config->wrapper->model_type, rp__weights_n_tensors(l));
    return RP_OK;
}

rp_status rp__weights_pair(loader *l)
{
    choose_names(l);
    RP_TRY(list_parts(l));
    pair_all(l);
    RP_TRY(check_text(l));
    find_fresh(l);
    return RP_OK;
}
