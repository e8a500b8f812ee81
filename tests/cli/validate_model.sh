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
