#!/usr/bin/env python3
"""The piece that bench_pieces times, in PyTorch: each way it can be written is tried, and the fastest here is what serves.

    peer_pieces.py PIECE SIZE ... [--dtype fp32|bf16] [--dropout P] [--way NAME] [--threads N]

Pieces, sizes and answers are those of bench/pieces.c; `how` in the first line says which way was taken. The fastest of the ways is then
compiled, too, where there is something to fuse, and taken so if that is faster. --way "logits, compiled" says it, and nothing is tried:

    attention             SDPA (causal) of tensors as a model's projections leave them, [B,T,H,D], or heads first; grouped heads by enable_gqa
                          or repeated before, as transformers has them where it may not
    linear_cross_entropy  logits: F.linear, then F.cross_entropy in fp32, as transformers' loss does
                          chunked: F.linear_cross_entropy by chunks of rows, which has the gradients already in its forward
"""
import argparse
import json
import sys
import time
import warnings

import torch
import torch.nn.functional as F

from torch_peak import allocator_peak

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
TRY_SECONDS, FAR = 0.5, 1.5     # of each way after it is warm; one that first takes FAR times the best is not tried again
COMPILED = ", compiled"


def forward_backward(forward, inputs, grad=None):
    return lambda: torch.autograd.grad(forward(*inputs), inputs, grad)


def leaf(o, *shape):
    return torch.rand(*shape).mul_(2).sub_(1).to(DTYPES[o.dtype]).requires_grad_()


# ---- ways of each piece: (name, forward, inputs, gradient of the output) ----

def repeated(x, times):
    b, heads, t, d = x.shape
    return x[:, :, None].expand(b, heads, times, t, d).reshape(b, heads * times, t, d)


def attention(o):
    b, t, heads, kv, d = o.size

    def sdpa(q, k, v, gqa):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=o.dropout, enable_gqa=gqa)

    def forward(q, k, v, turn, gqa):
        if turn:
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        if not gqa:
            k, v = (repeated(x, heads // kv) for x in (k, v))
        out = sdpa(q, k, v, gqa)
        return out.transpose(1, 2) if turn else out

    for layout, turn in (("[B,T,H,D]", True), ("[B,H,T,D]", False)):
        shapes = [(b, t, h, d) if turn else (b, h, t, d) for h in (heads, kv, kv)]
        inputs, grad = [leaf(o, *s) for s in shapes], leaf(o, *shapes[0]).detach()
        for name, gqa in (("enable_gqa", True), ("heads repeated", False)) if heads != kv else (("sdpa", False),):
            yield f"{name}, {layout}", lambda q, k, v, turn=turn, gqa=gqa: forward(q, k, v, turn, gqa), inputs, grad


def linear_cross_entropy(o):
    rows, width, classes = o.size
    inputs, labels = [leaf(o, rows, width), leaf(o, classes, width)], torch.randint(classes, (rows,))
    yield "logits", lambda x, w: F.cross_entropy(F.linear(x, w).float(), labels), inputs, None
    if hasattr(F, "linear_cross_entropy") and hasattr(torch.nn, "LinearCrossEntropyOptions"):
        options = torch.nn.LinearCrossEntropyOptions()
        yield "chunked", lambda x, w: F.linear_cross_entropy(x, w, labels, options=options), inputs, None


def rmsnorm(o):
    rows, width = o.size
    inputs, grad = [leaf(o, rows, width), leaf(o, width)], leaf(o, rows, width).detach()

    def by_hand(x, w):                  # as transformers has it
        y = x.float()
        return w * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)

    yield "F.rms_norm", lambda x, w: F.rms_norm(x, (width,), w, 1e-5), inputs, grad
    yield "by hand", by_hand, inputs, grad


def swiglu(o):
    yield "silu(a) * b", lambda a, b: F.silu(a) * b, [leaf(o, *o.size), leaf(o, *o.size)], leaf(o, *o.size).detach()


PIECES = {f.__name__: f for f in (attention, linear_cross_entropy, rmsnorm, swiglu)}


# ---- the fastest of them ----

def seconds_a_call(call, n):
    began = time.perf_counter()
    for _ in range(n):
        call()
    return (time.perf_counter() - began) / n


def least(call, best):
    """Seconds of the best of a few calls after one that warms."""
    call()
    found = spent = seconds_a_call(call, 1)
    while spent < TRY_SECONDS and found < FAR * best:
        seconds = seconds_a_call(call, 1)
        found, spent = min(found, seconds), spent + seconds
    return found


def chosen(o):
    """The way that --way names."""
    for name, forward, inputs, grad in PIECES[o.piece](o):
        if name == o.way.removesuffix(COMPILED):
            forward = torch.compile(forward) if o.way.endswith(COMPILED) else forward
            return o.way, forward_backward(forward, inputs, grad), inputs, grad
    sys.exit(f"peer_pieces.py: this PyTorch has no way '{o.way}' for {o.piece}")


def fastest(o):
    best = (float("inf"),)
    for name, forward, inputs, grad in PIECES[o.piece](o):
        call = forward_backward(forward, inputs, grad)
        seconds = least(call, best[0])
        if seconds < best[0]:
            best = (seconds, name, call, forward, inputs, grad)
    seconds, name, call, forward, inputs, grad = best
    if o.piece != "attention" or o.dropout:     # else it is one kernel either way
        compiled = forward_backward(torch.compile(forward), inputs, grad)
        if least(compiled, seconds) < seconds:
            name, call = name + COMPILED, compiled
    return name, call, inputs, grad


def update(o):
    param = leaf(o, *o.size)
    param.grad = leaf(o, *o.size).detach()
    optimizer = torch.optim.AdamW([param], lr=1e-9, betas=(0.9, 0.999), weight_decay=0.1, fused=True)
    optimizer.step()
    return "fused", optimizer.step, [param, param.grad, *(v for v in optimizer.state[param].values() if v.numel() > 1)], None


# ---- what is asked ----

def lasting_bytes(o, inputs, grad):
    """Inputs, their gradients, that of the output; of an update all it was given."""
    return sum(t.nbytes for t in inputs) * (1 if o.piece == "adamw" else 2) + (0 if grad is None else grad.nbytes)


def live_peak(call, inputs, grad):
    return allocator_peak(call, sum(t.nbytes for t in inputs) + (0 if grad is None else grad.nbytes))


def tell(**what):
    print(json.dumps(what), flush=True)


def serve(how, call, inputs, grad, o):
    call()
    tell(ready=True, torch=torch.__version__, how=how, seconds=seconds_a_call(call, 2))
    for line in sys.stdin:
        words = line.split()
        if words[0] == "calls":
            n = int(words[1])
            if n > 1:
                call()
            tell(seconds=seconds_a_call(call, n))
        elif words[0] == "bytes":
            tell(peak_bytes=live_peak(call, inputs, grad), lasting_bytes=lasting_bytes(o, inputs, grad))
        else:
            sys.exit(f"peer_pieces.py: what is '{line.strip()}'?")


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("piece", choices=[*PIECES, "adamw"])
    p.add_argument("size", type=int, nargs="+")
    p.add_argument("--dtype", choices=DTYPES, default="fp32")
    p.add_argument("--dropout", type=float, default=0)
    p.add_argument("--way", default="")
    p.add_argument("--threads", type=int, default=2)
    return p.parse_args()


def main():
    o = parse()
    warnings.simplefilter("ignore")             # of the compiler, about itself
    torch.set_num_threads(o.threads)
    torch.manual_seed(1234)
    serve(*(update(o) if o.piece == "adamw" else chosen(o) if o.way else fastest(o)), o)


if __name__ == "__main__":
    main()
