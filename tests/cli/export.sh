# The model of a run as GGUF scores a text as the model itself does; its adapter merged, and alone; and a copy is the same file.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
run() { reprise train tiny_from_scratch dataset.path=text max_seq_len=16 batch_size=2 max_steps=2 threads=1 "$@" 2>/dev/null >/dev/null; }
score() { reprise eval "$1" --data text threads=1; }
run output_dir=run
reprise export run --gguf f32 -o run.gguf
reprise export run --gguf q4_0 -o small.gguf --bytes
reprise inspect run.gguf | sed -n '/^config/,/^tensors/p'
[ "$(score run/final)" = "$(score run.gguf)" ] && echo 'the same score'
reprise export run.gguf --gguf keep -o copy.gguf
cmp run.gguf copy.gguf && echo 'the same file'
run output_dir=adapted model.path=run/final ~model.config lora.rank=2 lora.alpha=4 optimizer.lr=0.1
reprise export adapted --gguf F32 -o merged.gguf
[ "$(score adapted/final)" = "$(score merged.gguf)" ] || score merged.gguf
reprise export adapted --gguf F16 --adapter -o adapter.gguf --name mine
reprise inspect adapter.gguf 2>/dev/null | head -n 12
#> model          run/final
#> tensors        38: 38 F32
#> written        run.gguf: 835 KiB
#> model          run/final
#> tensors        38: 1 Q8_0, 9 F32, 28 Q4_0
#> note           token_embd.weight: Q8_0 instead of Q4_0: the output loses most in 4 bits
#> written        small.gguf: 130372 bytes (127.32 KiB)
#> config
#>   general.architecture                             "llama"
#>   general.type                                     "model"
#>   general.name                                     "run"
#>   llama.block_count                                4
#>   llama.context_length                             512
#>   llama.embedding_length                           64
#>   llama.feed_forward_length                        192
#>   llama.attention.head_count                       4
#>   llama.attention.head_count_kv                    2
#>   llama.rope.freq_base                             10000.0
#>   llama.attention.layer_norm_rms_epsilon           9.99999975e-6
#>   llama.attention.key_length                       16
#>   llama.attention.value_length                     16
#>   llama.vocab_size                                 257
#>   llama.rope.dimension_count                       16
#>   general.file_type                                0
#>   general.quantization_version                     2
#>   tokenizer.ggml.model                             "gpt2"
#>   tokenizer.ggml.pre                               "gpt-2"
#>   tokenizer.ggml.tokens                            {"count": 257}
#>   tokenizer.ggml.token_type                        {"count": 257}
#>   tokenizer.ggml.merges                            []
#>   tokenizer.ggml.bos_token_id                      256
#>   tokenizer.ggml.eos_token_id                      256
#>   tokenizer.ggml.add_bos_token                     false
#>
#> tokenizer
#>   257 ids, bos 256, eos 256, bos not added before a document
#>
#> tensors
#> the same score
#> model          run.gguf
#> tensors        38: 38 F32; 38 copied as bytes
#> written        copy.gguf: 835 KiB
#> the same file
#> model          adapted/final
#> tensors        38: 38 F32
#> written        merged.gguf: 835 KiB
#> model          adapted/final
#> tensors        16: 16 F16
#> written        adapter.gguf: 3.50 KiB
#> adapter.gguf: gguf, 16 tensors, 1792 parameters, 3.50 KiB
#>
#> config
#>   general.architecture                             "llama"
#>   general.type                                     "adapter"
#>   general.name                                     "mine"
#>   adapter.type                                     "lora"
#>   adapter.lora.alpha                               4.0
#>
#> tensors
#>   blk.0.attn_q.weight.lora_a                       F16   [2, 64]
#>   blk.0.attn_q.weight.lora_b                       F16   [64, 2]
