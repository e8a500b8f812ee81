# Figures differ from machine to machine and are not shown: which rows there are, that all are above 0, and what the file is.
# ctest: threads long
export REPRISE_COSTS=$PWD/new/costs.json
reprise calibrate --quick --threads 1 >rows 2>said || cat said
sed "s/.* measured in [0-9]* s, quickly: '/… '/; s|$PWD|.|" said
grep -E '^(matmul|add|others)' rows | cut -c 1-36
ls new
python3 - <<'PYTHON'
import json
table = json.load(open("new/costs.json"))
print(list(table))
print(table["format"], table["threads"], table["measured"], table["offload"] > 0, all(x > 0 for x in table["update"].values()))
rows = table["rows"]
print(len(rows) == sum(1 for _ in open("rows")), all(r["overhead"] >= 0 and r["rate"] > 0 and r["bandwidth"] > 0 for r in rows))
print(all(line.startswith('  {"op": ') for line in open("new/costs.json") if '"pass"' in line))
PYTHON
#> … './new/costs.json'
#> matmul                fp32  forward 
#> matmul                fp32  backward
#> matmul                bf16  forward 
#> matmul                bf16  backward
#> matmul                fp64  forward 
#> matmul                fp64  backward
#> add                   fp32  forward 
#> add                   fp32  backward
#> add                   bf16  forward 
#> add                   bf16  backward
#> add                   fp64  forward 
#> add                   fp64  backward
#> others                fp32  forward 
#> others                fp32  backward
#> others                bf16  forward 
#> others                bf16  backward
#> others                fp64  forward 
#> others                fp64  backward
#> costs.json
#> ['format', 'reprise', 'cpu', 'level', 'isa', 'fp32_products', 'bf16_products', 'threads', 'measured', 'update', 'offload', 'cache', 'near', 'rows', 'hash']
#> 1 1 quick True True
#> True True
#> True
