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
