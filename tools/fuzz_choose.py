#!/usr/bin/env python3
"""Choose the inputs of a fuzz corpus from the features in libFuzzer's -merge_control_file. tools/fuzz --merge runs this.

    fuzz_choose.py CONTROL FOLDER --edges E --most N --fill BYTES --longest BYTES    puts the chosen inputs into FOLDER, under their hashes

A feature is one of the program's E edges and one of eight ranges of how often it is taken. (Features from 8 E on are depths of the stack. They
differ from run to run, and are ignored.) The inputs in FOLDER stay. The others are chosen one by one: first the input
that reaches most new edges, until all are reached; then the input with most new features for its size, until there are N inputs or BYTES bytes.
Between equals the smaller input wins, then the lower hash. Inputs longer than --longest are ignored. If N inputs cannot reach all edges, the number
of lost edges is printed.
"""
import argparse
import hashlib
import heapq
import pathlib


def read_control(path, n_features):
    """[(path, features)]. The file has the number of inputs, the number in the first folder, the paths, and one line FT of features for each."""
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    n = int(lines[0])
    features = [set() for _ in range(n)]
    for line in lines[2 + n:]:
        if line.startswith("FT "):
            at, *found = map(int, line.split()[1:])
            features[at].update(f for f in found if f < n_features)
    return list(zip(map(pathlib.Path, lines[2:2 + n]), features))


def best_first(inputs, covered, score):
    """Yields keys of inputs, (size, hash) to a set: each time the key with the highest score, until no input adds anything to `covered`.

    Scores only fall. So if the highest old score does not change when it is computed again, it is the highest of all."""
    heap = [(-score(key[0], len(found)), key) for key, found in inputs.items()]
    heapq.heapify(heap)
    while heap:
        key = heap[0][1]
        now = -score(key[0], len(inputs[key] - covered))
        if not now:
            heapq.heappop(heap)
        elif heapq.heapreplace(heap, (now, key)) == (now, key):
            covered |= inputs[key]
            yield key


def choose(features, kept, most, fill):
    """Returns the chosen keys and the number of lost edges."""
    edges = {key: {f >> 3 for f in found} for key, found in features.items()}
    chosen = list(kept)
    for key in best_first(edges, set().union(*(edges[k] for k in kept)), lambda _, new: new):
        if len(chosen) < most:
            chosen.append(key)
    total = sum(size for size, _ in chosen)
    for key in best_first(features, set().union(*(features[k] for k in chosen)), lambda size, new: new / (size + 64)):
        if len(chosen) < most and total + key[0] <= fill:
            chosen.append(key)
            total += key[0]
    return chosen, len(set().union(*edges.values()) - set().union(*(edges[k] for k in chosen)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("control", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--edges", type=int, required=True)
    parser.add_argument("--most", type=int, required=True)
    parser.add_argument("--fill", type=int, required=True)
    parser.add_argument("--longest", type=int, required=True)
    args = parser.parse_args()
    names = [hashlib.sha1(p.read_bytes()).hexdigest() for p in args.folder.iterdir()]
    features, data = {}, {}
    for path, found in read_control(args.control, 8 * args.edges):
        content = path.read_bytes()
        key = (len(content), hashlib.sha1(content).hexdigest())
        if len(content) <= args.longest or key[1] in names:
            features[key], data[key] = found, content
    kept = [key for key in features if key[1] in names]
    chosen, lost = choose(features, kept, args.most - len(names) + len(kept), args.fill)
    for size, name in chosen:
        if name not in names:
            (args.folder / name).write_bytes(data[size, name])
    if lost:
        print(f"{args.folder.name}: {lost} edges are not reached by {args.most} inputs")


if __name__ == "__main__":
    main()
