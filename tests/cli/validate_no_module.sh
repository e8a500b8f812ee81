# exit: 2
# Conditions whose names are all there and that hold for nothing that is computed.
printf '%s\n' "model: {config: $SOURCE/recipes/tiny_llama/config.json}" 'activation_checkpointing:' '  conditions:' \
    '  - path: layers' '  - all: [{path: "*.mlp"}, {module_type: Norm}]' '  - every_k_layers: 5' '  - path: "layers*"' >recipe.yaml
reprise validate recipe.yaml
#2> recipe.yaml:4: this condition matches no module that runs (a list does not run: name its members, 'layers.*')
#2> recipe.yaml:5: this condition matches no module that runs
#2> recipe.yaml:6: this condition matches no module that runs
