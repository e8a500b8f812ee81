#!/usr/bin/env python3
"""Write tests/golden/lora/<variant>/: adapters on the models of tests/golden/models, and what the peft package makes of them.

    goldens_lora.py [-o DIR] [VARIANT ...]        all variants by default; tools/goldens_setup makes the environment, and pip install peft

A variant holds an adapter as peft saves it, random in both halves (adapter_config.json, adapter_model.safetensors), and

    golden.safetensors  input_ids [3, 2, T]; logits [2, T, V] of batch 0; grad.<name> of it, end.<name> after twelve AdamW steps, by the names in
                        adapter_model.safetensors
                        large ones as sketches (golden_sketch.py); its metadata has, as JSON, the loss of batch 0, losses and norms of the
                        steps, and error: of logits and gradients in fp32, against fp64

and lora/quantised.safetensors (the variant `quantised`): adapters on a Llama and a Qwen 3 whose matrices are Q4_K and Q4_0, and what peft makes of
them on the weights that the gguf package dequantises. By the model's name and a dot:

    file.<path>         bytes of a file: base.gguf, adapter/adapter_config.json, adapter/adapter_model.safetensors
    input_ids, logits, grad.<name>, and numbers as above, without the steps

Dropout is off throughout. One thread, seeded: on one machine two runs write the same bytes.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile
import zlib

import gguf
import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import goldens_gguf_written as written                                             # noqa: E402
import golden_sketch                                                               # noqa: E402
import goldens_models as models                                                    # noqa: E402

# name: (model, what the adapter is)
VARIANTS = {
    "smollm2": ("smollm2", {"r": 4, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj"]}),
    "gpt2": ("gpt2", {"r": 3, "lora_alpha": 5, "target_modules": ["c_attn", "mlp.c_proj"], "use_rslora": True, "fan_in_fan_out": True}),
    "smollm2_dora": ("smollm2", {"r": 4, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj"], "use_dora": True}),
    "gpt2_dora": ("gpt2", {"r": 3, "lora_alpha": 5, "target_modules": ["c_attn", "mlp.c_proj"], "use_dora": True, "fan_in_fan_out": True}),
    "llama_bias_dora": ("llama_bias", {"r": 2, "lora_alpha": 4, "target_modules": ["o_proj", "gate_proj", "down_proj", "k_proj"], "use_rslora": True,
                                       "use_dora": True}),
    "smollm2_whole": ("smollm2", {"r": 4, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj"], "modules_to_save": ["embed_tokens", "model.norm"],
                                  "ensure_weight_tying": True}),
    "gpt2_whole": ("gpt2", {"r": 3, "lora_alpha": 5, "target_modules": ["c_attn"], "modules_to_save": ["wpe", "ln_f"], "fan_in_fan_out": True}),
    "llama_bias_whole": ("llama_bias", {"r": 2, "lora_alpha": 4, "target_modules": ["o_proj", "k_proj"], "use_dora": True,
                                        "modules_to_save": ["embed_tokens", "lm_head", "layers.0.self_attn.k_proj", "input_layernorm"]}),
    "llama_bias": ("llama_bias", {"r": 2, "lora_alpha": 4, "target_modules": ["o_proj", "gate_proj", "up_proj", "down_proj", "k_proj"]}),
}

# name: (config, the matrices that are Q4_K: the others are Q4_0, what the adapter is)
SIZES = {"hidden_size": 256, "intermediate_size": 32, "head_dim": 16, "num_key_value_heads": 2, "vocab_size": 64}
EVERY = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
QUANTISED = {
    "llama": ({**models.LLAMA, **SIZES}, ["token_embd", "attn_q", "attn_k", "ffn_gate", "output"], {"r": 3, "lora_alpha": 5, "target_modules": EVERY}),
    "qwen3": ({**models.QWEN3, **SIZES, "tie_word_embeddings": True}, ["attn_v", "attn_q", "ffn_up"], {"r": 2, "lora_alpha": 3, "target_modules": EVERY}),
}


def saved_name(name):
    for theirs, saved in (("magnitude_vector.default.weight", "magnitude_vector"), (".modules_to_save.default.", "."), (".default.", ".")):
        name = name.replace(theirs, saved)
    return name


def fill(model, spread):
    """Halves of adapters become random multiples of 1/1024, magnitudes and weights that are trained whole are moved."""
    for name, p in model.named_parameters():
        if p.requires_grad:
            g = torch.Generator().manual_seed(zlib.crc32(saved_name(name).encode()))
            noise = spread * torch.randn(p.shape, generator=g)
            p.data.copy_(torch.round(1024 * (noise if ".lora_A." in name or ".lora_B." in name else p.data * (1 + noise))) / 1024)


def make(base, adapter, directory, named, spread=0.2):
    """The adapter is loaded back from its files, so they are what the numbers belong to. named: its base model's path from there."""
    model = get_peft_model(models.load(base, torch.float32), LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **adapter))
    fill(model, spread)
    model.save_pretrained(directory)
    os.remove(os.path.join(directory, "README.md"))
    path = os.path.join(directory, "adapter_config.json")
    config = json.load(open(path))
    config["base_model_name_or_path"] = named
    config["target_modules"] = sorted(config["target_modules"])                    # a set: its order is chance
    with open(path, "w") as f:
        json.dump(config, f, indent=2, sort_keys=True)
        f.write("\n")


def load(base, directory, dtype):
    model = PeftModel.from_pretrained(models.load(base, dtype), directory, is_trainable=True, autocast_adapter_dtype=False).to(dtype)
    return model.eval()


def run(model, ids):
    model.zero_grad(set_to_none=True)
    logits = model(input_ids=ids, use_cache=False).logits
    loss = models.loss_of(logits, ids)
    loss.backward()
    return logits.detach(), loss.item(), {saved_name(n): p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def train(model, batches):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, foreach=False, **models.ADAMW)
    losses, norms = [], []
    for step in range(models.STEPS):
        _, loss, grads = run(model, batches[step % models.BATCHES])
        losses.append(loss)
        norms.append(torch.stack([g.double().norm() for g in grads.values()]).norm().item())
        optimizer.step()
    return losses, norms, {saved_name(n): p.detach() for n, p in model.named_parameters() if p.requires_grad}


def draw_ids(base):
    vocab = json.load(open(os.path.join(base, "config.json")))["vocab_size"]
    return torch.randint(3, vocab, (models.BATCHES, models.ROWS, models.TOKENS), generator=torch.Generator().manual_seed(7))


def passed(base, directory, ids):
    """The model, logits, loss and gradients of a batch in fp32, and their error against fp64."""
    model = load(base, directory, torch.float32)
    logits, loss, grads = run(model, ids)
    wide_logits, _, wide_grads = run(load(base, directory, torch.float64), ids)
    error = max([models.rel_l2(logits, wide_logits)] + [models.rel_l2(g, wide_grads[n]) for n, g in grads.items()])
    return model, logits, loss, grads, error


def write(directory, base, adapter):
    make(base, adapter, directory, "../../models/" + os.path.basename(base))
    ids = draw_ids(base)
    model, logits, loss, grads, error = passed(base, directory, ids[0])
    saved = load_file(os.path.join(directory, "adapter_model.safetensors"))
    tied = {"base_model.model.lm_head.weight"} if adapter.get("ensure_weight_tying") else set()         # saved under both names
    assert set(grads) | tied == set(saved), sorted(set(grads) ^ set(saved))
    losses, norms, end = train(model, ids)
    tensors = {"input_ids": ids.to(torch.int32), "logits": logits}
    tensors |= {f"grad.{n}": g for n, g in grads.items()} | {f"end.{n}": p.contiguous() for n, p in end.items()}
    numbers = {"loss": loss, "losses": losses, "norms": norms, "error": error}
    golden_sketch.save(os.path.join(directory, "golden.safetensors"), tensors, numbers=numbers)
    print(f"{os.path.basename(directory)}: loss {loss:.6f}, then {losses[-1]:.6f}; fp32 against fp64 {error:.2e}")


# ---- beside quantised weights ----

def blocks_of(weight, is_q4_k, draw):
    """The rows of a matrix as blocks, and their type. The package cannot encode Q4_K, so those blocks are random."""
    if not is_q4_k:
        return gguf.quantize(weight, gguf.GGMLQuantizationType.Q4_0), gguf.GGMLQuantizationType.Q4_0
    raw = draw.integers(0, 256, (weight.shape[0], weight.shape[1] // 256, 144), dtype=np.uint8)
    d = draw.uniform(0.8e-4, 1.8e-4, raw.shape[:2])
    raw[..., :4] = np.stack([d, 7.5 * d], -1).astype(np.float16).view(np.uint8)
    return raw.reshape(len(weight), -1), gguf.GGMLQuantizationType.Q4_K


def write_base(path, folder, config, q4_k):
    """A model of quantised matrices as a GGUF file, and dequantised as a folder for transformers."""
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    models.fill(model)
    arch = written.ARCHITECTURES[config["model_type"]]
    names = gguf.get_tensor_name_map({n: key for key, n in gguf.MODEL_ARCH_NAMES.items()}[arch], config["num_hidden_layers"])
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]} if arch == "llama" else {}
    w, draw, plain = gguf.GGUFWriter(path, arch), np.random.default_rng(7), {}
    written.add_config(w, config)
    for name, p in model.state_dict().items():
        theirs, weight = names.get_name(name.removesuffix(".weight")), p.numpy()
        part = theirs.split(".")[-1]
        if name == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        if weight.ndim == 1:
            w.add_tensor(theirs + ".weight", weight)
            plain[name] = p
            continue
        raw, kind = blocks_of(weight / 3, part in q4_k, draw)
        plain[name] = torch.from_numpy(np.asarray(gguf.dequantize(raw, kind), np.float32).reshape(weight.shape).copy())
        w.add_tensor(theirs + ".weight", np.ascontiguousarray(written.permute(raw, heads[part])) if part in heads else raw, raw_dtype=kind)
    written.finish(w)
    os.makedirs(folder)
    save_file(plain, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    models.write_json(os.path.join(folder, "config.json"), config)


def write_quantised(path):
    tensors, numbers = {}, {}
    for name, (config, q4_k, adapter) in QUANTISED.items():
        with tempfile.TemporaryDirectory() as scratch:
            gguf_path, folder, halves = (os.path.join(scratch, n) for n in ("base.gguf", "base", "adapter"))
            write_base(gguf_path, folder, config, q4_k)
            make(folder, adapter, halves, "../base.gguf", spread=0.07)
            ids = draw_ids(folder)
            _, logits, loss, grads, error = passed(folder, halves, ids[0])
            for file in ("base.gguf", "adapter/adapter_config.json", "adapter/adapter_model.safetensors"):
                tensors[f"{name}.file.{file}"] = np.fromfile(os.path.join(scratch, file), np.uint8)
        tensors |= {f"{name}.input_ids": ids.to(torch.int32), f"{name}.logits": logits} | {f"{name}.grad.{n}": g for n, g in grads.items()}
        numbers |= {f"{name}.loss": loss, f"{name}.error": error}
        print(f"quantised {name}: loss {loss:.6f}; fp32 against fp64 {error:.2e}")
    golden_sketch.save(path, tensors, numbers=numbers)


def main():
    here = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", default=here / "lora")
    parser.add_argument("variant", nargs="*", default=[*VARIANTS, "quantised"])
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.variant:
        if name == "quantised":
            write_quantised(os.path.join(args.o, "quantised.safetensors"))
            continue
        base, adapter = VARIANTS[name]
        directory = os.path.join(args.o, name)
        os.makedirs(directory, exist_ok=True)
        write(directory, str(here / "models" / base), adapter)


if __name__ == "__main__":
    main()
