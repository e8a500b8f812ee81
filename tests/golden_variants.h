/* golden_variants.h -- the models of tests/golden/models, one name a folder; tests/golden/README.md says what each is there for. */
#ifndef RP_GOLDEN_VARIANTS_H
#define RP_GOLDEN_VARIANTS_H

/* Text models inside others. */
#define GOLDEN_WRAPPED(VARIANT) VARIANT(gemma3) VARIANT(gemma3_published) VARIANT(mistral3) VARIANT(idefics3)

#define GOLDEN_DECODERS(VARIANT) \
    VARIANT(llama2) VARIANT(llama3) VARIANT(llama3_parameters) VARIANT(llama_linear) VARIANT(llama_yarn) VARIANT(smollm2) VARIANT(llama_head_dim) \
    VARIANT(llama_bias) VARIANT(gpt2) VARIANT(gpt2_inner) VARIANT(gpt2_gelu) VARIANT(gpt2_dropout) VARIANT(qwen2) VARIANT(qwen2_window) \
    VARIANT(qwen3) VARIANT(qwen3_layer_types) VARIANT(qwen3_yarn) VARIANT(mistral) VARIANT(mistral_whole) VARIANT(gemma2) VARIANT(gemma2_uncapped) \
    VARIANT(gemma3_text) VARIANT(gemma3_text_parameters) VARIANT(phi3) VARIANT(phi3_partial) VARIANT(phi3_longrope) VARIANT(olmo2) \
    VARIANT(qwen3_moe) VARIANT(qwen3_moe_mixed) VARIANT(qwen3_moe_balanced) VARIANT(mixtral) VARIANT(mixtral_balanced) VARIANT(mixtral_window) \
    GOLDEN_WRAPPED(VARIANT)

#define GOLDEN_ENCODERS(VARIANT) VARIANT(bert) VARIANT(bert_gamma)

#define GOLDEN_VARIANTS(VARIANT) GOLDEN_DECODERS(VARIANT) GOLDEN_ENCODERS(VARIANT)

#define GOLDEN_VARIANT_NAME(name) #name,

#endif
