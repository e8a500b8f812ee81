# The slots of a step, why each has its fate, and what a run then measures. Peaks depend on the machine: they are compared, not shown.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
ac=activation_checkpointing
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text max_seq_len=16 batch_size=2 max_steps=2 \
    threads=1
slots() {
    reprise explain "$@" >all || exit
    sed -n '/^saved/p; /^replays/p; /^slot /,/^$/p' all
}
number() { sed "s/.*\"$1\": *\([0-9]*\).*/\1/" "$2" | tail -1; }
same() {
    reprise explain "$@" --json >explained
    reprise train "$@" output_dir=out 2>err || cat err
    for pair in peak_bytes=peak_memory_active saved_bytes=saved_bytes recompute_flops=recompute_flops step_flops=step_flops; do
        head -c 600 explained >head      # before the lists, which have keys of these names too
        [ "$(number ${pair%=*} head)" = "$(number ${pair#*=} out/metrics.jsonl)" ] || echo "${pair%=*} differs"
    done
    rm -r out
}
slots "$@"
slots "$@" $ac.mode=selective_op $ac.conditions='[{path: "*.attn"}]' $ac.rules='[{path: layers.1, op: swiglu, fate: keep}]'
REPRISE_TEST_DEVICE=${REPRISE_TEST_DEVICE:-cpu} slots "$@" $ac.rules='[{path: "*.mlp", op: matmul, fate: offload}, {op: dropout, fate: keep}]' $ac.offload.to=memory
same "$@"
same "$@" enable_activation_checkpointing=true
same "$@" $ac.mode=selective_layer $ac.every=2 $ac.rules='[{type: Norm, fate: recompute}]'
cat >rules.yaml <<YAML
model: {config: $SOURCE/recipes/tiny_llama/config.json}
max_seq_len: 16
activation_checkpointing:
  mode: full
  rules:
  - {path: "*.attn", op: matmul, fate: keep}
  - {path: layers.0, fate: prefer_recompute}
YAML
slots rules.yaml | grep rules.yaml
grep -c '^- ' all >/dev/null && sed -n 's/^\(peak\) .*/\1/p; s/^\(module, each\) .*/\1/p; s/^\(at the peak\) .*/\1/p' all
# The emulated GPU has kernels for each op of a Llama, and so has the CPU.
for device in cpu emu; do
    for command in plan explain; do REPRISE_TEST_DEVICE=$device reprise $command "$@" --json | grep -o '"host_fallback_ops": [0-9]*'; done
done
