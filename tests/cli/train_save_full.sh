# A state that cannot be saved stops the run; the message says which one is kept, and the run goes on from it.
run() { reprise train tiny_from_scratch "dataset.path=$SOURCE/docs/plan.md" max_seq_len=64 batch_size=2 save_every_n_steps=1 "$@"; }
full() { (ulimit -f 1200; run "$@" 2>err; echo "exit $?"); tail -n 1 err; }
full max_steps=1 output_dir=other
run max_steps=1 output_dir=run 2>/dev/null
full max_steps=2 output_dir=run resume=auto
ls run/state
run max_steps=2 output_dir=run resume=auto 2>/dev/null
echo "exit $?"
#> exit 1
#> reprise train: cannot write 'other/state/.step-1.tmp/tensors.safetensors': File too large; no state was saved
#> exit 1
#> reprise train: cannot write 'run/state/.step-2.tmp/tensors.safetensors': File too large; state of step 1 in 'run/state/step-1' is kept
#> step-1
#> exit 0
