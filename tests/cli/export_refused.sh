# What cannot be written is refused with exit 2, and no file is left.
ln -s "$SOURCE/tests/golden" golden
try() { reprise export "$@"; echo "exit $?"; }
try
try golden/models/smollm2
try golden/models/smollm2 --gguf F32
try golden/models/smollm2 --gguf Q4_K -o out.gguf
try golden/lora/smollm2 --gguf keep --adapter -o out.gguf
try golden/models/smollm2 --gguf keep -o out.gguf
try nowhere --gguf F32 -o out.gguf
try golden/models/smollm2 --gguf F32 -o no_folder/out.gguf
try golden/models/bert --gguf F32 -o out.gguf
try golden/lora/gpt2_dora --gguf F32 --adapter -o out.gguf
try golden/models/smollm2 --gguf F32 --adapter -o out.gguf
(ulimit -f 64 && reprise export golden/models/smollm2 --gguf F32 -o out.gguf; echo "exit $?")
ls
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 1
#> golden
#2> reprise export: an argument is missing: reprise export MODEL|RUN_DIR --gguf TYPE -o FILE [--adapter] [--name TEXT] [--bytes]
#2> try 'reprise export --help'
#2> reprise export: an option is missing: --gguf TYPE
#2> try 'reprise export --help'
#2> reprise export: an option is missing: --output FILE
#2> try 'reprise export --help'
#2> reprise export: 'Q4_K' is no type that is written; these are: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, keep
#2> reprise export: 'keep' is no type that is written; these are: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1
#2> reprise export: 'golden/models/smollm2' has no tokenizer, so the file has none
#2> reprise export: 'golden/models/smollm2' is no GGUF file, so its tensors have no types to keep
#2> reprise export: cannot open 'nowhere': No such file or directory
#2> reprise export: cannot write 'no_folder/out.gguf': there is no folder 'no_folder'
#2> reprise export: 'golden/models/bert' has no tokenizer, so the file has none
#2> reprise export: models of type 'bert' are not written to GGUF; these architectures are: llama, gpt2, qwen2, qwen3, qwen3moe, gemma2, gemma3, phi3, olmo2
#2> reprise export: llama.cpp's adapter files hold no magnitudes (DoRA); leave out --adapter to merge them
#2> reprise export: 'golden/models/smollm2' is a model without an adapter
#2> reprise export: 'golden/models/smollm2' has no tokenizer, so the file has none
#2> reprise export: cannot write 'out.gguf': File too large
