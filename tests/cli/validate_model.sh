# The chosen modules, and names that the model does not have, as a run reports them.
valid() { reprise validate tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json '~dataset' "$@"; }
ac=activation_checkpointing
valid enable_activation_checkpointing=true
valid $ac.mode=selective_layer $ac.every=2
valid $ac.mode=selective_layer $ac.every=2 $ac.offset=1
valid $ac.mode=selective_op
valid $ac.conditions='[{layers: [0-1, 3]}, {path: "*.mlp"}, {path: norm}]'
valid $ac.rules='[{path: "*.attn", op: matmul, fate: keep}, {op: swiglu, fate: recompute}]'
valid $ac.rules='[{op: dropout, fate: keep}, {op: matmul, fate: keep}, {path: layers.1.mlp, op: matmul, fate: recompute}]'
cat >wrong.yaml <<YAML
model: {config: $SOURCE/recipes/tiny_llama/config.json}
activation_checkpointing:
  mode: selective_op
  save: [matmul, atention]
  conditions:
  - path: "*.mpl"
  - layers: [2-4]
  rules:
  - {op: mattmul, fate: keep}
  - {path: layers.9, fate: keep}
YAML
reprise validate wrong.yaml
echo "exit $?"
printf '%s\n' "model: {config: $SOURCE/recipes/tiny_llama/config.json}" 'activation_checkpointing:' '  conditions:' \
    '  - plugin: {library: ./absent.so, symbol: mine}' >plugin.yaml
reprise validate plugin.yaml 2>err
echo "exit $?"
sed "s|'/.*/absent.so'|'ABSENT'|" err >&2
# Every k-th of fewer blocks than k, too.
printf '%s\n' "model: {config: $SOURCE/recipes/tiny_llama/config.json}" 'activation_checkpointing: {mode: selective_layer, every: 5}' >every.yaml
reprise validate every.yaml
echo "exit $?"
reprise validate every.yaml $ac.offset=1
#> exit 2
#> exit 2
#> exit 0
#2> checkpointing: 4 of 4 blocks: layers 0-3
#2> 'tiny_from_scratch' is a valid recipe
#2> checkpointing: 2 of 4 blocks: layers 1, 3
#2> 'tiny_from_scratch' is a valid recipe
#2> checkpointing: 2 of 4 blocks: layers 0, 2
#2> 'tiny_from_scratch' is a valid recipe
#2> checkpointing: 4 of 4 blocks: layers 0-3; 3 rules
#2> 'tiny_from_scratch' is a valid recipe
#2> checkpointing: 3 of 4 blocks: layers 0-1, 3; and 5 modules: layers.0.mlp, layers.1.mlp, layers.2.mlp, …
#2> 'tiny_from_scratch' is a valid recipe
#2> checkpointing: no regions; 2 rules
#2> 'tiny_from_scratch' is a valid recipe
#2> argument 'activation_checkpointing.rules=[{op: dropout, fate: keep}, {op: matmul, fate: keep}, {path: layers.1.mlp, op: matmul, fate: recompute}]':1: note: this model never calls the op 'dropout'
#2> argument 'activation_checkpointing.rules=[{op: dropout, fate: keep}, {op: matmul, fate: keep}, {path: layers.1.mlp, op: matmul, fate: recompute}]':1: note: this rule has no effect: no slot that earlier rules leave matches it
#2> checkpointing: no regions; 3 rules
#2> 'tiny_from_scratch' is a valid recipe
#2> wrong.yaml:4: no op is called 'atention' (did you mean 'attention'?)
#2> wrong.yaml:6: 'path': no module matches '*.mpl'
#2> wrong.yaml:7: no block 4: the model has 4, counted from 0
#2> wrong.yaml:9: no op is called 'mattmul' (did you mean 'matmul'?)
#2> wrong.yaml:10: 'path': no module matches 'layers.9' (did you mean 'layers.3'?)
#2> plugin.yaml:4: cannot open the library 'ABSENT' for 'mine': No such file or directory
#2> every.yaml:2: note: no block of 'layers' is selected by every 5 with offset 0, so no block is recomputed
#2> checkpointing: none
#2> 'every.yaml' is a valid recipe
#2> checkpointing: 1 of 4 blocks: layers 0
#2> 'every.yaml' is a valid recipe
