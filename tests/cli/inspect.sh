cd "$SOURCE"
reprise inspect tests/io/golden/dtypes.safetensors
reprise inspect tests/io/golden/types.gguf | head -24
reprise inspect recipes/tiny_llama
