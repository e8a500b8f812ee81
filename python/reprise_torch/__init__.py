"""A memory budget for the training steps of a PyTorch model: `model = reprise_torch.budget(model, example, "1.2GB")`.

The program `reprise` plans which values of the model's blocks are kept for backward and which are recomputed. torch.utils.checkpoint follows the plan.
docs/howto/pytorch.md in Reprise's source explains it.
"""
import dataclasses
import functools
import time
import warnings

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.checkpoint import checkpoint

from . import graph as _graph
from . import trace as _trace
from .graph import BudgetError, ProgramError, Rates
from .trace import TraceError

__all__ = ["budget", "release", "BudgetError", "ProgramError", "Rates", "Report", "TraceError"]


@dataclasses.dataclass
class Report:
    """The plan of a model, at `model.reprise_report`."""
    budget_bytes: int
    predicted_bytes: int             # most live bytes of a step on fake tensors, without the optimizer
    unplanned_bytes: int             # the same without the plan
    overhead: float                  # seconds that the plan adds, as a part of the step's seconds
    blocks: list                     # for each block: the number of its ops, and of those that are recomputed; (0, 0): it has no checkpoint

    def __str__(self):
        ran = sum(run > 0 for _, run in self.blocks)
        return (f"predicted {_graph.size_text(self.predicted_bytes)} of {_graph.size_text(self.budget_bytes)}; {ran} of {len(self.blocks)} blocks "
                f"recompute {sum(run for _, run in self.blocks)} ops, {100 * self.overhead:.1f} % of a step")


# ---- blocks ----

def find_blocks(model):
    """The entries of the outermost lists and sequences of modules, in the order of the model."""
    if isinstance(model, (torch.nn.ModuleList, torch.nn.Sequential)) and len(model) > 1:
        return [m for m in model if any(True for _ in m.parameters())]
    return [block for child in model.children() for block in find_blocks(child)]


class Planned:
    """Replaces `forward` of a block. The block's names, hooks and state stay as they are."""

    def __init__(self, block):
        functools.update_wrapper(self, block.forward, updated=())
        self.block, self.forward = block, block.forward
        self.plan, self.recorder, self.warned = None, None, False

    def __call__(self, *args, **kwargs):
        if not torch.is_grad_enabled():
            return self.forward(*args, **kwargs)
        for name in _trace.CACHES:                       # a recomputed block would write to the cache twice
            if kwargs.get(name) is not None:
                kwargs[name] = None
        if kwargs.get("use_cache"):
            kwargs["use_cache"] = False
        if self.recorder is not None:
            return self.recorder.in_block(self, lambda: self.forward(*args, **kwargs))
        if self.plan is None:
            return self.forward(*args, **kwargs)
        return checkpoint(functools.partial(self.forward, **kwargs), *args, use_reentrant=False, preserve_rng_state=False,
                          context_fn=functools.partial(contexts, self))

    def differs(self, at, func):
        """The block runs other ops than with the example, for example because it got other arguments."""
        planned = self.plan[at][0] if at < len(self.plan) else "the end of its ops"
        text = f"op {at} of a block is '{func}', with the example it was '{planned}'"
        if any(once for *_, once in self.plan):
            raise RuntimeError(f"{text}: the block changes tensors from outside, so it cannot be recomputed as a whole")
        if not self.warned:
            warnings.warn(f"reprise_torch: {text}: such blocks are recomputed as a whole, and their bytes are not predicted", stacklevel=4)
        self.warned = True


# ---- a checkpoint that follows a plan ----

name_of = functools.lru_cache(None)(str)                 # of an op, as Op.name


class Result:
    """A result of an op that is not recomputed: its tensor if backward or a recomputed op reads it, otherwise its shape."""

    def __init__(self, result, kept, inputs):
        self.argument = next((i for i, t in enumerate(inputs) if t is result), None)       # ops in place return their argument
        self.tensor = result.detach() if kept and self.argument is None else None
        self.like = (result.size(), result.stride(), result.dtype, result.device)
        self.kept, self.version = self.tensor is not None, None

    def take(self, inputs):
        if self.argument is not None:
            return inputs[self.argument]
        if not self.kept:
            return torch.empty_strided(*self.like[:2], dtype=self.like[2], device=self.like[3])      # nothing reads its values
        tensor, self.tensor = self.tensor, None
        if tensor is None:
            raise RuntimeError("a block with a plan of reprise_torch ran backward twice: run its forward before each backward")
        if tensor._version != self.version:
            raise RuntimeError("a value that a plan of reprise_torch keeps was changed in place after its block")
        return tensor


class Run:
    """One forward of a block and its recomputation. `entries` has the ops of the forward in order."""

    def __init__(self, planned):
        self.planned, self.plan, self.entries, self.run_all = planned, planned.plan, [], False

    def action(self, func):
        at = len(self.entries)
        if not self.run_all and at < len(self.plan) and self.plan[at][0] == name_of(func):
            return self.plan[at][1:3]
        if not self.run_all:
            self.run_all = True                          # values that the plan skips may be needed now
            self.planned.differs(at, func)
        return _graph.RUN, ()


class Forward(TorchDispatchMode):
    """The forward of a block: keeps the results that the plan keeps."""

    def __init__(self, run):
        super().__init__()
        self.run = run

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _trace.IGNORED:
            return func(*args, **kwargs)
        action, kept = self.run.action(func)
        state = random_state(func, args, kwargs)
        out = func(*args, **kwargs)
        leaves, spec, results = None, None, None
        if action != _graph.RUN:
            leaves, spec = tree_flatten(out)
            inputs, wanted = _trace.tensors((args, kwargs)), iter(kept)
            results = [Result(x, next(wanted), inputs) if isinstance(x, torch.Tensor) else x for x in leaves]
        self.run.entries.append((func, results, spec, state))
        return out

    def __exit__(self, *error):
        for _, results, _, _ in self.run.entries:
            for x in results or ():
                if isinstance(x, Result) and x.kept:
                    x.version = x.tensor._version
        return super().__exit__(*error)


class Recompute(TorchDispatchMode):
    """The recomputation of a block: runs the ops that the plan recomputes, and returns kept results for the others."""

    def __init__(self, run):
        super().__init__()
        self.run, self.position, self.outer = run, 0, {}

    def __enter__(self):
        self.position = 0
        return super().__enter__()

    def __exit__(self, *error):
        for state in self.outer.items():
            set_state(state)                             # of the ops after the recomputation
        self.outer = {}
        return super().__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _trace.IGNORED:
            return func(*args, **kwargs)
        known, results, spec, state = self.run.entries[self.position] if self.position < len(self.run.entries) else (None,) * 4
        if known is not func:
            raise RuntimeError(f"the recomputation of a block runs '{func}' where its forward ran '{known}': ops of a block must not change between them")
        self.position += 1
        if results is None or self.run.run_all:
            if state is not None:
                if state[0] not in self.outer:
                    self.outer[state[0]] = get_state(state[0])[1]
                set_state(state)
            return func(*args, **kwargs)
        inputs = _trace.tensors((args, kwargs))
        return tree_unflatten([x.take(inputs) if isinstance(x, Result) else x for x in results], spec)


def contexts(planned):
    run = Run(planned)
    return Forward(run), Recompute(run)


# ---- random numbers ----

def random_state(func, args, kwargs):
    """(device, state) before a random op, so that its recomputation draws the same numbers. None: the op draws none."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return None
    for argument, value in zip(func._schema.arguments, args):
        if argument.name == "dropout_p" and not kwargs.get("dropout_p", value):
            return None
    device = kwargs.get("device") or next((t.device for t in _trace.tensors((args, kwargs))), "cpu")
    return get_state(torch.device(device))


def get_state(device):
    state = torch.get_rng_state() if device.type == "cpu" else torch.get_device_module(device).get_rng_state(device)
    _trace.note(state)
    return device, state


def set_state(state):
    device, numbers = state
    if device.type == "cpu":
        torch.set_rng_state(numbers)
    else:
        torch.get_device_module(device).set_rng_state(numbers, device)


# ---- the budget ----

def budget(model, example, budget, loss=None, *, blocks=None, reserve=0, accumulate=False, rates=None, program=None):
    """Makes the training steps of `model` fit a budget, and returns the model. Only the lifetimes of values change, not the values.

    model       an nn.Module in the state in which it trains. Its blocks are the entries of its outermost nn.ModuleList and nn.Sequential.
    example     a batch of the largest size: a mapping for model(**example), a tuple for model(*example), or one argument
    budget      bytes, or a text such as "1.2GB" or "900MiB": weights, buffers, batch, gradients, activations and `reserve`
    loss        maps the model's output to the number that backward starts at. Default: output.loss, or the output
    blocks      modules to checkpoint instead of the default ones
    reserve     bytes, or such a text, for memory that the step does not allocate, for example the optimizer's states
    accumulate  True: gradients of earlier steps are there during the step. Default: they are None, as after optimizer.zero_grad()
    rates       Rates(flops, bytes) of the device in a second. Default: measured in a few hundredths of a second, so plans may differ between runs
    program     path of the program `reprise`. Default: the environment variable REPRISE, then PATH

    The peak of a later step is predicted for the ops of the example. model.reprise_report has the figures. A second call replaces the plan.

    errors      BudgetError: no plan fits, least_bytes does · TraceError: the step cannot run on fake tensors · ProgramError: no program
    """
    budget_bytes, reserved = _graph.size(budget), _graph.size(reserve)
    program = _graph.find_program(program)
    release(model)
    planned = [Planned(b) for b in (find_blocks(model) if blocks is None else blocks)]
    for p in planned:
        p.block.forward = p
    try:
        report = make_plan(model, example, loss, planned, budget_bytes, reserved, 2 if accumulate else 1, rates, program)
    except BaseException:
        for p in planned:
            del p.block.forward
        raise
    model.reprise_report = report
    return model


def release(model):
    """Removes the plan of a model: it keeps everything again."""
    for module in model.modules():
        if isinstance(module.__dict__.get("forward"), Planned):
            del module.forward
    model.__dict__.pop("reprise_report", None)
    return model


def make_plan(model, example, loss, planned, budget_bytes, reserved, steps, rates, program):
    step, of_block, peak = _trace.record(model, example, loss, planned)
    rates = rates or measure_rates(next((p for p in model.parameters()), torch.empty(0)))
    graph = _graph.Graph(step, rates)

    def follow(actions):
        for p in planned:
            p.plan = None
        for block, plan in actions.items():
            of_block[block].plan = plan

    def rehearse(actions):
        follow(actions)
        return _trace.peak(model, example, loss, steps) + reserved

    unplanned = peak + reserved if steps == 1 else rehearse({})
    choice = _graph.choose(graph, lambda n: _graph.ask(program, graph.document, n), rehearse, budget_bytes, unplanned)
    follow(choice.actions)
    counts = [(len(p.plan), sum(a == _graph.RUN for _, a, *_ in p.plan)) if p.plan else (0, 0) for p in planned]
    return Report(budget_bytes, choice.peak, choice.unplanned, choice.overhead, counts)


def measure_rates(tensor):
    """Of the device and dtype of a tensor: a product of matrices, and a copy."""
    device, dtype = tensor.device, tensor.dtype
    n = 512 if device.type == "cpu" else 4096
    a, b = torch.ones(n, n, device=device, dtype=dtype), torch.ones(1 << 23 if device.type == "cpu" else 1 << 28, device=device, dtype=torch.uint8)

    def seconds(work):
        best = float("inf")
        for _ in range(4):
            start = time.perf_counter()
            work()
            if device.type != "cpu":
                torch.get_device_module(device).synchronize(device)
            best = min(best, time.perf_counter() - start)
        return best

    return Rates(2 * n ** 3 / seconds(lambda: a @ a), 2 * b.numel() / seconds(b.clone))
