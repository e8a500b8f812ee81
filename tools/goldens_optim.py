#!/usr/bin/env python3
"""Trajectories of torch's optimizers and schedules, and the codes of bitsandbytes' states in 8 bits, for tests/train/test_optim*.c and test_schedule.c.

usage: python tools/goldens_optim.py > tests/train/optim_golden.json     (needs torch, transformers and bitsandbytes)
"""
import json
import sys

import bitsandbytes
import torch
import transformers
from bitsandbytes.functional import create_dynamic_map

STEPS, ELEMS = 12, 37
CASES = {
    "adamw": (torch.optim.AdamW, dict(lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0), None),
    "adamw_decay": (torch.optim.AdamW, dict(lr=3e-2, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.1), None),
    "adamw_low_beta1": (torch.optim.AdamW, dict(lr=1e-2, betas=(0.3, 0.7), eps=1e-3, weight_decay=0.01), None),
    "adamw_clipped": (torch.optim.AdamW, dict(lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1), 0.5),
    "sgd": (torch.optim.SGD, dict(lr=0.1), None),
    "sgd_momentum": (torch.optim.SGD, dict(lr=0.05, momentum=0.9), None),
    "sgd_momentum_decay": (torch.optim.SGD, dict(lr=0.05, momentum=0.8, weight_decay=0.2), None),
    "sgd_clipped": (torch.optim.SGD, dict(lr=0.1, momentum=0.9), 0.25),
}
SCHEDULES = [("constant_with_warmup", 0, 10), ("constant_with_warmup", 4, 10), ("cosine", 0, 10), ("cosine", 3, 17),
             ("cosine", 12, 10), ("linear", 0, 10), ("linear", 3, 17), ("linear", 1, 1)]


def floats(tensor):
    return [float("%.9g" % x) for x in tensor]


def trajectory(start, grads, kind, options, max_norm):
    p = torch.nn.Parameter(start.clone())
    optimizer = kind([p], **options)
    after, norms = [], []
    for g in grads:
        p.grad = g.clone()
        if max_norm is not None:
            norms.append(float(torch.nn.utils.clip_grad_norm_([p], max_norm)))
        optimizer.step()
        after.append(floats(p.detach()))
    options = {k: list(v) if isinstance(v, tuple) else v for k, v in options.items()}
    return {"options": options, "max_norm": max_norm, "norms": norms, "after": after}


def factors(name, warmup, steps):
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([p], lr=1.0)
    schedule = transformers.get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=steps)
    out = []
    for _ in range(steps + 1):
        out.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return {"name": name.split("_")[0], "warmup": warmup, "steps": steps, "factors": out}


def main():
    torch.manual_seed(20240229)
    start = torch.randn(ELEMS)
    grads = torch.randn(STEPS, ELEMS) * torch.logspace(-3, 0, ELEMS)
    out = {
        "versions": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "bitsandbytes": bitsandbytes.__version__},
        "start": floats(start),
        "grads": [floats(row) for row in grads],
        "cases": {name: trajectory(start, grads, *case) for name, case in CASES.items()},
        "codes": {"signed": floats(create_dynamic_map(signed=True)), "unsigned": floats(create_dynamic_map(signed=False))},
        "schedules": [factors(*s) for s in SCHEDULES],
    }
    text = json.dumps(out, separators=(",", ":"))
    sys.stdout.write(text.replace('],"', '],\n"').replace("},{", "},\n{") + "\n")


main()
