# exit: 2
# What a device has is the budget, unless the recipe names less or an argument another one. What the recipe says is read all the same.
printf '%s\n' "model: {config: $SOURCE/recipes/tiny_llama/config.json}" 'memory_budget: 40MB' 'max_seq_len: 16' >recipe.yaml
budget() { reprise plan recipe.yaml --json "$@" | sed 's/.*"budget_bytes": *\([0-9a-z]*\).*/\1/'; }
budget
budget --device h100
budget --device h100,memory=30MB
budget --device h100 memory_budget=50MB
budget --device h100 '~memory_budget'
budget --device h100 memory_budget=null
sed 's/40MB/40XB/' recipe.yaml >wrong.yaml
reprise plan wrong.yaml --device h100
reprise plan recipe.yaml --device h100 seeds=3
#> 40000000
#> 40000000
#> 30000000
#> 50000000
#> 80000000000
#> null
#2> wrong.yaml:2: 'memory_budget' wants null, auto, or a size: bytes, or a number with KB, MB, GB, KiB, MiB or GiB, not '40XB'
#2> argument 'seeds=3': unknown key 'seeds' (did you mean 'seed'?)
