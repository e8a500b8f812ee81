# exit: 2
# A run measures the figures of plan, at budgets from the least up. If nothing fits, the exit code is 3. A plan file is replayed, and refused if stale.
# Bytes depend on the machine: they are compared, not shown.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text max_seq_len=16 batch_size=2 max_steps=2 threads=1
number() { sed "s/.*\"$1\": *\([0-9.e-]*\).*/\1/" "$2" | tail -1; }
same() {
    reprise train "$@" output_dir=out 2>err || cat err
    for pair in peak_bytes=peak_memory_active saved_bytes=saved_bytes reserved_bytes=peak_memory_reserved recompute_flops=recompute_flops; do
        head -c 700 planned >head      # before the list of modules, which have keys of these names too
        [ "$(number ${pair%=*} head)" = "$(number ${pair#*=} out/metrics.jsonl)" ] || echo "${pair%=*} differs"
    done
    sha256sum <out/final/model.safetensors >>weights
    rm -r out
}
reprise plan "$@" --json >planned
same "$@"
least=$(number least_budget_bytes planned) most=$(number reserved_bytes planned)
for part in 0 1 2 3; do
    budget=$((least + (most - least) * part / 4))
    reprise plan "$@" memory_budget=$budget --json >planned || echo "exit $?"
    [ "$(number reserved_bytes planned)" -le $budget ] || echo "more than the budget"
    same "$@" memory_budget=$budget
done
echo "different weights: $(sort -u weights | wc -l)"
reprise plan "$@" memory_budget=$((least - 1)) --json 2>err | grep -o '"feasible": [a-z]*'
reprise plan "$@" memory_budget=$((least - 1)) >/dev/null 2>err
echo "exit $?"
sed "s/$((least - 1)) bytes ([^)]*)/LESS/; s/$least bytes ([^)]*)/LEAST/; s/, for the .*: raise/, for …: raise/" err
reprise train "$@" memory_budget=$((least - 1)) output_dir=never 2>err
echo "exit $? $(ls -d never 2>&1)"
reprise plan "$@" memory_budget=$least -o p.json >first
reprise plan "$@" memory_budget=$least plan=p.json >second
cmp first second
reprise plan "$@" memory_budget=$most plan=p.json 2>&1 | sed 's/[0-9]\{5,\}/BYTES/g'
reprise plan "$@" memory_budget=$least plan=text
reprise plan "$@" --device nothing
reprise plan "$@" --device 'name=small, memory=64MB, flops=1e12, bandwidth=1e11' | sed -n 's/^\(fits\) .*/\1/p; $p'
reprise sweep "$@" -n 3 | sed -n 's/^\(none\|every 2nd layer\|selective_op\|full\) .*/\1/p'
reprise sweep "$@" -n 4 --json | grep -o '"mode": [^,]*' | sort | uniq -c
reprise view p.json && grep -c '<html' p.json.html
reprise plan "$@" --device h100 -o h100.json >/dev/null
reprise view h100.json && grep -c '<td>h100' h100.json.html
reprise view p.json --device h100,link=1GB/s && grep -c '<td>h100' p.json.html
reprise plan "$@" --device 'name=mine, memory=64GB, flops=1e12, bandwidth=1e11' -o mine.json >/dev/null
reprise view mine.json 2>&1 | sed 's/times are .*: --/times are …: --/'
reprise view nowhere
#> different weights: 1
#> "feasible": false
#> exit 3
#> reprise plan: no plan fits a memory budget of LESS; the least budget that fits is LEAST, for …: raise 'memory_budget', or lower 'batch_size' or 'max_seq_len'
#> exit 3 ls: cannot access 'never': No such file or directory
#> reprise plan: plan 'p.json' is stale: it was made for a memory_budget of BYTES, this is BYTES; run 'reprise plan' again
#> fits
#> scratch is that of this machine's kernels, an estimate for 'small'
#> none
#> every 2nd layer
#> selective_op
#> full
#>       1 "mode": "every 2nd layer"
#>       1 "mode": "full"
#>       1 "mode": "none"
#>       1 "mode": "selective_op"
#>       4 "mode": null
#> p.json.html
#> 1
#> h100.json.html
#> 1
#> p.json.html
#> 1
#> reprise view: note: the plan was made for 'mine', the page's times are …: --device describes another machine
#> mine.json.html
#2> reprise plan: 'text' is no plan: line 1: '[' or '{' expected near 'one'
#2> reprise plan: unknown device 'nothing'; another one is described as name=nothing, memory=80GB, flops=989e12, bandwidth=3.35e12
#2> reprise view: cannot open 'nowhere': there is no such file or folder
