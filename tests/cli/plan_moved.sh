# Bytes that leave memory in a step are printed with their price; a speed that nobody has measured is marked as a guess.
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json max_seq_len=16 batch_size=2 threads=1
goes="activation_checkpointing.rules=[{op: '*', fate: offload}]"
moved() { reprise plan "$@" | grep '^offloaded\|^states' || echo "nothing moves"; }
moved "$@"
moved "$@" "$goes" dist.state_offload=true --device flops=1T,bandwidth=100G
moved "$@" "$goes" dist.state_offload=true --device flops=1T,bandwidth=100G,offload=1G
moved "$@" "activation_checkpointing.rules=[{op: '*', fate: prefer_offload}]" memory_budget=1GB
moved "$@" dist.state_offload=true | sed 's/: [0-9.]* s,/: … s,/'
reprise plan "$@" "$goes" --device flops=1T,bandwidth=100G --json | sed 's/.*"hidden_seconds"//' |
    grep -o '"\(offloaded_bytes\|state_offload_bytes\|offload_bandwidth\|offload_guessed\)": [^,}]*'
#> nothing moves
#> offloaded      531 KiB of activations are written and read each step: 0.000 s, at 0.5 GB/s, a guess: set 'offload=' in --device
#> states         1.63 MiB of optimizer states are read and written each step: 0.007 s, at 0.5 GB/s, a guess: set 'offload=' in --device
#> offloaded      531 KiB of activations are written and read each step: 0.000 s, at 0.8 GB/s
#> states         1.63 MiB of optimizer states are read and written each step: 0.004 s, at 0.8 GB/s
#> nothing moves
#> states         1.63 MiB of optimizer states are read and written each step: … s, at 0.5 GB/s, a guess: 'reprise calibrate' measures it
#> "offloaded_bytes": 544000
#> "state_offload_bytes": 0
#> "offload_bandwidth": 500000000.0
#> "offload_guessed": true
