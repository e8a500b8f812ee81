#!/usr/bin/env python3
"""Write tests/golden/ops.{safetensors,json} and schedules.json: single ops in double by PyTorch, rotary frequencies by
transformers, learning rates by torchtune's formulas.

    goldens_ops.py [-o DIR]        tools/goldens_setup makes the environment

A case is the tensors <case>.<name> and, where the op has attributes, an object of that name in ops.json. Inputs are fp32;
what follows from them (outputs, and g.<input>, their gradients when <case>.g is the gradient of the output) was computed in
double and is stored in double, so it serves an fp64 run to 1e-12 and an fp32 or bf16 run to its own rounding.
"""
import argparse
import json
import math
import os
import zlib

import torch
import torch.nn.functional as F
import transformers
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

import golden_sketch

tensors, attributes = {}, {}


def draw(case, name, *shape, scale=1.0):
    g = torch.Generator().manual_seed(zlib.crc32(f"{case}.{name}".encode()))
    return torch.randn(*shape, generator=g) * scale


def record(case, function, inputs, attr=None, constants=None):
    """Run function on the fp32 inputs in double; keep these, its output y, the drawn gradient g of y, and the inputs' gradients."""
    leaves = {name: t.double().requires_grad_() for name, t in inputs.items()}
    y = function(**leaves, **(constants or {}))
    y = y if y.dim() else y[None]
    g = draw(case, "g", *y.shape)
    if leaves:
        y.backward(g.double())
    kept = {**inputs, **(constants or {}), "y": y.detach(), "g": g, **{f"g.{n}": t.grad for n, t in leaves.items()}}
    for name, t in kept.items():
        tensors[f"{case}.{name}"] = t.contiguous() if t.is_floating_point() else t.int().contiguous()
    if attr:
        attributes[case] = attr


# ---- norms, pointwise, loss ----

def norms():
    """eps is the fp32 number nearest to 1e-5: Reprise keeps it as a float, and 1e-12 would see the rest."""
    usual, large = torch.tensor([1e-5, 1e-2]).tolist()
    for case, shape, eps, scale in (("rmsnorm", (3, 5, 48), usual, 1.0), ("rmsnorm_small", (4, 33), large, 0.05)):
        record(case, lambda x, w: F.rms_norm(x, w.shape, w, eps),
               {"x": draw(case, "x", *shape, scale=scale), "w": 1 + draw(case, "w", shape[-1], scale=0.3)}, {"eps": eps})
    record("rmsnorm_plus", lambda x, w: F.rms_norm(x, w.shape, 1 + w, usual),
           {"x": draw("rmsnorm_plus", "x", 3, 5, 48), "w": draw("rmsnorm_plus", "w", 48, scale=0.3)}, {"eps": usual, "plus": 1})
    record("layernorm", lambda x, w, b: F.layer_norm(x, w.shape, w, b, usual),
           {"x": 0.7 + draw("layernorm", "x", 3, 5, 48), "w": 1 + draw("layernorm", "w", 48, scale=0.3),
            "b": draw("layernorm", "b", 48)}, {"eps": usual})
    record("softmax", lambda x: torch.softmax(x, -1), {"x": draw("softmax", "x", 6, 37, scale=4.0)})


def magnitudes():
    """DoRA: norms of the rows of a weight with its adapter, which have no gradient; columns that are given other norms."""
    for case, scale, in_out in (("weight_norm", 1.5, False), ("weight_norm_in_out", 0.75, True)):
        w, a, b = draw(case, "w", *((19, 33) if in_out else (33, 19))), draw(case, "a", 3, 19), draw(case, "b", 33, 3)
        record(case, lambda w, a, b: torch.linalg.norm((w.T if in_out else w).double() + scale * b.double() @ a.double(), dim=1), {},
               {"factor": scale}, {"w": w, "a": a, "b": b})
    for case, bias in (("magnitude", True), ("magnitude_plain", False)):
        inputs = {"x": draw(case, "x", 3, 5, 21), "m": 1 + draw(case, "m", 21, scale=0.3)} | ({"b": draw(case, "b", 21)} if bias else {})
        record(case, lambda x, m, n, b=0: x * m / n.double() + b, inputs, constants={"n": 1 + draw(case, "n", 21).abs()})


def batch_norms():
    """Features last, as Reprise has them. rm.k and rv.k are the running statistics after k calls in train mode on the same x."""
    eps, momentum = torch.tensor([1e-5, 0.1]).tolist()
    for case, shape, train in (("batch_norm", (9, 5), True), ("batch_norm_rows", (3, 7, 6), True), ("batch_norm_frozen", (3, 7, 6), False)):
        n = shape[-1]
        inputs = {"x": 0.7 + draw(case, "x", *shape, scale=2.0), "w": 1 + draw(case, "w", n, scale=0.3), "b": draw(case, "b", n)}
        running = {"rm": draw(case, "rm", n), "rv": draw(case, "rv", n).exp()}

        def normalise(x, w, b, rm, rv):
            return F.batch_norm(x.movedim(-1, 1), rm, rv, w, b, train, momentum, eps).movedim(1, -1)

        record(case, lambda x, w, b, rm, rv: normalise(x, w, b, rm.double(), rv.double()), inputs, {"eps": eps, "momentum": momentum},
               running)
        rm, rv = running["rm"].double(), running["rv"].double()
        for k in (1, 2):
            normalise(*(t.double() for t in inputs.values()), rm, rv)
            tensors[f"{case}.rm.{k}"], tensors[f"{case}.rv.{k}"] = rm.clone(), rv.clone()


def pointwise():
    """Apart, so that the large values do not hide an error of the small ones."""
    for end, x in (("", torch.linspace(-8, 8, 161)), ("_far", torch.tensor([-1e4, -90.0, -30.0, -0.0, 1e-30, 30.0, 90.0, 1e4]))):
        record(f"gelu_tanh{end}", lambda x: F.gelu(x, approximate="tanh"), {"x": x})
        record(f"gelu_erf{end}", lambda x: F.gelu(x), {"x": x})
        record(f"silu{end}", lambda x: F.silu(x), {"x": x})
        record(f"softcap{end}", lambda x: 1.5 * torch.tanh(x / 1.5), {"x": x}, {"cap": 1.5})
        record(f"tanh{end}", torch.tanh, {"x": x})
        record(f"sigmoid{end}", torch.sigmoid, {"x": x})
    record("exp", torch.exp, {"x": torch.linspace(-8, 8, 33)})
    record("log", torch.log, {"x": torch.linspace(-8, 8, 33).exp()})
    record("swiglu", lambda gate, up: F.silu(gate) * up,
           {"gate": draw("swiglu", "gate", 4, 29, scale=3.0), "up": draw("swiglu", "up", 4, 29)})


def broadcasts():
    """Operands of other shapes, and products of batches."""
    for case, function in (("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("div", torch.div)):
        record(case, lambda a, b: function(a, b), {"a": draw(case, "a", 3, 1, 7), "b": draw(case, "b", 5, 1).exp()})
    record("where", lambda a, b, mask: torch.where(mask != 0, a, b), {"a": draw("where", "a", 4, 7), "b": draw("where", "b", 3, 1, 1)},
           constants={"mask": (draw("where", "mask", 4, 7) > 0).int()})
    for case, a, b in (("batched_matmul", (3, 1, 5, 6), (4, 6, 7)), ("batched_matmul_turned", (2, 3, 6, 5), (2, 1, 7, 6))):
        turned = case.endswith("turned")
        record(case, lambda a, b: a.mT @ b.mT if turned else a @ b, {"a": draw(case, "a", *a), "b": draw(case, "b", *b)},
               {"transpose_a": turned, "transpose_b": turned})
    index = torch.tensor([[0, 4, 4], [2, 2, 2], [1, 0, 3]])
    record("gather", lambda x, index: torch.gather(x, 1, index.long()), {"x": draw("gather", "x", 3, 5)}, {"dim": 1}, {"index": index})
    record("gather_rows", lambda x, index: torch.take_along_dim(x, index.long(), 0), {"x": draw("gather_rows", "x", 5, 6)}, {"dim": 0},
           {"index": torch.tensor([[3], [0], [3], [4]])})


def losses():
    record("mse", F.mse_loss, {"input": draw("mse", "input", 4, 8), "target": draw("mse", "target", 4, 8)}, {"weight": 1 / 32})
    target = torch.tensor([3, 0, -100, 32, 7, -100, 7, 19, 1, 32])     # 8 targets: 1 / 8 is exact in fp32
    logits = draw("cross_entropy", "x", 10, 33, scale=3.0)
    logits[4, 7], logits[7, 2] = 200.0, 150.0      # one row sure and right, one sure and wrong
    record("cross_entropy", lambda x, target: F.cross_entropy(x, target, ignore_index=-100), {"x": logits},
           {"ignore_index": -100, "targets": 8}, {"target": target})
    record("linear_cross_entropy", lambda x, w, target: F.cross_entropy(x @ w.T, target, ignore_index=7),
           {"x": draw("linear_cross_entropy", "x", 10, 16), "w": draw("linear_cross_entropy", "w", 33, 16)},
           {"ignore_index": 7, "targets": 8}, {"target": target.clamp(min=0)})
    record("linear_cross_entropy_capped", lambda x, w, target: F.cross_entropy(1.25 * torch.tanh(x @ w.T / 1.25), target),
           {"x": draw("linear_cross_entropy_capped", "x", 10, 16), "w": draw("linear_cross_entropy_capped", "w", 33, 16, scale=0.5)},
           {"ignore_index": -100, "targets": 8, "softcap": 1.25}, {"target": target})
    record("embedding", lambda w, ids: F.embedding(ids, w), {"w": draw("embedding", "w", 11, 6)},
           constants={"ids": torch.tensor([[0, 10, 3, 3], [3, 0, 9, 10]])})


# ---- experts: rows stand by expert, then by token, then by choice ----

def choices_of(case, tokens, k, experts):
    """Distinct for each token, and none goes to the last expert but one."""
    return draw(case, "choices", tokens, experts).index_fill(1, torch.tensor([experts - 2]), -torch.inf).topk(k).indices


def by_expert(choices):
    return choices.flatten().argsort(stable=True)


def spread(x, choices):
    return x.repeat_interleave(choices.shape[-1], 0)[by_expert(choices)]


def grouped(x, w, choices):
    expert = choices.flatten()[by_expert(choices)]
    return torch.stack([w[e] @ row for row, e in zip(x, expert)])


def combine(rows, weights, choices):
    slots = torch.empty_like(rows).index_copy(0, by_expert(choices), rows)
    return (slots.view(*choices.shape, -1) * weights[..., None]).sum(1)


def loads(x, choices, starts=None):
    counts = torch.ones(len(x)) if starts is None else (starts == 0).float()
    chosen = F.one_hot(choices, x.shape[-1]).sum(1).double()
    return torch.stack([(t * counts[:, None]).sum(0) / counts.sum() for t in (chosen, x.softmax(-1))])


def check_loads(x, choices, starts, k):
    """The product of both rows is what transformers adds to a loss."""
    theirs = load_balancing_loss_func((x.double(),), x.shape[-1], k, None if starts is None else starts == 0)
    assert abs((loads(x.double(), choices, starts).prod(0).sum() * x.shape[-1] - theirs).item()) < 1e-6


def experts():
    for case, rows, n, k, renormalise in (("route", 11, 13, 4, False), ("route_renormalised", 11, 13, 4, True), ("route_one", 7, 5, 1, False)):
        x = draw(case, "x", rows, n, scale=2.0)

        def weigh(x):
            p = x.softmax(-1).topk(k).values
            return p / p.sum(-1, keepdim=True) if renormalise else p

        record(case, weigh, {"x": x}, {"k": k, "renormalise": renormalise})
        tensors[f"{case}.y1"] = x.topk(k).indices.int()
    tokens, k, n = 9, 3, 6
    of = {name: choices_of(name, tokens, k, n) for name in ("spread", "grouped_matmul", "combine")}
    record("spread", spread, {"x": draw("spread", "x", tokens, 17)}, {"experts": n}, {"choices": of["spread"]})
    record("grouped_matmul", grouped, {"x": draw("grouped_matmul", "x", tokens * k, 17), "w": draw("grouped_matmul", "w", n, 10, 17)}, None,
           {"choices": of["grouped_matmul"]})
    record("combine", combine, {"rows": draw("combine", "rows", tokens * k, 17), "weights": draw("combine", "weights", tokens, k)},
           {"experts": n}, {"choices": of["combine"]})
    for case, starts in (("expert_load", None), ("expert_load_padded", torch.tensor([0, 0, 0, 3, 3, 0, 0, 0, 8]))):
        x = draw(case, "x", tokens, n, scale=2.0)
        chosen = x.topk(k).indices
        check_loads(x, chosen, starts, k)
        record(case, loads, {"x": x}, None, {"choices": chosen, **({} if starts is None else {"starts": starts})})


# ---- attention: q [B, T, Hq, D], k and v [B, S, Hkv, D], as the projections leave them ----

def attend(q, k, v, mask=None, causal=False):
    heads_first = (t.transpose(1, 2) for t in (q, k, v))
    y = F.scaled_dot_product_attention(*heads_first, attn_mask=mask, is_causal=causal, enable_gqa=True)
    return y.transpose(1, 2)


def attention_case(case, queries, keys, heads, groups, doc_start=None, **how):
    """doc_start is zero but in the case of documents, where the mask says the same."""
    inputs = {"q": draw(case, "q", 2, queries, heads, 8), "k": draw(case, "k", 2, keys, groups, 8),
              "v": draw(case, "v", 2, keys, groups, 8)}
    attr = {"causal": case != "attention_full", "scale": 8 ** -0.5, "window": how.pop("window", 0)}
    record(case, lambda q, k, v, doc_start: attend(q, k, v, **how), inputs, attr,
           {"doc_start": torch.zeros(2, queries).long() if doc_start is None else doc_start})


def attend_capped(q, k, v, mask, cap):
    """transformers' eager attention of Gemma 2: scores under a soft cap before the mask."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = cap * torch.tanh(q @ k.transpose(2, 3) * 8 ** -0.5 / cap)
    return (scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v).transpose(1, 2)


def attention():
    attention_case("attention", 19, 19, 3, 3, causal=True)
    attention_case("attention_grouped", 19, 19, 6, 2, causal=True)
    attention_case("attention_full", 7, 13, 4, 1)

    at = torch.arange(21)
    start = torch.tensor([[0] * 9 + [9] + [10] * 11, [0] * 21])
    sees = (start[:, :, None] == start[:, None, :]) & (at[:, None] >= at)
    attention_case("attention_documents", 21, 21, 4, 2, doc_start=start, mask=sees[:, None])

    # Queries at the end of a longer row of keys, as in generation: query t stands at S - T + t.
    attention_case("attention_cached", 4, 15, 4, 2, mask=torch.arange(15) <= torch.arange(15)[-4:, None])
    near = (at[:, None] >= at) & (at[:, None] - at < 5)
    attention_case("attention_window", 21, 21, 4, 2, mask=near, window=5)
    inputs = {n: draw("attention_capped", n, 2, 21, h, 8, scale=1.5) for n, h in (("q", 4), ("k", 2), ("v", 2))}
    record("attention_capped", lambda q, k, v, doc_start: attend_capped(q, k, v, near, 0.75), inputs,
           {"causal": True, "scale": 8 ** -0.5, "window": 5, "softcap": 0.75}, {"doc_start": torch.zeros(2, 21).long()})


# ---- rotary embedding ----

def llama3(factor, low, high, original):
    return {"rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
            "original_max_position_embeddings": original}


ROPES = {
    "inv_freq_llama2": (128, {"rope_type": "default", "rope_theta": 10000.0}),
    "inv_freq_smollm2": (64, {"rope_type": "default", "rope_theta": 100000.0}),
    "inv_freq_linear": (64, {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}),
    "inv_freq_llama31": (128, {"rope_theta": 500000.0, **llama3(8.0, 1.0, 4.0, 8192)}),
    "inv_freq_llama32": (64, {"rope_theta": 500000.0, **llama3(32.0, 1.0, 4.0, 8192)}),
    "inv_freq_yarn": (128, {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 32768}),
    "inv_freq_yarn_exact": (64, {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "original_max_position_embeddings": 4096,
                                 "beta_fast": 24.0, "beta_slow": 1.5, "mscale": 0.7, "mscale_all_dim": 1.0, "truncate": False}),
    "inv_freq_yarn_said": (16, {"rope_type": "yarn", "rope_theta": 500.0, "factor": 2.0, "original_max_position_embeddings": 64,
                                "attention_factor": 1.25}),
    # Both ends of the ramp are one pair.
    "inv_freq_yarn_step": (32, {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 16.0, "original_max_position_embeddings": 4,
                                "beta_fast": 2.0, "beta_slow": 1.0}),
    "inv_freq_tiny": (16, {"rope_theta": 10000.0, **llama3(8.0, 1.0, 4.0, 64)}),
}


def rotary():
    for case, (dim, parameters) in ROPES.items():
        config = LlamaConfig(hidden_size=dim, num_attention_heads=1, max_position_embeddings=131072,
                             rope_parameters=dict(parameters))
        made = LlamaRotaryEmbedding(config)
        tensors[f"{case}.y"] = made.inv_freq.float()
        attributes[case] = {"head_dim": dim, "scaling": made.attention_scaling, "rope_parameters": parameters}

    angles = torch.arange(64).double()[:, None] * tensors["inv_freq_tiny.y"].double()

    def turn(x, positions, cos, sin):
        twice = (torch.cat([table[positions]] * 2, -1) for table in (cos, sin))
        return apply_rotary_pos_emb(x, x, *twice, unsqueeze_dim=2)[0]

    record("rope", turn, {"x": draw("rope", "x", 2, 7, 3, 16)},
           constants={"positions": torch.tensor([[0, 1, 2, 3, 4, 5, 6], [0, 1, 0, 1, 2, 40, 63]]),
                      "cos": angles.cos(), "sin": angles.sin()})


# ---- learning rates ----

def rate_factor(name, step, warmup, steps):
    """What lr is multiplied by in optimizer step `step`, counted from 0, as torchtune's schedule (num_cycles 0.5) has it:

        step < warmup   step / max(1, warmup)                      so the first step of a warmup has rate 0
        constant        1
        cosine          max(0, (1 + cos(pi * 2 * 0.5 * p)) / 2),   p = (step - warmup) / max(1, steps - warmup)
        linear          max(0, (steps - step) / max(1, steps - warmup))
    """
    if step < warmup:
        return step / max(1, warmup)
    progress = (step - warmup) / max(1, steps - warmup)
    if name == "cosine":
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * 0.5 * 2.0 * progress)))
    if name == "linear":
        return max(0.0, (steps - step) / max(1, steps - warmup))
    return 1.0


def schedules():
    """Each table is checked against transformers, which torchtune's cosine is drawn from."""
    tables = []
    for name in ("constant", "cosine", "linear"):
        for warmup, steps in ((0, 10), (4, 20), (1, 1), (10, 10), (12, 8)):
            factors = [rate_factor(name, k, warmup, steps) for k in range(steps + 2)]
            optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
            schedule = transformers.get_scheduler("constant_with_warmup" if name == "constant" else name, optimizer,
                                                  num_warmup_steps=warmup, num_training_steps=steps)
            for factor in factors:
                assert abs(factor - schedule.get_last_lr()[0]) < 1e-15
                optimizer.step()
                schedule.step()
            tables.append({"name": name, "num_warmup_steps": warmup, "steps": steps, "factors": factors})
    return {"made_by": "tools/goldens_ops.py", "tables": tables}


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)
        f.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", default=os.path.join(os.path.dirname(__file__), "..", "tests", "golden"))
    out = parser.parse_args().out
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for part in (norms, magnitudes, batch_norms, pointwise, broadcasts, losses, experts, attention, rotary):
        part()
    inputs = {name for name in tensors if not (name.split(".")[1].startswith("y") or ".g." in name)}
    golden_sketch.save(os.path.join(out, "ops.safetensors"), tensors, inputs)
    versions = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
    write_json(os.path.join(out, "ops.json"), {"made_by": "tools/goldens_ops.py", "versions": versions, **attributes})
    write_json(os.path.join(out, "schedules.json"), schedules())
    print(f"{len(tensors)} tensors, {sum(t.nbytes for t in tensors.values())} bytes")


if __name__ == "__main__":
    main()
