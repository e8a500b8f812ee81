"""Sketches of tensors for tests/golden: 64 sums of all elements under random signs. tests/golden.h computes from them how far another tensor is.

The sketch of a difference in one element has exactly its size. The sketch of a difference of L2 norm d has a norm near d: below 0.7 d once in 5,000
cases, below 0.5 d once in 7 billion. Therefore tests hold sketches to 0.7 of their limits. A tensor of fewer than 69 elements stays whole.

A sketch is [parts, 69]. Each row describes one of equal parts of the tensor: 64 sums / 8, the L2 norm, and the tensor's shape, padded with zeros.
The sign of element i (counted through the tensor) in sum j is bit j of splitmix64's number i: 1 is minus.
"""
import json
import os

import numpy
from safetensors.numpy import save_file

SUMS, DIMS = 64, 4


def signs(n):
    with numpy.errstate(over="ignore"):
        z = numpy.arange(1, n + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        z ^= z >> numpy.uint64(31)
    return 1.0 - 2.0 * ((z[:, None] >> numpy.arange(SUMS, dtype=numpy.uint64)) & numpy.uint64(1)).astype(numpy.float64)


def sketch(tensor, parts=1):
    """The sketch of a numpy array in that many equal parts. Ints and small arrays are returned as they are."""
    if tensor.dtype.kind != "f" or tensor.size < SUMS + 1 + DIMS:
        return tensor
    x = tensor.astype(numpy.float64).reshape(parts, -1)
    sums = numpy.einsum("pi,pij->pj", x, signs(x.size).reshape(parts, -1, SUMS)) / SUMS ** 0.5
    norm = numpy.sqrt((x * x).sum(1, keepdims=True))
    shape = numpy.array(tensor.shape + (0,) * (DIMS - tensor.ndim), dtype=numpy.float64)
    return numpy.hstack([sums, norm, numpy.tile(shape, (parts, 1))]).astype(tensor.dtype)


def parts_of(name, tensor):
    """Logits are held to a limit per element, so a part has only six tokens, or three: its L2 norm is not much more than one element's."""
    tokens = tensor.size // tensor.shape[-1] if "logits" in name else 1
    return tokens // 6 if tokens % 6 == 0 else tokens // 3 if tokens % 3 == 0 else 1


def save(path, tensors, whole=(), numbers=None):
    """Writes torch tensors or arrays by name, sketched unless named in `whole`, with the numbers as JSON in the metadata."""
    arrays = {name: numpy.ascontiguousarray(x.detach() if hasattr(x, "detach") else x) for name, x in tensors.items()}
    metadata = {"sketch": str(SUMS), **({"numbers": json.dumps(numbers)} if numbers else {})}
    save_file({name: x if name in whole else sketch(x, parts_of(name, x)) for name, x in arrays.items()}, path, metadata=metadata)
    os.chmod(path, 0o644)


def off(got, want):
    """The largest difference of an element from a golden's tensor. For a sketch: the largest L2 norm of a part, which bounds it from above."""
    if got.shape == want.shape:
        return float(numpy.abs(got - want).max())
    return float(numpy.linalg.norm((sketch(got, len(want)) - want)[:, :SUMS], axis=1).max())
