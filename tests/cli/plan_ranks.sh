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
