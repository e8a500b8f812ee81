# Where weights, gradients and states alone are more than a budget, what is advised makes those smaller.
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json max_seq_len=16 batch_size=2 threads=1
advice() { reprise plan "$@" 2>&1 >/dev/null | sed 's/.*\(raise .*\)/\1/'; }
advice "$@" memory_budget=2MB
advice "$@" memory_budget=2MB '~clip_grad_norm' optimizer.state_dtype=bf16
advice "$@" memory_budget=1MB optimizer.name=sgd
advice "$@" memory_budget=1MB optimizer.name=sgd dtype=bf16 optimizer.master_weights=true
# Where they are not, what is computed.
advice "$@" memory_budget=3600000
reprise plan "$@" memory_budget=2MB 2>&1 >/dev/null | grep -o '[0-9]* bytes ([^)]*) of it for [a-z, ]*'
# What does not fit is shown as the plan that would, with its time, and says so.
reprise plan "$@" enable_activation_checkpointing=false memory_budget=2MB 2>/dev/null |
    sed -n "1,2s| [0-9.]* [KM]iB| SIZE|; 1,2p; s|^time  *[0-9.]* s a step.*|time …|p; s|^peak [0-9].*|peak …|p"
#> raise 'memory_budget', or set 'optimizer.state_dtype: bf16', 'dist.state_offload' or 'lora.rank'
#> raise 'memory_budget', or set 'optimizer_in_bwd', 'dist.state_offload' or 'lora.rank'
#> raise 'memory_budget', or set 'lora.rank'
#> raise 'memory_budget', or set 'dist.state_offload' or 'lora.rank'
#> raise 'memory_budget', or lower 'batch_size' or 'max_seq_len'
#> 3385088 bytes (3.23 MiB) of it for weights, gradients and optimizer states
#> does not fit   a budget of SIZE
#> least budget   SIZE; the plan for it:
#> time …
#> peak …
