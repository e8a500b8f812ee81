reprise eval --help
#> usage: reprise eval MODEL --data PATH [KEY=VALUE ...]
#>
#> Score a text: the loss (mean of -log p of its tokens, in nats) and the perplexity (its exponential). Each file, plain or packed
#> with gzip or zstd, is one document; neither bos nor eos is added. It is cut into windows of max_seq_len tokens (default: the
#> model's context), which are scored separately; the last one may be shorter. A folder stands for its files that end in .txt,
#> .text or .md, also in folders below. MODEL is a Hugging Face folder, a .gguf file or the folder of an adapter.
#> With dataset.format=jsonl, chat, alpaca or tokens, the targets of the data are scored as a run of a recipe with these keys
#> validates with it: dataset.column, dataset.prompt_column, dataset.train_on_input, dataset.packed and so on.
#> Keys: max_seq_len, dataset, tokenizer.chat_template, loss.ignore_index, dtype (default: fp32), threads, tokenizer.path,
#> model.overrides, model.adapter, model.quantize.
#>
#>       --data PATH              a file, a folder or a glob, as in dataset.path
#>       --json                   print one JSON object
#>   -h, --help                   print this
#>
#> example: reprise eval models/SmolLM2-135M --data text.txt
