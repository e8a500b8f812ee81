# Paths of more than 3,500 bytes, with names of more than 200: every command reads and writes such files, and prints their names whole.
printf 'ONE TWO THREE FOUR FIVE SIX SEVEN EIGHT NINE %.0s' 1 2 3 4 5 6 7 8 9 >text
long=$(printf '%0200d' 0 | tr 0 n)
word=$(printf '%0240d' 0 | tr 0 d)
top=$PWD
deep=$PWD
while [ ${#deep} -lt 3300 ]; do deep=$deep/$word; done
mkdir -p "$deep/$long.d/er" "$deep/$long.model"
cp text "$deep/$long.d/er/$long.txt"
cp "$(dirname "$(readlink -f "$(command -v reprise)")")/tests/libplugin_marks.so" "$deep/$long.so"
cp $SOURCE/recipes/tiny_llama/*.json "$deep/$long.model"
export REPRISE_COSTS=$deep/$long.costs/costs.json TMPDIR=$deep
cat >"$deep/$long.yaml" <<YAML
model: {config: $long.model/config.json}
tokenizer: {path: $long.model}
dataset: {path: $long.d}
max_seq_len: 16
max_steps: 2
threads: 1
save_every_n_steps: 1
output_dir: $long.run
YAML
short() { sed "s|$deep|DEEP|g;s|$long|NAME|g;s|$word|WORD|g"; }
run() { reprise "$@" >out 2>err; echo "exit $?: $*" | short; grep -E "^data|^the model|valid recipe" err | short; }
cd "$deep" || exit
run validate "$deep/$long.yaml"
run plan "$deep/$long.yaml" -o "$deep/$long.plan.json"
run train "$deep/$long.yaml" "plan=$deep/$long.plan.json" "output_dir=$deep/$long.run"
run train "$deep/$long.run/config.yaml" resume=auto max_steps=3
run train "$deep/$long.yaml" "output_dir=$deep/$long.slots" 'activation_checkpointing.rules=[{op: matmul, fate: offload}]' \
    "activation_checkpointing.offload.path=$deep/$long.offload"
run train "$deep/$long.yaml" "output_dir=$deep/$long.lora" "model={path: $deep/$long.run/final}" lora.rank=2 lora.alpha=4 final_format=gguf
run inspect "$deep/$long.lora/final"
run generate "$deep/$long.lora/final" -p ONE -n 2
run eval "$deep/$long.lora/final" --data "$deep/$long.d/**/*.txt"
run export "$deep/$long.run" --gguf F32 -o "$deep/$long.gguf"
run inspect "$deep/$long.gguf"
run view "$deep/$long.run" -o "$deep/$long.html"
run plan "$long.yaml" --allow-plugins "activation_checkpointing.rules=[{plugin: {library: ./$long.so, symbol: all}, fate: recompute}]"
run tokenize "$deep/$long.model"
ls | short
ls "$long.run" "$long.run/state" | short
# An error has the whole name too, and no suggestion: no other name is close. The value of a key is cut, with a mark.
cd "$top" || exit
ac=activation_checkpointing
refused() { reprise "$@" 2>&1 >out </dev/null | short; }
wrong() { refused train tiny_from_scratch "model.config=$SOURCE/recipes/tiny_llama/config.json" dataset.path=text max_seq_len=8 "$@"; }
wrong "dataset.path=$long"
wrong "dataset.path=$long/**/*.$long"
wrong "$long=1"
wrong "optimizer.$long=1"
wrong "optimizer.name=$long"
wrong "optimizer.no_decay=[$long]"
wrong "output_dir=text/$long"
wrong "plan=$long"
wrong "tokenizer.path=$long"
wrong "resume=$long"
wrong "lora.modules=[$long]" lora.rank=2
wrong $ac.mode=selective_op "$ac.save=[$long]"
wrong "$ac.rules=[{op: $long, fate: keep}]"
wrong "$ac.rules=[{path: $long, fate: $long}]"
wrong "$ac.rules=[{$long: 1, fate: keep}]"
wrong "$ac.rules=[{plugin: {library: /$long.so, symbol: $long}, fate: keep}]" --allow-plugins
for command in inspect tokenize view plan; do refused $command "$long"; done
refused "$long"
printf '%s: [\n' "$long" >"$long.yaml"
refused validate "$long.yaml"
true
#> exit 0: validate DEEP/NAME.yaml
#> dataset: NAME.d: 1 file, 1 document, 406 tokens, 375 targets; 25 samples, 0 truncated, 0 skipped
#> 'DEEP/NAME.yaml' is a valid recipe
#> exit 0: plan DEEP/NAME.yaml -o DEEP/NAME.plan.json
#> exit 0: train DEEP/NAME.yaml plan=DEEP/NAME.plan.json output_dir=DEEP/NAME.run
#> data           NAME.d: 1 file, 1 document, 406 tokens, 375 targets; 25 samples, 0 truncated, 0 skipped
#> the model is in 'DEEP/NAME.run/final'
#> exit 0: train DEEP/NAME.run/config.yaml resume=auto max_steps=3
#> data           NAME.d: 1 file, 1 document, 406 tokens, 375 targets; 25 samples, 0 truncated, 0 skipped
#> the model is in 'DEEP/NAME.run/final'
#> exit 0: train DEEP/NAME.yaml output_dir=DEEP/NAME.slots activation_checkpointing.rules=[{op: matmul, fate: offload}] activation_checkpointing.offload.path=DEEP/NAME.offload
#> data           NAME.d: 1 file, 1 document, 406 tokens, 375 targets; 25 samples, 0 truncated, 0 skipped
#> the model is in 'DEEP/NAME.slots/final'
#> exit 0: train DEEP/NAME.yaml output_dir=DEEP/NAME.lora model={path: DEEP/NAME.run/final} lora.rank=2 lora.alpha=4 final_format=gguf
#> data           NAME.d: 1 file, 1 document, 406 tokens, 375 targets; 25 samples, 0 truncated, 0 skipped
#> the model is in 'DEEP/NAME.lora/final', and for llama.cpp in final.gguf
#> exit 0: inspect DEEP/NAME.lora/final
#> exit 0: generate DEEP/NAME.lora/final -p ONE -n 2
#> exit 0: eval DEEP/NAME.lora/final --data DEEP/NAME.d/**/*.txt
#> exit 0: export DEEP/NAME.run --gguf F32 -o DEEP/NAME.gguf
#> exit 0: inspect DEEP/NAME.gguf
#> exit 0: view DEEP/NAME.run -o DEEP/NAME.html
#> exit 0: plan NAME.yaml --allow-plugins activation_checkpointing.rules=[{plugin: {library: ./NAME.so, symbol: all}, fate: recompute}]
#> exit 0: tokenize DEEP/NAME.model
#> err
#> NAME.d
#> NAME.gguf
#> NAME.html
#> NAME.lora
#> NAME.model
#> NAME.offload
#> NAME.plan.json
#> NAME.run
#> NAME.slots
#> NAME.so
#> NAME.yaml
#> out
#> NAME.run:
#> config.yaml
#> final
#> metrics.jsonl
#> plan.json
#> report.html
#> state
#>
#> NAME.run/state:
#> step-2
#> step-3
#> reprise train: dataset.path: no file matches 'NAME'
#> reprise train: dataset.path: no file matches 'NAME/**/*.NAME'
#> argument 'NAME=1': unknown key 'NAME'
#> argument 'optimizer.NAME=1': unknown key 'optimizer.NAME'
#> argument 'optimizer.name=NAME': 'optimizer.name' wants adamw or sgd, not 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn'…
#> argument 'optimizer.no_decay=[NAME]': 'optimizer.no_decay': no module matches 'NAME'
#> argument 'output_dir=text/NAME': output_dir 'text/NAME' cannot be created: 'text' is not a folder
#> argument 'plan=NAME': cannot open 'NAME': there is no such file
#> argument 'tokenizer.path=NAME': 'tokenizer.path': cannot open 'NAME': there is no such file
#> reprise train: there is no state at 'NAME'
#> argument 'lora.modules=[NAME]': 'lora.modules': no linear layer that can have an adapter is called 'NAME'
#> argument 'activation_checkpointing.save=[NAME]': no op is called 'NAME'
#> argument 'activation_checkpointing.rules=[{op: NAME, fate: keep}]':1: no op is called 'NAME'
#> argument 'activation_checkpointing.rules=[{path: NAME, fate: NAME}]':1: unknown fate 'NAME'
#> argument 'activation_checkpointing.rules=[{path: NAME, fate: NAME}]':1: 'path': no module matches 'NAME'
#> argument 'activation_checkpointing.rules=[{NAME: 1, fate: keep}]':1: unknown field of a rule 'NAME'
#> argument 'activation_checkpointing.rules=[{plugin: {library: /NAME.so, symbol: NAME}, fate: keep}]':1: cannot open the library '/NAME.so' for 'NAME': cannot open shared object file: No such file or directory
#> reprise inspect: cannot open 'NAME': No such file or directory
#> reprise tokenize: cannot open 'NAME': No such file or directory
#> reprise view: cannot open 'NAME': there is no such file or folder
#> reprise plan: no recipe is called 'NAME'; 'reprise ls' lists those that are shipped
#> reprise: unknown command 'NAME'
#> try 'reprise --help'
#> NAME.yaml:2: cannot read this as YAML: did not find expected node content
