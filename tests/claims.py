"""tests/claims.py -- what runners of claims about the program share. A claim is a function marked @case, called in a folder of its runner's; the
last line counts them.

A runner is given PROGRAM and SOURCE first, and names or labels of cases last (none: all). Where it needs an MPI that is not there: exit 77, for "skipped".
"""
import functools
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

CASES = []
SKIPPED = 77
# Open MPI as root, without an agent to reach others by, and in containers.
OPEN_MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm_rsh_agent": "sh",
                        "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


LABELS = {"few": "runs in `make check`, too", "both-mpis": "runs under Open MPI, too, where MPICH runs all"}


def case(*given):
    """@case, or @case(LABEL, ...). A runner takes a label in place of names of cases."""
    def enter(f):
        f.labels = labels
        CASES.append(f)
        return f

    labels = [word for word in given if isinstance(word, str)]
    if set(labels) - set(LABELS):
        sys.exit(f"no label {', '.join(sorted(set(labels) - set(LABELS)))}")
    return enter if labels else enter(*given)


class Failed(Exception):
    pass


def check(holds, *said):
    if not holds:
        raise Failed(" ".join(map(str, said)))


def sentences(n):
    """A text to train on."""
    return "".join(f"the {i} quick brown foxes jump over {i * i} lazy dogs; " for i in range(n))


def environment(source, **more):
    """Nothing of the machine's own; no-costs.json is in the folder of the runner."""
    return dict(os.environ, REPRISE_RECIPES=f"{source}/recipes", REPRISE_COSTS=os.path.abspath("no-costs.json"), **more)


def lines(folder):
    with open(f"{folder}/metrics.jsonl", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def digests(folder):
    """Of each file in it."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(pathlib.Path(folder).glob("*"))}


@functools.lru_cache
def is_open_mpi(mpirun):
    return "Open" in subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout


def mpirun_words(mpirun, ranks):
    """More ranks than cores are fine."""
    return [mpirun, *(["--oversubscribe", "--bind-to", "none"] if is_open_mpi(mpirun) else []), "-n", str(ranks)]


def any_mpirun(ranks):
    """The command of the first MPI that is here; None: there is none."""
    found = next(filter(shutil.which, ("mpirun.mpich", "mpirun.openmpi", "mpirun")), None)
    return found and mpirun_words(found, ranks)


def find_mpirun(given):
    """The path of the command that starts ranks; without it the runner is skipped."""
    found = shutil.which(given[0]) if given else None
    if not found:
        print("there is no", *given[:1])
        sys.exit(SKIPPED)
    return found


def try_all(names, files, tried=None):
    """Each case, in a folder that has these files at first. tried.n: how often a claim was tried, where that is told."""
    unknown = set(names) - {c.__name__ for c in CASES} - set(LABELS)
    if unknown:
        sys.exit(f"no case {', '.join(sorted(unknown))}")
    wanted = [c for c in CASES if not names or c.__name__ in names or set(names) & set(c.labels)]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, text in files.items():
            pathlib.Path(name).write_text(text, encoding="utf-8")
        for c in wanted:
            claim, began = c.__name__.replace("_", " "), time.monotonic()
            if tried:
                tried.n = 0
            try:
                c()
                print(f"ok {claim}{f': {tried.n} tried' if tried else ''} ({time.monotonic() - began:.1f} s)", flush=True)
            except (Failed, subprocess.TimeoutExpired, OSError, ValueError, KeyError) as e:
                failed += 1
                print(f"FAILED {claim}: {e}", flush=True)
    print(f"{len(wanted) - failed} passed, {failed} failed")
    sys.exit(failed > 0)
