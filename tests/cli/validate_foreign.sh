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
#2> theirs.yaml:2: note: 'ac_variant: selective_layer_activation_checkpointing' is read as 'activation_checkpointing.mode: selective_layer'
#2> theirs.yaml:3: note: 'layers_fqn' is read as 'activation_checkpointing.layers: layers'
#2> theirs.yaml:5: note: 'ac_fun_params.ac_freq' is read as 'activation_checkpointing.every'
#2> note: names were not checked against the model: there is no 'm.gguf'
#2> 'theirs.yaml' is a valid recipe
#2> theirs.yaml:2: 'ac_variant' and 'enable_activation_checkpointing' set the same thing; keep one
