# A folder that is named as a model and is none, or lacks what the run needs of one, is wrong input: exit 2, before any work.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
set -- dataset.path=text max_seq_len=16 batch_size=2 max_steps=1 threads=1
echo 'output_dir: out' >recipe.yaml
reprise train recipe.yaml model.config=$SOURCE/recipes/tiny_llama/config.json output_dir=made "$@" 2>/dev/null
mkdir empty
for lacking in config.json model.safetensors tokenizer.json; do
    rm -rf model
    cp -r made/final model
    rm model/$lacking
    reprise train recipe.yaml model.path=model "$@"
    echo "without $lacking: exit $? $(ls -d out 2>&1)"
done
reprise train recipe.yaml model.path=empty "$@"
echo "exit $?"
reprise train recipe.yaml model.path=made/final tokenizer.path=empty "$@"
echo "exit $?"
reprise plan recipe.yaml model.path=empty
echo "exit $?"
reprise validate recipe.yaml model.path=empty
echo "exit $?"
reprise eval empty --data text
echo "exit $?"
reprise generate model --prompt a
echo "exit $?"
reprise train recipe.yaml model.path=made/final lora.rank=1 output_dir=adapted "$@" 2>/dev/null
reprise train recipe.yaml model.path=adapted/final lora.rank=2 "$@"
echo "exit $?"
#> without config.json: exit 2 ls: cannot access 'out': No such file or directory
#> without model.safetensors: exit 2 ls: cannot access 'out': No such file or directory
#> without tokenizer.json: exit 2 ls: cannot access 'out': No such file or directory
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#2> argument 'model.path=model': cannot open 'model/config.json': No such file or directory
#2> reprise train: cannot find a .safetensors file in 'model'
#2> reprise train: cannot open 'model/tokenizer.json': No such file or directory
#2> argument 'model.path=empty': cannot open 'empty/config.json': No such file or directory
#2> reprise train: cannot open 'empty/tokenizer.json': No such file or directory
#2> argument 'model.path=empty': cannot open 'empty/config.json': No such file or directory
#2> argument 'model.path=empty': cannot open 'empty/config.json': No such file or directory
#2> reprise eval: cannot open 'empty/config.json': No such file or directory
#2> reprise generate: cannot open 'model/tokenizer.json': No such file or directory
#2> argument 'model.path=adapted/final': 'lora.rank' is set, and the model comes with an adapter already
