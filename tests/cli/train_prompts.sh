# Prompts are continued during a run: on the terminal, in metrics.jsonl and in the report. The text is that of 'generate' with the same weights.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text max_seq_len=32 batch_size=2 threads=1 max_steps=60 epochs=99 dtype=fp32 \
    lr_scheduler.num_warmup_steps=0 log_every_n_steps=1000
reprise train "$@" output_dir=out 'sample_prompts=["one two ", "six <b>\e[2J"]' sample_every=30 sample_tokens=8 2>&1 | sed -n '/^sample/p' >shown
sed 's/goes on: .*/goes on: …/' shown
python3 - <<'END'
import json, subprocess
last = json.loads(open("out/metrics.jsonl").readlines()[-1])["samples"]
for s in last:
    text = subprocess.run(["reprise", "generate", "out/final", "-p", s["prompt"], "-t", "0", "-n", "8", "dtype=fp32", "threads=1"], capture_output=True, text=True).stdout
    print("as generate" if text.rstrip("\n") == s["text"].rstrip("\n") else (text, s["text"]))
END
grep -c 'six &#60;b\|six &lt;b' out/report.html
# With a chat dataset a prompt is a message. A template that writes nothing leaves nothing to continue.
printf '%s\n' '{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"two"}]}' >chat.jsonl
set -- "$@" dataset.path=chat.jsonl dataset.format=chat dataset.packed=false batch_size=1 max_seq_len=200 max_steps=1 sample_every=1 sample_tokens=2
reprise train "$@" output_dir=chat 'sample_prompts=[one]' tokenizer.chat_template=$SOURCE/tests/golden/chat/chatml.jinja 2>&1 | sed -n '/^sample/s/goes on: .*/goes on: …/p'
printf '%s' '{% if not add_generation_prompt %}{% for m in messages %}{{ m.content }}{% endfor %}{% endif %}' >silent.jinja
reprise train "$@" output_dir=silent 'sample_prompts=[one]' tokenizer.chat_template=silent.jinja
# The keys need each other, a list of texts, and a tokenizer.
reprise validate "$@" output_dir=no 'sample_prompts=[]'
reprise validate "$@" output_dir=no '~sample_every' 'sample_prompts=[one]'
reprise validate "$@" output_dir=no 'sample_prompts=one'
reprise validate "$@" output_dir=no '~sample_every' 2>&1 | grep sample_tokens
#> sample         after step 30, 'one two ' goes on: …
#> sample         after step 30, 'six <b>?[2J' goes on: …
#> sample         after step 60, 'one two ' goes on: …
#> sample         after step 60, 'six <b>?[2J' goes on: …
#> as generate
#> as generate
#> 2
#> sample         after step 1, 'one' goes on: …
#> argument 'sample_tokens=2': note: 'sample_tokens' has no effect: 'sample_prompts' is not set
#2> reprise train: sample_prompts: prompt 1 is empty, and the tokenizer has no bos to begin with
#2> argument 'sample_every=1': 'sample_every' needs 'sample_prompts'
#2> argument 'sample_tokens=2': note: 'sample_tokens' has no effect: 'sample_prompts' is not set
#2> argument 'dataset.path=chat.jsonl': dataset.format: chat needs a chat template, and the model's tokenizer has none; set tokenizer.chat_template
#2> argument 'sample_prompts=[one]': 'sample_prompts' needs 'sample_every'
#2> argument 'dataset.path=chat.jsonl': dataset.format: chat needs a chat template, and the model's tokenizer has none; set tokenizer.chat_template
#2> argument 'sample_prompts=one': 'sample_prompts' wants a list of texts, as [one], not 'one'
#2> argument 'sample_every=1': 'sample_every' needs 'sample_prompts'
#2> argument 'sample_tokens=2': note: 'sample_tokens' has no effect: 'sample_prompts' is not set
#2> argument 'dataset.path=chat.jsonl': dataset.format: chat needs a chat template, and the model's tokenizer has none; set tokenizer.chat_template
