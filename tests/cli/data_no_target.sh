# Data that leaves nothing to learn ends before the first step, with its file, line and reason; what is skipped beside good data is counted.
mkdir m && cp "$SOURCE"/tests/golden/models/smollm2/config.json "$SOURCE"/tests/golden/models/smollm2/model.safetensors "$SOURCE"/recipes/tiny_llama/tokenizer.json m
echo "{% for m in messages %}<{{ m['role'] | upper }}>{{ m['content'] }}{% endfor %}" >m/chat_template.jinja
printf 'model: {path: m}\ndataset: {path: good.jsonl, format: jsonl, packed: false}\nmax_seq_len: 16\nbatch_size: 1\noutput_dir: out\ndtype: fp32\nthreads: 1\n' >r.yaml
both() {
    for command in validate train; do reprise $command r.yaml "$@"; echo "exit $?"; done
    test ! -e out || echo 'something was written'
}
answers='dataset.prompt_column=ask dataset.train_on_input=false dataset.use_chat_template=false'
echo '{"ask": "WHAT IS THE ANSWER?", "text": "X"}' >long.jsonl
printf '{"ask": "Q", "text": ""}\n{"ask": "Q", "text": ""}\n' >empty.jsonl
echo '{"messages": [{"role": "user", "content": "A"}, {"role": "bot", "content": "B"}]}' >roles.jsonl
: >empty.txt
both dataset.path=long.jsonl $answers
both dataset.path=empty.jsonl $answers
both dataset.path=roles.jsonl dataset.format=chat dataset.train_on_input=false
both dataset.path=empty.txt dataset.format=text
both dataset.path=absent.jsonl
printf '{"text": "GOOD DATA"}\n' >good.jsonl
both dataset_val.path=empty.jsonl dataset_val.format=jsonl run_val_every_n_steps=1
# Beside good data it is counted.
printf '{"ask": "Q", "text": "AN ANSWER"}\n{"ask": "WHAT IS THE ANSWER?", "text": "X"}\n{"ask": "Q", "text": "A LONG ANSWER THAT IS CUT"}\n' >mixed.jsonl
reprise validate r.yaml dataset.path=mixed.jsonl $answers
reprise train r.yaml dataset.path=mixed.jsonl $answers dataset_val.path=good.jsonl dataset_val.format=jsonl dataset_val.packed=false run_val_every_n_steps=1 2>err
echo "exit $?"
grep -E '^(data|validation|skipped)' err
grep -c '"loss": 0[,}]' out/metrics.jsonl
# What is much is not read, unless asked for.
head -c 17000000 /dev/zero | tr '\0' A >much.txt
reprise validate r.yaml dataset.path=much.txt dataset.format=text
# On another machine than the recipe's, neither model nor data is there.
reprise validate r.yaml model.path=absent dataset.path=absent.jsonl
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 0
#> data           mixed.jsonl: 1 file, 3 documents, 59 tokens, 25 targets; 2 samples, 1 truncated, 1 skipped
#> skipped        the first of 1: 'mixed.jsonl', line 2: its first target is token 20, beyond max_seq_len 16
#> validation     good.jsonl: 1 file, 1 document, 10 tokens, 9 targets; 1 sample, 0 truncated, 0 skipped
#> 0
#2> argument 'dataset.path=long.jsonl': dataset has nothing to learn from: no sample has a target; 1 was skipped, the first: 'long.jsonl', line 1: its first target is token 20, beyond max_seq_len 16
#2> reprise train: dataset has nothing to learn from: no sample has a target; 1 was skipped, the first: 'long.jsonl', line 1: its first target is token 20, beyond max_seq_len 16
#2> argument 'dataset.path=empty.jsonl': dataset has nothing to learn from: no sample has a target; 2 were skipped, the first: 'empty.jsonl', line 1: its answer is empty
#2> reprise train: dataset has nothing to learn from: no sample has a target; 2 were skipped, the first: 'empty.jsonl', line 1: its answer is empty
#2> argument 'dataset.path=roles.jsonl': dataset has nothing to learn from: no sample has a target; 1 was skipped, the first: 'roles.jsonl', line 1: no message has the role 'assistant', there is 'user' 'bot'
#2> reprise train: dataset has nothing to learn from: no sample has a target; 1 was skipped, the first: 'roles.jsonl', line 1: no message has the role 'assistant', there is 'user' 'bot'
#2> argument 'dataset.path=empty.txt': dataset has nothing to learn from: no sample has a target; 1 was skipped, the first: 'empty.txt': it is empty
#2> reprise train: dataset has nothing to learn from: no sample has a target; 1 was skipped, the first: 'empty.txt': it is empty
#2> argument 'dataset.path=absent.jsonl': dataset.path: no file matches 'absent.jsonl'
#2> reprise train: dataset.path: no file matches 'absent.jsonl'
#2> argument 'dataset_val.path=empty.jsonl': dataset_val has nothing to learn from: no sample has a target; 2 were skipped, the first: 'empty.jsonl', line 1: its text is empty
#2> reprise train: dataset_val has nothing to learn from: no sample has a target; 2 were skipped, the first: 'empty.jsonl', line 1: its text is empty
#2> checkpointing: none
#2> dataset: mixed.jsonl: 1 file, 3 documents, 59 tokens, 25 targets; 2 samples, 1 truncated, 1 skipped
#2> dataset: the first that is skipped: 'mixed.jsonl', line 2: its first target is token 20, beyond max_seq_len 16
#2> first sample: 11 tokens, 10 targets
#2>   masked  Q
#2>   target  AN ANSWER?
#2> 'r.yaml' is a valid recipe
#2> checkpointing: none
#2> note: 'dataset' was not read: 1 file of 17000000 bytes (16.21 MiB); --data reads all
#2> 'r.yaml' is a valid recipe
#2> argument 'dataset.path=absent.jsonl': note: dataset.path: no file matches 'absent.jsonl'
#2> note: names were not checked against the model: there is no 'absent'
#2> 'r.yaml' is a valid recipe
