# A dozen recipes: the losses, norms and weights of the one without checkpointing, to the byte. What differs is what is saved, replayed
# and offloaded, and is as docs/memory.md says.
# ctest: threads
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
ac=activation_checkpointing
number() { sed "s/.*\"$1\": *\\([^,}]*\\).*/\\1/" $name/metrics.jsonl | sort -u | tr '\n' ' '; }
run() {
    name=$1
    shift
    reprise train tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text max_seq_len=16 batch_size=2 \
        gradient_accumulation_steps=2 max_steps=3 output_dir=$name threads=1 $settings "$@" 2>err || cat err
    sed 's/.*"loss": *\([^,]*\),.*"grad_norm": *\([^,]*\),.*/\1 \2/' $name/metrics.jsonl >$name.numbers
    cmp none.numbers $name.numbers
    cmp none/final/model.safetensors $name/final/model.safetensors
    printf '%-16s saved %-8s recomputed %-9s of %-10s offloaded %s\n' $name $(number saved_bytes) $(number recompute_flops) \
        $(number step_flops) $(number offloaded_bytes)
}
all() {
    run none
    run switch enable_activation_checkpointing=true
    run full $ac.mode=full $ac.verify=always
    run every_2nd $ac.mode=selective_layer $ac.every=2
    run selective_op $ac.mode=selective_op
    run attention $ac.mode=selective_op $ac.save='[attention]' $ac.verify=step
    run mlps $ac.conditions='[{path: "*.mlp"}]'
    run attns $ac.conditions='[{module_type: Attention}]'
    run but_the_last $ac.conditions='[{all: [{module_type: TransformerBlock}, {not: {layers: [3]}}]}]'
    run three_deep $ac.mode=full $ac.conditions='[{path: "*.mlp"}, {module_type: Linear}]' $ac.verify=always
    run norms $ac.rules='[{type: Norm, fate: recompute}]'
    run swiglu $ac.rules='[{op: swiglu, fate: recompute}]'
    run kept $ac.mode=full $ac.rules='[{op: "*", fate: keep}]'
    run offload $ac.mode=full $ac.rules='[{op: attention, fate: offload}]' $ac.offload.path=away $ac.verify=always
    REPRISE_TEST_DEVICE=${REPRISE_TEST_DEVICE:-cpu} run to_memory $ac.rules='[{op: matmul, every: 2, fate: offload}]' $ac.offload.to=memory
    find away -type f
    rm -rf none switch full every_2nd selective_op attention mlps attns but_the_last three_deep norms swiglu kept offload to_memory
}
settings="dtype=fp32 model.dropout=0"
all
settings="dtype=bf16 model.dropout=0.1"
all
#> none             saved 544000   recomputed 0         of 88967040   offloaded 0
#> switch           saved 49408    recomputed 20439040  of 88967040   offloaded 0
#> full             saved 49408    recomputed 20439040  of 88967040   offloaded 0
#> every_2nd        saved 296704   recomputed 10219520  of 88967040   offloaded 0
#> selective_op     saved 379136   recomputed 1007616   of 88967040   offloaded 0
#> attention        saved 84224    recomputed 19881984  of 88967040   offloaded 0
#> mlps             saved 249088   recomputed 13369344  of 88967040   offloaded 0
#> attns            saved 443648   recomputed 4825088   of 88967040   offloaded 0
#> but_the_last     saved 173056   recomputed 15329280  of 88967040   offloaded 0
#> three_deep       saved 49408    recomputed 20439040  of 88967040   offloaded 0
#> norms            saved 469120   recomputed 147456    of 88967040   offloaded 0
#> swiglu           saved 445696   recomputed 786432    of 88967040   offloaded 0
#> kept             saved 544000   recomputed 0         of 88967040   offloaded 0
#> offload          saved 49408    recomputed 19881984  of 88967040   offloaded 69632
#> to_memory        saved 437504   recomputed 0         of 88967040   offloaded 212992
#> none             saved 273664   recomputed 0         of 91178880   offloaded 0
#> switch           saved 24832    recomputed 20930560  of 91178880   offloaded 0
#> full             saved 24832    recomputed 20930560  of 91178880   offloaded 0
#> every_2nd        saved 149248   recomputed 10465280  of 91178880   offloaded 0
#> selective_op     saved 190720   recomputed 1499136   of 91178880   offloaded 0
#> attention        saved 43264    recomputed 20373504  of 91178880   offloaded 0
#> mlps             saved 126208   recomputed 13369344  of 91178880   offloaded 0
#> attns            saved 222464   recomputed 4825088   of 91178880   offloaded 0
#> but_the_last     saved 87040    recomputed 15697920  of 91178880   offloaded 0
#> three_deep       saved 24832    recomputed 20930560  of 91178880   offloaded 0
#> norms            saved 235648   recomputed 147456    of 91178880   offloaded 0
#> swiglu           saved 224512   recomputed 786432    of 91178880   offloaded 0
#> kept             saved 273664   recomputed 0         of 91178880   offloaded 0
#> offload          saved 24832    recomputed 20373504  of 91178880   offloaded 36864
#> to_memory        saved 220416   recomputed 0         of 91178880   offloaded 106496
