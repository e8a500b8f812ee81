# exit: 2
# The errors are those of validate. Nothing is printed, and the exit code is 2.
cat >wrong.yaml <<YAML
model: {config: $SOURCE/recipes/tiny_llama/config.json}
activation_checkpointing:
  rules:
  - {op: mattmul, fate: keep}
  - {path: layers.9, fate: keep}
YAML
reprise explain wrong.yaml --json
echo "exit $?"
reprise explain tiny_from_scratch model.config=absent.json
echo "exit $?"
reprise explain absent.yaml
echo "exit $?"
reprise explain
#> exit 2
#> exit 2
#> exit 2
#2> wrong.yaml:4: no op is called 'mattmul' (did you mean 'matmul'?)
#2> wrong.yaml:5: 'path': no module matches 'layers.9' (did you mean 'layers.3'?)
#2> argument 'model.config=absent.json': 'model.config': cannot open 'absent.json': there is no such file
#2> reprise explain: cannot open 'absent.yaml': no such file
#2> reprise explain: an argument is missing: reprise explain CONFIG [KEY=VALUE ...] [--json] [--graph -o FILE] [--bytes] [--allow-plugins]
#2> try 'reprise explain --help'
