# exit: 2
# memory_limit bounds the process: the budget is what the printed allowance leaves, a plan file of it is replayed, and what does not fit names the limit.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text max_seq_len=16 batch_size=2 max_steps=2 threads=1
reprise plan "$@" memory_limit=64MiB | head -1
reprise plan "$@" memory_limit=64MiB --json | tr ',' '\n' | grep -E '"(budget|memory_limit)_bytes'
reprise plan "$@" memory_limit=64MiB memory_budget=9MB --json | tr ',' '\n' | grep '"budget_bytes'
reprise plan "$@" dist.ranks=2 --device h100 memory_limit=128MiB | head -1
# A smaller budget leaves more to the process, here what AddressSanitizer adds to it.
set -- "$@" memory_limit=1GiB memory_budget=9MB
reprise plan "$@" -o p.json >/dev/null && reprise train "$@" plan=p.json output_dir=out 2>&1 | grep -E '^memory limit|is in'
set -- "$@" memory_budget=null
for limit in 8MB 39900000; do
    reprise plan "$@" memory_limit=$limit 2>&1 >/dev/null | sed 's/the least budget that fits is .*: raise/LEAST: raise/; s/to [0-9]*,/to LIMIT,/'
    raised=$(reprise plan "$@" memory_limit=$limit 2>&1 >/dev/null | sed 's/.*to \([0-9]*\),.*/\1/')
    reprise plan "$@" memory_limit=$raised >/dev/null
    reprise plan "$@" memory_limit=$((raised - 1)) >/dev/null 2>&1 || echo "what it names is the least limit"
done
# The longest sizes are printed whole, too.
reprise plan tiny_from_scratch model.config=llama3_8b tokenizer.path=$SOURCE/recipes/tiny_llama dataset.path=text batch_size=131072 max_seq_len=8192 \
    memory_limit=200000000000000 threads=1 2>&1 >/dev/null | sed 's/; the least.*//'
reprise plan "$@" memory_limit=some
#> memory limit   64.0 MiB for the process, 34.7 MiB of it outside the budget: the program 32.0 MiB, the model 2.0 MiB, the tokenizer 0.3 MiB, threads 0.2 MiB, page tables 0.1 MiB
#>  "budget_bytes": 30735104
#>  "memory_limit_bytes": 67108864
#>  "budget_bytes": 9000000
#> memory limit   128 MiB for the process, 83.8 MiB of it outside the budget: the program 32.0 MiB, the model 2.0 MiB, the tokenizer 0.3 MiB, threads 0.2 MiB, ranks 49.0 MiB, page tables 0.2 MiB
#> memory limit   1.00 GiB for the process, 0.992 GiB of it outside the budget
#> the model is in 'out/final'
#> reprise plan: no plan fits a memory budget of 1 byte, left by 'memory_limit' of 8000000 bytes (7.63 MiB); LEAST: raise 'memory_limit' to LIMIT, or set 'optimizer.state_dtype: bf16', 'dist.state_offload' or 'lora.rank'
#> what it names is the least limit
#> reprise plan: no plan fits a memory budget of 3579383 bytes (3.41 MiB), left by 'memory_limit' of 39900000 bytes (38.05 MiB); LEAST: raise 'memory_limit' to LIMIT, or lower 'batch_size' or 'max_seq_len'
#> what it names is the least limit
#> reprise plan: no plan fits a memory budget of 199609160238528 bytes (181.54 TiB), left by 'memory_limit' of 200000000000000 bytes (181.90 TiB)
#2> argument 'memory_limit=some': 'memory_limit' wants null, auto, or a size: bytes, or a number with KB, MB, GB, KiB, MiB or GiB, not 'some'
