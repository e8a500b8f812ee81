#!/usr/bin/env python3
"""The step that bench_step times, in PyTorch with transformers: eager, SDPA attention, fused AdamW, optional checkpointing.

    peer.py CONFIG.json [--dtype fp32|bf16] [--seq N] [--batch N] [--ac MODE] [--lora RANK] [--steps N] [--warmup N] [--threads N] [--pairs N | --serve]

Prints one JSON line with bench_step's keys: tokens_per_second of the best step, and peak_mib, the most bytes the CPU allocator had
live in one more step under the memory profiler, weights, gradients and moments included; scratch that kernel libraries take
for themselves is not seen there. MODE is none, full, selective_layer (every second block), selective_op (in every block products and
attention are kept, all else is computed again), compile or compile_layer (torch.compile, of the model or of each block). With --lora, PEFT's
adapters of that rank on every linear layer are trained alone, in the parameters' dtype. With --pairs, N pairs of a step without checkpointing and one
with it, as bench_step has them: overhead and its interval, and peak_bytes of both. With --serve it does as bench_step: a line when it is warm, then one for each line read. tools/goldens_setup makes an environment that has
what is needed.
"""
import argparse
import functools
import json
import statistics
import sys
import time

import torch
import transformers
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from sides import median_interval
from torch_peak import allocator_peak

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
MODES = ("none", "full", "selective_layer", "selective_op", "compile", "compile_layer")
aten = torch.ops.aten
KEPT = {aten.mm.default, aten.addmm.default, aten.bmm.default, aten._scaled_dot_product_flash_attention_for_cpu.default}


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("config")
    p.add_argument("--dtype", choices=DTYPES, default="fp32")
    p.add_argument("--ac", choices=MODES, default="none")
    p.add_argument("--serve", action="store_true")
    for name, value in (("--seq", 512), ("--batch", 2), ("--steps", 3), ("--warmup", 1), ("--threads", 2), ("--pairs", 0), ("--lora", 0)):
        p.add_argument(name, type=int, default=value)
    return p.parse_args()


def build(o):
    with open(o.config) as f:
        raw = json.load(f)
    config = transformers.CONFIG_MAPPING[raw["model_type"]].from_dict(raw)
    torch.manual_seed(1234)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=DTYPES[o.dtype])
    model.config.use_cache = False
    if o.lora:
        import peft
        how = peft.LoraConfig(r=o.lora, lora_alpha=2 * o.lora, target_modules="all-linear", task_type="CAUSAL_LM")
        model = peft.get_peft_model(model, how, autocast_adapter_dtype=False)
    return model.train()


def keep_products(_, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op in KEPT else CheckpointPolicy.PREFER_RECOMPUTE


def choose(model, ac):
    """The module to call."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    layers = list(inner.model.layers if hasattr(inner, "model") else inner.transformer.h)
    for layer in layers:
        layer.__dict__.pop("forward", None)
    how = {"use_reentrant": False}
    if ac == "selective_op":
        how["context_fn"] = functools.partial(create_selective_checkpoint_contexts, keep_products)
    for layer in {"full": layers, "selective_op": layers, "selective_layer": layers[1::2]}.get(ac, []):
        layer.forward = functools.partial(checkpoint, layer.forward, **how)
    if ac == "compile_layer":
        for layer in layers:
            layer.compile()
    return torch.compile(model) if ac == "compile" else model


def step(model, optimizer, ids):
    began = time.perf_counter()
    loss = model(input_ids=ids, labels=ids).loss
    value = float(loss.detach())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return time.perf_counter() - began, value


def lasting_bytes(model, optimizer):
    """Weights, gradients and moments."""
    params = list(model.parameters())
    states = [v for state in optimizer.state.values() for v in state.values() if torch.is_tensor(v)]
    return sum(t.nbytes * (2 if t.requires_grad else 1) for t in params) + sum(t.nbytes for t in states)


def live_peak(model, optimizer, ids, run=None):
    """With what is live before a step."""
    tensors = list(model.parameters()) + list(model.buffers())
    tensors += [v for state in optimizer.state.values() for v in state.values() if torch.is_tensor(v)]
    live = sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())
    return allocator_peak(lambda: step(model if run is None else run, optimizer, ids), live)


def run_pairs(o, model, optimizer, ids):
    def timed(ac):
        choose(model, ac)
        return step(model, optimizer, ids)[0]

    for ac in ("none", o.ac) * o.warmup:
        timed(ac)
    pairs = []
    for i in range(o.pairs):                    # which comes first takes turns, too
        ours = dict((ac, timed(ac)) for ac in (("none", o.ac), (o.ac, "none"))[i % 2])
        pairs.append((ours["none"], ours[o.ac]))
    median, interval, coverage = median_interval([b / a for a, b in pairs])
    peaks = {}
    for ac in ("none", o.ac):
        choose(model, ac)
        peaks[ac] = live_peak(model, optimizer, ids)
    return {"pairs": o.pairs, "overhead": median - 1, "interval": [x - 1 for x in interval], "coverage": coverage,
            "seconds": {"none": statistics.median(a for a, _ in pairs), o.ac: statistics.median(b for _, b in pairs)},
            "peak_bytes": peaks}


def tell(**what):
    print(json.dumps(what), flush=True)


def serve(o, model, optimizer, ids):
    run = choose(model, o.ac)
    for _ in range(o.warmup):
        step(run, optimizer, ids)
    tell(ready=True, torch=torch.__version__, transformers=transformers.__version__)
    for line in sys.stdin:
        if line.strip() == "step":
            seconds, loss = step(run, optimizer, ids)
            tell(seconds=seconds, loss=loss)
        elif line.strip() == "bytes":
            tell(peak_bytes=live_peak(model, optimizer, ids, run), lasting_bytes=lasting_bytes(model, optimizer))
        else:
            sys.exit(f"peer.py: what is '{line.strip()}'?")


def run_steps(o, model, optimizer, ids):
    run = choose(model, o.ac)
    times, loss = zip(*(step(run, optimizer, ids) for _ in range(o.warmup + o.steps)))
    best = min(times[o.warmup:])
    return {"tokens_per_second": o.seq * o.batch / best, "seconds": best, "peak_mib": live_peak(model, optimizer, ids, run) / 2**20,
            "loss": loss[-1]}


def main():
    o = parse()
    torch.set_num_threads(o.threads)
    model = build(o)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-4, betas=(0.9, 0.999), weight_decay=0.1, fused=True)
    ids = torch.randint(0, model.config.vocab_size, (o.batch, o.seq))
    if o.serve:
        return serve(o, model, optimizer, ids)
    found = run_pairs(o, model, optimizer, ids) if o.pairs else run_steps(o, model, optimizer, ids)
    print(json.dumps({"dtype": o.dtype, "ac": o.ac, "seq": o.seq, "batch": o.batch, **found, "torch": torch.__version__,
                      "transformers": transformers.__version__}))


if __name__ == "__main__":
    main()
