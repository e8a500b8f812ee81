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
