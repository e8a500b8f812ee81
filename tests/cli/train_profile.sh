# What the profile says depends on the machine: shown are the files it leaves and the ops it names.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
reprise train tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text max_seq_len=16 \
    batch_size=2 epochs=9 output_dir=out threads=1 max_steps=5 profile=true enable_activation_checkpointing=true 2>err
echo "exit $?"
sed -n '/^the profile/s/: .*//p' err
ls out
sed -n 's/: .*//; 1p; /^op /p' out/profile.txt
awk '/^between/ { exit } $2 == "replay" { print $1, $2, $3 }' out/profile.txt | sort
python3 -c 'import json; print(sorted({e["name"] for e in json.load(open("out/profile.trace.json"))["traceEvents"] if e.get("cat") == "step"}))'
#> exit 0
#> the profile is in 'out/profile.txt' and profile.trace.json
#> config.yaml
#> final
#> metrics.jsonl
#> plan.json
#> profile.trace.json
#> profile.txt
#> report.html
#> state
#> steps 2 to 4
#> op                    pass        calls     seconds     share    GFLOP/s      GB/s
#> add replay 4
#> attention replay 4
#> matmul replay 24
#> rmsnorm replay 8
#> rotary replay 8
#> swiglu replay 4
#> ['step 2', 'step 3', 'step 4']
