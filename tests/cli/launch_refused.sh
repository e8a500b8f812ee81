# Where `--nproc` finds no launcher, is given to a rank, has no memory for notes, or the launcher is killed: a sentence, and nothing is written.
program=$(command -v reprise)
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=$SOURCE/recipes/tiny_llama/config.json max_seq_len=16 \
    batch_size=2 max_steps=1 threads=1 output_dir=out --nproc 2
unset REPRISE_MPIRUN
(PATH=/nowhere "$program" train "$@")
echo "exit $?"
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 reprise train "$@"
echo "exit $?"
cat >launcher <<'END'
#!/bin/sh
[ "$1" != --version ] || exec echo 'mpirun (Open MPI) 4.1.4'
kill -9 $$
END
chmod +x launcher
REPRISE_MPI=none REPRISE_MPIRUN=./launcher reprise train "$@"
echo "exit $?"
(ulimit -f 0 && REPRISE_MPI=none REPRISE_MPIRUN=./launcher reprise train "$@" 2>&1) | cat >&2
ls
#> exit 2
#> exit 2
#> exit 1
#> launcher
#2> reprise train: '--nproc' needs mpirun, which is not in PATH: install openmpi-bin or mpich, or name it in REPRISE_MPIRUN
#2> reprise train: '--nproc' starts ranks, and this process is a rank already: leave it out, or leave mpirun out
#2> reprise train: './launcher' was ended by signal 9 (Killed), and the ranks with it; the last state that was saved is kept
#2> reprise train: cannot make the memory that ranks share with their launcher: File too large
