# A disk that takes no optimizer states stops the run with a message; the state before it is whole, and the run goes on from it, either way.
# ctest: threads
cat >recipe.yaml <<YAML
model: {config: $SOURCE/recipes/tiny_llama/config.json}
dataset: {path: $SOURCE/docs/plan.md}
max_seq_len: 64
batch_size: 2
output_dir: run
dist: {state_offload: true}
activation_checkpointing: {offload: {path: away}}
YAML
full() { (ulimit -f 1200; reprise train recipe.yaml "$@" 2>err; echo "exit $?"); tail -n 1 err | sed 's/write [0-9]* bytes/write N bytes/'; }
full max_steps=2 output_dir=other
reprise train recipe.yaml max_steps=2 save_every_n_steps=1 2>/dev/null
full max_steps=4 resume=auto
ls run/state away
reprise train recipe.yaml max_steps=4 resume=auto 2>/dev/null
echo "exit $?"
wc -l <run/metrics.jsonl
reprise train recipe.yaml max_steps=5 resume=auto dist.state_offload=false 2>/dev/null
echo "exit $?"
reprise train recipe.yaml max_steps=5 output_dir=memory dist.state_offload=false 2>/dev/null
cmp memory/final/model.safetensors run/final/model.safetensors
#> exit 1
#> reprise train: cannot write N bytes of optimizer states under 'away': File too large; no state was saved
#> exit 1
#> reprise train: cannot write N bytes of optimizer states under 'away': File too large
#> away:
#>
#> run/state:
#> step-1
#> step-2
#> exit 0
#> 4
#> exit 0
