# A graph of our own step has the plan of the recipe: peak, bounds and least budget. Its plan evaluates to the same figures. A graph does not place
# its values, and the arena of a plan may be larger than its live bytes; so near the least budget, the recipe's plan may be slightly slower.
# ctest: long
cat >experts.json <<JSON
{"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 300, "max_position_embeddings": 128, "rms_norm_eps": 1e-6,
 "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": false, "num_experts": 4, "num_experts_per_tok": 2,
 "moe_intermediate_size": 32, "norm_topk_prob": true}
JSON
cat >compare.py <<'PYTHON'
import json, os, subprocess, sys
def reprise(*arguments):
    done = subprocess.run(["reprise", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"reprise {' '.join(arguments)}: {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)
name, recipe = sys.argv[1], sys.argv[2:]
whole = reprise("plan", *recipe, "memory_budget=1000TB", "--json")
least, most, parts = whole["least_budget_bytes"], whole["reserved_bytes"], 2 if os.environ.get("REPRISE_TEST_FEW") else 5
for part in range(parts):
    budget = f"memory_budget={least + (most - least) * part // parts}"
    own = reprise("plan", *recipe, budget, "--json")
    reprise("explain", *recipe, budget, "--graph", "-o", "g.json", "--json")
    graph = reprise("plan", "--graph", "g.json", "-o", "p.json", "--json")
    again = reprise("plan", "--graph", "g.json", "--evaluate", "p.json", "--json")
    for key in ("peak_bytes", "step_seconds", "offloaded_bytes", "passes", "overhead_lower_bound"):
        if again[key] != graph[key]:
            print(name, budget, "evaluated", key, again[key], graph[key])
    for key, mine in (("live_bound_bytes", "peak_bytes"), ("least_budget_bytes", "least_budget_bytes")):
        if own[key] != graph[mine]:
            print(name, budget, key, own[key], graph[mine])
    for key, slower in (("step_seconds", 1e-3 if part == 0 else 0), ("overhead_lower_bound", 0), ("overhead_lower_bound_blocks", 0)):
        if not -1e-9 <= (own[key] - graph[key]) / own["step_seconds"] <= slower + 1e-9:
            print(name, budget, key, own[key], graph[key])
print(name)
PYTHON
set -- threads=2
python3 compare.py tiny tiny_from_scratch "$@"
python3 compare.py 'three micro-batches in bf16' tiny_from_scratch gradient_accumulation_steps=3 dtype=bf16 "$@"
python3 compare.py experts tiny_from_scratch model.config=experts.json "$@"
python3 compare.py adapters smollm2_135m_lora '~enable_activation_checkpointing' "$@"
python3 compare.py smollm2 smollm2_135m_budget "$@"
python3 compare.py 'a rule that keeps' tiny_from_scratch 'activation_checkpointing.rules=[{op: attention, fate: keep}]' "$@"
python3 compare.py 'offloading' tiny_from_scratch 'activation_checkpointing.rules=[{op: swiglu, fate: offload}]' \
    activation_checkpointing.offload.to=disk activation_checkpointing.offload.path=away "$@"
# A budget that no plan fits is exit code 3; a wrong command line, graph or plan is exit code 2.
cat >g.json <<JSON
{"reprise_graph": 1, "budget_bytes": 90, "passes": [{"inputs": ["x"], "fixed_bytes": 10, "calls": [
 {"reads": ["x"], "makes": [{"name": "a", "bytes": 50}], "backward_reads": ["a"], "forward_seconds": 1},
 {"reads": ["a"], "makes": [{"name": "b", "bytes": 20}], "backward_reads": ["b"], "forward_seconds": 1},
 {"reads": ["b"], "makes": [{"name": "c", "bytes": 5}], "forward_seconds": 1}]}]}
JSON
echo '{"reprise_graph_plan": 1, "passes": [{"fates": {"a": "recompute"}}]}' >a.json
echo '{"reprise_graph_plan": 1, "passes": [{"fates": {"y": "recompute"}}]}' >y.json
try() {
    reprise "$@"
    echo "exit $?"
}
try plan --graph g.json --bytes
try plan --graph g.json --bytes memory_budget=80
try plan --graph g.json --bytes memory_budget=79 | tail -1
try plan --graph g.json --bytes --evaluate a.json memory_budget=70
try plan --graph g.json --bytes --evaluate a.json -o out.json
grep -c peak_bytes out.json
try plan --graph g.json --evaluate y.json
try plan --graph g.json --evaluate absent.json
try plan --graph g.json memory_budget=much
try plan --graph g.json max_seq_len=3
try plan --graph a.json
try plan tiny_from_scratch --evaluate a.json
try explain tiny_from_scratch --graph
try explain tiny_from_scratch -o g.json
#> tiny
#> three micro-batches in bf16
#> experts
#> adapters
#> smollm2
#> a rule that keeps
#> offloading
#> fits           peak 85 bytes of 90 bytes
#> least budget   80 bytes, at least 60 bytes for every schedule
#> time           3 s a step
#> overhead       0.00 % over a step that keeps everything
#> bounds         at least 0.00 % for every plan of blocks, 0.00 % for every schedule
#> calls          3, 0 of them recomputed alone, 0 regions
#> exit 0
#> fits           peak 80 bytes of 80 bytes
#> least budget   80 bytes, at least 60 bytes for every schedule
#> time           4 s a step
#> overhead       33.33 % over a step that keeps everything: recomputing
#> bounds         at least 0.00 % for every plan of blocks, 0.00 % for every schedule
#> calls          3, 1 of them recomputed alone, 0 regions
#> exit 0
#> exit 3
#> does not fit   peak 80 bytes of 70 bytes
#> least budget   at least 60 bytes for every schedule
#> time           4 s a step
#> overhead       33.33 % over a step that keeps everything: recomputing
#> bounds         at least 0.00 % for every plan of blocks, 0.00 % for every schedule
#> calls          3, 1 of them recomputed alone, 0 regions
#> exit 3
#> fits           peak 80 bytes of 90 bytes
#> least budget   at least 60 bytes for every schedule
#> time           4 s a step
#> overhead       33.33 % over a step that keeps everything: recomputing
#> bounds         at least 0.00 % for every plan of blocks, 0.00 % for every schedule
#> calls          3, 1 of them recomputed alone, 0 regions
#> exit 0
#> 1
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#2> reprise plan: no plan fits a memory budget of 79 bytes; the least budget that fits is 80 bytes
#2> reprise plan: plan 'a.json' needs 80 bytes, more than the memory budget of 70 bytes
#2> reprise plan: plan 'y.json' is not valid for the graph: pass 0, value 'y' is not in the graph
#2> reprise plan: cannot open 'absent.json': No such file or directory
#2> reprise plan: 'memory_budget' must be a size such as '1700MB', not 'much'
#2> reprise plan: 'max_seq_len=3' has no effect on a graph: only 'memory_budget' can be set
#2> reprise plan: graph 'a.json': 'reprise_graph' is missing: the file is no graph
#2> reprise plan: option '--evaluate' needs '--graph': it evaluates a plan of a graph
#2> reprise explain: an option is missing: --output FILE
#2> try 'reprise explain --help'
#2> reprise explain: option '--output' needs '--graph': it names the file of the graph
