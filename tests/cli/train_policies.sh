# The same numbers and the same bytes, whatever is recomputed.
# ctest: threads
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
ac=activation_checkpointing
run() {
    name=$1
    shift
    reprise train tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json model.dropout=0.1 dataset.path=text \
        max_seq_len=16 batch_size=2 max_steps=3 output_dir=$name threads=1 "$@" 2>err || cat err
    sed -n '/note/p; /^checkpointing/p' err
    sed 's/.*"loss": *\([^,]*\),.*"grad_norm": *\([^,]*\),.*/\1 \2/' $name/metrics.jsonl >$name.numbers
    cmp none.numbers $name.numbers
    cmp none/final/model.safetensors $name/final/model.safetensors
}
run none
reserved=$(sed "s/.*\"peak_memory_reserved\": *\([0-9]*\).*/\1/;q" none/metrics.jsonl)
run full $ac.mode=full
run every_2nd $ac.mode=selective_layer $ac.every=2 $ac.verify=always
run by_op $ac.mode=selective_op
run nested $ac.conditions='[{layers: [0-2]}, {path: "*.attn"}, {module_type: Norm}]' $ac.verify=step
run rules $ac.rules='[{op: swiglu, fate: recompute}, {type: Norm, fate: prefer_recompute}, {op: matmul, every: 2, fate: keep}]'
run both $ac.mode=full $ac.rules='[{path: "*.q", fate: keep}, {op: attention, fate: keep}]'
run away $ac.mode=full $ac.rules='[{op: matmul, fate: offload}, {op: swiglu, fate: prefer_offload}]' $ac.offload.path=slots/here
ls -A slots/here
REPRISE_TEST_DEVICE=${REPRISE_TEST_DEVICE:-cpu} run other_device $ac.rules='[{op: matmul, fate: offload}]' $ac.offload.to=memory
run kept $ac.offload.path=unused
[ ! -e unused ] || echo made
# The changes of a plan for a budget are printed, too; their amount depends on the machine.
run budget memory_budget=$((reserved - 64)) | sed 's/[0-9.]* %/N %/'
#> checkpointing  none
#> checkpointing  4 of 4 blocks: layers 0-3
#> checkpointing  2 of 4 blocks: layers 1, 3
#> checkpointing  4 of 4 blocks: layers 0-3; 3 rules
#> checkpointing  3 of 4 blocks: layers 0-2; and 13 modules: layers.0.attn_norm, layers.0.attn, layers.0.mlp_norm, …
#> checkpointing  no regions; 3 rules
#> checkpointing  4 of 4 blocks: layers 0-3; 2 rules
#> checkpointing  4 of 4 blocks: layers 0-3; 2 rules
#> checkpointing  no regions; 1 rule
#> argument 'activation_checkpointing.offload.path=unused': note: 'activation_checkpointing.offload.path' has no effect: no rule offloads
#> checkpointing  none
#> checkpointing  none by the recipe; the plan for the budget recomputes N % of the work
