# exit: 2
# Moments in 8 bits take a byte an element and 4 bytes for each block of 256 elements of a weight; the optimizer of the step says so, and a run keeps to it.
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text max_seq_len=16 batch_size=2 threads=1 max_steps=3
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
optim() { reprise plan "$@" --json | sed -n 's/.*"optim": \([0-9]*\).*/\1/p'; }
reprise train "$@" optimizer.state_dtype=int8 output_dir=out >/dev/null 2>&1
python3 - "$(optim "$@")" "$(optim "$@" optimizer.state_dtype=bf16)" "$(optim "$@" optimizer.state_dtype=int8)" <<'END'
import json, math, struct, sys
with open("out/final/model.safetensors", "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
sizes = [math.prod(t["shape"]) for name, t in header.items() if name != "__metadata__"]
formula = [2 * 4 * sum(sizes), 2 * 2 * sum(sizes), 2 * sum(n + 4 * -(-n // 256) for n in sizes)]
print(*("as the formula" if int(said) == wanted else f"{said} bytes, {wanted} by the formula" for said, wanted in zip(sys.argv[1:], formula)), sep="\n")
END
reprise plan "$@" optimizer.state_dtype=int7 --json
#> as the formula
#> as the formula
#> as the formula
#2> argument 'optimizer.state_dtype=int7': 'optimizer.state_dtype' wants fp32, bf16 or int8, not 'int7'
