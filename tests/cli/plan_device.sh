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
