/* nn/module_print.c -- prints the tree as text, one module per line: name, type, parameters.
 *
 *   Decoder
 *     tok_embeddings  Embedding  weight fp32 [49152, 576]
 *     layers  ModuleList
 *       0  TransformerBlock
 *     …
 *     output  Linear  weight = tok_embeddings.weight
 *
 * Marks for checkpointing are not printed, so the text depends on the model alone.
 */
#include "nn/module.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/list.h"

typedef struct {
    rp_ctx *ctx;
    char *text;
    int64_t used, room;
} sink;

static rp_status module_print_put(sink *s, const char *fmt, ...) RP_PRINTF(2, 3);

static rp_status module_print_put(sink *s, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    int64_t need = vsnprintf(NULL, 0, fmt, args) + s->used + 1;
    va_end(args);
    RP_TRY(RP_GROW(s->ctx, s->text, s->room, need));
    va_start(args, fmt);
    s->used += vsnprintf(s->text + s->used, (size_t)(s->room - s->used), fmt, args);
    va_end(args);
    return RP_OK;
}

static int depth_below(const rp_module *root, const rp_module *m)
{
    int depth = 0;

    for (; m != root; m = m->parent) depth++;
    return depth;
}

static rp_status put_module(sink *s, const rp_module *m, int depth)
{
    RP_TRY(module_print_put(s, "%*s%s%s%s", 2 * depth, "", m->name, *m->name ? "  " : "", m->type->name));
    for (int i = 0; i < m->n_params; i++) {
        const rp_param *p = &m->param[i];
        if (p->owner && p->tensor->name) RP_TRY(module_print_put(s, "  %s = %s", p->name, p->tensor->name));
        else RP_TRY(module_print_put(s, "  %s %s", p->name, rp_meta_str(&p->whole)));
    }
    return module_print_put(s, "\n");
}

rp_status rp_module_print(const rp_module *root, char **text)
{
    RP_GIVEN(root ? root->ctx : NULL, root && text);
    sink s = { .ctx = root->ctx };

    for (const rp_module *m = root; m; m = rp__module_next(root, m)) {
        rp_status status = put_module(&s, m, depth_below(root, m));
        if (status == RP_OK) continue;
        rp__release(s.text);
        return status;
    }
    *text = s.text;
    return RP_OK;
}
