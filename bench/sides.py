"""What bench/speed and bench/pieces share: two processes that run by turns, and what was measured of them.

    ours  ─────── a0 ──────────────── b1 ── a2 ────────      which comes first takes turns, too: what else the machine does, and what
    peer  ───────────── b0 ── a1 ─────────────── b2 ───      the one leaves to the other, falls on both. A pair's ratio is peer / ours
"""
import ctypes.util
import json
import math
import os
import statistics
import subprocess
import sys
import time


def median_interval(values):
    """The median, the narrowest ranks that hold the true one with 95 %, all of them where there are fewer than six, and with how much."""
    x, n, k, below = sorted(values), len(values), 0, 0.5 ** len(values)
    while k + 1 < n - 1 - k and below + math.comb(n, k + 1) * 0.5 ** n <= 0.025:
        k += 1
        below += math.comb(n, k) * 0.5 ** n
    return statistics.median(x), [x[k], x[n - 1 - k]], 1 - 2 * below


def tcmalloc():
    """As the loader is told it; None: this machine has none."""
    return ctypes.util.find_library("tcmalloc_minimal") or ctypes.util.find_library("tcmalloc")


class Side:
    """A process that says in a line of JSON that it is ready, and answers each line it reads with another."""

    def __init__(self, command, preload=None):
        env = dict(os.environ, LD_PRELOAD=preload) if preload else None
        self.command, self.process = command, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.ready = self.read()

    def read(self):
        line = self.process.stdout.readline()
        while line and not line.startswith("{"):        # libraries that print, too
            line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{os.path.basename(sys.argv[0])}: '{' '.join(map(str, self.command))}' ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.read()

    def cpu_seconds(self):
        """What the process has used so far, all its threads."""
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Others:
    """Cores that neither of the two used, from the beginning to the end."""

    def __init__(self, *sides):
        self.sides, self.began = sides, time.monotonic()
        self.start = self.used()

    def used(self):
        with open("/proc/stat", encoding="utf-8") as f:
            user, nice, system, _, _, irq, softirq, steal = map(int, f.readline().split()[1:9])
        busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        return busy - sum(side.cpu_seconds() for side in self.sides)

    def cores(self):
        return round(max(0.0, (self.used() - self.start) / (time.monotonic() - self.began)), 2)


def by_turns(rounds, *sides):
    """Of functions that give seconds: a tuple of all of them, for each round. Another one begins each round."""
    out = []
    for i in range(rounds):
        took = {}
        for j in range(len(sides)):
            at = (i + j) % len(sides)
            took[at] = sides[at]()
        out.append(tuple(took[at] for at in range(len(sides))))
    return out


def spread(values):
    median, interval, coverage = median_interval(values)
    return {"median": median, "interval": interval, "coverage": round(coverage, 4)}


def measured(row, ours, peer, pairs, turn, figures, before=None):
    """The row with what both sides took, by turns, and what lived. turn(side): a function that gives seconds; figures(seconds): what is
    told of a side's. `before` is a third side, an older build of ours, told by its ratio alone. All are closed."""
    sides = [ours, peer] + ([before] if before else [])
    others = Others(*sides)
    times = by_turns(pairs, *map(turn, sides))
    busy = others.cores()
    sizes = [side.ask("bytes") for side in (ours, peer)]
    for side in sides:
        side.close()
    found = dict(row, pairs=len(times), ratio=spread([b / a for a, b, *_ in times]), others_cores=busy)
    if before:
        found["before"] = spread([c / a for a, _, c in times])
    for key, seconds, size in zip(("ours", "peer"), zip(*times), sizes):
        found[key] = {**figures(seconds), **size, "beyond_bytes": size["peak_bytes"] - size["lasting_bytes"]}
    return found


def step_of(side):
    return lambda: side.ask("step")["seconds"]


def rates(tokens):
    """Figures of steps of so many tokens."""
    return lambda seconds: {"tokens_per_second": spread([tokens / s for s in seconds])}


def kept(path):
    """Rows measured before, by name."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as f:
        return {r["name"]: r for r in json.load(f)["rows"]}


def write(path, about, order, done):
    """Rows in the order of these names, others behind them."""
    data = {**about, "rows": sorted(done.values(), key=lambda r: order.index(r["name"]) if r["name"] in order else len(order))}
    with open(path + ".tmp", "w", encoding="utf-8") as f:
        json.dump(data, f, indent=1)
        f.write("\n")
    os.replace(path + ".tmp", path)
