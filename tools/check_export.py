#!/usr/bin/env python3
"""Score a text with transformers the way `reprise eval` does, to check an export against a second reader.

    check_export.py [MODEL] [--gguf FILE] (--data FILE | --ids FILE) [--max-seq-len N] [--dtype fp32|bf16] [--expect-loss X]

MODEL is a Hugging Face directory, as `reprise train` leaves in final/; --gguf is a file whose weights are read dequantised. The
text is one document: no bos or eos is added; it is cut into windows of N tokens (default: the model's context), scored one by
one, the shorter last one too. A window of n tokens has n - 1 targets. Prints one JSON object:

    loss (mean nats per target), perplexity, targets, tokens, parameters, dtype

With both a MODEL and --gguf the object is MODEL's and has the file's as "gguf"; the tokenizer is MODEL's. --ids takes a JSON
array of token ids, or numbers separated by white space, in place of a text. Exit 1: the model lacks tensors or has some that
transformers does not know, or the loss is not within --tolerance of --expect-loss; the reason is on stderr.
"""
import argparse
import json
import math
import os
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def where(args):
    """The arguments of from_pretrained for each model to score, the first one's tokenizer counts."""
    places = [{"pretrained_model_name_or_path": args.model}] if args.model else []
    if args.gguf:
        folder, name = os.path.split(os.path.abspath(args.gguf))
        places.append({"pretrained_model_name_or_path": folder, "gguf_file": name})
    return places


def read_ids(args, place):
    if args.ids:
        with open(args.ids, encoding="utf-8") as f:
            text = f.read()
        return json.loads(text) if text.lstrip().startswith("[") else [int(word) for word in text.split()]
    with open(args.data, "rb") as f:
        text = f.read().decode("utf-8", errors="replace")
    return AutoTokenizer.from_pretrained(**place)(text, add_special_tokens=False, verbose=False)["input_ids"]


def load(place, dtype):
    """The model, or an error that names what the files lack or have too many of."""
    model, info = AutoModelForCausalLM.from_pretrained(dtype=dtype, output_loading_info=True, **place)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info.get(kind):
            sys.exit(f"check_export: {kind.replace('_', ' ')} in '{place['pretrained_model_name_or_path']}': {sorted(info[kind])}")
    return model.eval()


@torch.no_grad()
def score(place, ids, args):
    """The sum over targets is taken in double, so that the length of the text does not show."""
    model = load(place, DTYPES[args.dtype])
    window = args.max_seq_len or model.config.max_position_embeddings
    total, targets = 0.0, 0
    for at in range(0, len(ids), window):
        piece = torch.tensor([ids[at:at + window]])
        if piece.shape[1] < 2:
            continue
        logits = model(input_ids=piece, use_cache=False).logits[0, :-1].float()
        losses = torch.nn.functional.cross_entropy(logits, piece[0, 1:], reduction="none")
        total += losses.double().sum().item()
        targets += losses.numel()
    if targets == 0:
        sys.exit("check_export: there are no targets: the text has fewer than two tokens")
    loss = total / targets
    return {"loss": loss, "perplexity": math.exp(min(loss, 700)), "targets": targets, "tokens": len(ids),
            "parameters": model.num_parameters(), "dtype": args.dtype}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", help="a text file")
    source.add_argument("--ids", help="a file of token ids")
    parser.add_argument("--max-seq-len", type=int, help="tokens of a window; default: the model's context")
    parser.add_argument("--dtype", choices=DTYPES, default="fp32")
    parser.add_argument("--gguf", help="score this file's weights; with MODEL, too")
    parser.add_argument("--expect-loss", type=float)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    args = parser.parse_args()
    if not args.model and not args.gguf:
        parser.error("name a MODEL, or a file with --gguf")
    if args.model and not os.path.isfile(os.path.join(args.model, "config.json")):
        parser.error(f"'{args.model}' holds no config.json")
    if args.max_seq_len is not None and args.max_seq_len < 2:
        parser.error("--max-seq-len must be at least 2: one token has no target")

    transformers.logging.set_verbosity_error()
    places = where(args)
    ids = read_ids(args, places[0])
    out, *rest = [score(place, ids, args) for place in places]
    if rest:
        out["gguf"] = rest[0]
    print(json.dumps(out))
    if args.expect_loss is not None and not abs(out["loss"] - args.expect_loss) <= args.tolerance:
        sys.exit(f"check_export: loss {out['loss']} is not within {args.tolerance} of {args.expect_loss}")


if __name__ == "__main__":
    main()
