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
