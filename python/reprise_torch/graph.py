"""A recorded step as a graph for `reprise plan --graph`, and its plan as an action for each op of a block. Needs no torch.

A checkpoint of PyTorch recomputes all values of a block together, before the first backward of the block. The graph says so with calls at the end of
each block that take no time: their backwards read all values of the block. Bytes that no plan changes are `fixed_bytes`: the recorded live bytes
without the values of blocks.
"""
import bisect
import dataclasses
import json
import os
import re
import shutil
import subprocess
import tempfile

RUN, KEEP, SKIP = "run", "keep", "skip"      # what recomputing a block does with an op: run it, return its kept result, or return any bytes
MOST_READS, MOST_MADE = 8, 12                # of a call in the format of graphs
OVERHEAD = 1e-5                              # seconds of an op in eager mode beside its work


class ProgramError(RuntimeError):
    """The program `reprise` is missing, or it refused a graph."""


class BudgetError(RuntimeError):
    """No plan fits the budget. `least_bytes` is the smallest budget that fits."""

    def __init__(self, budget_bytes, least_bytes):
        super().__init__(f"no plan fits {budget_bytes} bytes ({size_text(budget_bytes)}); the least is {least_bytes} bytes ({size_text(least_bytes)})")
        self.least_bytes = least_bytes


# ---- sizes ----

def size_text(n):
    for unit, of in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= of:
            return f"{n / of:.2f} {unit}"
    return f"{n} B"


def size(budget):
    """Bytes of a number or of a text such as '1.2GB', '800 MB' or '2GiB'."""
    units = {"": 1, "b": 1, **{p + "b": 1000 ** i for i, p in enumerate("kmgt", 1)}, **{p + "ib": 1024 ** i for i, p in enumerate("kmgt", 1)}}
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*", budget) if isinstance(budget, str) else None
    if match and match[2].lower() in units:
        return int(float(match[1]) * units[match[2].lower()])
    if isinstance(budget, int) and not isinstance(budget, bool) and budget >= 0:
        return budget
    raise ValueError(f"the budget {budget!r} is not a number of bytes such as 1200000000, '1.2GB' or '900MiB'")


# ---- a recorded step ----

@dataclasses.dataclass
class Value:
    bytes: int


@dataclasses.dataclass
class Op:
    """An op of the forward. Numbers are indices of Step.values: values are storages, so a view is the value that it shows."""
    name: str
    path: str = ""
    block: int | None = None                 # number of the block's call; None: outside of blocks
    position: int = 0                        # among the ops of the block
    reads: list = dataclasses.field(default_factory=list)
    made: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)          # the value of each tensor that it returns; None: not a value
    writes: list = dataclasses.field(default_factory=list)           # values that it changes in place
    backward_reads: list = dataclasses.field(default_factory=list)
    before: int = 0                          # live bytes before it, and the most during it
    most: int = 0
    reruns: bool = True                      # False: it changes something that outlives the block
    flops: int = 0
    moved: int = 0


@dataclasses.dataclass
class Step:
    ops: list = dataclasses.field(default_factory=list)
    values: list = dataclasses.field(default_factory=list)
    saved: list = dataclasses.field(default_factory=list)            # pairs: a node of autograd, and a value
    backward: list = dataclasses.field(default_factory=list)         # in order: forward op, live bytes before, most, flops, bytes moved


@dataclasses.dataclass
class Rates:
    """The speed of a device: operations and bytes in a second."""
    flops: float
    bytes: float

    def seconds(self, flops, moved):
        return max(flops / self.flops, moved / self.bytes) + OVERHEAD if flops or moved else 0.0


# ---- calls ----

def unique(items):
    return list(dict.fromkeys(items))


@dataclasses.dataclass
class Call:
    """A call of the graph: ops that run, are kept or are skipped together. Reads and makes are values of blocks."""
    block: int | None
    path: str
    op: str
    ops: list                                # numbers of the step's ops
    reads: list
    makes: list
    backward_reads: list
    before: int                              # live bytes in the forward
    most: int
    seconds: float = 0
    reruns: bool = True


def spans(step):
    """Ranges of ops, one for each call: an op of a block, all ops between blocks, or all ops from the maker of a value to the last in-place change."""
    maker = {v: i for i, op in enumerate(step.ops) for v in op.made}
    first_of = list(range(len(step.ops)))
    for i, op in enumerate(step.ops):
        makers = [maker[v] for v in op.writes if v in maker]
        starts = [first_of[m] for m in makers if op.block is not None and step.ops[m].block == op.block]
        if starts:
            first_of[min(starts):i + 1] = [min(starts)] * (i + 1 - min(starts))
        elif op.block is None and i and step.ops[i - 1].block is None:
            first_of[i] = first_of[i - 1]
    starts = unique(first_of)
    return [range(first, end) for first, end in zip(starts, [*starts[1:], len(step.ops)])]


class Graph:
    """The graph of a step. `document` is its JSON; `actions` reads a plan."""

    def __init__(self, step, rates):
        self.step, self.rates = step, rates
        self.block_of = {v: op.block for op in step.ops for v in op.made}
        self.changed = {v: i for i, op in enumerate(step.ops) for v in op.writes}       # the last op that changes a value in place
        calls = [c for c in map(self.call_of, spans(step)) if c.makes or c.backward_reads or c.block is None or not c.reruns]
        self.crossing = {v for c in calls for v in c.reads if self.block_of.get(v) != c.block}
        self.needed = {v for c in calls for v in c.backward_reads}
        self.calls = self.with_tails(calls)
        self.forward = self.fixed_forward()
        self.backward, self.backward_seconds = self.fixed_backward()
        self.names, self.call_at = {}, []                # of each value; of each entry of the document, its call, or None
        self.document = self.write()

    def call_of(self, ops):
        of = [self.step.ops[i] for i in ops]
        inside = {v for o in of for v in o.made + o.reads + o.backward_reads if self.block_of.get(v) is not None}
        makes = [v for o in of for v in o.made if v in inside]
        backward_reads = [v for v in unique(v for o in of for v in o.backward_reads) if v in inside]
        reads = unique(v for v in [*(v for o in of for v in o.reads), *backward_reads] if v in inside and v not in makes)
        heaviest = max(of, key=lambda o: (o.flops, o.moved))
        return Call(of[0].block, heaviest.path, heaviest.name if of[0].block is not None else "outside", list(ops), reads, makes, backward_reads,
                    of[0].before, max(o.most for o in of), sum(self.rates.seconds(o.flops, o.moved) for o in of), self.reruns(of, ops[-1]))

    def reruns(self, of, last):
        """Does a later run of these ops give the same, and nothing else? Not if they change a value from outside, or read one that is changed later."""
        foreign = any(self.block_of.get(v) != o.block for o in of for v in o.writes)
        later = any(self.changed.get(v, -1) > last for o in of for v in o.reads)
        return all(o.reruns for o in of) and not foreign and not later

    def with_tails(self, calls):
        """Adds calls at the end of each block whose backwards read all of its values."""
        out = []
        for i, call in enumerate(calls):
            out.append(call)
            if call.block is None or (i + 1 < len(calls) and calls[i + 1].block == call.block):
                continue
            values = [v for v, block in self.block_of.items() if block == call.block and v in self.needed and v not in self.crossing]
            after = self.step.ops[call.ops[-1] + 1].before if call.ops[-1] + 1 < len(self.step.ops) else call.most
            for j in range(0, len(values), MOST_READS):
                some = values[j:j + MOST_READS]
                out.append(Call(call.block, "", "checkpoint", [], some, [], some, after, after))
        return out

    # ---- bytes that no plan changes ----

    def fixed_forward(self):
        """For each call the live bytes before and during it, without those of values of blocks."""
        last = {v: i for i, c in enumerate(self.calls) for v in [*c.makes, *c.reads]}
        ends = {}
        for v, i in last.items():
            if v not in self.needed:
                ends.setdefault(i, []).append(v)
        live, out = 0, []
        for i, call in enumerate(self.calls):
            made = sum(self.step.values[v].bytes for v in call.makes)
            before = max(call.before - live, 0)
            out.append([before, max(call.most - live - made, before)])
            live += made - sum(self.step.values[v].bytes for v in ends.get(i, []))
        return out

    def fixed_backward(self):
        """The same for backwards, and their seconds. A call without an op in backward has the bytes of the moment."""
        firsts = [(c.ops[0], i) for i, c in enumerate(self.calls) if c.ops]
        at = [None] * len(self.calls)
        seconds = [0.0] * len(self.calls)
        for op, before, most, flops, moved in self.step.backward:
            i = firsts[max(bisect.bisect(firsts, (op, len(self.calls))) - 1, 0)][1]
            at[i] = [before, most] if at[i] is None else [at[i][0], max(at[i][1], most)]
            seconds[i] += self.rates.seconds(flops, moved)
        first_read = {}
        for i, call in enumerate(self.calls):
            for v in call.backward_reads:
                first_read.setdefault(v, i)
        starts = {}
        for v, i in first_read.items():
            starts[i] = starts.get(i, 0) + self.step.values[v].bytes
        live, moment, out = 0, 0, []
        for i in range(len(self.calls)):
            live += starts.get(i, 0)
            bytes_now = at[i] or [moment, moment]
            moment = bytes_now[0]
            out.append([max(b - live, 0) for b in bytes_now])
        return out, seconds

    # ---- the file ----

    def write(self):
        calls, forward, backward = [], [], []
        for i, call in enumerate(self.calls):
            for at, entry in enumerate(entries := self.entries(i, call)):
                calls.append(entry)
                forward.append(self.forward[i])
                backward.append(self.backward[i])
                self.call_at.append(i if at == len(entries) - 1 else None)
        return {"reprise_graph": 1, "passes": [{"calls": calls, "fixed_bytes": {"forward": forward, "backward": backward}}]}

    def entries(self, i, call):
        """The call, after further ones that read the values beyond the limit of reads."""
        out, token = [], None
        makes = {}
        for at, v in enumerate(call.makes):
            self.names[v] = name = f"v{v}" if at < MOST_MADE else f"v{call.makes[MOST_MADE - 1]}"
            entry = makes.setdefault(name, {"name": name, "bytes": 0})
            entry["bytes"] += self.step.values[v].bytes
            if v in self.crossing:
                entry["fate"] = "keep"
        reads, saved = unique(self.names[v] for v in call.reads), unique(self.names[v] for v in call.backward_reads)
        path = f"{call.block}.{call.path}" if call.block is not None else ""
        while len(reads) > MOST_READS:
            some, reads = reads[:MOST_READS], reads[MOST_READS:]
            token = f"c{i}.{len(out)}"
            out.append({"path": path, "op": "reads", "reads": some, "makes": [{"name": token, "bytes": 0}],
                        "backward_reads": [n for n in some if n in saved]})
            reads.insert(0, token)
        entry = {"path": path, "op": call.op, "reads": reads, "makes": [*makes.values()] or [{"name": f"c{i}", "bytes": 0}],
                 "backward_reads": [n for n in saved if n in reads or n in makes], "forward_seconds": call.seconds,
                 "backward_seconds": self.backward_seconds[i]}
        if not call.reruns:
            entry["reruns"] = False
        return [*out, entry]

    # ---- plans ----

    def actions(self, plan):
        """For each block that recomputes something, its ops: (name, action, which outputs are kept, whether it can only run once)."""
        ran = {self.call_at[c] for step in plan["passes"][0]["order"] for c in step["recompute"]} - {None}
        return self.actions_of(ran)

    def full(self):
        """The actions of a checkpoint that keeps nothing of a block."""
        return self.actions_of({i for i, c in enumerate(self.calls) if c.block is not None and c.reruns})

    def actions_of(self, ran):
        blocks = {self.calls[i].block for i in ran if self.calls[i].ops} - {None}
        return {block: self.block_actions(block, ran) for block in blocks}

    def block_actions(self, block, ran):
        calls = [(i, c) for i, c in enumerate(self.calls) if c.block == block and c.ops]
        wanted = {v for i, c in calls for v in (c.backward_reads + c.reads if i in ran else c.backward_reads)}
        out, run_ops = [], {o for i, c in calls if i in ran for o in c.ops}
        once = {o for _, c in calls if not c.reruns for o in c.ops}
        for at, op in enumerate(self.step.ops):
            if op.block != block:
                continue
            kept = tuple(v in op.made and v in wanted for v in op.outputs)
            runs = at in run_ops or not (op.made or op.writes)
            out.append((op.name, RUN if runs else KEEP if any(kept) else SKIP, kept, not runs and at in once))
        return out

    def seconds(self, actions):
        """That recomputing adds to a step."""
        ran = [(o, actions[o.block][o.position][1]) for o in self.step.ops if o.block in actions]
        return sum(self.rates.seconds(o.flops, o.moved) for o, action in ran if action == RUN)

    def step_seconds(self):
        return sum(c.seconds for c in self.calls) + sum(self.backward_seconds)


# ---- the program ----

def find_program(program=None):
    found = program or os.environ.get("REPRISE") or shutil.which("reprise")
    if not found or not shutil.which(found):
        raise ProgramError(f"the program {found or 'reprise'!r} is not found: build it with 'make program', then set REPRISE to its path")
    return found


def ask(program, document, budget_bytes=None):
    """The plan of a graph, or None if none fits."""
    with tempfile.TemporaryDirectory() as folder:
        graph, plan = os.path.join(folder, "graph.json"), os.path.join(folder, "plan.json")
        with open(graph, "w") as file:
            json.dump(document, file)
        command = [program, "plan", "--graph", graph, "-o", plan]
        done = subprocess.run(command + ([f"memory_budget={budget_bytes}"] if budget_bytes is not None else []), capture_output=True, text=True)
        if done.returncode == 3:
            return None
        if done.returncode:
            raise ProgramError(f"{program!r} refused the graph of the step: {done.stderr.strip()}")
        with open(plan) as file:
            return json.load(file)


@dataclasses.dataclass
class Choice:
    actions: dict
    peak: int
    unplanned: int                           # the peak without a plan
    overhead: float


def choose(graph, ask_plan, rehearse, budget_bytes, unplanned, most_tries=8):
    """The fastest plan found whose rehearsed peak fits the budget. `ask_plan(bytes)` is a plan or None, `rehearse(actions)` the peak of a step,
    `unplanned` that of a step without a plan.

    The graph is a model of PyTorch. If a step exceeds the budget, the planner gets a smaller one; once a step fits, the tries halve the distance.
    """
    if unplanned <= budget_bytes:
        return Choice({}, unplanned, unplanned, 0.0)
    peaks = [unplanned]
    fits = []

    def attempt(actions):
        peaks.append(rehearse(actions))
        if peaks[-1] <= budget_bytes:
            fits.append((graph.seconds(actions), peaks[-1], actions))
        return peaks[-1]

    low, high, ask_for = 0, budget_bytes, budget_bytes
    for _ in range(most_tries):
        plan = ask_plan(ask_for)
        if plan is None and not fits:
            break
        peak = attempt(graph.actions(plan)) if plan is not None else budget_bytes + 1
        if peak > budget_bytes:
            high = ask_for
        else:
            low = ask_for
        if low == budget_bytes or (fits and high - low <= budget_bytes // 100):
            break
        ask_for = (low + high) // 2 if fits else ask_for - max(peak - budget_bytes, budget_bytes // 200)
    if not fits:
        attempt(graph.full())
        least = ask_plan(None)["least_budget_bytes"]
        attempt(graph.actions(ask_plan(least)))
    if not fits:
        raise BudgetError(budget_bytes, min(peaks))
    seconds, peak, actions = min(fits, key=lambda f: f[:2])
    return Choice(actions, peak, unplanned, seconds / graph.step_seconds())
