# A chat template is not trusted: the first rendering that exceeds a limit ends the command.
mkdir m && cp "$SOURCE"/tests/golden/models/smollm2/config.json "$SOURCE"/tests/golden/models/smollm2/model.safetensors "$SOURCE"/recipes/tiny_llama/tokenizer.json m
for i in 1 2 3; do
    echo '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'
done >talk.jsonl
check() {
    reprise validate tiny_from_scratch model.config=m/config.json tokenizer.path=m dataset.path=talk.jsonl dataset.format=chat \
        dataset.train_on_input=false max_seq_len=16
}
try() {
    echo "$1" >m/chat_template.jinja
    reprise generate m -p 'ABC' --chat
    echo "exit $?"
    check
    echo "exit $?"
    reprise train tiny_from_scratch model.config=m/config.json tokenizer.path=m dataset.path=talk.jsonl dataset.format=chat \
        dataset.train_on_input=false max_seq_len=16 max_steps=1 output_dir=out
    echo "exit $?"
}
try "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
try "{% set x = 'ab' * 1000000 %}{{ x * 1000 }}"
# Refused for its length, not for what it says: a conversation is not tried again in another way.
try "{{ 'x' if messages | length > 1 else 'y' * 99999999 }}"
# `validate` renders the first conversations of data that it does not read whole, too.
head -c 17000000 /dev/zero | tr '\0' ' ' >>talk.jsonl
check
echo "exit $?"
echo "{% for m in messages %}{{ m.content | upper }} {% endfor %}" >m/chat_template.jinja
check
echo "exit $?"
ls
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
#> m
#> talk.jsonl
#2> reprise generate: the chat template of 'm', line 1: it takes more than 4000000 steps
#2> argument 'dataset.path=talk.jsonl': 'talk.jsonl', line 1: the chat template of 'm', line 1: it takes more than 4000000 steps
#2> reprise train: 'talk.jsonl', line 1: the chat template of 'm', line 1: it takes more than 4000000 steps
#2> reprise generate: the chat template of 'm', line 1: it takes more than 4000000 steps
#2> argument 'dataset.path=talk.jsonl': 'talk.jsonl', line 1: the chat template of 'm', line 1: it takes more than 4000000 steps
#2> reprise train: 'talk.jsonl', line 1: the chat template of 'm', line 1: it takes more than 4000000 steps
#2> reprise generate: the chat template of 'm', line 1: it takes more than 4000000 steps
#2> argument 'dataset.path=talk.jsonl': 'talk.jsonl', line 1: the chat template of 'm', line 1: it takes more than 4000000 steps
#2> reprise train: 'talk.jsonl', line 1: the chat template of 'm', line 1: it takes more than 4000000 steps
#2> argument 'dataset.path=talk.jsonl': 'talk.jsonl', line 1: the chat template of 'm', line 1: it takes more than 4000000 steps
#2> checkpointing: none
#2> note: 'dataset' was read only to its object 16: 1 file of 17000264 bytes (16.21 MiB); --data reads all
#2> 'tiny_from_scratch' is a valid recipe
