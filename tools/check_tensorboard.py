#!/usr/bin/env python3
"""check_tensorboard.py RUN: what TensorBoard's own reader finds in RUN/tensorboard is what RUN/metrics.jsonl says, step by step.

Needs the package tensorboard (pip install tensorboard); neither building nor testing Reprise does.
"""
import json
import struct
import sys

from tensorboard.backend.event_processing import event_accumulator


def fp32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def main(run):
    lines = [json.loads(line) for line in open(f"{run}/metrics.jsonl")]
    wanted = {}
    for line in lines:
        for key, value in line.items():
            if key != "step":
                wanted.setdefault(key, []).append((line["step"], fp32(value)))
    found = event_accumulator.EventAccumulator(f"{run}/tensorboard", size_guidance={"scalars": 0})
    found.Reload()
    tags = found.Tags()["scalars"]
    if sorted(tags) != sorted(wanted):
        sys.exit(f"tags: {sorted(tags)}, not {sorted(wanted)}")
    for tag in tags:
        got = [(e.step, e.value) for e in found.Scalars(tag)]
        if got != wanted[tag]:
            sys.exit(f"{tag}: {got}, not {wanted[tag]}")
    print(f"{len(tags)} tags of {len(lines)} steps are what metrics.jsonl says")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[0])
    main(sys.argv[1])
