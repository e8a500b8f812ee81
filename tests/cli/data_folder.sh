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
