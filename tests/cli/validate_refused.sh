# Recipes that cannot be read, are not there, lack something or ask for what cannot be.
refused() { reprise validate "$@"; echo "exit $?"; }
unset REPRISE_TEST_DEVICE     # with a test device there is a second one
: > empty.yaml
refused empty.yaml
refused missing.yaml
refused smollm2_135m_ful
printf 'model:\n  path: m\ndataset: {path: *.txt}\n' >a.yaml
refused a.yaml
printf 'model:\n\tpath: m\n' >b.yaml
refused b.yaml
refused .
# Conditions whose names are all there and that hold for nothing that is computed.
printf '%s\n' "model: {config: $SOURCE/recipes/tiny_llama/config.json}" 'activation_checkpointing:' '  conditions:' \
    '  - path: layers' '  - all: [{path: "*.mlp"}, {module_type: Norm}]' '  - every_k_layers: 5' '  - path: "layers*"' >recipe.yaml
refused recipe.yaml
refused smollm2_135m_full '~dataset' memory_budget=4GiB ~enable_activation_checkpointing
refused tiny_from_scratch activation_checkpointing.offload.to=memory dataset.path=$SOURCE/recipes/tiny_llama/config.json
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 0
#> exit 2
#2> empty.yaml: no model: set 'model.path', or 'model.config' for random weights
#2> reprise validate: cannot open 'missing.yaml': no such file
#2> reprise validate: no recipe is called 'smollm2_135m_ful' (did you mean 'smollm2_135m_full'?)
#2> a.yaml:3: cannot read this as YAML: did not find expected alphabetic or numeric character; put quotes around a word that begins with '*'
#2> b.yaml:2: cannot read this as YAML: found character that cannot start any token; indent with spaces, not tabs
#2> reprise validate: cannot read '.': it is a folder
#2> recipe.yaml:4: this condition matches no module that runs (a list does not run: name its members, 'layers.*')
#2> recipe.yaml:5: this condition matches no module that runs
#2> recipe.yaml:6: this condition matches no module that runs
#2> note: names were not checked against the model: there is no 'models/smollm2.gguf'
#2> 'smollm2_135m_full' is a valid recipe
#2> argument 'activation_checkpointing.offload.to=memory': note: 'activation_checkpointing.offload.to' has no effect: no rule offloads
#2> argument 'activation_checkpointing.offload.to=memory': 'activation_checkpointing.offload.to' memory is the host's, and needs a GPU ('device'): take disk
