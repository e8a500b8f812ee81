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
