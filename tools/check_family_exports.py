#!/usr/bin/env python3
"""Export every golden model with `reprise train` and read it back with transformers.

    check_family_exports.py BUILD [VARIANT ...]       tools/goldens_setup makes the environment

A run of one step at rate 0 exports the weights as they came: transformers must load final/ without a missing or unexpected tensor, find
the same bits, and make the golden's logits again. Of a wrapper final/ is the text model, as its own family. Prints a line a variant; exit 1 if any differs.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForMaskedLM

import golden_sketch

MODELS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "models"


def maker_of(config):
    return AutoModelForImageTextToText if "text_config" in config else AutoModelForMaskedLM if config["model_type"] == "bert" else AutoModelForCausalLM


def load(folder, implementation):
    maker = maker_of(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    model, info = maker.from_pretrained(folder, dtype=torch.float32, attn_implementation=implementation,
                                                       output_loading_info=True)
    wrong = {k: info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys") if info.get(k)}
    return model.eval(), wrong


def export(build, variant, scratch):
    data, out = scratch / "tokens.bin", scratch / variant
    data.write_bytes(struct.pack("<400H", *(3 + i * i % 90 for i in range(400))))
    recipe = scratch / "recipe.yaml"
    recipe.write_text(f"model: {{path: {MODELS / variant}}}\ndataset: {{path: {data}, format: tokens}}\nmax_seq_len: 24\nbatch_size: 2\n"
                      f"max_steps: 1\ndtype: fp32\noptimizer: {{lr: 0.0}}\noutput_dir: {out}\n"
                      + ("loss: {mask_token_id: 4}\n" if variant.startswith("bert") else ""))
    subprocess.run([build / "reprise", "train", recipe], check=True, capture_output=True)
    return out / "final"


def text_names(model):
    """Parameters by name; of a wrapper those of its text model, by the names they have in that alone."""
    inside = [path for path, _ in model.named_modules() if path in ("model.language_model", "model.text_model")]
    named = dict(model.named_parameters())
    return named if not inside else {n.replace(inside[0], "model", 1): p for n, p in named.items() if n.startswith((inside[0] + ".", "lm_head."))}


def check(build, variant, scratch):
    folder = export(build, variant, scratch)
    config = json.loads((MODELS / variant / "config.json").read_text(encoding="utf-8"))
    implementation = "eager" if config["model_type"] == "gemma2" else "sdpa"
    (ours, wrong), (theirs, _) = load(folder, implementation), load(MODELS / variant, implementation)
    named = dict(ours.named_parameters())
    wrong.update({"bits of": [n for n, p in text_names(theirs).items() if n not in named or not torch.equal(p, named[n])]})
    golden = load_file(MODELS / variant / "golden.safetensors")
    with torch.no_grad():
        logits = ours(input_ids=golden["input_ids"][0].long()).logits
    off = golden_sketch.off(logits.numpy(), golden["logits"].numpy())
    limit = 1e-5 if logits.shape == golden["logits"].shape else 3e-5               # of six tokens together
    wrong = {k: v for k, v in wrong.items() if v}
    print(f"{variant}: {'the same' if not wrong and off < limit else 'differs'}, logits off by {off:.1e} {wrong or ''}")
    return not wrong and off < limit


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        good = [check(build, v, pathlib.Path(scratch)) for v in sys.argv[2:] or sorted(p.name for p in MODELS.iterdir() if p.is_dir())]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
