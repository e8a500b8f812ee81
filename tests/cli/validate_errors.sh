# exit: 2
cat >bad.yaml <<'YAML'
model: {path: a.gguf, config: b.json}
optimiser: {lr: 1}
optimizer:
  lr: fast
  eps: "1e-8"
batch_size: 0
batch_size: 2
optimizer_in_bwd: yes
clip_grad_norm: 1
enable_activation_checkpointing: true
activation_checkpointing:
  every: 2
  rules:
  - {op: matmul, fate: kep}
output_dir: ${outputdir}/x
YAML
reprise validate bad.yaml seed=x ~bach_size
#2> bad.yaml:1: 'model.path' and 'model.config' are both set; keep one
#2> bad.yaml:2: unknown key 'optimiser' (did you mean 'optimizer'?)
#2> bad.yaml:4: 'optimizer.lr' wants a number from 0, not 'fast'
#2> bad.yaml:5: 'optimizer.eps' wants a number above 0, not the quoted text '1e-8'
#2> bad.yaml:6: 'batch_size' wants a whole number from 1 to 1048576, not '0'
#2> bad.yaml:7: key 'batch_size' is set twice, first on line 6
#2> bad.yaml:8: 'optimizer_in_bwd' true and 'clip_grad_norm' contradict: the norm is known after backward; unset one, or set optimizer_in_bwd: auto
#2> bad.yaml:12: 'activation_checkpointing.every' has no effect: the mode is full
#2> bad.yaml:13: 'enable_activation_checkpointing' and 'activation_checkpointing.rules' are both set; keep one
#2> bad.yaml:14: unknown fate 'kep' (did you mean 'keep'?)
#2> bad.yaml:15: '${outputdir}' names no key (did you mean 'output_dir'?)
#2> argument '~bach_size': unknown key 'bach_size' (did you mean 'batch_size'?)
#2> argument 'seed=x': 'seed' wants a whole number from 0, not 'x'
