# exit: 2
# final_format: gguf also writes the model as one GGUF file, which scores a text as final/ does. An adapter is merged into it; that of a GGUF file into
# a copy, whose other tensors keep their bytes.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
run() { reprise train "$@" dataset.path=text max_seq_len=16 batch_size=2 max_steps=2 threads=1 final_format=gguf optimizer.lr=0.1 2>&1 >/dev/null | grep 'llama.cpp'; }
score() { reprise eval "$1" --data text threads=1; }
same() { [ "$(score "$1/final")" = "$(score "$1/final.gguf")" ] && echo 'the same score'; }
lora='~model.config lora.rank=2 lora.alpha=4'
run tiny_from_scratch output_dir=run
same run
run tiny_from_scratch output_dir=adapted model.path=run/final $lora
same adapted
reprise export run --gguf F16 -o base.gguf >/dev/null
run tiny_from_scratch output_dir=again model.path=base.gguf $lora
reprise export again --gguf keep -o kept.gguf >/dev/null && cmp again/final.gguf kept.gguf && echo 'as export writes it'
reprise inspect again/final.gguf | grep -E 'general.name|attn_q|attn_k'
rm -r run/config.yaml run/metrics.jsonl run/state run/final
reprise train tiny_from_scratch dataset.path=text output_dir=run max_steps=1 max_seq_len=16 batch_size=2 threads=1
#> the model is in 'run/final', and for llama.cpp in final.gguf
#> the same score
#> the model is in 'adapted/final', and for llama.cpp in final.gguf
#> the same score
#> the model is in 'again/final', and for llama.cpp in final.gguf
#> as export writes it
#>   general.name                                     "run"
#>   blk.0.attn_q.weight                              F16   [64, 64]
#>   blk.0.attn_k.weight                              F16   [32, 64]
#>   blk.1.attn_q.weight                              F16   [64, 64]
#>   blk.1.attn_k.weight                              F16   [32, 64]
#>   blk.2.attn_q.weight                              F16   [64, 64]
#>   blk.2.attn_k.weight                              F16   [32, 64]
#>   blk.3.attn_q.weight                              F16   [64, 64]
#>   blk.3.attn_k.weight                              F16   [32, 64]
#2> argument 'output_dir=run': output_dir 'run' contains a run already (final.gguf): continue it with resume=auto, or choose another output_dir
