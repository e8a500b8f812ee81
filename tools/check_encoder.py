#!/usr/bin/env python3
"""Hold a run of an encoder against transformers: its export, its masks and its val_loss.

    check_encoder.py RUN [--source MODEL] [--limit X]       tools/goldens_setup makes the environment, with PyYAML besides

RUN is the output_dir of a finished run whose dataset_val is packed jsonl. transformers must load RUN/final without a missing or
unexpected tensor; its tokenizer, packing, masks drawn here again (src/data/masking.h) and its loss in fp32 must give the last val_loss
within X (default 1e-4; bf16 needs more). With --source: hidden states of RUN/final and of MODEL, for a run at rate 0, are the same bits.
Prints one JSON object; exit 1 if anything differs.
"""
import argparse
import json
import math
import pathlib
import struct
import sys

import torch
import yaml
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def fnv(data, seed):
    for byte in data:
        seed = (seed ^ byte) * 0x100000001B3 & M64
    return seed


def philox(key, counter):
    k0, k1, c = key & M32, key >> 32, list(counter)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k0, p1 & M32, p0 >> 32 ^ c[3] ^ k1, p0 & M32]
        k0, k1 = k0 + 0x9E3779B9 & M32, k1 + 0xBB67AE85 & M32
    return c


def hide(samples, special, recipe, mask_id, vocab):
    """What the encoder sees, and the labels: of a set that is only scored, so the step is 0 and samples are counted from its first."""
    key = fnv(b"masked tokens\0", fnv(struct.pack("<Q", recipe["seed"]), 0xCBF29CE484222325))
    seen, labels = samples.clone(), torch.full_like(samples, -100)
    for i in range(samples.shape[0]):
        drawn = {k: philox(key, (k, i, 0, 0)) for k in range(samples.shape[1]) if samples[i, k].item() not in special}
        count = math.floor(len(drawn) * recipe["loss"]["mask_probability"] + philox(key, (M32, i, 0, 0))[0] / 2**32)
        for k in sorted(drawn, key=lambda k: (drawn[k][0], k))[:count]:
            labels[i, k] = samples[i, k]
            if drawn[k][1] / 2**32 < 0.8:
                seen[i, k] = mask_id
            elif drawn[k][1] / 2**32 < 0.9:
                seen[i, k] = drawn[k][2] * vocab >> 32
    return seen, labels


def read_samples(recipe, tokenizer):
    """Documents joined and cut; where each token's document begins in its sample."""
    data, length = recipe["dataset_val"], recipe["max_seq_len"]
    ids, first = [], []
    with open(data["path"], encoding="utf-8") as f:
        for line in f:
            own = tokenizer(json.loads(line)[data["column"]], truncation=False, padding=False)["input_ids"]
            first += [True] + [False] * (len(own) - 1)
            ids += own
    n = len(ids) // length // recipe["batch_size"] * recipe["batch_size"]
    samples, first = (torch.tensor(x[: n * length]).reshape(n, length) for x in (ids, first))
    at = torch.arange(length).expand(n, length)
    return samples, torch.where(first, at, 0).cummax(1).values


@torch.no_grad()
def score(model, seen, labels, start):
    total, length = 0.0, seen.shape[1]
    for i in range(0, len(seen), 8):
        rows = slice(i, i + 8)
        together = start[rows, :, None] == start[rows, None, :]
        mask = torch.zeros(together.shape).masked_fill(~together, torch.finfo(torch.float32).min)[:, None]
        logits = model(input_ids=seen[rows], attention_mask=mask, position_ids=torch.arange(length)[None] - start[rows]).logits
        total += torch.nn.functional.cross_entropy(logits.double().reshape(-1, logits.shape[-1]), labels[rows].reshape(-1),
                                                   reduction="sum").item()
    return total / (labels != -100).sum().item()


@torch.no_grad()
def same_states(one, other):
    ids = torch.randint(1000, 20000, (4, 64), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[2, 40:] = 0
    states = [AutoModel.from_pretrained(path, dtype=torch.float32, add_pooling_layer=False).eval()(ids, attention_mask=mask)[0]
              for path in (one, other)]
    return torch.equal(*states)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--source")
    parser.add_argument("--limit", type=float, default=1e-4)
    args = parser.parse_args()
    recipe = yaml.safe_load((args.run / "config.yaml").read_text(encoding="utf-8"))
    final = args.run / "final"
    model, info = AutoModelForMaskedLM.from_pretrained(final, dtype=torch.float32, output_loading_info=True)
    out = {k: sorted(info[k]) for k in ("missing_keys", "unexpected_keys", "mismatched_keys") if info.get(k)}
    wrong = bool(out)
    if args.source:
        out["same_states"] = same_states(args.source, final)
        wrong |= not out["same_states"]
    said = [m["val_loss"] for line in (args.run / "metrics.jsonl").read_text().splitlines() if "val_loss" in (m := json.loads(line))]
    if said and json.loads((args.run / "metrics.jsonl").read_text().splitlines()[-1]).get("val_loss") is not None:
        tokenizer = AutoTokenizer.from_pretrained(final)
        samples, start = read_samples(recipe, tokenizer)
        seen, labels = hide(samples, set(tokenizer.all_special_ids), recipe, tokenizer.mask_token_id, model.config.vocab_size)
        out |= {"val_loss": said[-1], "transformers": score(model.eval(), seen, labels, start), "targets": (labels != -100).sum().item(),
                "samples": len(samples)}
        wrong |= abs(out["val_loss"] - out["transformers"]) > args.limit
    print(json.dumps(out))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
