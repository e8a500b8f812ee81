# How fast anything is depends on the machine: shown are names, shapes of the output, and what is refused.
# ctest: threads
reprise bench --list | sed -n '1p; s/:.*//p' | uniq -c
reprise bench rmsnorm:1024x576:bf16 --rounds 2 >out
awk '/^rmsnorm/ { print $1, $NF } /^ceilings/ { print $1 }' out
reprise bench step:tiny:32x2:fp32:none add:1024x576:fp32 --rounds 1 --threads 1 --json | python3 -c '
import json, sys
all = json.loads(sys.stdin.read())
print(sorted(all), all["threads"], sorted(all["ceilings"]))
for row in all["benches"]:
    print(row["name"], row["rounds"], sorted(row), row["seconds"]["low"] <= row["seconds"]["median"] <= row["seconds"]["high"])'
# Every level that runs here has a part of its own with its ceilings.
reprise bench rmsnorm:1024x576:fp32:forward --levels --rounds 1 >levels
awk '/, level / { levels++ } /:fp32:forward / { rows++ } /^ceilings/ { ceilings++ } END { print (levels >= 1 && rows == levels && ceilings == levels ? "a row and ceilings for each level" : "no") }' levels
#>       1 matmul:1024x576x576:fp32:forward
#>      48 matmul
#>      16 attention
#>       4 linear_cross_entropy
#>       4 embedding
#>       4 rmsnorm
#>       4 layernorm
#>       4 swiglu
#>       4 gelu
#>       4 rotary
#>       2 add
#>       4 dropout
#>       4 adamw
#>       2 sgd
#>      16 step
#> rmsnorm:1024x576:bf16:forward 2
#> rmsnorm:1024x576:bf16:backward 2
#> ceilings,
#> ['benches', 'ceilings', 'machine', 'threads', 'version'] 1 ['bf16', 'fp32', 'memory']
#> add:1024x576:fp32:forward 1 ['bytes', 'ceiling', 'flops', 'gbs', 'gflops', 'level', 'name', 'rounds', 'seconds', 'share'] True
#> step:tiny:32x2:fp32:none 1 ['bytes', 'ceiling', 'flops', 'gflops', 'level', 'name', 'products', 'rounds', 'seconds', 'share', 'tokens_per_second'] True
#> a row and ceilings for each level
