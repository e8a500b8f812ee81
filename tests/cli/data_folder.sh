# A folder stands for its files, a glob with two stars for those of all folders below. A list of objects is data like lines of objects.
mkdir -p d/deep/er d/.git
printf 'ONE TWO THREE FOUR FIVE SIX SEVEN' | tee d/a.txt d/deep/er/b.md d/.git/c.txt >d/program.c
printf '{"text": "ONE TWO"}\n{"text": "THREE FOUR FIVE"}\n' >lines.jsonl
printf '[\n  {"text": "ONE TWO"},\n  {"text": "THREE FOUR FIVE"}\n]\n' >list.json
valid() { reprise validate tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json max_seq_len=8 batch_size=1 "$@"; echo "exit $?"; }
valid dataset.path=d
valid 'dataset.path=d/**/*.md'
valid 'dataset.path=[d/**/*.c, d]'
valid dataset.path=lines.jsonl dataset.format=jsonl
valid dataset.path=list.json dataset.format=jsonl
valid dataset.path=d dataset.format=jsonl
valid 'dataset.path=d/**/*.py'
#> exit 0
#> exit 0
#> exit 0
#> exit 0
#> exit 0
#> exit 2
#> exit 2
#2> checkpointing: none
#2> dataset: d: 2 files, 2 documents, 68 tokens, 56 targets; 8 samples, 0 truncated, 0 skipped
#2> first sample: 8 tokens, 7 targets
#2>   masked  O
#2>   target  NE TWO 
#2> 'tiny_from_scratch' is a valid recipe
#2> checkpointing: none
#2> dataset: d/**/*.md: 1 file, 1 document, 34 tokens, 28 targets; 4 samples, 0 truncated, 0 skipped
#2> first sample: 8 tokens, 7 targets
#2>   masked  O
#2>   target  NE TWO 
#2> 'tiny_from_scratch' is a valid recipe
#2> checkpointing: none
#2> dataset: d/**/*.c and others: 3 files, 3 documents, 102 tokens, 84 targets; 12 samples, 0 truncated, 0 skipped
#2> first sample: 8 tokens, 7 targets
#2>   masked  O
#2>   target  NE TWO 
#2> 'tiny_from_scratch' is a valid recipe
#2> checkpointing: none
#2> dataset: lines.jsonl: 1 file, 2 documents, 24 tokens, 21 targets; 3 samples, 0 truncated, 0 skipped
#2> first sample: 8 tokens, 7 targets
#2>   masked  O
#2>   target  NE TWO<|end|>
#2> 'tiny_from_scratch' is a valid recipe
#2> checkpointing: none
#2> dataset: list.json: 1 file, 2 documents, 24 tokens, 21 targets; 3 samples, 0 truncated, 0 skipped
#2> first sample: 8 tokens, 7 targets
#2>   masked  O
#2>   target  NE TWO<|end|>
#2> 'tiny_from_scratch' is a valid recipe
#2> argument 'dataset.path=d': dataset.path: no file in the folder 'd' ends in one of .jsonl .ndjson .json (with or without .gz or .zst), which format jsonl reads; for other files use a glob, such as 'd/**/*.c'
#2> argument 'dataset.path=d/**/*.py': dataset.path: no file matches 'd/**/*.py'
