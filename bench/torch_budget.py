#!/usr/bin/env python3
"""bench/torch_budget.py [--steps N] [--only NAME] -- budgets of python/reprise_torch on five models of transformers, on the CPU.

Prints the table of docs/howto/pytorch.md. A row is a step: its predicted and measured bytes, whether its gradients are those of the model without
checkpoints, bit for bit, and its time. REPRISE is the path of the program. Measured bytes are the allocator's: weights, batch, gradients, activations.
"""
import argparse
import functools
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]
os.environ.setdefault("REPRISE", str(ROOT / "build/reprise"))

import torch                                            # noqa: E402
import transformers                                     # noqa: E402
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts      # noqa: E402

import reprise_torch                                    # noqa: E402
from torch_peak import allocator_peak                   # noqa: E402

PARTS = (0.2, 0.5, 0.8)                                 # of the way from recomputing every block to keeping everything
HEAVY = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default,
         torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default]


def text(vocabulary, batch=2, tokens=128):
    ids = torch.randint(0, vocabulary, (batch, tokens))
    return {"input_ids": ids, "labels": ids}


def decoder(kind, **more):
    config = dict(hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=32, vocab_size=1024)
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**config, **more))
    return model, text(1024)


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=128, n_layer=4, n_head=4, vocab_size=1024, n_positions=128)), text(1024)


def bert():
    config = transformers.BertConfig(hidden_size=128, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4, vocab_size=1024)
    return transformers.BertForMaskedLM(config), {**text(1024), "attention_mask": torch.ones(2, 128, dtype=torch.long)}


def vit():
    config = transformers.ViTConfig(hidden_size=128, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4, image_size=80, patch_size=8)
    return transformers.ViTForImageClassification(config), {"pixel_values": torch.randn(2, 3, 80, 80), "labels": torch.zeros(2, dtype=torch.long)}


MODELS = {"Llama": functools.partial(decoder, "Llama"), "Qwen3": functools.partial(decoder, "Qwen3"), "GPT-2": gpt2, "BERT": bert, "ViT": vit}


class Steps:
    """Steps of one model from the same random state."""

    def __init__(self, model, batch):
        self.model, self.batch = model, batch
        tensors = [*model.parameters(), *model.buffers(), *batch.values()]
        self.fixed = sum(t.untyped_storage().nbytes() for t in {id(t): t for t in tensors}.values())

    def run(self):
        torch.manual_seed(1)
        output = self.model(**self.batch)
        output.loss.backward()

    def peak(self):
        """Bytes of a step without gradients at its start, and its gradients."""
        self.model.zero_grad()
        peak = allocator_peak(self.run, self.fixed)
        grads = [p.grad for p in self.model.parameters()]
        self.model.zero_grad()
        return peak, grads

    def seconds(self, n):
        best = float("inf")
        for _ in range(n):
            self.model.zero_grad()
            start = time.process_time()
            self.run()
            best = min(best, time.process_time() - start)
        return best


def checkpointed(model, **options):
    """Every block with one of PyTorch's own policies."""
    for block in reprise_torch.find_blocks(model):
        block.forward = functools.partial(lambda forward, *args, **kw: checkpoint(forward, *args, use_reentrant=False, **options, **kw), block.forward)


def plain(model):
    for block in reprise_torch.find_blocks(model):
        block.__dict__.pop("forward", None)


def row(name, step, steps, n, base, report=None):
    peak, grads = steps.peak()
    seconds = steps.seconds(n)
    same = "" if base is None else "equal" if all(torch.equal(a, b) for a, b in zip(base[1], grads, strict=True)) else "DIFFERENT"
    slower = f"{100 * (seconds / base[0] - 1):+.0f} %" if base else ""
    budget, predicted, error = "", "", ""
    if report:
        budget, predicted = f"{report.budget_bytes:,}", f"{report.predicted_bytes:,}"
        error = f"{100 * (peak / report.predicted_bytes - 1):+.2f} %"
    print(f"| {name} | {step} | {budget} | {predicted} | {peak:,} | {error} | {same} | {slower} |", flush=True)
    return peak, grads, seconds


def measure(name, make, n):
    torch.manual_seed(0)
    model, batch = make()
    model.train()
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    steps = Steps(model, batch)
    keep, grads, seconds = row(name, "keep everything", steps, n, None)
    base = (seconds, grads)
    checkpointed(model)
    least, *_ = row(name, "full checkpointing", steps, n, base)
    plain(model)
    checkpointed(model, context_fn=functools.partial(create_selective_checkpoint_contexts, HEAVY))
    row(name, "selective: keep products and attention", steps, n, base)
    plain(model)
    for part in PARTS:
        budget = int(least + part * (keep - least))
        reprise_torch.budget(model, batch, budget)
        row(name, "budget", steps, n, base, model.reprise_report)
    reprise_torch.release(model)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--steps", type=int, default=2, help="timed steps of each row; the fastest counts")
    arguments.add_argument("--only", choices=MODELS, help="one model")
    given = arguments.parse_args()
    torch.set_num_threads(1)                            # processor time of waiting threads would count
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {torch.get_num_threads()} threads\n")
    print("| model | step | budget | predicted bytes | measured bytes | error | gradients | processor time |")
    print("| --- | --- | ---: | ---: | ---: | ---: | --- | ---: |")
    for name, make in MODELS.items():
        if given.only in (None, name):
            measure(name, make, given.steps)


if __name__ == "__main__":
    main()
