# exit: 2
# An output_dir that holds a run hides no other error, and another error does not hide it. Nothing is written.
mkdir out && echo mine >out/config.yaml
train() { reprise train tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json output_dir=out "$@"; }
train dataset.path=absent.txt optimizer.no_decay='["*.z"]'
train dataset.path=absent.txt batch_size=two
train dataset.path=out/config.yaml max_seq_len=99999 activation_checkpointing.rules='[{op: add, fate: offload}]' activation_checkpointing.offload.path=out/config.yaml
# A wrong value leads to no second error: it is unknown whether the run is to be resumed, or which format the data has.
train dataset.path=absent.txt resume='[1]' dataset.format=jsonll
code=$?
cat out/config.yaml
ls -A . out
exit $code
#> mine
#> .:
#> out
#>
#> out:
#> config.yaml
#2> argument 'optimizer.no_decay=["*.z"]': 'optimizer.no_decay': no module matches '*.z'
#2> argument 'output_dir=out': output_dir 'out' contains a run already (config.yaml): continue it with resume=auto, or choose another output_dir
#2> argument 'dataset.path=absent.txt': dataset.path: no file matches 'absent.txt'
#2> argument 'batch_size=two': 'batch_size' wants a whole number from 1 to 1048576, not 'two'
#2> argument 'output_dir=out': output_dir 'out' contains a run already (config.yaml): continue it with resume=auto, or choose another output_dir
#2> argument 'dataset.path=absent.txt': dataset.path: no file matches 'absent.txt'
#2> argument 'max_seq_len=99999': 'max_seq_len' 99999 is beyond the model's context of 512 tokens: 'model.overrides.max_position_embeddings' may extend it
#2> argument 'output_dir=out': output_dir 'out' contains a run already (config.yaml): continue it with resume=auto, or choose another output_dir
#2> argument 'activation_checkpointing.offload.path=out/config.yaml': activation_checkpointing.offload.path 'out/config.yaml' is not a folder
#2> argument 'dataset.format=jsonll': 'dataset.format' wants text, jsonl, tokens, chat or alpaca, not 'jsonll'
#2> argument 'resume=[1]': 'resume' wants false, auto, or a path, not [1]
