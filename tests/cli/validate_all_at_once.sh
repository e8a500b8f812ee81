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
reprise validate tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=nothing 'freeze=["*"]'
#2> recipe.yaml:2: 'batch_size' wants a whole number from 1 to 1048576, not 'two'
#2> recipe.yaml:5: 'activation_checkpointing.every' has no effect: the mode is full
#2> recipe.yaml:7: 'path': no module matches 'layer' (did you mean 'layers'?)
#2> recipe.yaml:8: no op is called 'matmull' (did you mean 'matmul'?)
#2> argument 'dataset.path=absent.txt': dataset.path: no file matches 'absent.txt'
#2> 2
#2> recipe.yaml:7: no op is called 'matmull' (did you mean 'matmul'?)
#2> argument 'dataset.path=cut.jsonl': 'cut.jsonl', line 1, column 13: premature end of input near '"ONE'; each object must be on one line, or all objects in one list
#2> 2
#2> recipe.yaml:7: no op is called 'matmull' (did you mean 'matmul'?)
#2> argument 'dataset.format=jsonll': 'dataset.format' wants text, jsonl, tokens, chat or alpaca, not 'jsonll'
#2> reprise validate: 'freeze' leaves no parameter to train
#2> argument 'dataset.path=nothing': dataset.path: no file matches 'nothing'
