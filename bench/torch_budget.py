#!/usr/bin/env python3
"""bench/torch_budget.py [--steps N] [--only NAME] -- budgets of python/reprise_torch on five models of transformers, on the CPU.

Prints the table of docs/howto/pytorch.md. A row is a step: its predicted and measured bytes, whether its gradients are those of the model without
checkpoints, bit for bit, and its time. REPRISE is the path of the program. Measured bytes are the allocator's: weights, batch, gradients, activations.
"""
import argparse
import functools
import os
import pathlib
import statistics
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


def text(vocabulary, batch=2, tokens=256):
    ids = torch.randint(0, vocabulary, (batch, tokens))
    return {"input_ids": ids, "labels": ids}


def decoder(kind, **more):
    config = dict(hidden_size=512, intermediate_size=1408, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4, head_dim=64, vocab_size=4096)
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**config, **more))
    return model, text(4096)


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=512, n_layer=4, n_head=8, vocab_size=4096, n_positions=512)), text(4096)


def bert():
    config = transformers.BertConfig(hidden_size=512, intermediate_size=2048, num_hidden_layers=4, num_attention_heads=8, vocab_size=4096)
    return transformers.BertForMaskedLM(config), {**text(4096), "attention_mask": torch.ones(2, 256, dtype=torch.long)}


def vit():
    config = transformers.ViTConfig(hidden_size=512, intermediate_size=2048, num_hidden_layers=4, num_attention_heads=8, image_size=128, patch_size=8)
    return transformers.ViTForImageClassification(config), {"pixel_values": torch.randn(2, 3, 128, 128), "labels": torch.zeros(2, dtype=torch.long)}


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

    def seconds(self):
        self.model.zero_grad()
        start = time.process_time()
        self.run()
        return time.process_time() - start


def checkpointed(model, **options):
    """Every block with one of PyTorch's own policies."""
    for block in reprise_torch.find_blocks(model):
        block.forward = functools.partial(lambda forward, *args, **kw: checkpoint(forward, *args, use_reentrant=False, **options, **kw), block.forward)


class Row:
    """A step, with the forwards of its blocks."""

    def __init__(self, name, steps, blocks, first=None, report=None):
        self.name, self.blocks, self.report = name, blocks, report
        self.forwards = [block.__dict__.get("forward") for block in blocks]
        self.peak, self.grads = steps.peak()
        self.same = "" if first is None else "equal" if all(map(torch.equal, first.grads, self.grads)) else "DIFFERENT"

    def install(self):
        for block, forward in zip(self.blocks, self.forwards, strict=True):
            block.__dict__.pop("forward", None)
            if forward is not None:
                block.forward = forward

    def print(self, model, ratios):
        budget, predicted, error = "", "", ""
        if self.report:
            budget, predicted = f"{self.report.budget_bytes:,}", f"{self.report.predicted_bytes:,}"
            error = f"{100 * (self.peak / self.report.predicted_bytes - 1):+.2f} %"
        slower = f"{100 * (statistics.median(ratios) - 1):+.0f} %" if self.same else ""
        print(f"| {model} | {self.name} | {budget} | {predicted} | {self.peak:,} | {error} | {self.same} | {slower} |", flush=True)


def rows_of(steps):
    model, blocks = steps.model, reprise_torch.find_blocks(steps.model)
    keep = Row("keep everything", steps, blocks)
    checkpointed(model)
    full = Row("full checkpointing", steps, blocks, keep)
    keep.install()
    checkpointed(model, context_fn=functools.partial(create_selective_checkpoint_contexts, HEAVY))
    rows = [keep, full, Row("selective", steps, blocks, keep)]
    keep.install()
    for part in PARTS:
        reprise_torch.budget(model, steps.batch, int(full.peak + part * (keep.peak - full.peak)))
        rows.append(Row("budget", steps, blocks, keep, model.reprise_report))
        reprise_torch.release(model)
    return rows


def measure(name, make, n):
    torch.manual_seed(0)
    model, batch = make()
    model.train()
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    steps = Steps(model, batch)
    rows = rows_of(steps)
    seconds = []                                        # of each round: all steps by turns, so what else the machine does falls on all
    for _ in range(n):
        seconds.append([])
        for row in rows:
            row.install()
            seconds[-1].append(steps.seconds())
    for i, row in enumerate(rows):
        row.print(name, [took[i] / took[0] for took in seconds])


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--steps", type=int, default=3, help="timed steps of each row; the median ratio to keeping everything counts")
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
