"""Writes tests/ops/golden_ops.json: what PyTorch (and transformers' Llama, for rotary) computes in fp64 for a small case of each op.

    python tools/golden_ops.py tests/ops/golden_ops.json        made with PyTorch 2.15, transformers 5.23
"""
import json
import sys

import torch
import torch.nn.functional as F
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

torch.manual_seed(1)
cases = []


def draw(*shape, scale=1.0):
    return (torch.randn(*shape, dtype=torch.float64) * scale).requires_grad_()


def tensor(t):
    if t is None:
        return None
    return {"dim": list(t.shape), "int": not t.is_floating_point(), "data": t.detach().reshape(-1).tolist()}


def case(op, inputs, output, attr=None):
    grad_out = torch.randn_like(output)
    output.backward(grad_out)
    one = output.reshape(1) if output.dim() == 0 and "cross" in op else output
    cases.append({"op": op, "attr": attr or {}, "in": [tensor(t) for t in inputs], "out": tensor(one),
                  "grad_out": tensor(grad_out.reshape(one.shape)), "grad_in": [tensor(t.grad) for t in inputs]})


x, w, b = draw(2, 3, 5), draw(4, 5), draw(4)
case("matmul", [x, w, b], F.linear(x, w, b), {"transpose_w": True})
x, w = draw(2, 3, 5), draw(5, 4)
case("matmul", [x, w], x @ w, {"transpose_w": False})
x, w = draw(2, 3, 5), draw(5)
case("rmsnorm", [x, w], F.rms_norm(x, (5,), w, 1e-5), {"eps": 1e-5})
x, w, b = draw(2, 3, 5), draw(5), draw(5)
case("layernorm", [x, w, b], F.layer_norm(x, (5,), w, b, 1e-5), {"eps": 1e-5})
for approximate in ("none", "tanh"):
    x = draw(3, 5, scale=2)
    case("gelu", [x], F.gelu(x, approximate=approximate), {"erf": approximate == "none"})
x = draw(3, 5, scale=2)
case("silu", [x], F.silu(x))
x = draw(3, 5)
case("relu", [x], F.relu(x))
g, u = draw(3, 5), draw(3, 5)
case("swiglu", [g, u], F.silu(g) * u)
x = draw(3, 5)
case("softmax", [x], F.softmax(x, -1))
x = draw(2, 3, 4)
case("sum", [x], x.sum(1), {"dim": 1})
x = draw(2, 3, 4)
case("mean", [x], x.mean(-1), {"dim": -1})
x = draw(2, 3, 4)
case("max", [x], x.max(0).values, {"dim": 0})
table, ids = draw(6, 3), torch.tensor([[1, 5, 1], [0, 1, 4]], dtype=torch.int32)
case("embedding", [table, ids], F.embedding(ids.long(), table))
logits, labels = draw(4, 7, scale=2), torch.tensor([3, -100, 0, 6], dtype=torch.int32)
case("cross_entropy", [logits, labels], F.cross_entropy(logits, labels.long(), ignore_index=-100, reduction="sum") * 0.25,
     {"weight": 0.25, "ignore_index": -100})
x, w, labels = draw(4, 5), draw(7, 5), torch.tensor([3, -100, 0, 6], dtype=torch.int32)
case("linear_cross_entropy", [x, w, labels], F.cross_entropy(x @ w.T, labels.long(), ignore_index=-100, reduction="sum") * 0.25,
     {"weight": 0.25, "ignore_index": -100})
x, positions = draw(2, 3, 2, 8), torch.tensor([[0, 1, 2], [4, 0, 7]], dtype=torch.int32)
angle = torch.arange(9, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(4, dtype=torch.float64) / 4)
both = torch.cat((angle, angle), -1)[positions.long()]
turned, _ = apply_rotary_pos_emb(x.transpose(1, 2), x.transpose(1, 2), both.cos(), both.sin())
case("rotary", [x, positions, angle.cos(), angle.sin()], turned.transpose(1, 2))

with open(sys.argv[1], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
