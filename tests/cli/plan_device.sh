# What a device has is the budget, unless the recipe names less or an argument another one. What the recipe says is read all the same.
printf '%s\n' "model: {config: $SOURCE/recipes/tiny_llama/config.json}" 'memory_budget: 40MB' 'max_seq_len: 16' >recipe.yaml
budget() { reprise plan recipe.yaml --json "$@" | sed 's/.*"budget_bytes": *\([0-9a-z]*\).*/\1/'; }
budget
budget --device h100
budget --device h100,memory=30MB
budget --device h100 memory_budget=50MB
budget --device h100 '~memory_budget'
budget --device h100 memory_budget=null
sed 's/40MB/40XB/' recipe.yaml >wrong.yaml
reprise plan wrong.yaml --device h100
reprise plan recipe.yaml --device h100 seeds=3

# The bytes of a GPU are those of its kernels, on which all cards agree, and of a run there.
awk 'BEGIN { for (i = 0; i < 200; i++) printf "words and %d numbers\n", i }' >text.txt
set -- tiny_from_scratch dataset.path=text.txt max_seq_len=16 batch_size=2 max_steps=3 threads=1
number() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" | head -1; }
same_bytes() {
    reprise train "$@" device=emu output_dir=run 2>/dev/null
    for device in h100 rtx4090 a100-40gb,bandwidth=1T; do
        [ "$(number peak_memory_reserved <run/metrics.jsonl)" = "$(reprise plan "$@" --device $device --json | number reserved_bytes)" ] || echo "$device: other bytes"
    done
    rm -r run
}
same_bytes "$@"
same_bytes "$@" dtype=bf16 enable_activation_checkpointing=true
same_bytes "$@" max_seq_len=64 batch_size=4 memory_budget=5MB
same_bytes "$@" dtype=bf16 'activation_checkpointing.rules=[{op: matmul, every: 2, fate: offload}]' activation_checkpointing.offload.to=memory
for device in h100 'flops=1T, bandwidth=1T'; do reprise plan "$@" --device "$device" --json | grep -o '"estimated": [a-z]*'; done
reprise plan "$@" --device h100 device=cpu --json | grep -o '"estimated": [a-z]*'
for device in emu cuda; do reprise plan "$@" device=$device --json | number reserved_bytes; done | uniq | wc -l
CUDA_VISIBLE_DEVICES= reprise plan "$@" device=cuda memory_budget=auto
reprise plan "$@" memory_budget=auto --device h100 --json | number budget_bytes
CUDA_VISIBLE_DEVICES= reprise train "$@" device=cuda output_dir=run 2>&1 | sed 's/cannot be used: .*/cannot be used/'
reprise train "$@" device=emu output_dir=run 2>&1 | grep '^device'
#> 40000000
#> 40000000
#> 30000000
#> 50000000
#> 80000000000
#> null
#> "estimated": false
#> "estimated": true
#> "estimated": true
#> 1
#> 80000000000
#> reprise train: note: device 'cuda' is experimental: one model of card has run it, and several ranks never ran on hardware
#> reprise train: device 'cuda' cannot be used
#> device         emulated GPU, compute capability 9.0, driver for CUDA 13.0; the driver and other programs hold 0 bytes of 17179869184 bytes (16.00 GiB)
#2> wrong.yaml:2: 'memory_budget' wants null, auto, or a size: bytes, or a number with KB, MB, GB, KiB, MiB or GiB, not '40XB'
#2> argument 'seeds=3': unknown key 'seeds' (did you mean 'seed'?)
#2> reprise plan: 'memory_budget' auto is the memory that the GPU has left, and this machine has none: set a size, or name a GPU with --device
