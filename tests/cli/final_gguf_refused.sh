# What final.gguf cannot hold is refused before anything is written.
printf 'one two three four five six seven eight' >text
try() { reprise "$@" dataset.path=text max_seq_len=16 batch_size=2 max_steps=1 threads=1 output_dir=run; echo "$1: $?"; }
for command in plan validate train; do try $command tiny_from_scratch final_format=gguf lora.rank=2 lora.alpha=4; done
try train tiny_from_scratch final_format=gguf model.config=$SOURCE/tests/golden/models/mixtral_window/config.json
try train tiny_from_scratch final_format=ggml
ls
#> plan: 2
#> validate: 2
#> train: 2
#> train: 2
#> train: 2
#> text
#2> argument 'final_format=gguf': 'final_format: gguf' merges the adapter into the files of 'model.path', which is not set: set 'lora.merge'
#2> argument 'final_format=gguf': 'final_format: gguf' merges the adapter into the files of 'model.path', which is not set: set 'lora.merge'
#2> argument 'final_format=gguf': 'final_format: gguf' merges the adapter into the files of 'model.path', which is not set: set 'lora.merge'
#2> argument 'final_format=gguf': 'final_format: gguf': GGUF cannot hold this model: llama.cpp computes 'llama' with other windows
#2> argument 'final_format=ggml': 'final_format' wants safetensors or gguf, not 'ggml'
