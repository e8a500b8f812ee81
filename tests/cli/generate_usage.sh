# ctest: threads
mkdir m && cp "$SOURCE"/tests/golden/models/smollm2/config.json "$SOURCE"/tests/golden/models/smollm2/model.safetensors "$SOURCE"/recipes/tiny_llama/tokenizer.json m
reprise generate m; echo $? >&2
reprise generate --prompt A; echo $? >&2
reprise generate no_such_model --prompt A; echo $? >&2
reprise generate m --prompt '' -n 3 >text; echo $? >&2
reprise generate m --prompt A --max-new-tokens -1; echo $? >&2
reprise generate m --prompt A --temperature hot; echo $? >&2
reprise generate m --prompt A max_seq_len=5 thread=1; echo $? >&2
reprise generate m --prompt a; echo $? >&2
reprise generate m --prompt 0123456789012345678901234567890123456789012345678901234567890123456789; echo $? >&2
reprise generate m --prompt 012345678901234567890123456789012345678901234567890123456789012 -k 1 >text; echo $? >&2
sed -i /bos_token_id/d m/config.json
reprise generate m --prompt ''; echo $? >&2
reprise generate m --prompt 'A' dtype=fp32 >/dev/full; echo $? >&2
#2> reprise generate: an option is missing: --prompt TEXT
#2> try 'reprise generate --help'
#2> 2
#2> reprise generate: an argument is missing: reprise generate MODEL --prompt TEXT [--chat] [KEY=VALUE ...]
#2> try 'reprise generate --help'
#2> 2
#2> reprise generate: cannot open 'no_such_model': No such file or directory
#2> 2
#2> 0
#2> reprise generate: option '--max-new-tokens' wants a whole number from 0 to 1000000000, not '-1'
#2> try 'reprise generate --help'
#2> 2
#2> reprise generate: option '--temperature' wants a number from 0 to 1000000000, not 'hot'
#2> try 'reprise generate --help'
#2> 2
#2> argument 'max_seq_len=5': unknown key 'max_seq_len'; the keys here are dtype, threads, tokenizer.path, model.overrides, model.adapter, model.quantize and model.mapped
#2> argument 'thread=1': unknown key 'thread' (did you mean 'threads'?)
#2> 2
#2> reprise generate: the tokenizer gives id 97, and the model's vocabulary has 96: it is another model's
#2> 2
#2> reprise generate: the prompt has 70 tokens, more than the model's context of 64
#2> 2
#2> reprise generate: stopped: the model's context of 64 tokens is full
#2> 0
#2> reprise generate: the prompt is empty and the tokenizer has no bos to begin with
#2> 2
#2> reprise generate: cannot write to the standard output: No space left on device
#2> 1
