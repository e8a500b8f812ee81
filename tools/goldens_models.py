#!/usr/bin/env python3
"""Write tests/golden/models/<variant>/: tiny random models and what PyTorch and transformers make of them.

    goldens_models.py [-o DIR] [VARIANT ...]        all variants by default; tools/goldens_setup makes the environment

A variant holds a Hugging Face model (config.json, model.safetensors) and

    golden.safetensors  input_ids [3, 2, T]; logits [2, T, V] and grad.<parameter> of batch 0; the packed and ignore cases
                        encoders: also labels [3, 2, T], not shifted, -100 where there is no target
                        wrappers: names are those that the text model would have alone; the other parts are there to be left out
                        large tensors as sketches (golden_sketch.py); its metadata has, as JSON, losses, norms, and the errors of PyTorch's own
                        fp32 and bf16 (tests/golden/README.md has the keys)

The model is always loaded back from the files written here, so config.json as committed is what the numbers belong to.
Dropout is off throughout. One thread, seeded: on one machine two runs write the same bytes.
"""
import argparse
import json
import os
import shutil
import tempfile
import zlib

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForMaskedLM

import golden_sketch

BATCHES, ROWS, TOKENS, EOS = 3, 2, 24, 2
ADAMW = {"lr": 5e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
STEPS = 12
IGNORED_TOKEN = 7
MASK = 4
# One variant of each family keeps its logits whole. All other large tensors are sketches (golden_sketch.py).
WHOLE_LOGITS = {"llama2", "gpt2", "qwen2", "qwen3", "mistral", "gemma2", "gemma3_text", "phi3", "olmo2", "qwen3_moe", "mixtral", "bert"}

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 32,
    "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "vocab_size": 96, "bos_token_id": 1, "eos_token_id": EOS,
    "tie_word_embeddings": False, "initializer_range": 0.02,
}
GPT2 = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new", "n_embd": 32, "n_head": 4,
    "n_layer": 2, "n_positions": 48, "n_ctx": 48, "vocab_size": 96, "layer_norm_epsilon": 1e-5, "bos_token_id": EOS,
    "eos_token_id": EOS, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "initializer_range": 0.02,
}
SHARED = {k: LLAMA[k] for k in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
                                "max_position_embeddings", "tie_word_embeddings", "initializer_range", "bos_token_id", "eos_token_id")}
QWEN2 = {**SHARED, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "num_key_value_heads": 2,
         "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "attention_dropout": 0.0, "use_sliding_window": False,
         "sliding_window": 5, "max_window_layers": 1}
QWEN3 = {**QWEN2, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 12, "attention_bias": False,
         "rope_scaling": None}
MISTRAL = {**SHARED, "architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_act": "silu", "num_key_value_heads": 2,
           "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "sliding_window": 6, "attention_dropout": 0.0}
# Weights of norms are stored less 1. Caps and windows are small enough to count at 24 tokens and scores of about 1.
GEMMA2 = {**SHARED, "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_act": "gelu_pytorch_tanh",
          "hidden_activation": "gelu_pytorch_tanh", "num_key_value_heads": 2, "head_dim": 12, "rms_norm_eps": 1e-6,
          "num_hidden_layers": 3, "query_pre_attn_scalar": 10, "attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.0,
          "sliding_window": 7, "attention_bias": False, "attention_dropout": 0.0, "rope_theta": 10000.0, "pad_token_id": 0,
          "cache_implementation": "hybrid", "tie_word_embeddings": True}
GEMMA3 = {**{k: v for k, v in GEMMA2.items() if k != "hidden_act"}, "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text",
          "attn_logit_softcapping": None, "final_logit_softcapping": None, "sliding_window": 5, "rope_theta": 20000.0,
          "rope_local_base_freq": 300.0, "rope_scaling": {"rope_type": "linear", "factor": 4.0}, "sliding_window_pattern": 2}
PHI3 = {**SHARED, "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_act": "silu", "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": None, "sliding_window": None, "pad_token_id": 0,
        "attention_dropout": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "attention_bias": False,
        "original_max_position_embeddings": 64}
OLMO2 = {**SHARED, "architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2", "hidden_act": "silu", "num_key_value_heads": 2,
         "rms_norm_eps": 1e-6, "rope_theta": 500000, "rope_scaling": None, "attention_bias": False, "attention_dropout": 0.0,
         "pad_token_id": 0}
# Routers are filled wider than the rest. Variants were tried until no choice was so close that bf16, ours or that of PyTorch, made another.
QWEN3_MOE = {**{k: v for k, v in QWEN3.items() if k != "max_window_layers"}, "architectures": ["Qwen3MoeForCausalLM"],
             "model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 20, "norm_topk_prob": True,
             "decoder_sparse_step": 1, "mlp_only_layers": [], "output_router_logits": False, "router_aux_loss_coef": 0.001}
MIXTRAL = {**SHARED, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_act": "silu", "num_key_value_heads": 2,
           "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "sliding_window": None, "attention_dropout": 0.0, "num_local_experts": 4,
           "num_experts_per_tok": 2, "intermediate_size": 24, "output_router_logits": False, "router_aux_loss_coef": 0.02}
BERT = {**{k: v for k, v in SHARED.items() if k not in ("bos_token_id", "eos_token_id")}, "architectures": ["BertForMaskedLM"],
        "model_type": "bert", "hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2, "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1, "position_embedding_type": "absolute", "pad_token_id": 0, "use_cache": True,
        "tie_word_embeddings": True}
# Text models inside wrappers, beside towers as small as can be.
SIGHT = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "image_size": 8, "patch_size": 4}
MULTIMODAL_GEMMA3 = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "mm_tokens_per_image": 4,
                     "vision_config": {**SIGHT, "model_type": "siglip_vision_model"}}
MULTIMODAL_MISTRAL = {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "image_token_index": 10,
                      "vision_config": {**SIGHT, "model_type": "pixtral", "head_dim": 8}}
IDEFICS3 = {"architectures": ["Idefics3ForConditionalGeneration"], "model_type": "idefics3", "image_token_id": 90, "scale_factor": 2,
            "vision_config": {**SIGHT, "model_type": "idefics3_vision"}}
TINY = {"hidden_size": 16, "intermediate_size": 24, "vocab_size": 96}
# Wavelengths of 8 frequencies at theta 10000 are 6, 20, 63, 199, …: with these bounds one is kept, two are blended, five divided.
LLAMA3_ROPE = {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 64}

# name: (base, what differs, options). Options: packed and ignore add those cases, shards splits the file and adds an index,
# padded a batch with attention_mask and, of encoders, token types, gamma the names of norms in files that came from TensorFlow,
# bare writes the names and the mask buffers of the original GPT-2 files, own_config keeps the config.json that transformers writes,
# modules names the weights as the modules are, published those of the tower as they were when the wrapper was published.
VARIANTS = {
    "llama2": (LLAMA, {}, {"ignore"}),
    "llama3": (LLAMA, {"num_key_value_heads": 1, "num_attention_heads": 2, "rope_theta": 10000.0, "max_position_embeddings": 128,
                       "rope_scaling": {**LLAMA3_ROPE, "rope_type": "llama3"}}, {"packed"}),
    "llama3_parameters": (LLAMA, {"num_attention_heads": 2, "num_key_value_heads": 1, "rope_parameters": {
        **LLAMA3_ROPE, "factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 5000.0, "rope_type": "llama3"}}, set()),
    "llama_linear": (LLAMA, {"num_key_value_heads": 2, "rope_theta": 10000.0,
                             "rope_scaling": {"type": "linear", "factor": 2.5}}, set()),
    "llama_yarn": (LLAMA, {"num_attention_heads": 2, "num_key_value_heads": 1, "rope_theta": 10000.0, "rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 2.0, "beta_slow": 0.25}}, {"packed"}),
    "smollm2": (LLAMA, {"hidden_size": 48, "intermediate_size": 64, "num_attention_heads": 6, "num_key_value_heads": 2,
                        "tie_word_embeddings": True, "rope_theta": 100000, "rope_scaling": None, "rope_interleaved": False,
                        "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0, "pretraining_tp": 1,
                        "is_llama_config": True}, set()),
    "llama_head_dim": (LLAMA, {"head_dim": 12, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "num_hidden_layers": 3}, set()),
    "llama_bias": (LLAMA, {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 2}, {"shards"}),
    "gpt2": (GPT2, {}, {"packed"}),
    "gpt2_inner": (GPT2, {"n_inner": 80}, {"bare"}),
    "gpt2_gelu": (GPT2, {"activation_function": "gelu", "eos_token_id": 50256, "bos_token_id": 50256}, set()),
    "gpt2_dropout": (GPT2, {"activation_function": "relu", "attn_pdrop": 0.1, "embd_pdrop": 0.2, "resid_pdrop": 0.15,
                            "n_head": 2}, set()),
    "qwen2": (QWEN2, {"tie_word_embeddings": True}, set()),
    "qwen2_window": (QWEN2, {"use_sliding_window": True}, {"packed"}),
    "qwen3": (QWEN3, {}, set()),
    "qwen3_layer_types": (QWEN3, {"use_sliding_window": True, "layer_types": ["sliding_attention", "full_attention"],
                                  "attention_bias": True, "tie_word_embeddings": True}, set()),
    "qwen3_yarn": ({k: v for k, v in QWEN3.items() if k not in ("rope_theta", "rope_scaling")}, {"rope_parameters": {
        "rope_type": "yarn", "rope_theta": 2000.0, "factor": 6.0, "original_max_position_embeddings": 12, "beta_fast": 3.0, "beta_slow": 0.5,
        "mscale": 0.8, "mscale_all_dim": 0.3, "truncate": False}}, set()),
    "mistral": (MISTRAL, {}, {"packed"}),
    "mistral_whole": (MISTRAL, {"sliding_window": None, "head_dim": 12}, set()),
    "gemma2": (GEMMA2, {}, {"packed"}),
    "gemma2_uncapped": (GEMMA2, {"attn_logit_softcapping": None, "final_logit_softcapping": None, "num_hidden_layers": 2,
                                 "tie_word_embeddings": False}, set()),
    "gemma3_text": (GEMMA3, {}, {"packed"}),
    "gemma3_text_parameters": (
        {k: v for k, v in GEMMA3.items() if k not in ("rope_theta", "rope_local_base_freq", "rope_scaling", "sliding_window_pattern")},
        {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "final_logit_softcapping": 2.5, "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 7000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 90.0}}}, {"ignore"}),
    "gemma3": (MULTIMODAL_GEMMA3, {"text_config": {
        **TINY, "model_type": "gemma3_text", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
        "max_position_embeddings": 64, "sliding_window": 5, "query_pre_attn_scalar": 7, "sliding_window_pattern": 2}}, {"own_config"}),
    # As sparse as Google's, which leave out the sizes that are their class's defaults, too.
    "gemma3_published": (MULTIMODAL_GEMMA3, {
        "boi_token_index": 80, "eoi_token_index": 81, "eos_token_id": [1, 6], "image_token_index": 82, "initializer_range": 0.02,
        "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0", "text_config": {
            **TINY, "head_dim": 4, "model_type": "gemma3_text", "num_hidden_layers": 6, "sliding_window": 5,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}}, {"published"}),
    "mistral3": (MULTIMODAL_MISTRAL, {"tie_word_embeddings": False, "text_config": {
        **TINY, "model_type": "mistral", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
        "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 1000000000.0, "sliding_window": None,
        "attention_dropout": 0.0, "initializer_range": 0.02, "use_cache": True}}, {"modules"}),
    "idefics3": (IDEFICS3, {"tie_word_embeddings": False, "text_config": {
        **TINY, "model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 100000, "rope_interleaved": False, "is_llama_config": True,
        "neftune_noise_alpha": 0.0, "pixel_shuffle_factor": 4, "qk_layer_norms": False, "use_resampler": False, "pad_token_id": 2,
        "perceiver_config": {"model_type": "vllama3", "qk_layer_norms_perceiver": False}}}, set()),
    "phi3": (PHI3, {}, {"packed"}),
    "phi3_partial": (PHI3, {"partial_rotary_factor": 0.5, "sliding_window": 9, "resid_pdrop": 0.1, "tie_word_embeddings": True}, set()),
    # A row of 24 is beyond the original context, documents of at most 15 are not.
    "phi3_longrope": (PHI3, {"original_max_position_embeddings": 16, "rope_scaling": {
        "type": "longrope", "short_factor": [1.0, 1.1, 1.3, 2.0], "long_factor": [1.5, 2.5, 4.0, 9.0]}}, {"packed"}),
    "olmo2": (OLMO2, {}, {"packed"}),
    "qwen3_moe": (QWEN3_MOE, {}, {"packed"}),
    "qwen3_moe_mixed": (QWEN3_MOE, {"num_hidden_layers": 5, "decoder_sparse_step": 2, "mlp_only_layers": [3], "norm_topk_prob": False,
                                    "num_experts": 5, "num_experts_per_tok": 3, "use_sliding_window": True}, set()),
    "qwen3_moe_balanced": (QWEN3_MOE, {"num_hidden_layers": 3, "mlp_only_layers": [2], "norm_topk_prob": False, "num_experts": 4,
                                       "output_router_logits": True, "router_aux_loss_coef": 0.3}, {"packed", "padded"}),
    "mixtral": (MIXTRAL, {}, {"ignore"}),
    "mixtral_balanced": (MIXTRAL, {"num_local_experts": 5, "output_router_logits": True, "router_aux_loss_coef": 0.5}, {"ignore", "padded"}),
    "mixtral_window": (MIXTRAL, {"sliding_window": 5, "num_local_experts": 6}, {"packed"}),
    "bert": (BERT, {}, {"packed", "padded"}),
    "bert_gamma": (BERT, {"hidden_act": "gelu_new", "type_vocab_size": 3, "num_hidden_layers": 3,
                           "layer_norm_eps": 1e-5, "num_attention_heads": 2, "max_position_embeddings": 48}, {"gamma", "padded"}),
}


# ---- the model ----

def is_router(name):
    return name.endswith("mlp.gate.weight")


def as_saved(model, tensors):
    """Experts are two parameters of all in memory, gate and up in one, and three files' tensors each in a model that is saved."""
    if is_wrapper(model.config.to_dict()):
        inside = [path for path, m in model.named_modules() if path in ("model.language_model", "model.text_model")][0]
        return {n.replace(inside, "model", 1): t for n, t in tensors.items() if n.startswith((inside + ".", "lm_head."))}
    gate, up, down = ("w1", "w3", "w2") if model.config.model_type == "mixtral" else ("gate_proj", "up_proj", "down_proj")
    out = {}
    for name, t in tensors.items():
        base, _, last = name.rpartition(".")
        if not base.endswith("mlp.experts"):
            out[name.replace(".mlp.", ".block_sparse_moe.") if gate == "w1" else name] = t
            continue
        base = base.replace(".mlp.", ".block_sparse_moe.") if gate == "w1" else base
        for i, of in enumerate(t):
            parts = {down: of} if last == "down_proj" else dict(zip((gate, up), of.chunk(2)))
            out.update({f"{base}.{i}.{part}.weight": p.contiguous() for part, p in parts.items()})
    return out


def fill(model):
    """Random weights large enough that attention is far from uniform and no bias or norm weight is a neutral element. They are multiples of
    1/1024: they compress to half."""
    for name, p in model.named_parameters():
        g = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        noise = torch.randn(p.shape, generator=g)
        is_one = name.endswith("weight") and p.dim() == 1 and not model.config.model_type.startswith("gemma")
        p.data.copy_(torch.round(1024 * (1 + 0.2 * noise if is_one else (0.5 if is_router(name) else 0.2) * noise)) / 1024)


def rename_as_hub_gpt2(directory, config):
    """The original GPT-2 files have no `transformer.` prefix and carry each block's causal mask as a tensor."""
    path = os.path.join(directory, "model.safetensors")
    n = config["n_positions"]
    tensors = {name.removeprefix("transformer."): t for name, t in load_file(path).items()}
    for i in range(config["n_layer"]):
        tensors[f"h.{i}.attn.bias"] = torch.tril(torch.ones(n, n)).view(1, 1, n, n)
    save_file(tensors, path, metadata={"format": "pt"})


def rename_norms(directory):
    """Google's BERT files call a norm's weight gamma and its bias beta, and carry the pooler and the head of the other loss."""
    path = os.path.join(directory, "model.safetensors")
    tensors = {}
    for name, t in load_file(path).items():
        if ".LayerNorm." in name:
            name = name.replace(".weight", ".gamma").removesuffix(".bias") + (".beta" if name.endswith(".bias") else "")
        tensors[name] = t
    tensors["bert.pooler.dense.weight"] = torch.ones(32, 32)
    tensors["bert.pooler.dense.bias"] = torch.ones(32)
    tensors["cls.seq_relationship.weight"] = torch.ones(2, 32)
    tensors["cls.seq_relationship.bias"] = torch.ones(2)
    save_file(tensors, path, metadata={"format": "pt"})


def rename_as_modules(directory, model):
    """What some programs save: names as they are in memory, where transformers writes those of published files."""
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    save_file({n: t.contiguous() for n, t in model.state_dict().items() if n not in tied}, os.path.join(directory, "model.safetensors"),
              metadata={"format": "pt"})


def rename_as_published(directory):
    """The tower was a model in a model then."""
    path = os.path.join(directory, "model.safetensors")
    save_file({n.replace("vision_tower.", "vision_tower.vision_model."): t for n, t in load_file(path).items()}, path, metadata={"format": "pt"})


def write_model(directory, config, options):
    config_path = os.path.join(directory, "config.json")
    write_json(config_path, config)
    model = maker(config).from_config(AutoConfig.from_pretrained(directory), dtype=torch.float32)
    fill(model)
    model.save_pretrained(directory, max_shard_size="40KB" if "shards" in options else "1GB")
    if "gamma" in options:
        rename_norms(directory)
    if "bare" in options:
        rename_as_hub_gpt2(directory, config)
    if "modules" in options:
        rename_as_modules(directory, model)
    if "published" in options:
        rename_as_published(directory)
    if "own_config" not in options:
        write_json(config_path, config)      # save_pretrained wrote its own spelling over it
    extra = os.path.join(directory, "generation_config.json")
    if os.path.exists(extra):
        os.remove(extra)


def config_of(directory):
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as f:
        return json.load(f)


def load(directory, dtype):
    model, info = maker(config_of(directory)).from_pretrained(directory, dtype=dtype, output_loading_info=True,
                                                       attn_implementation="eager" if config_of(directory)["model_type"] == "gemma2" else "sdpa",
                                                       **({"experts_implementation": "eager"} if "num_experts_per_tok" in config_of(directory) else {}))
    assert not info["missing_keys"] and not info["mismatched_keys"], info
    model.eval()                             # dropout off; gradients flow all the same
    return model


# ---- what is computed ----

def is_encoder(config):
    return config["architectures"][0].endswith("ForMaskedLM")


def is_wrapper(config):
    return "text_config" in config


def text_of(config):
    return config.get("text_config", config)


def maker(config):
    return AutoModelForImageTextToText if is_wrapper(config) else AutoModelForMaskedLM if is_encoder(config) else AutoModelForCausalLM


def loss_of(logits, labels, ignore_index=-100, shifted=True):
    """A sample has T-1 targets: position t predicts label t+1; an encoder's label is of its own position. Mean over targets, in
    fp32 as transformers does."""
    wide = logits.double() if logits.dtype == torch.float64 else logits.float()
    if not shifted:
        return F.cross_entropy(wide.reshape(-1, wide.shape[-1]), labels.reshape(-1), ignore_index=ignore_index)
    return F.cross_entropy(wide[:, :-1].reshape(-1, wide.shape[-1]), labels[:, 1:].reshape(-1), ignore_index=ignore_index)


def balance_of(model, out):
    """What transformers adds to the loss of a model whose config says so."""
    return model.config.router_aux_loss_coef * out.aux_loss if getattr(model.config, "output_router_logits", False) else 0


def run(model, ids, labels=None, **inputs):
    """Logits, loss and every parameter's gradient."""
    model.zero_grad(set_to_none=True)
    encoder = is_encoder(model.config.to_dict())
    labels = ids if labels is None else labels
    out = model(input_ids=ids, labels=labels, **({} if encoder else {"use_cache": False}), **inputs)
    logits = out.logits
    loss = loss_of(logits, labels, shifted=not encoder) + balance_of(model, out)
    assert abs(loss.item() - out.loss.item()) <= 1e-6 * abs(loss.item()) or logits.dtype == torch.bfloat16, (loss, out.loss)
    loss.backward()
    return logits.detach(), loss.item(), as_saved(model, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})


def train(model, batches, labels):
    """STEPS AdamW steps over the batches in turn: the loss and gradient norm of each, and the parameters at the end."""
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False, **ADAMW)
    losses, norms = [], []
    for step in range(STEPS):
        _, loss, grads = run(model, batches[step % BATCHES], None if labels is None else labels[step % BATCHES])
        losses.append(loss)
        norms.append(torch.stack([g.double().norm() for g in grads.values()]).norm().item())
        optimizer.step()
    return losses, norms, as_saved(model, {name: p.detach().double() for name, p in model.named_parameters()})


def rel_l2(got, want):
    return ((got.double() - want.double()).norm() / want.double().norm()).item()


def max_abs(got, want):
    return (got.double() - want.double()).abs().max().item()


def errors(got, want):
    """How far one run (logits, loss, grads) is from another."""
    return {"logits_max_abs": max_abs(got[0], want[0]), "logits_rel_l2": rel_l2(got[0], want[0]),
            "loss_abs": abs(got[1] - want[1]), "grad_rel_l2": {n: rel_l2(g, want[2][n]) for n, g in got[2].items()}}


# ---- the packed and the ignored case ----

def additive(sees, dtype):
    return torch.zeros(sees.shape, dtype=dtype).masked_fill(~sees, torch.finfo(dtype).min)[:, None]


def packed_inputs(config, ids, dtype):
    """Documents end after EOS: where each token's document starts, its position there, and the masks of who sees whom."""
    start = torch.zeros_like(ids)
    for row in range(ids.shape[0]):
        for t in range(1, ids.shape[1]):
            start[row, t] = t if ids[row, t - 1] == EOS else start[row, t - 1]
    at = torch.arange(ids.shape[1])
    sees = start[:, :, None] == start[:, None, :]
    if not is_encoder(config.to_dict()):
        sees = sees & (at[None, :, None] >= at[None, None, :])
    near = sees & (at[None, :, None] - at[None, None, :] < (getattr(config, "sliding_window", None) or ids.shape[1]))
    mask = additive(near, dtype)
    if getattr(config, "layer_types", None):
        mask = {"full_attention": additive(sees, dtype), "sliding_attention": mask}
    return start, at[None] - start, mask


def check_documents_alone(model, ids, start, logits):
    """Each document scored by itself must give what the mask gave."""
    for row in range(ids.shape[0]):
        for s in sorted(set(start[row].tolist())):
            of = start[row] == s
            alone = model(input_ids=ids[row][of][None]).logits[0]
            assert max_abs(alone, logits[row][of]) < 1e-4


def packed_case(model, ids, labels):
    """Row 0: documents of 9, 1 and the rest; row 1: of 15 and the rest. Targets cross documents: the last token of one predicts
    the first of the next."""
    ids = ids.clone()
    ids[0, 8] = ids[0, 9] = ids[1, 14] = EOS
    start, positions, mask = packed_inputs(model.config, ids, torch.float32)
    # The mask of a balanced model would have to be one of tokens: from positions that begin again transformers makes this one by itself.
    with_mask = {} if getattr(model.config, "output_router_logits", False) else {"attention_mask": mask}
    logits, loss, grads = run(model, ids, labels, position_ids=positions, **with_mask)
    check_documents_alone(model, ids, start, logits)
    _, crossing, _ = run(model, ids, labels)
    tensors = {"packed.input_ids": ids.int(), "packed.document_start": start.int(), "packed.positions": positions.int(),
               "packed.logits": logits, **{f"packed.grad.{n}": g for n, g in grads.items()}}
    return tensors, {"loss": loss, "loss_across_documents": crossing}


def padded_case(model, ids, labels):
    """Row 0 is whole, row 1 ends after 15 tokens: behind that there is nothing to see and no target. Encoders: token types of all kinds."""
    mask = torch.ones_like(ids)
    mask[1, 15:] = 0
    ids = ids * mask
    labels = (ids if labels is None else labels).where(mask == 1, -100)
    more = {}
    if is_encoder(model.config.to_dict()):
        more["token_type_ids"] = torch.arange(ids.numel()).reshape(ids.shape) // 5 % model.config.type_vocab_size
    logits, loss, grads = run(model, ids, labels, attention_mask=mask, **more)
    tensors = {"padded.input_ids": ids.int(), "padded.labels": labels.int(), **{"padded.types": t.int() for t in more.values()},
               "padded.logits": logits[mask == 1], **{f"padded.grad.{n}": g for n, g in grads.items()}}
    return tensors, {"loss": loss, "first_row": int(mask[0].sum()), "second_row": int(mask[1].sum())}


def ignore_case(model, ids, _):
    """Row 0 masks its first 10 labels as a prompt is, row 1 its last 6 as padding is; and a loss that ignores one token's id."""
    labels = ids.clone()
    labels[0, :10] = -100
    labels[1, -6:] = -100
    _, loss, grads = run(model, ids, labels)
    out = model(input_ids=ids, use_cache=False)
    logits = out.logits
    seen = ids.clone()
    seen[0, 4] = seen[1, 5] = seen[1, 20] = IGNORED_TOKEN
    tensors = {"ignore.labels": labels.int(), "ignore.token_labels": seen.int(),
               **{f"ignore.grad.{n}": g for n, g in grads.items()}}
    return tensors, {"loss": loss, "targets": int((labels[:, 1:] != -100).sum()), "token": IGNORED_TOKEN,
                     "token_loss": (loss_of(logits, seen, IGNORED_TOKEN) + balance_of(model, out)).item(),
                     "token_targets": int((seen[:, 1:] != IGNORED_TOKEN).sum())}


# ---- one variant ----

def draw_batches(name, vocab):
    g = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randint(EOS + 1, vocab, (BATCHES, ROWS, TOKENS), generator=g)


def hide(name, batches):
    """As BERT does, but of more tokens: most become MASK, some another token, some stay. Labels are what stood there."""
    g = torch.Generator().manual_seed(zlib.crc32(name.encode()) + 1)
    chosen, how = torch.rand(batches.shape, generator=g) < 0.4, torch.rand(batches.shape, generator=g)
    other = torch.randint(EOS + 1, 96, batches.shape, generator=g)
    hidden = torch.where(how < 0.8, torch.full_like(batches, MASK), torch.where(how < 0.9, other, batches))
    return torch.where(chosen, hidden, batches), torch.where(chosen, batches, torch.full_like(batches, -100))


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)
        f.write("\n")


def golden(directory, name, config, options):
    batches, labels = draw_batches(name, text_of(config)["vocab_size"]), None
    if is_encoder(config):
        batches, labels = hide(name, batches)
    first_labels = None if labels is None else labels[0]
    model = load(directory, torch.float32)
    want = run(model, batches[0], first_labels)
    tensors = {"input_ids": batches.int(), **({} if labels is None else {"labels": labels.int()}), "logits": want[0], **{f"grad.{n}": g for n, g in want[2].items()}}
    out = {"variant": name, "made_by": "tools/goldens_models.py",
           "versions": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__},
           "vocab": text_of(config)["vocab_size"], "rows": ROWS, "tokens": TOKENS, "loss": want[1]}
    for case, make in (("packed", packed_case), ("padded", padded_case), ("ignore", ignore_case)):
        if case in options:
            more, out[case] = make(model, batches[0], first_labels)
            tensors.update(more)

    double, half = load(directory, torch.float64), load(directory, torch.bfloat16)
    out["float32_error"] = errors(want, run(double, batches[0], first_labels))
    out["bfloat16_error"] = errors(run(half, batches[0], first_labels), want)

    first = as_saved(model, {n: p.detach().double().clone() for n, p in model.named_parameters()})
    losses, norms, last = train(model, batches, labels)
    exact_losses, _, exact_last = train(double, batches, labels)
    half_losses, _, _ = train(half, batches, labels)
    out["float32_error"]["losses_max_abs"] = max(abs(a - b) for a, b in zip(losses, exact_losses))
    out["bfloat16_error"]["losses_max_abs"] = max(abs(a - b) for a, b in zip(half_losses, losses))
    out["adamw"] = {"lr": ADAMW["lr"], "beta1": ADAMW["betas"][0], "beta2": ADAMW["betas"][1], "eps": ADAMW["eps"],
                    "weight_decay": ADAMW["weight_decay"], "steps": STEPS, "batches": BATCHES,
                    "losses": losses, "grad_norms": norms,
                    "final": {n: {"l1": p.abs().sum().item(), "l2": p.norm().item(), "moved_l2": (p - first[n]).norm().item(),
                                  "float32_rel_l2": rel_l2(p, exact_last[n])} for n, p in last.items()}}
    golden_sketch.save(os.path.join(directory, "golden.safetensors"), tensors, {"logits"} if name in WHOLE_LOGITS else (), out)
    return out


def make(root, name):
    base, change, options = VARIANTS[name]
    config = {**base, **change}
    os.makedirs(root, exist_ok=True)
    aside = tempfile.mkdtemp(dir=root)
    try:
        write_model(aside, config, options)
        out = golden(aside, name, config, options)
        shutil.rmtree(os.path.join(root, name), ignore_errors=True)
        os.rename(aside, os.path.join(root, name))
        os.chmod(os.path.join(root, name), 0o755)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    worst = {k: max(out[k]["grad_rel_l2"].values()) for k in ("float32_error", "bfloat16_error")}
    print(f"{name}: loss {out['loss']:.4f}, after {STEPS} steps {out['adamw']['losses'][-1]:.4f}; worst gradient: "
          f"fp32 {worst['float32_error']:.1e}, bf16 {worst['bfloat16_error']:.1e}; losses off fp64 by "
          f"{out['float32_error']['losses_max_abs']:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", default=os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "models"))
    parser.add_argument("variants", nargs="*", metavar="VARIANT", help=f"of {', '.join(VARIANTS)}")
    args = parser.parse_args()
    for name in args.variants:
        if name not in VARIANTS:
            parser.error(f"unknown variant '{name}'; there are {', '.join(VARIANTS)}")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in args.variants or VARIANTS:
        make(args.out, name)


if __name__ == "__main__":
    main()
