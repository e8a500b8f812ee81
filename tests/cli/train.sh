# The numbers of a run depend on the machine: shown are its shape, what it leaves, and what it says to a second one.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
run() {
    reprise train tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text max_seq_len=16 \
        batch_size=2 epochs=9 output_dir=out threads=1 "$@" 2>err
    echo "exit $?"
    sed "s|$SOURCE/||g; /^memory /s/ [0-9].*//; s/lr .*//" err
}
run max_steps=3 save_every_n_steps=2
ls -A out out/state out/final
run max_steps=3
run max_steps=5 resume=auto enable_activation_checkpointing=true
ls -A out/state
wc -l <out/metrics.jsonl
