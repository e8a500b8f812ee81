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
