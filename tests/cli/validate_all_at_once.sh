# exit: 2
# What is wrong in the recipe, and names that its model does not have, are told together.
cat >recipe.yaml <<YAML
model: {config: $SOURCE/recipes/tiny_llama/config.json}
batch_size: two
activation_checkpointing:
  mode: full
  every: 2
  rules:
  - {path: layer, fate: offload}
  - {op: matmull, fate: keep}
YAML
reprise validate recipe.yaml
