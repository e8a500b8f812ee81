reprise generate --help
#> usage: reprise generate MODEL --prompt TEXT [--chat] [KEY=VALUE ...]
#>
#> Print the continuation of a prompt, without the prompt, until eos, N tokens or the end of the model's context. bos is put
#> first if the tokenizer adds it. On a terminal, control characters in the text are made visible. MODEL is a Hugging
#> Face folder, a .gguf file or the folder of an adapter.
#> Keys: dtype (default: bf16), threads, tokenizer.path, model.overrides, model.adapter, model.quantize.
#>
#>   -p, --prompt TEXT            beginning of the text
#>   -c, --chat                   TEXT is a user message: apply the model's chat template
#>   -n, --max-new-tokens N       generate at most N tokens (default: 128)
#>   -t, --temperature T          sampling temperature; 0 is greedy (default: 0.8)
#>   -k, --top-k K                sample from the K most likely tokens; 0: from all (default: 40)
#>   -s, --seed S                 seed for sampling; the same seed gives the same text (default: 0)
#>   -h, --help                   print this
#>
#> example: reprise generate models/SmolLM2-135M --prompt 'Once upon a time' -n 64
