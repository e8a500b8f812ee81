# exit: 2
unset REPRISE_TEST_DEVICE     # with a test device there is a second one
reprise validate smollm2_135m_full '~dataset' memory_budget=4GiB ~enable_activation_checkpointing
reprise validate tiny_from_scratch activation_checkpointing.offload.to=memory dataset.path=$SOURCE/recipes/tiny_llama/config.json
#2> note: names were not checked against the model: there is no 'models/smollm2.gguf'
#2> 'smollm2_135m_full' is a valid recipe
#2> argument 'activation_checkpointing.offload.to=memory': note: 'activation_checkpointing.offload.to' has no effect: no rule offloads
#2> argument 'activation_checkpointing.offload.to=memory': 'activation_checkpointing.offload.to' memory needs a second device, and there is none: take disk
