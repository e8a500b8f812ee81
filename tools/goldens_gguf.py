#!/usr/bin/env python3
"""Write tests/golden/gguf/: tiny random llamas as llama.cpp's converter writes them, and what transformers reads from them.

    goldens_gguf.py [-o DIR]                        tools/goldens_setup makes the environment

  grouped.gguf          grouped heads, an output of its own, F32, F16, Q8_0 and Q4_1 tensors, Llama 3's rope_freqs
  grouped.safetensors   what transformers loads from it, dequantised
  grouped.json          the fields of the config it makes of it; rope_scaling is what rope_freqs was made from
  tied.gguf             tied embeddings, biases, linear scaling, no vocab_size; all F32
  tied.safetensors      the weights it was made from: transformers leaves biases out when it reads GGUF
  gpt2.gguf             GPT-2 as llama.cpp's converter writes it: projections turned to [out, in], the embedding again as output
  gpt2.safetensors      the weights it was made from, as gguf-py dequantises them, turned back
  gpt2.json             the config it was made from (transformers reads the context of a GGUF into a key of no effect)

  qwen2.gguf, qwen3.gguf, gemma2.gguf, gemma3_text.gguf, phi3.gguf, olmo2.gguf
                        the golden models of these names, all F32, under the names of the gguf package
  qwen3_moe.gguf, mixtral.gguf
                        golden models of experts: those of a projection in one tensor; a Mixtral is a llama with experts
  mixtral_apart.gguf    the same Mixtral as converters wrote it before, each expert a tensor

Rows of a llama's q and k are permuted as the converter does it: [heads, 2, D/2] becomes [heads, D/2, 2]. Seeded: two runs write the same.
"""
import argparse
import json
import os
import re

import gguf
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

Q = gguf.GGMLQuantizationType
HIDDEN, HEADS, KV_HEADS, MLP, VOCAB, LAYERS = 32, 4, 2, 64, 64, 2
LLAMA3 = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
FIELDS = ["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
          "max_position_embeddings", "rms_norm_eps", "vocab_size", "tie_word_embeddings", "hidden_act", "model_type"]
KINDS = {"token_embd": Q.F16, "output": Q.Q8_0, "attn_q": Q.Q4_1, "attn_k": Q.Q8_0, "attn_v": Q.F16, "ffn_down": Q.Q4_1}


def model(**more):
    torch.manual_seed(7)
    m = LlamaForCausalLM(LlamaConfig(
        hidden_size=HIDDEN, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, intermediate_size=MLP, vocab_size=VOCAB,
        num_hidden_layers=LAYERS, max_position_embeddings=131072, rms_norm_eps=1e-5, **more))
    for p in m.parameters():
        p.data.copy_(torch.round(1024 * p.data.normal_(std=0.2)) / 1024)         # compresses to half
    return m


def permute(w, heads):
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def write(path, m, kinds, theta, freqs=None, vocab_size=True, linear=None):
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, LAYERS)
    w = gguf.GGUFWriter(path, "llama")
    w.add_name("tiny")
    w.add_context_length(131072)
    w.add_embedding_length(HIDDEN)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(MLP)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_freq_base(theta)
    w.add_rope_dimension_count(HIDDEN // HEADS)
    if vocab_size:
        w.add_vocab_size(VOCAB)
    if linear:
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(linear)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    if freqs is not None:
        w.add_tensor("rope_freqs.weight", freqs)
    for name, p in m.state_dict().items():
        module, kind = name.rsplit(".", 1)
        if name == "lm_head.weight" and m.config.tie_word_embeddings:
            continue
        theirs, data = names.get_name(module), p.float().numpy()
        if ".q_proj" in name or ".k_proj" in name:
            data = permute(data, HEADS if ".q_proj" in name else KV_HEADS)
        data = np.ascontiguousarray(data)
        q = kinds.get(theirs.split(".")[-1], Q.F32) if kind == "weight" else Q.F32
        w.add_tensor(f"{theirs}.{kind}", data if q == Q.F32 else gguf.quantize(data, q), raw_dtype=q)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def weights(m):
    tied = m.config.tie_word_embeddings
    return {k: v.float().contiguous() for k, v in m.state_dict().items() if not (tied and k == "lm_head.weight")}


def grouped(folder):
    path, theta = os.path.join(folder, "grouped.gguf"), 500000.0
    m = model(rope_parameters={**LLAMA3, "rope_theta": theta})
    plain = 1.0 / theta ** (torch.arange(0, HIDDEN // HEADS, 2).float() / (HIDDEN // HEADS))
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](m.config, "cpu")
    write(path, m, KINDS, theta, freqs=(plain / scaled).numpy())
    read = AutoModelForCausalLM.from_pretrained(folder, gguf_file="grouped.gguf", dtype=torch.float32)
    save_file(weights(read), os.path.join(folder, "grouped.safetensors"))
    config = read.config.to_dict()
    out = {k: config[k] for k in FIELDS} | {"rope_theta": config["rope_parameters"]["rope_theta"], "rope_scaling": LLAMA3}
    with open(os.path.join(folder, "grouped.json"), "w", encoding="utf-8") as f:
        json.dump(out, f, indent=1, sort_keys=True)
        f.write("\n")


def tied(folder):
    m = model(tie_word_embeddings=True, attention_bias=True, mlp_bias=True)
    write(os.path.join(folder, "tied.gguf"), m, {}, 10000.0, vocab_size=False, linear=2.5)
    save_file(weights(m), os.path.join(folder, "tied.safetensors"))


GPT2_KINDS = {"token_embd": Q.Q8_0, "output": Q.Q8_0, "position_embd": Q.F32, "attn_qkv": Q.Q4_0, "ffn_up": Q.F16, "ffn_down": Q.Q5_1}


def gpt2(folder):
    torch.manual_seed(8)
    m = GPT2LMHeadModel(GPT2Config(n_embd=HIDDEN, n_head=HEADS, n_layer=LAYERS, n_inner=MLP, vocab_size=VOCAB, n_positions=48,
                                   bos_token_id=1, eos_token_id=2))
    for p in m.parameters():
        p.data.copy_(torch.round(1024 * p.data.normal_(std=0.2)) / 1024)         # compresses to half
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, LAYERS)
    w = gguf.GGUFWriter(os.path.join(folder, "gpt2.gguf"), "gpt2")
    w.add_block_count(LAYERS)
    w.add_context_length(48)
    w.add_embedding_length(HIDDEN)
    w.add_feed_forward_length(MLP)
    w.add_head_count(HEADS)
    w.add_layer_norm_eps(1e-5)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    made = {}
    for name, p in m.state_dict().items():
        module, part = name.rsplit(".", 1)
        theirs, data = names.get_name(module), p.float().numpy()
        turned = part == "weight" and module.rsplit(".", 1)[-1] in ("c_attn", "c_proj", "c_fc")
        data = np.ascontiguousarray(data.T if turned else data)
        q = GPT2_KINDS.get(theirs.split(".")[-1], Q.F32) if part == "weight" else Q.F32
        raw = data if q == Q.F32 else gguf.quantize(data, q)
        w.add_tensor(f"{theirs}.{part}", raw, raw_dtype=q)
        back = np.asarray(gguf.dequantize(raw, q), np.float32).reshape(data.shape)
        if name != "lm_head.weight":
            made[name] = torch.from_numpy(np.ascontiguousarray(back.T if turned else back))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    save_file(made, os.path.join(folder, "gpt2.safetensors"))
    with open(os.path.join(folder, "gpt2.json"), "w", encoding="utf-8") as f:
        json.dump(m.config.to_dict(), f, indent=1, sort_keys=True)
        f.write("\n")


# ---- the other families, from their golden models ----

FAMILIES = {"qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3, "gemma2": gguf.MODEL_ARCH.GEMMA2,
            "gemma3_text": gguf.MODEL_ARCH.GEMMA3, "phi3": gguf.MODEL_ARCH.PHI3, "olmo2": gguf.MODEL_ARCH.OLMO2,
            "qwen3_moe": gguf.MODEL_ARCH.QWEN3MOE, "mixtral": gguf.MODEL_ARCH.LLAMA}


def add_metadata(w, c):
    """What llama.cpp's converter writes of these families."""
    head = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    w.add_vocab_size(c["vocab_size"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_freq_base(c["rope_theta"])
    if "head_dim" in c:
        w.add_key_length(head)
        w.add_value_length(head)
    if c["model_type"] in ("phi3", "mixtral"):
        w.add_rope_dimension_count(head)
    if "num_experts_per_tok" in c:
        w.add_expert_count(c.get("num_experts") or c["num_local_experts"])
        w.add_expert_used_count(c["num_experts_per_tok"])
    if "moe_intermediate_size" in c:
        w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    if c["model_type"] in ("gemma2", "gemma3_text", "phi3"):
        w.add_sliding_window(c["sliding_window"] or 0)
    if c.get("attn_logit_softcapping"):
        w.add_attn_logit_softcapping(c["attn_logit_softcapping"])
    if c.get("final_logit_softcapping"):
        w.add_final_logit_softcapping(c["final_logit_softcapping"])
    if "rope_local_base_freq" in c:
        w.add_rope_freq_base_swa(c["rope_local_base_freq"])
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(c["rope_scaling"]["factor"])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)


def experts_in_one(tensors):
    """Of `….experts.3.w1.weight`, … one `….experts.w1.weight`."""
    out = {}
    for key, t in tensors.items():
        before, expert, after = re.fullmatch(r"(.*\.experts)\.(\d+)(\..*)|(.*)", key).group(1, 2, 3)
        if expert is None:
            out[key] = t
        else:
            out.setdefault(before + after, {})[int(expert)] = t
    return {key: torch.stack([t[e] for e in range(len(t))]) if isinstance(t, dict) else t for key, t in out.items()}


def theirs_of(names, module):
    """The gguf package has no names of experts apart any more."""
    apart = re.fullmatch(r"model\.layers\.(\d+)\.block_sparse_moe\.experts\.(\d+)\.(w\d)", module)
    if not apart:
        return names.get_name(module)
    layer, expert, part = apart.groups()
    return f"blk.{layer}.{dict(w1='ffn_gate', w2='ffn_down', w3='ffn_up')[part]}.{expert}"


def family(folder, name, apart=False):
    """Gemma's norms stand as they act, 1 more than in safetensors. What transformers reads too must be the same."""
    source = os.path.join(folder, "..", "models", name)
    path = os.path.join(folder, f"{name}_apart.gguf" if apart else f"{name}.gguf")
    with open(os.path.join(source, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    arch = FAMILIES[name]
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    w = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    w.add_name("tiny")
    add_metadata(w, config)
    tensors = load_file(os.path.join(source, "model.safetensors"))
    for key, t in (tensors if apart else experts_in_one(tensors)).items():
        module, kind = key.rsplit(".", 1)
        plus = 1 if name.startswith("gemma") and t.dim() == 1 else 0
        if name == "mixtral" and (".q_proj" in key or ".k_proj" in key):
            t = permute(t, config["num_attention_heads" if ".q_proj" in key else "num_key_value_heads"])
        w.add_tensor(f"{theirs_of(names, module)}.{kind}", np.ascontiguousarray((t + plus).numpy()))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    if name in ("qwen2", "gemma2", "gemma3_text"):       # of qwen3 it reads no head_dim, the others not at all
        read = AutoModelForCausalLM.from_pretrained(folder, gguf_file=f"{name}.gguf", dtype=torch.float32).state_dict()
        assert all((read[k] - t).abs().max() < 1e-6 for k, t in tensors.items()), name


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", default=os.path.join(os.path.dirname(__file__), "../tests/golden/gguf"))
    to = parser.parse_args().out
    os.makedirs(to, exist_ok=True)
    grouped(to)
    tied(to)
    gpt2(to)
    for one in FAMILIES:
        family(to, one)
    family(to, "mixtral", apart=True)
