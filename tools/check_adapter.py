#!/usr/bin/env python3
"""Have the peft package read an adapter that Reprise wrote, and score a text with it the way `reprise eval` does.

    check_adapter.py ADAPTER [--base MODEL] (--data FILE | --ids FILE) [--max-seq-len N] [--dtype fp32|bf16] [--expect-loss X]
    check_adapter.py ADAPTER --merged MODEL …         transformers reads what `lora.merge: true` wrote; both losses are told

ADAPTER is final/ of a run with `lora.rank`; --base is its model as a Hugging Face directory, where adapter_config.json does not name one. The
rest is as in check_export.py. Magnitudes and modules that are trained whole are read as halves are. Exit 1: peft finds tensors that are missing or too many, or a loss is not within --tolerance of the expected one.
"""
import argparse
import json
import os
import sys
import warnings

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_export                                                                # noqa: E402


def names_of(model):
    """Of halves, magnitudes and what is trained whole, as they are called in files."""
    names = set()
    for name in model.state_dict():
        if ".lora_" in name or ".modules_to_save." in name:
            name = name.replace("magnitude_vector.default.weight", "magnitude_vector").replace(".modules_to_save.default.", ".")
            names.add(name.replace(".default.", "."))
    return names


def adapted(args, dtype):
    """peft warns of what it does not find: here that is an end."""
    with open(os.path.join(args.base, "config.json"), encoding="utf-8") as f:      # of a text model inside another peft adapts the whole
        maker = AutoModelForImageTextToText if "text_config" in json.load(f) else AutoModelForCausalLM
    base = maker.from_pretrained(args.base, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model = PeftModel.from_pretrained(base, args.adapter, autocast_adapter_dtype=False)
    if names_of(model) != set(load_file(os.path.join(args.adapter, "adapter_model.safetensors"))):
        sys.exit("check_adapter: peft has adapters where the file has none, or the other way round")
    return model.eval()


@torch.no_grad()
def loss_of(model, ids, window):
    total = targets = 0
    for at in range(0, len(ids), window):
        part = torch.tensor(ids[at : at + window])[None]
        logits = model(input_ids=part, use_cache=False).logits[0, :-1].double()
        total -= torch.log_softmax(logits, -1).gather(1, part[0, 1:, None]).sum().item()
        targets += part.shape[1] - 1
    return total / targets


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("adapter")
    parser.add_argument("--base")
    parser.add_argument("--merged")
    parser.add_argument("--data")
    parser.add_argument("--ids")
    parser.add_argument("--max-seq-len", type=int)
    parser.add_argument("--dtype", choices=check_export.DTYPES, default="fp32")
    parser.add_argument("--expect-loss", type=float)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    args = parser.parse_args()
    args.base = args.base or json.load(open(os.path.join(args.adapter, "adapter_config.json")))["base_model_name_or_path"]
    model = adapted(args, check_export.DTYPES[args.dtype])
    ids = check_export.read_ids(args, {"pretrained_model_name_or_path": args.adapter})
    window = args.max_seq_len or model.config.get_text_config().max_position_embeddings
    found = {"loss": loss_of(model, ids, window), "tokens": len(ids), "targets": len(ids) - -(-len(ids) // window)}
    if args.merged:
        merged = AutoModelForCausalLM.from_pretrained(args.merged, dtype=check_export.DTYPES[args.dtype]).eval()
        found["merged_loss"] = loss_of(merged, ids, window)
    print(json.dumps(found))
    for key in ("loss", "merged_loss"):
        if args.expect_loss is not None and key in found and abs(found[key] - args.expect_loss) > args.tolerance:
            sys.exit(f"check_adapter: {key} {found[key]} is not {args.expect_loss} within {args.tolerance}")


if __name__ == "__main__":
    main()
