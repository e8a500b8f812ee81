# A chat template is a stranger's program: the first run of it that exceeds a limit ends the command, whatever comes after.
mkdir m && cp "$SOURCE"/tests/golden/models/smollm2/config.json "$SOURCE"/tests/golden/models/smollm2/model.safetensors "$SOURCE"/recipes/tiny_llama/tokenizer.json m
for i in 1 2 3; do
    echo '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'
done >talk.jsonl
try() {
    echo "$1" >m/chat_template.jinja
    reprise generate m -p 'ABC' --chat
    echo "exit $?"
    reprise train tiny_from_scratch model.config=m/config.json tokenizer.path=m dataset.path=talk.jsonl dataset.format=chat \
        dataset.train_on_input=false max_seq_len=16 max_steps=1 output_dir=out
    echo "exit $?"
}
try "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
try "{% set x = 'ab' * 1000000 %}{{ x * 1000 }}"
# Refused for its length, not for what it says: a conversation is not tried again in another way.
try "{{ 'x' if messages | length > 1 else 'y' * 99999999 }}"
ls
