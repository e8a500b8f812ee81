# exit: 2
# Weights that keep the blocks of their files: a run and its final folder, evaluation, a plan, and what is refused.
# ctest: threads
awk 'BEGIN { for (i = 0; i < 600; i++) printf "%c%c", 1 + (i * i + i / 7) % 31, 0 }' >tokens.bin
cat >r.yaml <<'R'
model: {path: nf4, quantize: keep}
lora: {rank: 4, modules: [all-linear]}
dataset: {path: tokens.bin, format: tokens}
max_seq_len: 16
max_steps: 2
dtype: fp32
threads: 1
output_dir: run
R
cp -r "$SOURCE/tests/golden/nf4" nf4
cp tokens.bin val.bin
reprise train r.yaml 2>&1 | grep -E '^(model|trained|quantised) '
reprise train r.yaml lora.merge=true output_dir=merged >/dev/null 2>&1
reprise plan r.yaml --json | grep -oE '"param": [0-9]+' | head -1
reprise inspect merged/final 2>&1 | grep -E 'quantization|q_proj'
echo '--- random blocks of Q4_K'
sed 's/: 4096,/: 256,/; s/: 14336,/: 512,/; s/: 32,/: 2,/; s/: 8,/: 2,/; s/: 128256,/: 1024,/' "$SOURCE/recipes/llama3_8b/config.json" >small.json
"$SOURCE/tools/make_random_gguf" small.json small.gguf
reprise train r.yaml model.path=small.gguf dataset='{path: small.json, format: text}' output_dir=random 2>&1 | grep -E '^(data|quantised) '
echo '--- planned without the files'
for model in small.gguf nf4; do
    reprise inspect $model --config >stand_in.json
    reprise plan r.yaml model.path=$model dtype=bf16 --json >file
    reprise plan r.yaml model.path=absent model.stand_in=./stand_in.json dtype=bf16 --json >without
    cmp file without && grep -oE '"param": [0-9]+' without | head -1
done
reprise inspect small.gguf --config | sed -n '/quantization_config/,$p'
echo '--- refused'
reprise train r.yaml model.quantize=null output_dir=plain
reprise plan r.yaml lora=null
reprise plan r.yaml model.path=absent model.stand_in=tiny_llama
reprise plan r.yaml model.path=null model.config=tiny_llama
reprise train r.yaml model.quantize=int4
#> model          nf4: 84416 parameters, fp32
#> trained        6400 of them; the others are frozen
#> quantised      73728 of them, in 38280 bytes (37.38 KiB)
#> "param": 81032
#>   model.layers.0.self_attn.q_proj.weight           F32   [64, 64]
#> --- random blocks of Q4_K
#> small.gguf: 1836288 parameters, 1066496 bytes
#> quantised      1835008 of them, in 1032192 bytes (1008.00 KiB)
#> data           small.json: 1 file, 1 document, 400 tokens, 375 targets; 25 samples, 0 truncated, 0 skipped
#> --- planned without the files
#> "param": 1104384
#> "param": 59656
#>   "quantization_config": {
#>     "quant_method": "reprise",
#>     "types": {
#>       "tok_embeddings.weight": "q4_k",
#>       "layers.*.attn.q.weight": "q4_k",
#>       "layers.*.attn.k.weight": "q4_k",
#>       "layers.*.attn.v.weight": "q4_k",
#>       "layers.*.attn.output.weight": "q4_k",
#>       "layers.*.mlp.gate.weight": "q4_k",
#>       "layers.*.mlp.up.weight": "q4_k",
#>       "layers.*.mlp.down.weight": "q4_k",
#>       "output.weight": "q4_k"
#>     },
#>     "mapped": {
#>       "tok_embeddings.weight": "q4_k",
#>       "layers.*.attn_norm.weight": "fp32",
#>       "layers.*.attn.v.weight": "q4_k",
#>       "layers.*.attn.output.weight": "q4_k",
#>       "layers.*.mlp_norm.weight": "fp32",
#>       "layers.*.mlp.gate.weight": "q4_k",
#>       "layers.*.mlp.up.weight": "q4_k",
#>       "layers.*.mlp.down.weight": "q4_k",
#>       "norm.weight": "fp32",
#>       "output.weight": "q4_k"
#>     }
#>   }
#> }
#> --- refused
#2> reprise plan: note: 'absent' is not there: the shapes are those of './stand_in.json'
#2> reprise plan: note: 'absent' is not there: the shapes are those of './stand_in.json'
#2> reprise train: nf4: tensor 'model.layers.0.self_attn.q_proj.weight' is quantised by bitsandbytes, which is read only with 'model.quantize: keep', and only if the weight is not trained (and 6 more)
#2> r.yaml:1: 'model.quantize' is for frozen weights, but all weights are trained: set 'lora.rank', 'model.adapter' or 'freeze'
#2> reprise plan: note: 'absent' is not there: the shapes are those of 'tiny_llama'
#2> r.yaml: 'model.quantize: keep' stores weights as the files of 'model.path' do, and they are not there: name a type, or a 'model.stand_in' that 'reprise inspect MODEL --config' printed
#2> r.yaml:1: 'model.quantize' needs 'model.path', not 'model.config'
#2> argument 'model.config=tiny_llama': 'model.quantize: keep' stores weights as the files of 'model.path' do, and they are not there: name a type, or a 'model.stand_in' that 'reprise inspect MODEL --config' printed
#2> r.yaml:8: output_dir 'run' contains a run already (config.yaml): continue it with resume=auto, or choose another output_dir
#2> argument 'model.quantize=int4': 'model.quantize' wants null, keep, nf4, q8_0 or q4_0, not 'int4'
