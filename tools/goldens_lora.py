#!/usr/bin/env python3
"""Write tests/golden/lora/<variant>/: adapters on the models of tests/golden/models, and what the peft package makes of them.

    goldens_lora.py [-o DIR] [VARIANT ...]        all variants by default; tools/goldens_setup makes the environment, and pip install peft

A variant holds an adapter as peft saves it, random in both halves (adapter_config.json, adapter_model.safetensors), and

    golden.safetensors  input_ids [3, 2, T]; logits [2, T, V] of batch 0; grad.<name> of it, end.<name> after twelve AdamW steps, by the names in
                        adapter_model.safetensors
                        large ones as sketches (golden_sketch.py); its metadata has, as JSON, the loss of batch 0, losses and norms of the
                        steps, and error: of logits and gradients in fp32, against fp64

Dropout is off throughout. One thread, seeded: on one machine two runs write the same bytes.
"""
import argparse
import json
import os
import pathlib
import sys
import zlib

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
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


def saved_name(name):
    for theirs, saved in (("magnitude_vector.default.weight", "magnitude_vector"), (".modules_to_save.default.", "."), (".default.", ".")):
        name = name.replace(theirs, saved)
    return name


def fill(model):
    """Halves of adapters become random, magnitudes and weights that are trained whole are moved."""
    for name, p in model.named_parameters():
        if p.requires_grad:
            g = torch.Generator().manual_seed(zlib.crc32(saved_name(name).encode()))
            noise = 0.2 * torch.randn(p.shape, generator=g)
            p.data.copy_(noise if ".lora_A." in name or ".lora_B." in name else p.data * (1 + noise))


def make(base, adapter, directory):
    """The adapter is loaded back from its files, so they are what the numbers belong to."""
    model = get_peft_model(models.load(base, torch.float32), LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **adapter))
    fill(model)
    model.save_pretrained(directory)
    os.remove(os.path.join(directory, "README.md"))
    path = os.path.join(directory, "adapter_config.json")
    config = json.load(open(path))
    config["base_model_name_or_path"] = "../../models/" + os.path.basename(base)
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


def write(directory, base, adapter):
    make(base, adapter, directory)
    vocab = json.load(open(os.path.join(base, "config.json")))["vocab_size"]
    ids = torch.randint(3, vocab, (models.BATCHES, models.ROWS, models.TOKENS), generator=torch.Generator().manual_seed(7))
    model = load(base, directory, torch.float32)
    logits, loss, grads = run(model, ids[0])
    wide_logits, _, wide_grads = run(load(base, directory, torch.float64), ids[0])
    error = max([models.rel_l2(logits, wide_logits)] + [models.rel_l2(g, wide_grads[n]) for n, g in grads.items()])
    saved = load_file(os.path.join(directory, "adapter_model.safetensors"))
    tied = {"base_model.model.lm_head.weight"} if adapter.get("ensure_weight_tying") else set()         # saved under both names
    assert set(grads) | tied == set(saved), sorted(set(grads) ^ set(saved))
    losses, norms, end = train(model, ids)
    tensors = {"input_ids": ids.to(torch.int32), "logits": logits}
    tensors |= {f"grad.{n}": g for n, g in grads.items()} | {f"end.{n}": p.contiguous() for n, p in end.items()}
    numbers = {"loss": loss, "losses": losses, "norms": norms, "error": error}
    golden_sketch.save(os.path.join(directory, "golden.safetensors"), tensors, numbers=numbers)
    print(f"{os.path.basename(directory)}: loss {loss:.6f}, then {losses[-1]:.6f}; fp32 against fp64 {error:.2e}")


def main():
    here = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", default=here / "lora")
    parser.add_argument("variant", nargs="*", default=list(VARIANTS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.variant:
        base, adapter = VARIANTS[name]
        directory = os.path.join(args.o, name)
        os.makedirs(directory, exist_ok=True)
        write(directory, str(here / "models" / base), adapter)


if __name__ == "__main__":
    main()
