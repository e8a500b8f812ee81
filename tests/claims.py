"""What testers of the whole program share: a claim that does not hold, ranks of this machine, and what has to be the same in two runs."""
import hashlib
import json
import pathlib
import shutil

# Open MPI asks for a program that would reach other machines, and copies by a call that containers may forbid, unless told not to.
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm_rsh_agent": "sh",
                   "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


class Failed(Exception):
    pass


def check(holds, *said):
    if not holds:
        raise Failed(" ".join(map(str, said)))


def mpirun(ranks):
    """The command that starts so many; None: no MPI is here."""
    for name in ("mpirun.mpich", "mpirun.openmpi", "mpirun"):
        if shutil.which(name):
            return [name, *([] if "mpich" in name else ["--oversubscribe", "--bind-to", "none"]), "-n", str(ranks)]
    return None


def lines(folder):
    """Of the steps of a run."""
    with open(f"{folder}/metrics.jsonl", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(pathlib.Path(folder).glob("*"))}
