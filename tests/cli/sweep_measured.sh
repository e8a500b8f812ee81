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
