# exit: 2
cat >theirs.yaml <<'YAML'
model: {path: m.gguf}
ac_variant: selective_layer_activation_checkpointing
layers_fqn: transformer.h
ac_fun_params:
  ac_freq: 2
YAML
reprise validate theirs.yaml
reprise validate theirs.yaml enable_activation_checkpointing=true
