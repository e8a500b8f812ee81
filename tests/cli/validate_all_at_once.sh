# exit: 2
# Errors in the recipe, names that its model does not have and errors in its data are printed together.
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
reprise validate recipe.yaml dataset.path=absent.txt; echo $? >&2
echo '{"text": "ONE TWO"}' >ok.jsonl
echo '{"text": "ONE' >cut.jsonl
sed -i 's/two/2/; /every:/d; s/layer,/layers.0,/; s/, fate: offload/, fate: keep/' recipe.yaml
reprise validate recipe.yaml dataset.path=cut.jsonl dataset.format=jsonl; echo $? >&2
reprise validate recipe.yaml dataset.path=ok.jsonl dataset.format=jsonll
