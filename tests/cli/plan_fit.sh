# Each way to train that is listed fits in the bytes that it names, as `plan` of the same settings says; the recipe's own way is marked.
set -- tiny_from_scratch ~model.config model.path=later model.stand_in=tiny_llama tokenizer.path=null max_seq_len=128 batch_size=4 threads=1 optimizer.state_dtype=fp32
reprise plan "$@" memory_budget=64MB --fit | sed 's/  *[0-9.]* MiB  *[0-9.]* %  *[0-9.]*  *[0-9]*/  ···/; s/table of .*/table/'
reprise plan "$@" memory_budget=9MB --fit --json >ways.json
python3 - "$@" <<'END'
import json, subprocess, sys
ways = json.load(open("ways.json"))
for w in ways["ways"]:
    keys = [f"{k}={w[k]}" for k in ("max_seq_len", "batch_size", "gradient_accumulation_steps")] + [f"optimizer.state_dtype={w['state_dtype']}"]
    keys += [f"lora.rank={w['lora_rank']}"] if w["lora_rank"] else []
    keys += [f"model.quantize={w['quantize']}"] if w["quantize"] else []
    done = subprocess.run(["reprise", "plan", *sys.argv[1:], *keys, "activation_checkpointing.mode=auto", "memory_budget=9MB", "--json"], capture_output=True, text=True)
    f = json.loads(done.stdout)
    if (f["reserved_bytes"], f["step_seconds"]) != (w["reserved_bytes"], w["step_seconds"]): print(keys, w, f["reserved_bytes"], f["step_seconds"])
print("all ways checked" if len(ways["ways"]) > 4 else ways)
END
reprise plan "$@" --fit
echo "without a budget: $?"
reprise plan "$@" --fit memory_budget=300KB
echo "too little: $?"
reprise plan "$@" --fit --find memory_budget=9MB >/dev/null
echo "two searches: $?"
#> 36 ways to train fit 61.0 MiB
#>
#> trained       states  length  batch  accumulation          reserved   overhead     step, s  tokens/s
#> all weights     bf16     512      4             1  ···
#> all weights     fp32     512      4             1  ···
#> all weights     int8     512      4             1  ···
#> all weights     bf16     256      4             1  ···
#> all weights     fp32     256      4             1  ···
#> all weights     int8     256      4             1  ···
#> all weights     bf16     128      4             1  ···
#> all weights     fp32     128      4             1  ···  as in the recipe
#> all weights     int8     128      4             1  ···
#> LoRA            bf16     512      4             1  ···
#> LoRA            fp32     512      4             1  ···
#> LoRA            int8     512      4             1  ···
#> LoRA on q8_0    bf16     512      4             1  ···
#> LoRA on nf4     bf16     512      4             1  ···
#> LoRA on q8_0    fp32     512      4             1  ···
#> LoRA on nf4     fp32     512      4             1  ···
#> LoRA on q8_0    int8     512      4             1  ···
#> LoRA on nf4     int8     512      4             1  ···
#> LoRA            bf16     256      4             1  ···
#> LoRA            fp32     256      4             1  ···
#> LoRA            int8     256      4             1  ···
#> LoRA on q8_0    bf16     256      4             1  ···
#> LoRA on nf4     bf16     256      4             1  ···
#> LoRA on q8_0    fp32     256      4             1  ···
#> LoRA on nf4     fp32     256      4             1  ···
#> LoRA on q8_0    int8     256      4             1  ···
#> LoRA on nf4     int8     256      4             1  ···
#> LoRA            bf16     128      4             1  ···
#> LoRA            fp32     128      4             1  ···
#> LoRA            int8     128      4             1  ···
#> LoRA on q8_0    bf16     128      4             1  ···
#> LoRA on nf4     bf16     128      4             1  ···
#> LoRA on q8_0    fp32     128      4             1  ···
#> LoRA on nf4     fp32     128      4             1  ···
#> LoRA on q8_0    int8     128      4             1  ···
#> LoRA on nf4     int8     128      4             1  ···
#>
#> the first: optimizer.state_dtype=bf16 max_seq_len=512 batch_size=4 gradient_accumulation_steps=1 activation_checkpointing.mode=auto memory_budget=64000000
#> time by the built-in table
#> all ways checked
#> without a budget: 2
#> too little: 3
#> two searches: 2
#2> reprise plan: note: 'later' is not there: the shapes are those of 'tiny_llama'
#2> reprise plan: note: 'later' is not there: the shapes are those of 'tiny_llama'
#2> reprise plan: note: 'later' is not there: the shapes are those of 'tiny_llama'
#2> reprise plan: no memory budget to fit: set 'memory_budget' or 'memory_limit', or name a device with memory
#2> reprise plan: note: 'later' is not there: the shapes are those of 'tiny_llama'
#2> reprise plan: no way to train this model fits a memory budget of 300000 bytes (292.97 KiB): 'reprise plan' prints the least budget
#2> reprise plan: '--find', '--fit' and '--output' exclude one another
