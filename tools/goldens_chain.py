#!/usr/bin/env python3
"""Least seconds and least budgets of random chains as a MILP, by HiGHS, for tests/plan/test_chain.c.

usage: python tools/goldens_chain.py > tests/golden/plan/chain.json     (needs highspy 1.15.1 and numpy)

One binary for each option of each segment, one of a segment's is 1. Every constraint of src/solve/chain.h is a row, the forward and the
backward of each segment in each kind of pass. Sizes are whole units of `unit` bytes; rows have half a unit of slack, so that a
solver's tolerance decides nothing.
"""
import json
import sys

import highspy
import numpy as np

INSTANCES, SHARES = 12, (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)


def options(rng, n):
    """Random ones, none better than another in everything, as a Pareto set has them."""
    saved = np.sort(rng.choice(np.arange(20, 2000), n, replace=False))
    seconds = np.sort(rng.random(n))[::-1]
    out = []
    for s, t in zip(saved.tolist(), seconds.tolist()):
        backward = [s + int(b) for b in rng.integers(0, 1500, 2)]
        out.append({"saved": s, "forward": s + int(rng.integers(0, 400)), "backward": backward, "seconds": round(t, 6)})
    return out


def instance(rng, index):
    n, kinds, classes = int(rng.integers(8, 13)), 1 + index % 2, int(rng.integers(1, 5))
    growth = int(rng.integers(0, 300))
    return {
        "unit": int(rng.choice([1, 64, 4096, 12345])),
        "kinds": kinds,
        "classes": [options(rng, int(rng.integers(3, 13))) for _ in range(classes)],
        "segment": rng.integers(0, classes, n).tolist(),
        "fixed_forward": [rng.integers(0, 200, n).tolist() for _ in range(kinds)],
        "fixed_backward": [(rng.integers(0, 200, n) + growth * (n - 1 - np.arange(n)) * (1 - k)).tolist() for k in range(kinds)],
    }


def solve(chain, budget):
    """budget None: the least one, in units; else the least seconds, None where nothing fits."""
    h = highspy.Highs()
    h.setOptionValue("output_flag", False)
    h.setOptionValue("mip_rel_gap", 0.0)
    h.setOptionValue("mip_abs_gap", 1e-11)
    h.setOptionValue("mip_feasibility_tolerance", 1e-9)
    h.setOptionValue("primal_feasibility_tolerance", 1e-9)
    top = h.addVariable(lb=0, ub=highspy.kHighsInf) if budget is None else None
    y = [[h.addBinary() for _ in chain["classes"][c]] for c in chain["segment"]]
    held = 0
    for i, c in enumerate(chain["segment"]):
        own = chain["classes"][c]
        h.addConstr(sum(y[i][o] * 1 for o in range(len(own))) == 1)
        for k in range(chain["kinds"]):
            for fixed, size in ((chain["fixed_forward"][k][i], lambda o: o["forward"]),
                                (chain["fixed_backward"][k][i], lambda o: o["backward"][k])):
                row = held + sum(y[i][o] * size(own[o]) for o in range(len(own)))
                h.addConstr(row - top <= -fixed if budget is None else row <= budget + 0.5 - fixed)
        held = held + sum(y[i][o] * own[o]["saved"] for o in range(len(own)))
    seconds = sum(y[i][o] * chain["classes"][c][o]["seconds"] for i, c in enumerate(chain["segment"])
                  for o in range(len(chain["classes"][c])))
    h.minimize(top * 1 if budget is None else seconds)
    if h.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return None
    assert h.getModelStatus() == highspy.HighsModelStatus.kOptimal
    if budget is None:
        return round(h.val(top))
    chosen = [max(range(len(row)), key=lambda o: h.val(row[o])) for row in y]
    return sum(chain["classes"][c][o]["seconds"] for c, o in zip(chain["segment"], chosen))


def most(chain):
    """A budget in which everything is kept."""
    return sum(max(o["saved"] for o in chain["classes"][c]) for c in chain["segment"]) + 4000


def main():
    rng = np.random.default_rng(5)
    out = []
    for index in range(INSTANCES):
        chain = instance(rng, index)
        chain["least"] = solve(chain, None)
        budgets = [chain["least"] - 1] + [chain["least"] + round(p * (most(chain) - chain["least"])) for p in SHARES]
        chain["budgets"] = [{"budget": b, "seconds": solve(chain, b)} for b in budgets]
        out.append(chain)
        print(index, len(chain["segment"]), chain["least"], chain["budgets"], file=sys.stderr)
    json.dump({"made_by": "tools/goldens_chain.py", "chains": out}, sys.stdout, indent=None, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
