/* base/module_path.c -- Hugging Face's names of modules, part by part; c_proj is the only one whose meaning hangs on the
 * part before it. And the layer number in a path. */
#include "base/module_path.h"

#include "base/base.h"

static const struct { const char *after, *theirs, *ours; } names[] = {
    { NULL,   "embed_tokens",             "tok_embeddings" },
    { NULL,   "wte",                      "tok_embeddings" },
    { NULL,   "wpe",                      "pos_embeddings" },
    { "",     "h",                        "layers" },
    { NULL,   "input_layernorm",          "attn_norm" },
    { NULL,   "ln_1",                     "attn_norm" },
    { NULL,   "post_attention_layernorm", "mlp_norm" },
    { NULL,   "pre_feedforward_layernorm",  "mlp_norm" },
    { NULL,   "post_feedforward_layernorm", "post_mlp_norm" },
    { NULL,   "ln_2",                     "mlp_norm" },
    { NULL,   "self_attn",                "attn" },
    { NULL,   "q_proj",                   "q" },
    { NULL,   "k_proj",                   "k" },
    { NULL,   "v_proj",                   "v" },
    { NULL,   "o_proj",                   "output" },
    { NULL,   "c_attn",                   "qkv" },
    { NULL,   "qkv_proj",                 "qkv" },
    { NULL,   "gate_up_proj",             "gate_up" },
    { "attn", "c_proj",                   "output" },
    { "mlp",  "c_proj",                   "down" },
    { NULL,   "gate_proj",                "gate" },
    { NULL,   "up_proj",                  "up" },
    { NULL,   "c_fc",                     "up" },
    { NULL,   "down_proj",                "down" },
    { NULL,   "ln_f",                     "norm" },
    { NULL,   "lm_head",                  "output" },
};

static const char *translate_part(const char *before, const char *part)
{
    for (int i = 0; i < RP_COUNT(names); i++)
        if (!strcmp(part, names[i].theirs) && (!names[i].after || !strcmp(before, names[i].after))) return names[i].ours;
    return part;
}

const char *rp__module_path_translate(const char *path, char out[RP_MODULE_PATH_CHARS])
{
    char part[RP_MODULE_PATH_CHARS], before[RP_MODULE_PATH_CHARS] = "";
    size_t used = 0;

    if (!strcmp(path, "model") || !strcmp(path, "transformer")) path = "";
    else if (!strncmp(path, "model.", 6)) path += 6;
    else if (!strncmp(path, "transformer.", 12)) path += 12;
    snprintf(out, RP_MODULE_PATH_CHARS, "%s", path);
    if (strlen(path) >= RP_MODULE_PATH_CHARS / 6) return out;    /* no name of theirs grows to six times its length */
    for (const char *p = path; *path;) {
        size_t n = strcspn(p, ".");
        snprintf(part, sizeof part, "%.*s", (int)n, p);
        const char *ours = translate_part(before, part);
        used += (size_t)snprintf(out + used, RP_MODULE_PATH_CHARS - used, "%s%s", p == path ? "" : ".", ours);
        snprintf(before, sizeof before, "%s", ours);
        if (!p[n]) break;
        p += n + 1;
    }
    return out;
}

bool rp__module_path_covers(const char *glob, const char *path)
{
    char above[RP_MODULE_PATH_CHARS];

    if (rp__glob(glob, path)) return true;
    snprintf(above, sizeof above, "%s", path);
    for (char *dot = strrchr(above, '.'); dot; dot = strrchr(above, '.')) {
        *dot = 0;
        if (rp__glob(glob, above)) return true;
    }
    return false;
}

bool rp_path_layer(const char *path, int64_t *layer)
{
    char number[32];

    for (const char *part = path; *part; part += strcspn(part, "."), part += *part == '.') {
        size_t n = strcspn(part, "."), digits = strspn(part, "0123456789");
        if (!n || digits != n || n >= sizeof number) continue;
        snprintf(number, sizeof number, "%.*s", (int)n, part);
        if (rp__parse_int(number, 0, INT64_MAX, layer)) return true;
    }
    return false;
}
