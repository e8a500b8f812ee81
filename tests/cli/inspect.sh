cd "$SOURCE"
reprise inspect tests/io/golden/dtypes.safetensors
reprise inspect tests/io/golden/types.gguf | head -24
reprise inspect recipes/tiny_llama
#> tests/io/golden/dtypes.safetensors: safetensors, 18 tensors, 2321 parameters, 4.09 KiB
#>
#> tensors
#>   bf16                                             BF16  [6]
#>   bool                                             BOOL  [3]
#>   empty                                            F32   [2, 0, 3]
#>   f16                                              F16   [1772]
#>   f32                                              F32   [2, 1, 1]
#>   f64                                              F64   [3]
#>   f8_e4m3                                          F8_E4M3 [256]
#>   f8_e5m2                                          F8_E5M2 [256]
#>   i16                                              I16   [2]
#>   i32                                              I32   [2, 2]
#>   i64                                              I64   [3]
#>   i8                                               I8    [3]
#>   naïve.名前                                    F32   [1]
#>   scalar                                           F32   []
#>   u16                                              U16   [2]
#>   u32                                              U32   [2]
#>   u64                                              U64   [2]
#>   u8                                               U8    [3]
#> tests/io/golden/types.gguf: gguf, 31 tensors, 25136 parameters, 13.7 KiB
#>
#> config
#>   general.architecture                             "llama"
#>   a.uint8                                          255
#>   a.int8                                           -128
#>   a.uint16                                         65535
#>   a.int16                                          -32768
#>   a.uint32                                         4294967295
#>   a.int32                                          -2147483648
#>   a.uint64                                         9223372036854775807
#>   a.int64                                          -9223372036854775808
#>   a.float32                                        1.5
#>   a.float64                                        0.1
#>   a.bool                                           true
#>   a.string                                         "grün"
#>   a.strings                                        ["", "one", "Ġtwo", "three\n"]
#>   a.ints                                           [1, -2, 3]
#>   a.floats                                         [0.5, -1.25]
#>   a.bools                                          [true, false, true]
#>
#> tensors
#>   bits.Q4_0                                        Q4_0  [3, 64]
#>   values.Q4_0                                      Q4_0  [3, 64]
#> recipes/tiny_llama: safetensors, 0 tensors, 0 parameters, 0 bytes
#>
#> config
#>   architectures                                    ["LlamaForCausalLM"]
#>   model_type                                       "llama"
#>   hidden_size                                      64
#>   intermediate_size                                192
#>   num_hidden_layers                                4
#>   num_attention_heads                              4
#>   num_key_value_heads                              2
#>   head_dim                                         16
#>   vocab_size                                       257
#>   max_position_embeddings                          512
#>   rms_norm_eps                                     1e-5
#>   rope_theta                                       10000.0
#>   initializer_range                                0.02
#>   hidden_act                                       "silu"
#>   attention_bias                                   false
#>   mlp_bias                                         false
#>   tie_word_embeddings                              true
#>   bos_token_id                                     256
#>   eos_token_id                                     256
#>
#> tokenizer
#>   257 ids, bos 256, eos 256, bos not added before a document
#2> reprise inspect: no tokenizer: cannot read 'tests/io/golden/types.gguf': it has no tokenizer (tokenizer.ggml.model)
#2> reprise inspect: no tensors: cannot find a .safetensors file in 'recipes/tiny_llama'
