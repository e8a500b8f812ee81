# A state that cannot be saved stops the run; the message says which one is kept, and the run goes on from it.
cat >recipe.yaml <<YAML
model: {config: $SOURCE/recipes/tiny_llama/config.json}
dataset: {path: $SOURCE/docs/plan.md}
max_seq_len: 64
batch_size: 2
output_dir: run
save_every_n_steps: 1
YAML
full() { (ulimit -f 1200; reprise train recipe.yaml "$@" 2>err; echo "exit $?"); tail -n 1 err; }
full max_steps=1 output_dir=other
reprise train recipe.yaml max_steps=1 2>/dev/null
full max_steps=2 resume=auto
ls run/state
reprise train recipe.yaml max_steps=2 resume=auto 2>/dev/null
echo "exit $?"
