/* models/families/gemma3_text.c -- Gemma 3, text only: Gemma 2 without a cap of scores, with norms of q and k over each head and a window in all
 * but every sixth block. It has two ropes; rope_scaling does not apply to blocks with a window.
 */
#include "models/fields.h"

static const rp_config_field fields[] = {
    RP_FIELDS_GEMMA(131072),
    { "rope_local_base_freq", .kind = RP_FIELD_LATER },
    { "sliding_window_pattern", "_sliding_window_pattern", .kind = RP_FIELD_INT, RP_AT(window_every), .low = 1, .high = 1 << 16, .otherwise = 6 },
    { "attn_logit_softcapping", .kind = RP_FIELD_ONLY, .only = "null" },
    RP_FIELD_CAP("final_logit_softcapping", logit_softcap, 0),
};

/* The kind of cache that transformers uses for generation. */
static const char *const inert[] = { "cache_implementation", NULL };

static void gemma3_text_finish(rp_config_reader *reader, rp_model_config *c)
{
    rp__config_finish_gemma(reader, c);
    c->qk_norm = RP_QK_NORM_HEAD;
    rp__config_read_two_ropes(reader, c);
}

static const rp_name_pair names[] = { RP_NAMES_ENDS, RP_NAMES_QKV, RP_NAMES_QK_NORMS, RP_NAMES_GATE_UP, RP_NAMES_NORMS_AROUND };
static const rp_name_pair gguf_names[] = { RP_GGUF_ENDS, RP_GGUF_QKV, RP_GGUF_QK_NORMS, RP_GGUF_GATE_UP, RP_GGUF_NORMS_AROUND };

const rp_family rp__family_gemma3_text = {
    .model_type = "gemma3_text", .architecture = "Gemma3ForCausalLM", .field = fields, .n_fields = RP_COUNT(fields), .inert = inert,
    .honours_layer_types = true, .finish = gemma3_text_finish, .name = names, .n_names = RP_COUNT(names), .prefix = "model.", .inert_tensor = rp__inert_rotary,
    .gguf_architecture = "gemma3", .gguf_name = gguf_names, .n_gguf_names = RP_COUNT(gguf_names),
};
