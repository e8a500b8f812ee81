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
