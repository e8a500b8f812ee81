#!/usr/bin/env python3
"""Compares the form that src/cost/device.c has for an H100 and an H200 with the measured tables beside this file.

    bench/gpu/fit.py

Prints, for each table, the median and the 90 % error of predicted seconds: by the earlier form (one rate, 5 us a launch), by the form of device.c, and,
for products, by the same form with the constants that fit short bursts best. Products with an extent of 50257, which is odd, are left out.
"""
import csv
import math
import pathlib

FLOPS, MEMORY = 989.4e12, {"h100": 3.35e12, "h200": 4.8e12}
HERE = pathlib.Path(__file__).parent


def rows(name):
    with open(HERE / f"{name}.tsv") as f:
        return list(csv.DictReader(f, delimiter="\t"))


def tell(what, pairs):
    errors = sorted(abs(math.log(said / took)) for said, took in pairs)
    middle, ninety = (100 * math.expm1(errors[int(q * (len(errors) - 1))]) for q in (0.5, 0.9))
    sums = sum(said for said, _ in pairs) / sum(took for _, took in pairs)
    print(f"{what:44} {len(pairs):4} rows   median {middle:5.1f} %   90 % {ninety:5.1f} %   sum of predicted / measured {sums:.2f}")


def before(flops, moved, memory, share=0.65):
    return 5e-6 + max(flops / (share * FLOPS), moved / (0.8 * memory))


def product(r, memory, share, longer, form):
    m, n, k = (int(r[x]) for x in "mnk")
    moved = 2 * (m * k + n * k) + (4 if r.get("op") == "dw32" else 2) * m * n
    if form == "before":
        return before(2 * m * n * k, moved, memory)
    return 2.5e-6 + max(2 * m * n * (k + longer) / (share * FLOPS), moved / (0.55 * memory))


def products():
    table = [r for r in rows("products") if r["dtype"] == "bf16" and "50257" not in (r["m"], r["n"], r["k"])]
    for card, memory in MEMORY.items():
        took = [(r, float(r[f"{card}_us"]) * 1e-6) for r in table if r[f"{card}_us"] != "-"]
        for name, share, longer in (("before", 0, 0), ("device.c", 0.72, 130), ("for bursts", 0.88, 170)):
            tell(f"products, bursts, {card}: {name}", [(product(r, memory, share, longer, name), t) for r, t in took])
    for name in ("before", "device.c"):
        tell(f"products, sustained, h100: {name}",
             [(product(r, MEMORY["h100"], 0.72, 130, name), float(r["sustained_us"]) * 1e-6) for r in rows("sustained")])


def attention():
    for card in MEMORY:
        for pass_, share, old, kernels, flops, longer in (("forward", 0.35, 0.34, 1, 4, 4), ("backward", 0.29, 0.32, 3, 10, 10)):
            was, now = [], []
            for r in rows("attention"):
                if r["kernels"] != "flash" or r["heads"] != r["kv_heads"]:
                    continue
                tokens, took = int(r["tokens"]), float(r[f"{card}_{pass_}_us"]) * 1e-6
                elements = int(r["batch"]) * int(r["heads"]) * tokens * int(r["dim"])
                was.append((before(flops * elements * (tokens + 1) / 2, 0, 1, old), took))
                now.append((kernels * 2.5e-6 + elements * (flops * (tokens + 1) / 2 + 280 * longer) / (share * FLOPS), took))
            tell(f"attention {pass_}, {card}: before", was)
            tell(f"attention {pass_}, {card}: device.c", now)


def memory_bound():
    for card, memory in MEMORY.items():
        took = [(int(r["bytes"]), float(r[f"{card}_us"]) * 1e-6) for r in rows("memory") if r["warm"] == "0"]
        tell(f"memory-bound kernels, {card}: before", [(before(0, moved, memory), t) for moved, t in took])
        tell(f"memory-bound kernels, {card}: device.c", [(2.5e-6 + moved / (0.85 * memory), t) for moved, t in took])


products()
attention()
memory_bound()
