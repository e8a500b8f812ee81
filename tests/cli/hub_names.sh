# A name of a model on the hub instead of a path: the message has the command that gets it.
exits() { "$@"; echo "exit $?"; }
exits reprise train tiny_from_scratch '~model.config' model.path=HuggingFaceTB/SmolLM2-135M dataset.path=text output_dir=out
exits reprise generate HuggingFaceTB/SmolLM2-135M -p A
exits reprise inspect HuggingFaceTB/SmolLM2-135M
exits reprise inspect models/no_such.gguf
exits reprise inspect ./a/b
