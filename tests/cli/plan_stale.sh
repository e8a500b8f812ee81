# A plan file is refused when the optimizer, its states or their place are others than those it was made for; one that does not fit says what it takes.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text max_seq_len=64 batch_size=2 max_steps=2 threads=1
least=$(reprise plan "$@" --json | sed 's/.*"least_budget_bytes": *\([0-9]*\).*/\1/')
reprise plan "$@" -o own.json >/dev/null
reprise plan "$@" memory_budget=$least -o p.json >/dev/null
for way in optimizer.name=sgd optimizer.state_dtype=bf16 dist.state_offload=true grad_dtype=fp32; do
    reprise plan "$@" dtype=bf16 memory_budget=8MB -o bf16.json >/dev/null
    reprise plan "$@" dtype=bf16 memory_budget=8MB plan=bf16.json $way
    echo "exit $?"
done
reprise plan "$@" plan=own.json optimizer.name=sgd
reprise plan "$@" plan=own.json 'freeze=[tok_embeddings]' 2>&1 | sed 's/[0-9a-f]\{16\}/HASH/g'
sed '/^    {"at".*},$/d; /^    {"first".*},$/d; s/^    {"first".*\],$/],/' p.json >more.json
reprise plan "$@" memory_budget=$least plan=more.json 2>&1 >/dev/null | sed 's/[0-9]* bytes ([^)]*)/BYTES/g'
reprise train "$@" memory_budget=$least plan=more.json output_dir=never 2>/dev/null
echo "exit $? $(ls -d never 2>&1)"
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> reprise plan: plan 'own.json' is stale: it was made for the memory before a step (weights, optimizer states) HASH, this is HASH; run 'reprise plan' again
#> reprise plan: plan 'more.json' needs BYTES, more than the memory budget of BYTES; the least budget that fits is BYTES: make a new plan with 'reprise plan', or raise 'memory_budget'
#> exit 3 ls: cannot access 'never': No such file or directory
#2> reprise plan: plan 'bf16.json' is stale: it was made for optimizer adamw with fp32 states, this is sgd with no states; run 'reprise plan' again
#2> reprise plan: plan 'bf16.json' is stale: it was made for optimizer adamw with fp32 states, this is adamw with bf16 states; run 'reprise plan' again
#2> reprise plan: plan 'bf16.json' is stale: it was made for optimizer adamw with fp32 states, this is adamw with fp32 states, on disk; run 'reprise plan' again
#2> reprise plan: plan 'bf16.json' is stale: it was made for optimizer adamw with fp32 states, this is adamw with fp32 states, fp32 gradients; run 'reprise plan' again
#2> reprise plan: plan 'own.json' is stale: it was made for optimizer adamw with fp32 states, this is sgd with no states; run 'reprise plan' again
