reprise ops | cut -c 1-63 | sed 's/ *$//'
reprise ops --json | python3 -c '
import json, sys
ops = json.load(sys.stdin)
print([o["name"] for o in ops if not o["kernels"] or "base" not in o["levels"]])
print(json.dumps(next(o for o in ops if o["name"] == "rmsnorm") | {"levels": []}))
'
