#!/usr/bin/env python3
"""Write tests/golden/gguf/written.json: size and FNV-1a hash of the GGUF files that the gguf package makes of golden models and tokenizers.

    goldens_gguf_written.py [-o FILE] [--keep DIR]      needs gguf 0.19.0 and numpy (tools/goldens_setup)

"models": by case and type, the file of a golden model without a tokenizer. Names, shapes and hyperparameters are those of llama.cpp's converter.
"tokenizers": the file of a golden tokenizer without tensors. "adapters": the adapter file of a golden adapter.
"types": by type, the blocks of 4,096 numbers that the test makes, too.
--keep leaves the files in DIR.
"""
import argparse
import json
import math
import os
import struct
import tempfile

import gguf
import numpy as np

Q = gguf.GGMLQuantizationType
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/golden")
FILE_TYPES = {"F32": 0, "F16": 1, "BF16": 32, "Q8_0": 7, "Q4_0": 2, "Q4_1": 3, "Q5_0": 8, "Q5_1": 9}
ALL = ["F32", "F16", "BF16", "Q8_0", "Q4_0"]

# Of a case: the golden model, fields of its config that the test overrides, and the types.
CASES = {
    "llama2": ("llama2", {}, ALL), "smollm2": ("smollm2", {}, ALL), "llama3": ("llama3", {}, ALL), "llama_bias": ("llama_bias", {}, ["F32", "Q8_0"]),
    "llama_head_dim": ("llama_head_dim", {}, ["F32"]), "llama_linear": ("llama_linear", {}, ["F32"]), "mistral_whole": ("mistral_whole", {}, ["F32"]),
    "gpt2": ("gpt2", {}, ALL), "qwen2": ("qwen2", {}, ["F32", "Q8_0"]), "qwen3": ("qwen3", {}, ["F32"]), "phi3": ("phi3", {}, ["F32", "Q4_0"]),
    "olmo2": ("olmo2", {}, ["F32"]), "qwen3_moe": ("qwen3_moe", {}, ["F32", "Q8_0"]),
    "mixtral": ("mixtral", {}, ["F32", "Q8_0"]), "gemma2": ("gemma2", {"query_pre_attn_scalar": 12}, ["F32", "Q8_0"]),
    "gemma3": ("gemma3_text", {"query_pre_attn_scalar": 12, "sliding_window_pattern": 6}, ["F32"]),
}
ARCHITECTURES = {"llama": "llama", "mistral": "llama", "mixtral": "llama", "gpt2": "gpt2", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3_moe": "qwen3moe",
                 "gemma2": "gemma2", "gemma3_text": "gemma3", "phi3": "phi3", "olmo2": "olmo2"}
ORDER = ["rope_freqs", "token_embd", "position_embd", "blk", "output_norm", "output"]
IN_BLOCK = ["attn_norm", "attn_qkv", "attn_q", "attn_k", "attn_v", "attn_q_norm", "attn_k_norm", "attn_output", "post_attention_norm", "ffn_norm",
            "ffn_gate_inp", "ffn_gate_exps", "ffn_gate", "ffn_up_exps", "ffn_up", "ffn_down_exps", "ffn_down", "post_ffw_norm"]


def fnv(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return h


def summary(path):
    with open(path, "rb") as f:
        data = f.read()
    return [len(data), f"{fnv(data):016x}"]


def safetensors(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name == "__metadata__":
            continue
        assert t["dtype"] == "F32", name
        begin, end = t["data_offsets"]
        out[name] = np.frombuffer(data[8 + n + begin:8 + n + end], dtype=np.float32).reshape(t["shape"])
    return out


def folder_tensors(folder):
    """Of one file, or of all shards."""
    out = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("model") and name.endswith(".safetensors"):
            out |= safetensors(os.path.join(folder, name))
    return out


def permute(w, heads):
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def block_order(name):
    part, kind = name.split(".", 2)[2].rsplit(".", 1)
    return IN_BLOCK.index(part), kind == "bias"


def order(name):
    parts = name.split(".")
    if parts[0] == "blk":
        return ORDER.index("blk"), int(parts[1]), block_order(name)
    return ORDER.index(parts[0]), 0, (0, parts[-1] == "bias")


def in_one(tensors):
    """Experts of a projection stacked."""
    out, experts = {}, {}
    for name, t in tensors.items():
        if ".experts." not in name:
            out[name] = t
            continue
        before, rest = name.split(".experts.")
        number, part, kind = rest.split(".")
        experts.setdefault(f"{before}.experts.{part}.{kind}", {})[int(number)] = t
    return out | {name: np.stack([parts[i] for i in range(len(parts))]) for name, parts in experts.items()}


def divisors(c):
    dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    s = c["rope_scaling"]
    out = []
    for i in range(0, dim, 2):
        turns = s["original_max_position_embeddings"] / (2 * math.pi * c["rope_theta"] ** (i / dim))
        smooth = (turns - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
        out.append(1 if turns > s["high_freq_factor"] else s["factor"] if turns < s["low_freq_factor"] else 1 / ((1 - smooth) / s["factor"] + smooth))
    return np.array(out, dtype=np.float32)


def tensors_of(c, tensors):
    """By their names in GGUF, as llama.cpp's converter changes them."""
    arch = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[ARCHITECTURES[c["model_type"]]]
    names = gguf.get_tensor_name_map(arch, c.get("num_hidden_layers") or c["n_layer"])
    out = {}
    for name, t in in_one(tensors).items():
        module, kind = name.rsplit(".", 1)
        theirs = names.get_name(module) or names.get_name("transformer." + module)
        assert theirs, name
        if ARCHITECTURES[c["model_type"]] == "llama" and (".q_proj" in name or ".k_proj" in name):
            t = permute(t, c["num_attention_heads"] if ".q_proj" in name else c.get("num_key_value_heads") or c["num_attention_heads"])
        if c["model_type"].startswith("gemma") and t.ndim == 1:
            t = t + np.float32(1)
        if c["model_type"] == "gpt2" and t.ndim == 2 and module.rsplit(".", 1)[-1] in ("c_attn", "c_proj", "c_fc"):
            t = t.T
        out[f"{theirs}.{kind}"] = np.ascontiguousarray(t)
    tied = c.get("tie_word_embeddings", False) or c["model_type"] == "gpt2" and "tie_word_embeddings" not in c
    if tied:
        out.pop("output.weight", None)
    if (c.get("rope_scaling") or {}).get("rope_type") == "llama3":
        out["rope_freqs.weight"] = divisors(c)
    return sorted(out.items(), key=lambda one: order(one[0]))


def type_of(name, t, kind, names):
    matrix = name.endswith((".weight", ".lora_a", ".lora_b")) and t.ndim > 1 and not name.endswith("_norm.weight")
    if not matrix or ".ffn_gate_inp." in name or name == "position_embd.weight" or name == "rope_freqs.weight":
        return "F32"
    output = name == "output.weight" or (name == "token_embd.weight" and "output.weight" not in names)
    if kind.startswith("Q4") and output:
        kind = "Q8_0"
    return kind if kind in ("F32", "F16", "BF16") or t.shape[-1] % 32 == 0 else "F16"


def add_tensors(w, listed, kind):
    for name, t in listed:
        q = Q[type_of(name, t, kind, [n for n, _ in listed])]
        w.add_tensor(name, gguf.quantize(t, q) if q != Q.F32 else t, raw_dtype=q)


def finish(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def add_config(w, c):
    gpt2 = c["model_type"] == "gpt2"
    heads = c["n_head"] if gpt2 else c["num_attention_heads"]
    hidden = c["n_embd"] if gpt2 else c["hidden_size"]
    dim = c.get("head_dim") or hidden // heads
    rope = (c.get("rope_scaling") or {}) if not gpt2 else {}
    w.add_block_count(c["n_layer"] if gpt2 else c["num_hidden_layers"])
    w.add_context_length(c["n_positions"] if gpt2 else c["max_position_embeddings"])
    w.add_embedding_length(hidden)
    w.add_feed_forward_length((c.get("n_inner") or 4 * hidden) if gpt2 else c["intermediate_size"])
    w.add_head_count(heads)
    if not gpt2:
        w.add_head_count_kv(c.get("num_key_value_heads") or heads)
        w.add_rope_freq_base(c.get("rope_theta", 10000.0))
    if "rope_local_base_freq" in c:
        w.add_rope_freq_base_swa(c["rope_local_base_freq"])
    if gpt2:
        w.add_layer_norm_eps(c["layer_norm_epsilon"])
    else:
        w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    if "num_experts_per_tok" in c:
        w.add_expert_count(c.get("num_experts") or c["num_local_experts"])
        w.add_expert_used_count(c["num_experts_per_tok"])
    if "moe_intermediate_size" in c:
        w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    if not gpt2:
        w.add_key_length(dim)
        w.add_value_length(dim)
    if c.get("attn_logit_softcapping"):
        w.add_attn_logit_softcapping(c["attn_logit_softcapping"])
    if c.get("final_logit_softcapping"):
        w.add_final_logit_softcapping(c["final_logit_softcapping"])
    if c.get("sliding_window") and c["model_type"] in ("gemma2", "gemma3_text", "phi3"):
        w.add_sliding_window(c["sliding_window"])
    w.add_vocab_size(c["vocab_size"])
    if not gpt2:
        w.add_rope_dimension_count(int(dim * c.get("partial_rotary_factor", 1)))
    if rope.get("rope_type", rope.get("type")) == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(rope["factor"])


def config_of(variant, overrides):
    with open(os.path.join(GOLDEN, "models", variant, "config.json"), encoding="utf-8") as f:
        return json.load(f) | overrides


def write_model(path, variant, overrides, kind):
    c = config_of(variant, overrides)
    w = gguf.GGUFWriter(path, ARCHITECTURES[c["model_type"]])
    w.add_type("model")
    w.add_name("golden")
    add_config(w, c)
    w.add_file_type(FILE_TYPES[kind])
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    w.add_tokenizer_model("none")
    w.add_bos_token_id(c["bos_token_id"])
    w.add_eos_token_id(c["eos_token_id"])
    add_tensors(w, tensors_of(c, folder_tensors(os.path.join(GOLDEN, "models", variant))), kind)
    finish(w)


# ---- tokenizers ----

# The name of their pre-tokenizer; None: SentencePiece's. The vocabularies of their models have 3 ids more.
TOKENIZERS = {"smollm": "smollm", "gpt2": "gpt-2", "llama3": "llama-bpe", "qwen2": "qwen2", "o200k": "gpt-4o", "families/falcon": "falcon",
              "families/llama2": None, "families/phi3": None}


def write_tokenizer(path, name, pre):
    folder = os.path.join(GOLDEN, "tokenizer", name)
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as f:
        root = json.load(f)
    with open(os.path.join(folder, "tokenizer_config.json"), encoding="utf-8") as f:
        config = json.load(f)
    vocab = {text: i for text, i in root["model"]["vocab"].items()}
    types = {i: 1 for i in vocab.values()}
    for token in root["added_tokens"]:
        vocab[token["content"]] = token["id"]
        types[token["id"]] = 3 if token["special"] else 4
    text = {i: t for t, i in vocab.items()}
    merges = [m if isinstance(m, list) else m.split(" ") for m in root["model"]["merges"]]
    n = max(text) + 1 + 3
    unk = root["model"].get("unk_token") or config.get("unk_token")
    if pre is None:
        types |= {vocab[f"<0x{b:02X}>"]: 6 for b in range(256)}
        types[vocab[unk]] = 2
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model("gpt2" if pre else "llama")
    w.add_tokenizer_pre(pre or "default")
    w.add_token_list([text.get(i, f"[PAD{i}]") for i in range(n)])
    if pre is None:
        scores, rank = {}, 0
        for left, right in merges:
            made = vocab[left + right]
            if made not in scores:
                scores[made] = float(-rank)
                rank += 1
        w.add_token_scores([scores.get(i, -float(n)) for i in range(n)])
    w.add_token_types([types.get(i, 5) for i in range(n)])
    if pre:
        w.add_token_merges([" ".join(m) for m in merges])
    front = ((root.get("post_processor") or {}).get("single") or [{}])[0].get("SpecialToken", {}).get("id")
    bos = config.get("bos_token", front) or front
    if bos:
        w.add_bos_token_id(vocab[bos])
    if config.get("eos_token"):
        w.add_eos_token_id(vocab[config["eos_token"]])
    if unk:
        w.add_unk_token_id(vocab[unk])
    if config.get("pad_token"):
        w.add_pad_token_id(vocab[config["pad_token"]])
    w.add_add_bos_token(bool(config.get("add_bos_token", front is not None) and bos))
    if pre is None:
        w.add_add_space_prefix(root["normalizer"]["type"] == "Sequence")
    finish(w)


# ---- adapters ----

def write_adapter(path, name, kind):
    folder = os.path.join(GOLDEN, "lora", name)
    with open(os.path.join(folder, "adapter_config.json"), encoding="utf-8") as f:
        a = json.load(f)
    c = config_of(os.path.basename(a["base_model_name_or_path"]), {})
    arch = ARCHITECTURES[c["model_type"]]
    names = gguf.get_tensor_name_map({n: key for key, n in gguf.MODEL_ARCH_NAMES.items()}[arch], c.get("num_hidden_layers") or c["n_layer"])
    made = {}
    for key, t in safetensors(os.path.join(folder, "adapter_model.safetensors")).items():
        module, half = key.removeprefix("base_model.model.").removesuffix(".weight").rsplit(".", 1)
        theirs = names.get_name(module)
        if half == "lora_B" and arch == "llama" and module.endswith(("q_proj", "k_proj")):
            t = permute(t, c["num_attention_heads"] if module.endswith("q_proj") else c.get("num_key_value_heads") or c["num_attention_heads"])
        made[f"{theirs}.weight.{half.lower()}"] = np.ascontiguousarray(t)
    w = gguf.GGUFWriter(path, arch)
    w.add_type("adapter")
    w.add_name("golden")
    w.add_string("adapter.type", "lora")
    w.add_float32("adapter.lora.alpha", a["lora_alpha"] * (math.sqrt(a["r"]) if a["use_rslora"] else 1))
    add_tensors(w, sorted(made.items(), key=lambda one: (order(one[0].rsplit(".", 1)[0]), one[0])), kind)
    finish(w)


# ---- blocks ----

def numbers():
    """Of the test: a linear congruence, scaled by a power of two that depends on the block; some blocks are zero, constant or tiny."""
    state, out = 12345, []
    for i in range(4096):
        state = (state * 1664525 + 1013904223) & 0xffffffff
        block = i // 32
        x = np.float32((state >> 8) / (1 << 24) - 0.5) * np.float32(2.0 ** (block % 24 - 12))
        out.append(np.float32(0) if block == 5 else np.float32(0.25) if block == 6 else x * np.float32(2.0 ** -30) if block == 7 else x)
    return np.array(out, dtype=np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", default=os.path.join(GOLDEN, "gguf/written.json"))
    parser.add_argument("--keep")
    args = parser.parse_args()
    out = {"models": {}, "tokenizers": {}, "adapters": {}, "types": {}}
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or scratch
        os.makedirs(folder, exist_ok=True)
        for case, (variant, overrides, kinds) in CASES.items():
            for kind in kinds:
                path = os.path.join(folder, f"{case}_{kind}.gguf")
                write_model(path, variant, overrides, kind)
                out["models"].setdefault(case, {})[kind] = summary(path)
        for name, pre in TOKENIZERS.items():
            path = os.path.join(folder, f"tokenizer_{os.path.basename(name)}.gguf")
            write_tokenizer(path, name, pre)
            out["tokenizers"][name] = summary(path)
        for name in ("smollm2", "gpt2", "llama_bias"):
            path = os.path.join(folder, f"adapter_{name}.gguf")
            write_adapter(path, name, "F32")
            out["adapters"][name] = summary(path)
    for kind in FILE_TYPES:
        data = np.ascontiguousarray(gguf.quantize(numbers().reshape(1, -1), Q[kind])).tobytes()
        out["types"][kind] = [len(data), f"{fnv(data):016x}"]
    with open(args.out, "w", encoding="utf-8") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
