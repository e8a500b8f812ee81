# Stopped by a signal the run says how to go on, and goes on.
# ctest: threads
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
run() {
    exec reprise train tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text max_seq_len=16 \
        batch_size=2 epochs=100000 output_dir=$1 log_every_n_steps=1000000 $2 2>$1.err
}
for signal in INT TERM HUP XCPU; do
    run $signal max_steps=1000000 &
    tries=0
    until [ -s $signal/metrics.jsonl ] || [ $((tries += 1)) -gt 200 ]; do sleep 0.05; done
    kill -$signal $!
    wait $!
    echo "exit $?"
    sed -n 's/after step [0-9]* /after step N /; s/step-[0-9]*/step-N/; /interrupted/p' $signal.err
    ls $signal
    done=$(wc -l <$signal/metrics.jsonl)
    (run $signal "max_steps=$((done + 1)) resume=auto")
    echo "exit $? after $(($(wc -l <$signal/metrics.jsonl) - done)) more"
done
#> exit 130
#> reprise train: interrupted after step N of 1000000; its state is 'INT/state/step-N': continue with resume=auto
#> config.yaml
#> metrics.jsonl
#> plan.json
#> report.html
#> state
#> exit 0 after 1 more
#> exit 143
#> reprise train: interrupted after step N of 1000000; its state is 'TERM/state/step-N': continue with resume=auto
#> config.yaml
#> metrics.jsonl
#> plan.json
#> report.html
#> state
#> exit 0 after 1 more
#> exit 129
#> reprise train: interrupted after step N of 1000000; its state is 'HUP/state/step-N': continue with resume=auto
#> config.yaml
#> metrics.jsonl
#> plan.json
#> report.html
#> state
#> exit 0 after 1 more
#> exit 152
#> reprise train: interrupted after step N of 1000000; its state is 'XCPU/state/step-N': continue with resume=auto
#> config.yaml
#> metrics.jsonl
#> plan.json
#> report.html
#> state
#> exit 0 after 1 more
