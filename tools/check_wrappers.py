#!/usr/bin/env python3
"""Hold every line of the table of wrappers against transformers: a tiny random model of each, and what Reprise makes of its text.

    check_wrappers.py BUILD [WRAPPER ...]       tools/goldens_setup makes the environment

A wrapper is saved by transformers twice: by save_pretrained, and named as its modules are. `reprise train` takes one step at rate 0; transformers
must load final/ without a missing or unexpected tensor and make the wrapper's own logits of text. The sizes that src/models/wrapper.c says
of a text_config that leaves them out must be those of its class. Prints a line a wrapper; exit 1 if any differs.
"""
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

TABLE = pathlib.Path(__file__).resolve().parent.parent / "src" / "models" / "wrapper.c"
TEXT = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 96,
        "max_position_embeddings": 64}
SIGHT = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "image_size": 8, "patch_size": 4}
RECIPE = """model: {{path: {0}}}
dataset: {{path: {1}, format: tokens}}
max_seq_len: 24
batch_size: 2
max_steps: 1
dtype: fp32
optimizer: {{lr: 0.0}}
output_dir: {2}
"""


def wrappers():
    text = TABLE.read_text(encoding="utf-8")
    return re.findall(r'^    \{ "(\w+)", "(\w+)", \w+, \w+, (?:true|false) \},$', text, re.M)


def sizes():
    text = TABLE.read_text(encoding="utf-8")
    table = text[text.index("unsaid[] = {"):text.index("/* What stands outside")]
    entries = re.findall(r'\{ "(\w+)", ((?:"(?:[^"\\]|\\.)*"\s*)+)\}', table)
    return {name: json.loads("".join(json.loads(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', parts))) for name, parts in entries}


def check_sizes():
    wrong = {f"{name}.{key}": value for name, said in sizes().items() for key, value in said.items() if getattr(CONFIG_MAPPING[name](), key) != value}
    print(f"sizes of {', '.join(sizes())}: {'the same' if not wrong else f'differ: {wrong}'}")
    return not wrong


def make(wrapper, text_type):
    default = CONFIG_MAPPING[wrapper]()
    assert default.text_config.model_type == text_type, default.text_config.model_type
    sight = {**SIGHT, "model_type": default.vision_config.model_type}
    if wrapper == "internvl":
        sight.update(image_size=[8, 8], patch_size=[4, 4])
    config = CONFIG_MAPPING[wrapper](text_config={**TEXT, "model_type": text_type}, vision_config=sight)
    torch.manual_seed(1)
    model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32).eval()
    for p in model.parameters():
        p.data.add_(0.2 * torch.randn(p.shape))
    return model


def save(model, folder, as_modules):
    model.save_pretrained(folder)
    if as_modules:
        tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
        save_file({n: t.contiguous() for n, t in model.state_dict().items() if n not in tied}, folder / "model.safetensors", metadata={"format": "pt"})


def export(build, folder, scratch):
    data, recipe, out = scratch / "tokens.bin", scratch / "recipe.yaml", folder.with_name(folder.name + "-out")
    data.write_bytes(struct.pack("<400H", *(3 + i * i % 90 for i in range(400))))
    recipe.write_text(RECIPE.format(folder, data, out))
    run = subprocess.run([build / "reprise", "train", recipe], capture_output=True, text=True)
    if run.returncode or "of its other parts" not in run.stderr:
        sys.exit(f"{folder.name}: {run.stderr}")
    return out / "final"


def check(build, wrapper, text_type, scratch):
    model, ids = make(wrapper, text_type), torch.arange(3, 51).reshape(2, 24)
    off, wrong = 0, {}
    for as_modules in (False, True):
        folder = scratch / f"{wrapper}-{'modules' if as_modules else 'saved'}"
        save(model, folder, as_modules)
        text, info = AutoModelForCausalLM.from_pretrained(export(build, folder, scratch), dtype=torch.float32, output_loading_info=True)
        wrong.update({k: info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys") if info.get(k)})
        with torch.no_grad():
            off = max(off, (text.eval()(input_ids=ids).logits - model(input_ids=ids).logits).abs().max().item())
    good = not wrong and off < 1e-5
    print(f"{wrapper} ({type(text).__name__}): {'the same' if good else 'differs'}, logits off by {off:.1e} {wrong or ''}")
    return good


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    table = wrappers()
    assert table, "no wrapper found in wrapper.c"
    with tempfile.TemporaryDirectory() as scratch:
        good = [check_sizes()] + [check(build, w, t, pathlib.Path(scratch)) for w, t in table if not sys.argv[2:] or w in sys.argv[2:]]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
