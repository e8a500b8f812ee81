reprise export --help
#> usage: reprise export MODEL|RUN_DIR --gguf TYPE -o FILE [--adapter] [--name TEXT] [--bytes]
#>
#> Write a model as a GGUF file for llama.cpp, with its adapter merged in, if it has one. MODEL is a Hugging Face folder, a .gguf
#> file or the folder of an adapter, RUN_DIR the folder of a run, which stands for its final/. Vectors, norms and routers are
#> always F32. A model from GGUF keeps its metadata; tensors that have the type already are copied byte for byte.
#>
#>   -g, --gguf TYPE              type of the matrices: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, or keep: each as in its GGUF file
#>   -o, --output FILE            the file to write; it appears when it is complete
#>   -a, --adapter                write the adapter alone instead of merging it
#>   -n, --name TEXT              the name in the file (default: that of the folder or of the GGUF file)
#>       --bytes                  print exact sizes, in bytes
#>   -h, --help                   print this
#>
#> example: reprise export runs/my_run --gguf Q8_0 -o my_model.gguf
