#!/usr/bin/env python3
"""Measures training steps of PyTorch on a GPU: seconds, the allocator's peak, and the seconds of kernels by kind.

    bench/gpu/steps.py [--only NAME] [--seconds N]          NAME: gpt2, gpt2padded, smollm2, llama1b or attention

Run it in the root of the repository. The models are those of transformers with random weights, in bf16, with bf16 states of a fused AdamW. Modes: eager;
compiled (torch.compile of each block, and of the head with its loss); each of them as one CUDA graph of the whole step; each block checkpointed. Each line
of the output is a JSON object. The first step of a compiled mode takes 10 s.
"""
import argparse
import json
import statistics
import sys
import time
import traceback

import torch
import torch.nn.functional as F
import transformers

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
began = time.time()


def tell(**what):
    print(json.dumps({**what, "at": round(time.time() - began, 1)}), flush=True)


def sync():
    if CUDA:
        torch.cuda.synchronize()


def head_loss(h, w, labels):
    return F.cross_entropy(F.linear(h, w).view(-1, w.shape[0]).float(), labels.view(-1))


class Model:
    def __init__(self, path, vocab):
        with open(path) as f:
            raw = json.load(f)
        config = transformers.CONFIG_MAPPING[raw["model_type"]].from_dict(raw)
        config.vocab_size = vocab or config.vocab_size
        for key in ("attn_pdrop", "embd_pdrop", "resid_pdrop", "attention_dropout"):
            if hasattr(config, key):
                setattr(config, key, 0.0)
        torch.manual_seed(1)
        with torch.device(DEVICE):
            self.lm = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.bfloat16)
        self.lm.config.use_cache = False
        self.lm.train()
        # Without padding is_causal is enough. Under capture transformers would make a mask, which flash kernels do not take.
        sys.modules[type(self.lm).__module__].create_causal_mask = lambda *args, **kwargs: None
        self.body = self.lm.model if hasattr(self.lm, "model") else self.lm.transformer
        self.layers = list(self.body.layers if hasattr(self.body, "layers") else self.body.h)
        self.loss = head_loss

    def mode(self, compiled, checkpointed):
        for layer in self.layers:
            layer._compiled_call_impl = None
            if compiled:
                layer.compile(dynamic=False)
        self.loss = torch.compile(head_loss, dynamic=False) if compiled else head_loss
        if checkpointed:
            self.lm.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        else:
            self.lm.gradient_checkpointing_disable()

    def step(self, optimizer, ids, labels):
        h = self.body(input_ids=ids, use_cache=False).last_hidden_state
        loss = self.loss(h, self.lm.lm_head.weight, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss


def optimizer_of(model, capturable=False):
    return torch.optim.AdamW(model.lm.parameters(), lr=1e-5, betas=(0.9, 0.999), weight_decay=0.1, fused=True, capturable=capturable and CUDA)


def time_of(run, seconds):
    """The median, and the least, of five means of consecutive steps."""
    run()
    sync()
    t = time.perf_counter()
    run()
    sync()
    one = time.perf_counter() - t
    each = max(1, min(20, int(seconds / 5 / one)))
    means = []
    for _ in range(5):
        t = time.perf_counter()
        for _ in range(each):
            run()
        sync()
        means.append((time.perf_counter() - t) / each)
    return statistics.median(means), min(means)


KINDS = (("attention", ("flash", "fmha", "attention", "sdpa")), ("product", ("gemm", "nvjet", "cutlass", "xmma", "cublas")),
         ("update", ("multi_tensor", "adam")))


def kernels_of(run):
    """Seconds of the kernels of one step by kind, and how many."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as p:
        run()
        sync()
    found, names, n = {}, {}, 0
    for e in p.events():
        if "cuda" not in str(e.device_type).lower() or "#" in e.name:         # "#": a named range, not a kernel
            continue
        name = e.name.lower()
        kind = next((k for k, words in KINDS if any(w in name for w in words)), "other")
        s = e.time_range.elapsed_us() * 1e-6
        found[kind] = found.get(kind, 0) + s
        names[e.name[:70]] = names.get(e.name[:70], 0) + s
        n += 1
    top = sorted(names.items(), key=lambda x: -x[1])[:14]
    return {"kernels": n, "kernel_seconds": {k: round(v, 6) for k, v in found.items()}, "top": [[k, round(v, 6)] for k, v in top]}


def graphed(model, ids, labels):
    optimizer = optimizer_of(model, capturable=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model.step(optimizer, ids, labels)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model.step(optimizer, ids, labels)
    return graph.replay


def measure(name, model, batch, seq, compiled, checkpointed, graph, seconds):
    what = {"step": name, "batch": batch, "seq": seq, "mode": ("compiled" if compiled else "eager") + (" graph" if graph else ""),
            "checkpointed": checkpointed}
    try:
        model.mode(compiled, checkpointed)
        ids = torch.randint(0, model.lm.config.vocab_size, (batch, seq), device=DEVICE)
        labels = torch.roll(ids, -1, 1)
        first_began = time.perf_counter()
        if graph:
            run = graphed(model, ids, labels)
        else:
            optimizer = optimizer_of(model)
            run = lambda: model.step(optimizer, ids, labels)
        run()
        sync()
        first = time.perf_counter() - first_began
        if CUDA:
            torch.cuda.reset_peak_memory_stats()
        lasting = torch.cuda.memory_allocated() if CUDA else 0
        middle, best = time_of(run, seconds)
        peak = torch.cuda.max_memory_allocated() if CUDA else 0
        what.update(seconds=middle, best=best, tokens_per_second=batch * seq / middle, peak_bytes=peak, lasting_bytes=lasting, first=first)
        tell(**what)
        if CUDA:
            tell(profile_of=name, batch=batch, seq=seq, mode=what["mode"], checkpointed=checkpointed, **kernels_of(run))
    except Exception as e:  # noqa: BLE001: the next mode may work
        tell(**what, failed=repr(e)[:300], where=traceback.format_exc()[-300:])
    finally:
        run = optimizer = None
        if CUDA:
            torch.cuda.empty_cache()


def attention_alone():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    for backend in ("FLASH_ATTENTION", "CUDNN_ATTENTION"):
        for d in (64, 128):
            for t in (512, 1024, 2048, 8192):
                h, kv, b = 2048 // d, 512 // d, 16384 // t
                for groups in (False, True):
                    try:
                        q, k, v = (torch.randn(b, t, n, d, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_()
                                   for n in (h, *[kv if groups else h] * 2))
                        with sdpa_kernel(getattr(SDPBackend, backend)):
                            times = []
                            for i in range(8):
                                e = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
                                torch.cuda._sleep(400000)
                                e[0].record()
                                o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=groups)
                                e[1].record()
                                g = torch.autograd.grad(o, (q, k, v), o)
                                e[2].record()
                                torch.cuda.synchronize()
                                if i > 2:
                                    times.append((e[0].elapsed_time(e[1]) * 1e-3, e[1].elapsed_time(e[2]) * 1e-3))
                        fw, bw = (statistics.median(x) for x in zip(*times))
                        flops = 4 * b * h * t * t * d / 2
                        tell(attention=backend, d=d, seq=t, batch=b, heads=h, kv_heads=kv if groups else h, forward=fw, backward=bw,
                             forward_tflops=round(flops / fw * 1e-12, 1), backward_tflops=round(2.5 * flops / bw * 1e-12, 1))
                    except Exception as e:  # noqa: BLE001
                        tell(attention=backend, d=d, seq=t, groups=groups, failed=repr(e)[:150])


RUNS = {        # batch, seq, compiled, checkpointed, graph
    "smollm2": [(2, 512, 0, 0, 0), (2, 512, 1, 0, 0), (2, 512, 0, 0, 1), (2, 512, 1, 0, 1), (8, 512, 0, 0, 0), (8, 512, 1, 0, 0), (32, 1024, 1, 0, 0),
                (32, 1024, 0, 0, 0), (32, 1024, 1, 1, 0), (8, 512, 1, 0, 1), (8, 512, 0, 1, 0), (32, 1024, 0, 1, 0), (8, 512, 1, 1, 0), (2, 512, 0, 1, 0)],
    "gpt2": [(32, 1024, 1, 0, 0), (32, 1024, 1, 0, 1), (32, 1024, 0, 0, 0), (32, 1024, 1, 1, 0), (32, 1024, 0, 1, 0)],
    "gpt2padded": [(32, 1024, 1, 0, 0), (32, 1024, 1, 0, 1)],
    "llama1b": [(8, 2048, 1, 0, 0), (8, 2048, 1, 0, 1), (2, 8192, 1, 0, 0), (8, 2048, 0, 0, 0), (8, 2048, 1, 1, 0), (8, 2048, 0, 1, 0)],
}
FILES = {       # a config, another vocabulary
    "gpt2": ("bench/configs/gpt2-124m.json", None), "gpt2padded": ("bench/configs/gpt2-124m.json", 50304),
    "smollm2": ("bench/configs/smollm2-135m.json", None), "llama1b": ("recipes/llama3_2_1b/config.json", None),
}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--only", choices=[*FILES, "attention"])
    p.add_argument("--seconds", type=float, default=1.0)
    o = p.parse_args()
    tell(torch=torch.__version__, transformers=transformers.__version__, device=torch.cuda.get_device_name() if CUDA else "cpu",
         cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version() if CUDA else 0)
    if o.only in (None, "attention"):
        attention_alone()
    for name in FILES if o.only is None else [o.only] if o.only in FILES else []:
        model = Model(*FILES[name])
        for batch, seq, compiled, checkpointed, graph in RUNS[name]:
            measure(name, model, batch, seq, compiled, checkpointed, graph, o.seconds)
        del model
        if CUDA:
            torch.cuda.empty_cache()


main()
