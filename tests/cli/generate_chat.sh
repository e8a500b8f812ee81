# What a user says is put into the chat template beside the tokenizer; without one the question is refused.
mkdir m && cp "$SOURCE"/tests/golden/models/smollm2/config.json "$SOURCE"/tests/golden/models/smollm2/model.safetensors "$SOURCE"/recipes/tiny_llama/tokenizer.json m
reprise generate m -p 'ABC ' --chat; echo $?
echo "{% for m in messages %}<{{ m['role'] | upper }}>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}<ANSWER>{% endif %}" >m/chat_template.jinja
reprise generate m -p 'ABC' --chat -n 12 -t 0 dtype=fp32 >asked
reprise generate m -p '<USER>ABC<ANSWER>' -n 12 -t 0 dtype=fp32 >written
cmp asked written && test -s asked && echo 'the template is what a user would have written'
reprise generate m -p "$(printf 'A\377')" --chat; echo $?
echo "{{ raise_exception('no ' + messages[0]['content']) }}" >m/chat_template.jinja
reprise generate m -p 'ABC' --chat; echo $?
printf '{# nothing #}' >m/chat_template.jinja
reprise generate m -p 'ABC' --chat; echo $?
#> 2
#> the template is what a user would have written
#> 2
#> 2
#> 2
#2> reprise generate: no chat template is beside the tokenizer of 'm': leave out --chat
#2> reprise generate: the prompt is not UTF-8: byte 1 is 0xff, which belongs to no character
#2> reprise generate: the chat template of 'm', line 1: it refuses the conversation: no ABC
#2> reprise generate: the chat template writes nothing
