/* models/families/gemma2.c -- Gemma 2: norms before and after attention and MLP, norm weights stored minus 1, embeddings scaled by sqrt(hidden),
 * soft caps of scores and logits, a window in every other block, starting with the first.
 */
#include "models/fields.h"

static const rp_config_field fields[] = {
    RP_FIELDS_GEMMA(8192),
    RP_FIELD_CAP("attn_logit_softcapping", attn_softcap, 50),
    RP_FIELD_CAP("final_logit_softcapping", logit_softcap, 30),
};

/* The kind of cache that transformers uses for generation. */
static const char *const inert[] = { "cache_implementation", NULL };

static void gemma2_finish(rp_config_reader *reader, rp_model_config *c)
{
    rp__config_finish_gemma(reader, c);
    c->window_every = 2;
    rp__config_read_rope(reader, c, &c->rope);
}

static const rp_name_pair names[] = { RP_NAMES_ENDS, RP_NAMES_QKV, RP_NAMES_GATE_UP, RP_NAMES_NORMS_AROUND };
static const rp_name_pair gguf_names[] = { RP_GGUF_ENDS, RP_GGUF_QKV, RP_GGUF_GATE_UP, RP_GGUF_NORMS_AROUND };

const rp_family rp__family_gemma2 = {
    .model_type = "gemma2", .architecture = "Gemma2ForCausalLM", .field = fields, .n_fields = RP_COUNT(fields), .inert = inert,
    .honours_layer_types = true, .finish = gemma2_finish, .name = names, .n_names = RP_COUNT(names), .prefix = "model.", .inert_tensor = rp__inert_rotary,
    .gguf_architecture = "gemma2", .gguf_name = gguf_names, .n_gguf_names = RP_COUNT(gguf_names),
};
