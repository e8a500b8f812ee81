# exit: 2
# memory_limit bounds the process: the budget is what the printed allowance leaves, a plan file of it is replayed, and what does not fit names the limit.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text max_seq_len=16 batch_size=2 max_steps=2 threads=1
reprise plan "$@" memory_limit=64MiB | head -1
reprise plan "$@" memory_limit=64MiB --json | tr ',' '\n' | grep -E '"(budget|memory_limit)_bytes'
reprise plan "$@" memory_limit=64MiB memory_budget=9MB --json | tr ',' '\n' | grep '"budget_bytes'
reprise plan "$@" dist.ranks=2 --device h100 memory_limit=128MiB | head -1
# AddressSanitizer keeps freed memory for a while, which would count as the process's own.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=1"
reprise plan "$@" memory_limit=64MiB -o p.json >/dev/null && reprise train "$@" memory_limit=64MiB plan=p.json output_dir=out 2>&1 | grep -E '^memory limit|is in'
for limit in 8MB 39900000; do
    reprise plan "$@" memory_limit=$limit 2>&1 >/dev/null | sed 's/the least budget that fits is .*: raise/LEAST: raise/; s/to [0-9]*,/to LIMIT,/'
    raised=$(reprise plan "$@" memory_limit=$limit 2>&1 >/dev/null | sed 's/.*to \([0-9]*\),.*/\1/')
    reprise plan "$@" memory_limit=$raised >/dev/null
    reprise plan "$@" memory_limit=$((raised - 1)) >/dev/null 2>&1 || echo "what it names is the least limit"
done
reprise plan "$@" memory_limit=some
