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
