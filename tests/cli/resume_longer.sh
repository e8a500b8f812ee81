# A run may be made longer: the new learning rate is printed before its next step. A constant rate stays.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
run() {
    reprise train tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text max_seq_len=16 batch_size=2 epochs=9 threads=1 \
        lr_scheduler.num_warmup_steps=0 "$@" 2>err
    echo "exit $?"
    grep note: err
}
for schedule in cosine linear constant; do
    run lr_scheduler.name=$schedule output_dir=$schedule max_steps=2
    run lr_scheduler.name=$schedule output_dir=$schedule max_steps=4 resume=auto
done
sed 's/.*"lr": \([^,]*\),.*/\1/' linear/metrics.jsonl
#> exit 0
#> exit 0
#> argument 'max_steps=4': note: the run has 4 steps, it had 2: by the cosine schedule the learning rate of step 3 is 0.0015, it would have been 0
#> argument 'resume=auto': note: resuming after step 2 from 'cosine/state/step-2'
#> exit 0
#> exit 0
#> argument 'max_steps=4': note: the run has 4 steps, it had 2: by the linear schedule the learning rate of step 3 is 0.0015, it would have been 0
#> argument 'resume=auto': note: resuming after step 2 from 'linear/state/step-2'
#> exit 0
#> exit 0
#> argument 'resume=auto': note: resuming after step 2 from 'constant/state/step-2'
#> 0.003
#> 0.0015
#> 0.0015
#> 0.00075
