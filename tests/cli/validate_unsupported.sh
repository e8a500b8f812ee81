# exit: 2
unset REPRISE_TEST_DEVICE     # with a test device there is a second one
reprise validate smollm2_135m_full '~dataset' memory_budget=4GiB ~enable_activation_checkpointing
reprise validate tiny_from_scratch activation_checkpointing.offload.to=memory dataset.path=$SOURCE/recipes/tiny_llama/config.json
