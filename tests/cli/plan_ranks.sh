# ctest: long
# A plan of several ranks is made on one machine, from shipped shapes; a copied recipe finds them, too. Bytes depend on the machine: they are
# compared, not shown.
reprise cp llama3_8b_full_distributed mine.yaml 2>/dev/null
for config in llama3_8b_full_distributed mine.yaml; do reprise plan $config --device rtx4090 --json >$config.json || echo "exit $?"; done
python3 - <<'PYTHON'
import json
a, b = (json.load(open(f"{name}.json")) for name in ("llama3_8b_full_distributed", "mine.yaml"))
for each in a, b: each.pop("solve_seconds")
print(a == b, a["units"])
print(a["feasible"], a["reserved_bytes"] <= a["budget_bytes"] == 24000000000, a["comm_bytes"] > 0, 0 < a["comm_seconds"] < a["step_seconds"])
print([r["rank"] for r in a["ranks"]], all(r["fits"] for r in a["ranks"]))
print(all(r["peak_bytes"] == a["peak_bytes"] == sum(r["by_class"].values()) and r["reserved_bytes"] == a["reserved_bytes"] for r in a["ranks"]))
PYTHON
reprise plan llama3_8b_full_distributed --device rtx4090 max_seq_len=64 dist.ranks=2 2>err | grep -E '^(does|ranks)' | sed 's/  *a budget.*//'
sed 's/[0-9]\{9,\} bytes ([^)]*)/BYTES/g; s/, for the .*: raise/, for …: raise/' err
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json threads=1 dist.ranks=2 batch_size=2
reprise plan "$@" --find memory_budget=9MB | sed -n '1s/^[0-9]* of [0-9]* settings fit/… fit/p; 3p; s/^\(the first\).*/\1/p'
reprise plan "$@" --find memory_budget=9MB --json | grep -o '"ranks": [12]' | sort -u
reprise plan "$@" --find memory_budget=9KB 2>err
echo "exit $?"
sed 's/[0-9]\{6,\} bytes ([^)]*)/BYTES/' err
reprise plan "$@" --find
echo "exit $?"
reprise plan "$@" dist.modules_to_wrap='[layers.*.mpl]' dist.custom_sharded_layers='[outputs]'
echo "exit $?"
reprise plan "$@" dist.custom_sharded_layers='[layers]'
echo "exit $?"
reprise plan "$@" --device 'flops=1T, bandwidth=1T'
echo "exit $?"
reprise plan "$@" dist.ranks=1 dist.replicate_dim=3 dist.prefetch=2 dist.sync_each_batch=true >/dev/null
echo "exit $?"
set -- llama3_8b_full_distributed memory_budget=null max_seq_len=64 'model.overrides={num_hidden_layers: 1}'
for device in rtx4090 'h100, node=2' 'flops=1T, bandwidth=1T, link=10GB/s'; do reprise plan "$@" --device "$device" | grep ^links; done
#> True 35 units: tok_embeddings; every TransformerBlock (32); output; and the rest (norm)
#> True True True True
#> [0, 1, 2, 3] True
#> True
#> does not fit
#> ranks          2, each with these figures; 35 units: tok_embeddings; every TransformerBlock (32); output; and the rest (norm)
#> reprise plan: no plan fits a memory budget of BYTES; the least budget that fits is BYTES, BYTES of it for weights, gradients and optimizer states: raise 'memory_budget' or 'dist.ranks', or set 'dist.state_offload' or 'lora.rank'
#> … fit 8.58 MiB a rank, each with 4 samples a step
#> ranks  copies  batch  accumulation  own units  reshard  behind          reserved   overhead     step, s  tokens/s
#> the first
#> "ranks": 2
#> exit 3
#> reprise plan: no setting fits a memory budget of 9000 bytes (8.79 KiB); the least budget that fits is BYTES, with dist.ranks=2 batch_size=1 'dist.custom_sharded_layers=[tok_embeddings, output]': raise 'memory_budget' or 'dist.ranks', or lower 'max_seq_len'
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 0
#> links          25.6 GB/s for each rank, all in one node, 2 us a message: assumed, not measured
#> links          360 GB/s for each of the 2 ranks of a node, 40 GB/s for each between nodes, 2 us a message: assumed, not measured
#> links          8 GB/s for each rank, as if all were in one node, 2 us a message: assumed, not measured
#2> reprise plan: no memory budget to fit: set 'memory_budget' or 'memory_limit' (per rank), or name a device with memory
#2> argument 'dist.custom_sharded_layers=[outputs]': 'dist.custom_sharded_layers': no module matches 'outputs' (did you mean 'output'?)
#2> argument 'dist.modules_to_wrap=[layers.*.mpl]': 'dist.modules_to_wrap': no module matches 'layers.*.mpl'
#2> argument 'dist.custom_sharded_layers=[layers]': 'dist.custom_sharded_layers': 'layers' is a list of modules, which has no forward; name its members: 'layers.*'
#2> reprise plan: device 'flops=1T, bandwidth=1T': link is missing: set the bytes per second that each of 2 ranks sends, such as link=25GB/s
#2> argument 'dist.prefetch=2': note: 'dist.prefetch' has no effect: there is one rank
#2> argument 'dist.replicate_dim=3': note: 'dist.replicate_dim' has no effect: there is one rank
