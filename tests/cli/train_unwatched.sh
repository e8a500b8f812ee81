# What a run makes does not depend on who hears of it: standard descriptors may be closed, and who reads the progress may leave.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
run() {
    name=$1
    shift
    reprise train tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text max_seq_len=16 batch_size=2 \
        max_steps=20 epochs=2 threads=1 log_every_n_steps=1 output_dir=$name "$@"
}
same() {
    code=$1
    cmp heard/final/model.safetensors $2/final/model.safetensors && echo "$2: exit $code"
}
run heard 2>/dev/null
run no_err 2>&-
same $? no_err
run no_out >&- 2>/dev/null
same $? no_out
run none <&- >&- 2>&-
same $? none
mkfifo progress
head -n 1 progress >first &
run left 2>progress
code=$?
wait $!
same $code left
cut -d ' ' -f 1 first
# A limit of file sizes is reported like a full disk.
(ulimit -f 700; run limited save_every_n_steps=5 2>err)
echo "exit $?"
sed -n '$s/:.*write/: … write/p' err
#> no_err: exit 0
#> no_out: exit 0
#> none: exit 0
#> left: exit 0
#> model
#> exit 1
#> reprise train: … write 'limited/state/.step-5.tmp/tensors.safetensors': File too large; no state was saved
