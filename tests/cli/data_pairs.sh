# Prompts with answers are written by the model's chat template, if it has one and the recipe does not disable it. A run prints which.
mkdir m && cp "$SOURCE"/tests/golden/models/smollm2/config.json "$SOURCE"/tests/golden/models/smollm2/model.safetensors "$SOURCE"/recipes/tiny_llama/tokenizer.json m
echo '[{"instruction": "ADD", "input": "1 2", "output": "3"}, {"instruction": "STOP", "input": "", "output": "OK"}]' >alpaca.json
printf '{"Q": "ADD", "A": "3"}\n' >pairs.jsonl
printf 'model: {path: m}\ndataset: {path: alpaca.json, format: alpaca, packed: false, train_on_input: false}\nmax_seq_len: 64\nbatch_size: 1\noutput_dir: out\ndtype: fp32\nthreads: 1\n' >r.yaml
pairs='dataset.path=pairs.jsonl dataset.format=jsonl dataset.prompt_column=Q dataset.column=A'
reprise validate r.yaml $pairs
echo "{% for m in messages %}<{{ m['role'] | upper }}>{{ m['content'] }}{% endfor %}" >m/chat_template.jinja
reprise validate r.yaml
reprise validate r.yaml $pairs
reprise validate r.yaml $pairs dataset.use_chat_template=false
echo "{% wrong %}" >m/chat_template.jinja
reprise validate r.yaml $pairs; echo "exit $?"
reprise validate r.yaml dataset.format=jsonl; echo "exit $?"
#> exit 2
#> exit 2
#2> checkpointing: none
#2> dataset: pairs.jsonl: 1 file, 1 document, 5 tokens, 2 targets; 1 sample, 0 truncated, 0 skipped
#2> first sample: 5 tokens, 2 targets
#2>   masked  ADD
#2>   target  3?
#2> 'r.yaml' is a valid recipe
#2> checkpointing: none
#2> dataset: alpaca.json: 1 file, 2 documents, 49 tokens, 25 targets; 2 samples, 0 truncated, 0 skipped; formatted by the model's chat template
#2> first sample: 26 tokens, 12 targets
#2>   masked  <USER>ADD\n\n1 2
#2>   target  <ASSISTANT>3
#2> 'r.yaml' is a valid recipe
#2> checkpointing: none
#2> dataset: pairs.jsonl: 1 file, 1 document, 21 tokens, 12 targets; 1 sample, 0 truncated, 0 skipped; formatted by the model's chat template
#2> first sample: 21 tokens, 12 targets
#2>   masked  <USER>ADD
#2>   target  <ASSISTANT>3
#2> 'r.yaml' is a valid recipe
#2> checkpointing: none
#2> dataset: pairs.jsonl: 1 file, 1 document, 5 tokens, 2 targets; 1 sample, 0 truncated, 0 skipped
#2> first sample: 5 tokens, 2 targets
#2>   masked  ADD
#2>   target  3?
#2> 'r.yaml' is a valid recipe
#2> argument 'dataset.path=pairs.jsonl': the chat template of 'm', line 1: the statement 'wrong' is not supported; it is not needed if 'dataset.use_chat_template' is false
#2> r.yaml:2: 'dataset.train_on_input' false needs 'dataset.prompt_column'
