# exit: 2
# Weights that stay in the pages of their files: a plan, a run, and what is refused.
# ctest: threads host-memory
awk 'BEGIN { for (i = 0; i < 600; i++) printf "%c%c", 1 + (i * i + i / 7) % 31, 0 }' >tokens.bin
cat >r.yaml <<'R'
model: {path: model, mapped: true}
lora: {rank: 4, modules: [all-linear]}
dataset: {path: tokens.bin, format: tokens}
max_seq_len: 16
max_steps: 2
dtype: fp32
threads: 1
output_dir: run
R
reprise train r.yaml model='{path: '"$SOURCE"'/tests/golden/nf4, quantize: keep}' lora.merge=true >/dev/null 2>&1
mv run/final model
reprise plan r.yaml | head -1
reprise plan r.yaml memory_limit=64MiB | head -1
reprise train r.yaml output_dir=mapped 2>&1 | grep -E '^mapped '
echo '--- planned without the files'
reprise inspect model --config >stand_in.json
for settings in dtype=fp32 dtype=bf16 model.quantize=nf4 dist.ranks=2; do
    reprise plan r.yaml $settings --json >file
    reprise plan r.yaml $settings model.path=absent model.stand_in=./stand_in.json --json >without 2>note
    cmp file without && grep -oE '"mapped_bytes": [0-9]+' without
done
echo '--- refused'
reprise plan r.yaml lora=null
reprise plan r.yaml device=emu
reprise plan r.yaml model.path=absent model.stand_in=tiny_llama
reprise plan r.yaml model.path=null model.config=tiny_llama
#> mapped         305 KiB of frozen weights stay in the model's files, outside the budget
#> memory limit   64.0 MiB for the process, 33.2 MiB of it outside the budget: the program 32.0 MiB, the model 0.5 MiB, the tokenizer 0.0 MiB, threads 0.2 MiB, mapped weights 0.3 MiB, page tables 0.1 MiB
#> mapped         312064 bytes (304.75 KiB) of them stay in the model's files
#> --- planned without the files
#> "mapped_bytes": 312064
#> "mapped_bytes": 0
#> "mapped_bytes": 17152
#> "mapped_bytes": 312064
#> --- refused
#2> r.yaml:1: 'model.mapped' is for frozen weights, but all weights are trained: set 'lora.rank', 'model.adapter' or 'freeze'
#2> r.yaml:1: 'model.mapped' needs 'device: cpu': other devices do not read the pages of files
#2> reprise plan: note: 'absent' is not there: the shapes are those of 'tiny_llama'
#2> r.yaml: 'model.mapped' leaves weights in the files of 'model.path', and they are not there: name a 'model.stand_in' that 'reprise inspect MODEL --config' printed
#2> r.yaml:1: 'model.mapped' needs 'model.path', not 'model.config'
#2> argument 'model.config=tiny_llama': 'model.mapped' leaves weights in the files of 'model.path', and they are not there: name a 'model.stand_in' that 'reprise inspect MODEL --config' printed
