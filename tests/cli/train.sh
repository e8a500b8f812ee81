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
# A closed standard input leaves its number to the next file or folder.
run max_steps=1 output_dir=closed <&- | head -n 1
#> exit 0
#> model          recipes/tiny_llama/config.json: 213632 parameters, fp32
#> data           text: 1 file, 1 document, 361 tokens, 330 targets; 22 samples, 0 truncated, 0 skipped
#> steps          1 to 3, each of 1 x 2 samples of 16 tokens
#> checkpointing  none
#> memory         peak
#> step 3/3  
#> the model is in 'out/final'
#> report         out/report.html
#> generate       reprise generate out/final --prompt 'Once upon a time'
#> evaluate       reprise eval out/final --data PATH
#> train longer   reprise train out/config.yaml resume=auto max_steps=6
#> out:
#> config.yaml
#> final
#> metrics.jsonl
#> plan.json
#> report.html
#> state
#>
#> out/final:
#> config.json
#> model.safetensors
#> tokenizer.json
#>
#> out/state:
#> step-2
#> step-3
#> exit 2
#> argument 'output_dir=out': output_dir 'out' contains a run already (config.yaml): continue it with resume=auto, or choose another output_dir
#> exit 0
#> argument 'max_steps=5': note: the run has 5 steps, it had 3: by the cosine schedule the learning rate of step 4 is 0.00045, it would have been 0.00045
#> argument 'resume=auto': note: resuming after step 3 from 'out/state/step-3'
#> model          recipes/tiny_llama/config.json: 213632 parameters, fp32
#> data           text: 1 file, 1 document, 361 tokens, 330 targets; 22 samples, 0 truncated, 0 skipped
#> steps          4 to 5, each of 1 x 2 samples of 16 tokens
#> checkpointing  4 of 4 blocks: layers 0-3
#> memory         peak
#> step 5/5  
#> the model is in 'out/final'
#> report         out/report.html
#> generate       reprise generate out/final --prompt 'Once upon a time'
#> evaluate       reprise eval out/final --data PATH
#> train longer   reprise train out/config.yaml resume=auto max_steps=10
#> step-3
#> step-5
#> 5
#> exit 0
