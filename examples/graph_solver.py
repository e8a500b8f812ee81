#!/usr/bin/env python3
"""A solver of one's own: reads a graph, writes a plan of it. `reprise plan --graph GRAPH --evaluate PLAN` gives the plan's figures.

    python3 examples/graph_solver.py GRAPH BYTES PLAN [REPRISE]

It recomputes the calls that cost the fewest seconds for each byte first, until the peak is at most BYTES.
"""
import json
import subprocess
import sys

graph_file, most, plan_file, program = sys.argv[1], int(sys.argv[2]), sys.argv[3], (sys.argv[4:] or ["reprise"])[0]
graph = json.load(open(graph_file))


def peak(fates):
    """Writes the plan and returns its bytes at the peak."""
    json.dump({"reprise_graph_plan": 1, "passes": [{"fates": f} for f in fates]}, open(plan_file, "w"), indent=1)
    command = [program, "plan", "--graph", graph_file, "--evaluate", plan_file, f"memory_budget={most}", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):                    # 3: the plan does not fit
        sys.exit(done.stderr)
    return json.loads(done.stdout)["peak_bytes"]


candidates = []
for at, one in enumerate(graph["passes"]):
    for call in one["calls"][:-1]:                       # the last call's backward follows at once
        free = [v for v in call["makes"] if "fate" not in v]
        seconds = call.get("recompute_seconds", call.get("forward_seconds", 0))
        size = sum(v["bytes"] for v in free)
        if size and call.get("reruns", True):
            candidates.append((seconds / size, at, [v["name"] for v in free]))

fates = [{} for _ in graph["passes"]]
for _, at, names in sorted(candidates):
    if peak(fates) <= most:
        break
    fates[at].update({name: "recompute" for name in names})
sys.exit(0 if peak(fates) <= most else f"no plan found for {most} bytes")
