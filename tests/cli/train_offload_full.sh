# A disk that takes no more offloaded slots stops the run with a message; the state before it is whole, and the run goes on from it.
# ctest: threads
cat >recipe.yaml <<YAML
model: {config: $SOURCE/recipes/tiny_llama/config.json}
dataset: {path: $SOURCE/docs/plan.md}
max_seq_len: 64
batch_size: 2
output_dir: run
activation_checkpointing: {rules: [{op: "*", fate: offload}], offload: {path: away}}
YAML
reprise train recipe.yaml max_steps=2 save_every_n_steps=1 2>/dev/null
(ulimit -f 1200; reprise train recipe.yaml max_steps=4 resume=auto 2>err; echo "exit $?")
tail -n 1 err | sed 's/write [0-9]* bytes/write N bytes/'
ls run/state away
reprise train recipe.yaml max_steps=4 resume=auto 2>/dev/null
echo "exit $?"
wc -l <run/metrics.jsonl
#> exit 1
#> reprise train: cannot write N bytes of offloaded slots under 'away': File too large; state of step 2 in 'run/state/step-2' is kept
#> away:
#>
#> run/state:
#> step-1
#> step-2
#> exit 0
#> 4
