mkdir m && cp "$SOURCE"/tests/golden/models/smollm2/config.json "$SOURCE"/tests/golden/models/smollm2/model.safetensors "$SOURCE"/recipes/tiny_llama/tokenizer.json m
printf 'THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG. 0123456789 PACK MY BOX WITH FIVE DOZEN LIQUOR JUGS.' >text
printf X >one
: >empty
reprise eval m; echo $? >&2
reprise eval --data text; echo $? >&2
reprise eval no_such_model --data text; echo $? >&2
reprise eval m --data no_such_file; echo $? >&2
mkdir c ones && cp text c/a.c && printf X >ones/a.txt && printf X >ones/b.txt
reprise eval m --data c; echo $? >&2
reprise eval m --data 'c/*.txt'; echo $? >&2
reprise eval m --data ones; echo $? >&2
reprise eval m --data empty; echo $? >&2
reprise eval m --data one; echo $? >&2
reprise eval m --data text max_seq_len=65; echo $? >&2
reprise eval m --data text max_seq_len=1; echo $? >&2
reprise eval m --data text max_seq_lem=16 optimizer.lr=3 ~dtype dtype=fp16; echo $? >&2
reprise eval m --data text threads=9999; echo $? >&2
reprise eval m --data text model.overrides.hidden_act=tan; echo $? >&2
rm m/tokenizer.json
reprise eval m --data text; echo $? >&2
reprise eval m --data text tokenizer.path=nowhere; echo $? >&2
reprise eval text --data text; echo $? >&2
mkdir none && reprise eval none --data text; echo $? >&2
#2> reprise eval: an option is missing: --data PATH
#2> try 'reprise eval --help'
#2> 2
#2> reprise eval: an argument is missing: reprise eval MODEL --data PATH [KEY=VALUE ...]
#2> try 'reprise eval --help'
#2> 2
#2> reprise eval: cannot open 'no_such_model': No such file or directory
#2> 2
#2> reprise eval: cannot open 'no_such_file': No such file or directory
#2> 2
#2> reprise eval: no file in the folder 'c' ends in one of .txt .text .md (with or without .gz or .zst), which format text reads; for other files use a glob, such as 'c/**/*.c'
#2> 2
#2> reprise eval: no file matches 'c/*.txt'
#2> 2
#2> reprise eval: each of the 2 documents of 'ones' has 1 token: there is nothing to predict
#2> 2
#2> reprise eval: 'empty' is empty
#2> 2
#2> reprise eval: 'one' has 1 token: there is nothing to predict
#2> 2
#2> reprise eval: max_seq_len is 65, and the model's context allows 2 to 64
#2> 2
#2> argument 'max_seq_len=1': 'max_seq_len' wants a whole number from 2 to 16777216, not '1'
#2> 2
#2> argument 'max_seq_lem=16': unknown key 'max_seq_lem' (did you mean 'max_seq_len'?)
#2> argument 'optimizer.lr=3': unknown key 'optimizer.lr'; the keys here are max_seq_len, dataset, tokenizer.chat_template, loss.ignore_index, dtype, threads, tokenizer.path, model.overrides, model.adapter, model.quantize and model.mapped
#2> argument '~dtype': there is no recipe here to remove a key from
#2> argument 'dtype=fp16': 'dtype' wants bf16 or fp32, not 'fp16'
#2> 2
#2> argument 'threads=9999': 'threads' wants a whole number from 0 to 4096, not '9999'
#2> 2
#2> argument 'model.overrides.hidden_act=tan': 'hidden_act' is "tan"; these are honoured: silu, swish, gelu, gelu_new, gelu_pytorch_tanh, relu
#2> 2
#2> reprise eval: cannot open 'm/tokenizer.json': No such file or directory
#2> 2
#2> reprise eval: cannot open 'nowhere': No such file or directory
#2> 2
#2> reprise eval: cannot open the model 'text': neither a directory nor a .gguf file; the directory of a model holds config.json and *.safetensors
#2> 2
#2> reprise eval: cannot open 'none/config.json': No such file or directory
#2> 2
