"""A training step on fake tensors: its ops, the values that they make, who reads them in forward and backward, and its live bytes.

No weight is copied and nothing is computed, except by ops that read integers and booleans alone: they decide the control flow of models (masks).
"""
import contextlib
import weakref

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.checkpoint import SAC_IGNORED_OPS
from torch.utils.flop_counter import flop_registry

from .graph import Op, Step, Value

# Their number differs between the forward and the recomputation of a checkpoint, so they have no position among the ops.
IGNORED = SAC_IGNORED_OPS
CACHES = ("past_key_values", "past_key_value", "layer_past")


class TraceError(RuntimeError):
    """The step cannot be traced on fake tensors."""


def tensors(tree):
    return [x for x in tree_flatten(tree)[0] if isinstance(x, torch.Tensor)]


def written(func, args, kwargs):
    """The tensors that an op changes in place."""
    named = zip(func._schema.arguments, args)
    named = [*named, *((a, kwargs[a.name]) for a in func._schema.arguments if a.name in kwargs)]
    return [t for a, value in named if a.alias_info is not None and a.alias_info.is_write for t in tensors(value)]


def is_index(tensor):
    """Integers and booleans keep their values in a trace."""
    return not (tensor.is_floating_point() or tensor.is_complex())


class Bytes:
    """Live bytes of the storages that it has seen. A storage counts once, until the last tensor on it is freed."""

    def __init__(self):
        self.live = self.peak = 0
        self.known = {}                                  # address of a storage: (weak reference, the number given by the caller)

    def add(self, tensor, number=None):
        """The number of the tensor's storage: that of the first call for it, which counts its bytes."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self.known:
            self.known[key] = (weakref.ref(storage, lambda _: self.drop(key, size)), number)
            self.live += size
            self.peak = max(self.peak, self.live)
        return self.known[key][1]

    def find(self, tensor):
        return self.known.get(tensor.untyped_storage()._cdata, (None, None))[1]

    def drop(self, key, size):
        del self.known[key]
        self.live -= size


counting = []                                            # the Bytes of the running step on fake tensors, innermost last


def note(tensor):
    """Counts a tensor that no op made, such as a state of random numbers."""
    if counting:
        counting[-1].add(tensor)


class Counter(TorchDispatchMode):
    """Counts the bytes of each result. Ops on tensors that are not fake run on their values, and so do ops that make integers of no tensor."""

    def __init__(self):
        super().__init__()
        self.bytes = Bytes()

    def start(self, tensor):
        """Counts a tensor that is there before the step."""
        self.bytes.add(tensor)

    def call(self, func, args, kwargs):
        read = tensors((args, kwargs))
        if read and any(isinstance(t, FakeTensor) for t in read):
            return func(*args, **kwargs)
        if not read:
            out = func(*args, **kwargs)
            if not (made := tensors(out)) or not all(map(is_index, made)):
                return out
        with unset_fake_temporarily():                   # positions and masks
            return func(*args, **kwargs)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = self.call(func, args, kwargs or {})
        for t in tensors(out):
            self.bytes.add(t)
        return out


class Recorder(Counter):
    """The same, and keeps the ops of the forward and the live bytes around each op of the backward."""

    def __init__(self):
        super().__init__()
        self.step = Step()
        self.block = None                                # number of the running block, in the order of calls
        self.blocks = []                                 # the block of each number
        self.path = [""]
        self.positions = {}                              # of each block: ops so far
        self.op_of = {}                                  # autograd's number of a node: its op
        self.forward = True

    def start(self, tensor):
        self.number(tensor)

    def number(self, tensor):
        """The number of the tensor's value, and whether it is new."""
        number = len(self.step.values)
        if self.bytes.add(tensor, number) != number:
            return self.bytes.find(tensor), False
        self.step.values.append(Value(tensor.untyped_storage().nbytes()))
        return number, True

    # ---- forward ----

    def in_block(self, block, forward):
        """Runs the forward of a block. A block within a block belongs to the outer one."""
        if self.block is not None:
            return forward()
        self.block = len(self.blocks)
        self.blocks.append(block)
        try:
            return forward()
        finally:
            self.block = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        before = self.bytes.live
        if not self.forward:
            return self.backward_op(func, args, kwargs, before)
        if func in IGNORED:
            return super().__torch_dispatch__(func, types, args, kwargs)
        reads = sorted({n for n in map(self.bytes.find, tensors((args, kwargs))) if n is not None})
        writes = {self.bytes.find(t) for t in written(func, args, kwargs)}
        out = self.call(func, args, kwargs)
        made = [number for number, new in map(self.number, tensors(out)) if new]
        op = Op(name=str(func), path=self.path[-1], block=self.block, position=self.positions.get(self.block, 0), reads=reads, made=made,
                outputs=[self.bytes.find(t) for t in tensors(out)], writes=sorted(writes - {None}), before=before,
                most=max(before, self.bytes.live), reruns=None not in writes and func.namespace != "c10d", **cost(func, args, kwargs, out))
        self.positions[self.block] = op.position + 1
        self.op_of[torch.autograd._get_sequence_nr() - 1] = len(self.step.ops)
        self.step.ops.append(op)
        return out

    def pack(self, tensor):
        """A node saves a tensor: a backward of the node's op reads its value. The node has the last number given out."""
        number = self.bytes.find(tensor)
        if number is not None and self.forward:
            self.step.saved.append((torch.autograd._get_sequence_nr() - 1, number))
        return tensor

    # ---- backward ----

    def backward_op(self, func, args, kwargs, before):
        out = self.call(func, args, kwargs)
        for t in tensors(out):
            self.bytes.add(t)
        node = torch._C._current_autograd_node()
        at = self.op_of.get(node._sequence_nr()) if node is not None else None
        if self.step.backward and (at is None or at > self.step.backward[-1][0]):
            at = self.step.backward[-1][0]               # sums of gradients have no op of their own
        if at is not None:
            self.step.backward.append((at, before, max(before, self.bytes.live), *cost(func, args, kwargs, out).values()))
        return out

    def finish(self):
        """Numbers of nodes become ops: a node without an op of its own belongs to the op before it."""
        numbers = sorted(self.op_of)
        for node, value in self.step.saved:
            known = [n for n in numbers if n <= node] if node not in self.op_of else [node]
            if known:
                op = self.step.ops[self.op_of[known[-1]]]
                if value not in op.backward_reads:
                    op.backward_reads.append(value)
        return self.step


def cost(func, args, kwargs, out):
    """Operations, and bytes read and written. A result that is a view of an argument costs nothing."""
    inputs = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors((args, kwargs))}
    new = [t for t in tensors(out) if t.untyped_storage()._cdata not in inputs]
    if not new and not written(func, args, kwargs):
        return {"flops": 0, "moved": 0}
    count = flop_registry.get(func.overloadpacket)
    flops = count(*args, **kwargs, out_val=out) if count else 0
    return {"flops": int(flops), "moved": sum(t.numel() * t.element_size() for t in [*tensors((args, kwargs)), *tensors(out)])}


# ---- the step ----

@contextlib.contextmanager
def fake_weights(model, mode):
    """The model has fake parameters and buffers inside. Tied ones stay tied."""
    memo, swapped = {}, []

    def fake(t):
        if id(t) not in memo:
            memo[id(t)] = (mode.from_tensor(t), t)       # t stays referenced, so its id is not used twice
            memo[id(t)][0].grad = None
        return memo[id(t)][0]

    try:
        for module in model.modules():
            for table in (module._parameters, module._buffers):
                for name, t in table.items():
                    if t is not None:
                        swapped.append((table, name, t))
                        table[name] = fake(t)
        yield [f for f, _ in memo.values()]
    finally:
        for table, name, t in swapped:
            table[name] = t


def call(model, example):
    if isinstance(example, (tuple, list)):
        return model(*example)
    return model(**example) if hasattr(example, "keys") else model(example)


def loss_of(output, loss):
    """The scalar that backward starts at."""
    value = loss(output) if loss else getattr(output, "loss", output)
    if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.requires_grad:
        raise TraceError("the model returns no loss: pass loss=FUNCTION, which maps the model's output to one number")
    return value


def fake_input(mode, t):
    """Integers and booleans keep their values: they are few, and models branch on them."""
    return mode.from_tensor(t) if isinstance(t, torch.Tensor) and not is_index(t) else t


def run(model, example, loss, counter, before_backward=lambda: None, steps=1):
    """Runs forward and backward on fake tensors under a counter. With two steps the second one adds to the gradients."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with fake_weights(model, mode) as weights, rng_kept():
        inputs = tree_map(lambda t: fake_input(mode, t), example if not hasattr(example, "keys") else dict(example))
        for t in [*weights, *tensors(inputs)]:
            counter.start(t)
        counting.append(counter.bytes)
        try:
            for _ in range(steps):
                with mode, counter:
                    output = call(model, inputs)
                    value = loss_of(output, loss)
                    before_backward()
                    value.backward()
                    del output, value
        except TraceError:
            raise
        except Exception as error:
            raise TraceError(f"the model cannot be traced on fake tensors: {type(error).__name__}: {error}") from error
        finally:
            counting.pop()
            for w in weights:
                w.grad = None
    return counter


@contextlib.contextmanager
def rng_kept():
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


def record(model, example, loss, blocks):
    """The ops of a step in which nothing is recomputed, the block of each number, and the peak. `blocks` call `recorder.in_block`."""
    recorder = Recorder()
    names = {id(m): name for name, m in model.named_modules()}
    module = torch.nn.modules.module
    before = module.register_module_forward_pre_hook(lambda m, _: recorder.path.append(names.get(id(m), recorder.path[-1])))
    after = module.register_module_forward_hook(lambda *_: (recorder.path.pop(), None)[1], always_call=True)
    try:
        for block in blocks:
            block.recorder = recorder
        with torch.autograd.graph.saved_tensors_hooks(recorder.pack, lambda t: t):
            run(model, example, loss, recorder, lambda: setattr(recorder, "forward", False))
    finally:
        before.remove()
        after.remove()
        for block in blocks:
            block.recorder = None
    return recorder.finish(), recorder.blocks, recorder.bytes.peak


def peak(model, example, loss, steps=1):
    """Most live bytes of a step of the model as it is, with its checkpoints."""
    return run(model, example, loss, Counter(), steps=steps).bytes.peak
