# A name of a model on the hub instead of a path: the message has the command that gets it.
exits() { "$@"; echo "exit $?"; }
exits reprise train tiny_from_scratch '~model.config' model.path=HuggingFaceTB/SmolLM2-135M dataset.path=text output_dir=out
exits reprise generate HuggingFaceTB/SmolLM2-135M -p A
exits reprise inspect HuggingFaceTB/SmolLM2-135M
exits reprise inspect models/no_such.gguf
exits reprise inspect ./a/b
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#2> argument 'model.path=HuggingFaceTB/SmolLM2-135M': 'model.path': cannot open 'HuggingFaceTB/SmolLM2-135M': there is no such file; 'reprise download HuggingFaceTB/SmolLM2-135M' gets a model of that name from the Hugging Face hub
#2> argument 'dataset.path=text': note: dataset.path: no file matches 'text'
#2> reprise generate: cannot open 'HuggingFaceTB/SmolLM2-135M': No such file or directory; 'reprise download HuggingFaceTB/SmolLM2-135M' gets a model of that name from the Hugging Face hub
#2> reprise inspect: cannot open 'HuggingFaceTB/SmolLM2-135M': No such file or directory; 'reprise download HuggingFaceTB/SmolLM2-135M' gets a model of that name from the Hugging Face hub
#2> reprise inspect: cannot open 'models/no_such.gguf': No such file or directory
#2> reprise inspect: cannot open './a/b': No such file or directory
