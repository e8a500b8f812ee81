# Points of a sweep run for real: bytes, bits and counts are checked by the command, times are masked. Nothing is written.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 >text
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text max_seq_len=64 batch_size=2 threads=1 optimizer_in_bwd=auto clip_grad_norm=null
bytes='s/[0-9]\{6,\}/BYTES/g'
times='s/ *[0-9.]* s*  *-*[0-9.]* %  *-*[0-9.]* %  -*[0-9.]* to -*[0-9.]* %/  TIMES/; s/  [0-9.]*$/  SECONDS/; s/by the \(.*\) table of .*/by the \1 table/; s/  */ /g'
reprise sweep "$@" --measure -n 2 --pairs 3 --bytes 2>err | sed "$bytes; $times"
sed 's/  [0-9:]* left$/  TIME left/' err
reprise sweep "$@" --measure -n 2 --pairs 6 --json 2>err >json
grep -o '"pairs": [0-9]*, "steps": [0-9]*, "coverage": 0.9[0-9]*' json
grep -o '"mode": [^,]*\|"measured_[a-z_]*"' json | sort | uniq -c
ls
reprise sweep "$@" --pairs 3
echo "exit $?"
reprise sweep "$@" --measure --device h100
echo "exit $?"
reprise sweep "$@" --measure dataset.packed=false
echo "exit $?"
reprise sweep "$@" --measure '~dataset.path' 2>err
echo "exit $?"
sed "s|$SOURCE/||" err
#> budget or mode reserved step, s predicted measured interval
#> none BYTES SECONDS
#> every 2nd layer BYTES TIMES
#> selective_op BYTES TIMES
#> full BYTES TIMES
#> BYTES BYTES TIMES
#> BYTES BYTES TIMES
#>
#> Each point: 3 pairs of one of its steps and a step of mode 'none'; medians and 75.0 % confidence intervals.
#> All 36 steps reserved, peaked and saved exactly the planned bytes. Loss and norm were bit-identical in each pair.
#> Predicted by the built-in table
#> pair 1/3 of each point  TIME left
#> pair 2/3 of each point  TIME left
#> pair 3/3 of each point  TIME left
#> "pairs": 6, "steps": 66, "coverage": 0.96875
#>       6 "measured_interval"
#>       6 "measured_overhead"
#>       6 "measured_step_seconds"
#>       1 "mode": "every 2nd layer"
#>       1 "mode": "full"
#>       1 "mode": "none"
#>       1 "mode": "selective_op"
#>       2 "mode": null
#> err
#> json
#> text
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> recipes/tiny_from_scratch.yaml: no data: set 'dataset.path'
#2> reprise sweep: '--pairs' says how often to measure: add '--measure'
#2> reprise sweep: '--measure' runs on this machine: leave out '--device'
#2> argument 'dataset.packed=false': steps are measured on batches of full length: set 'dataset.packed' to true
