# Every message at once, and nothing is written.
# ctest: threads
reprise train tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json max_seq_len=4096 plan=p.json \
    'optimizer.no_decay=["*.z"]' '~dataset' output_dir=out 2>err
echo "exit $?"
sed "s|$SOURCE/||" err
ASAN_OPTIONS=detect_leaks=0 reprise train tiny_from_scratch --nproc 2 output_dir=out 2>err       # of MPI
echo "exit $?"
sed "s|$SOURCE/||" err >&2
reprise train tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=absent.txt output_dir=out
echo "exit $?"
reprise train tiny_from_scratch model.config=absent/config.json dataset.path=absent.txt output_dir=out
echo "exit $?"
reprise train tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=$SOURCE/recipes/tiny_llama/config.json \
    max_seq_len=16 dist.ranks=3 output_dir=out
echo "exit $?"
ls -A
#> exit 2
#> recipes/tiny_from_scratch.yaml: no data: set 'dataset.path'
#> argument 'max_seq_len=4096': 'max_seq_len' 4096 is beyond the model's context of 512 tokens: 'model.overrides.max_position_embeddings' may extend it
#> argument 'plan=p.json': cannot open 'p.json': there is no such file
#> argument 'optimizer.no_decay=["*.z"]': 'optimizer.no_decay': no module matches '*.z'
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> err
#2> reprise train: dataset.path: no file matches 'docs/*.md'
#2> reprise train: dataset.path: no file matches 'absent.txt'
#2> argument 'model.config=absent/config.json': 'model.config': cannot open 'absent/config.json': there is no such file
#2> argument 'dataset.path=absent.txt': note: dataset.path: no file matches 'absent.txt'
#2> reprise train: dist.ranks is 3, but this is a run of 1 rank: start it with --nproc 3 or mpirun -n 3, or leave the key out
