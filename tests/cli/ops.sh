reprise ops | cut -c 1-63 | sed 's/ *$//'
reprise ops --json | python3 -c '
import json, sys
ops = json.load(sys.stdin)
print([o["name"] for o in ops if not o["kernels"] or "base" not in o["levels"]])
print(json.dumps(next(o for o in ops if o["name"] == "rmsnorm") | {"levels": []}))
'
#> op                    in  out  slots  backward reads
#> matmul                3   1    0      in 0 1
#> batched_matmul        2   1    0      in 0 1
#> rmsnorm               2   1    1      in 0 1, slot 0
#> attention             4   1    1      in 0 1 2 3, out 0, slot 0
#> add                   2   1    0      -
#> mul                   2   1    0      in 0 1
#> sub                   2   1    0      -
#> div                   2   1    0      in 0 1
#> where                 3   1    0      in 0
#> scale                 1   1    0      -
#> gelu                  1   1    0      in 0
#> silu                  1   1    0      in 0
#> relu                  1   1    0      out 0
#> relu2                 1   1    0      out 0
#> tanh                  1   1    0      out 0
#> sigmoid               1   1    0      out 0
#> exp                   1   1    0      out 0
#> log                   1   1    0      in 0
#> swiglu                2   1    0      in 0 1
#> dropout               1   1    0      -
#> cast                  1   1    0      -
#> concat                8   1    0      -
#> split                 1   8    0      -
#> sum                   1   1    0      -
#> mean                  1   1    0      -
#> max                   1   1    1      slot 0
#> softmax               1   1    0      out 0
#> softcap               1   1    0      in 0
#> layernorm             3   1    2      in 0 1, slot 0 1
#> batch_norm            5   1    2      in 0 1 3 4, slot 0 1
#> weight_norm           3   1    0      -
#> magnitude             4   1    0      in 0 1 2
#> embedding             2   1    0      in 1
#> gather                2   1    0      in 1
#> rotary                4   1    0      in 1 2 3
#> route                 1   2    0      in 0, out 0 1
#> spread                2   1    0      in 1
#> grouped_matmul        3   1    0      in 0 1 2
#> combine               3   1    0      in 0 1 2
#> expert_load           3   1    0      in 0 2
#> mse                   2   1    0      in 0 1
#> cross_entropy         2   1    1      in 0 1, slot 0
#> linear_cross_entropy  4   1    2      in 0 1 2 3, slot 0 1
#> balance_loss          3   1    0      in 1 2
#> all_gather            2   1    0      -
#> all_gather_far        1   1    0      -
#> reduce_scatter        1   1    0      -
#> ['batch_norm', 'balance_loss', 'all_gather', 'all_gather_far', 'reduce_scatter']
#> {"name": "rmsnorm", "inputs": 2, "outputs": 1, "slots": 1, "needs": {"in": [0, 1], "out": [], "slot": [0]}, "flags": [], "gradient": true, "kernels": ["rmsnorm_forward", "rmsnorm_backward_scratch", "rmsnorm_backward"], "levels": []}
