reprise download --help
#> usage: reprise download REPO[@REVISION] [-o DIR] [--file NAME]
#>
#> Download a model from the Hugging Face hub: its config, tokenizer and weights in safetensors, or one file. An interrupted
#> download continues where it stopped. Every file is compared with the digest on the hub. DIR is printed at the end.
#> Environment: HF_TOKEN for gated or private models, HF_ENDPOINT for a hub other than huggingface.co.
#>
#>   -o, --output DIR             folder to download to (default: models/NAME)
#>   -f, --file NAME              download only this file, for example a .gguf
#>       --retries N              retries in a row that receive nothing, before giving up (default: 5)
#>       --retry-wait SECONDS     wait before the first retry, doubled before each further one (default: 1)
#>   -h, --help                   print this
#>
#> example: reprise download HuggingFaceTB/SmolLM2-135M
