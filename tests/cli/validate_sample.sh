# 'validate' prints the first sample: the targets, and the masked tokens, which the loss does not count.
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json batch_size=1 max_seq_len=128
printf '%s\n' '{"messages":[{"role":"user","content":"one two\nthree"},{"role":"assistant","content":"four\tfive"},{"role":"user","content":"six"},{"role":"assistant","content":"seven"}]}' >chat.jsonl
sample() { reprise validate "$@" 2>&1 | sed -n '/^first sample/,/^.tiny/p' | sed '$d'; }
sample "$@" dataset.path=chat.jsonl dataset.format=chat dataset.train_on_input=false dataset.packed=false max_seq_len=512 tokenizer.chat_template=$SOURCE/tests/golden/chat/chatml.jinja
# The last message is no target either, and the sample ends with it.
printf '%s\n' '{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"three"}]}' >ends.jsonl
sample "$@" dataset.path=ends.jsonl dataset.format=chat dataset.train_on_input=false dataset.packed=false max_seq_len=512 tokenizer.chat_template=$SOURCE/tests/golden/chat/chatml.jinja
printf '%s\n' '{"prompt": "one two ", "answer": "é three"}' >pair.jsonl
sample "$@" dataset.path=pair.jsonl dataset.format=jsonl dataset.column=answer dataset.prompt_column=prompt dataset.train_on_input=false dataset.packed=false
# A long text is cut in its middle. Control characters are shown.
printf 'one\033[2Jtwo three four five six seven eight é é é é é %.0s' 1 2 3 4 5 6 7 8 9 >text
sample "$@" dataset.path=text max_seq_len=256
# Without a tokenizer the sample is ids. Many stretches are counted.
printf '\001\000\002\000\003\000\004\000' >ids.bin
sample "$@" dataset.path=ids.bin dataset.format=tokens max_seq_len=4 loss.ignore_index=3 tokenizer.path=null model.config=$SOURCE/tests/golden/models/bert/config.json loss.mask_token_id=1
printf '\001\000\002\000\002\000\003\000\002\000\003\000\002\000\003\000\002\000\003\000\002\000\003\000\002\000\003\000' >many.bin
sample "$@" dataset.path=many.bin dataset.format=tokens max_seq_len=13 loss.ignore_index=3
# The token that begins and ends documents may be id 0. That of config.json is another one.
mkdir zero
python3 - <<'PYTHON'
import json, os
tokenizer = json.load(open(os.environ["SOURCE"] + "/recipes/tiny_llama/tokenizer.json"))
vocab = tokenizer["model"]["vocab"]
first = next(text for text, i in vocab.items() if i == 0)
vocab[first], vocab["<|end|>"], tokenizer["added_tokens"][0]["id"] = 256, 0, 0
json.dump(tokenizer, open("zero/tokenizer.json", "w"))
json.dump({"bos_token": "<|end|>", "eos_token": "<|end|>", "add_bos_token": True}, open("zero/tokenizer_config.json", "w"))
PYTHON
printf 'one two' >short
sample "$@" dataset.path=short tokenizer.path=zero dataset.packed=false
#> first sample: 208 tokens, 36 targets
#>   masked  <|im_start|>system\nYou are small and helpful.<|im_end|>\n<|im_start|>user\none two\nthree<|im_end|>\n<|im_start|>assistant\n
#>   target  four\tfive<|im_end|>\n
#>   masked  <|im_start|>user\nsix<|im_end|>\n<|im_start|>assistant\n
#>   target  seven<|im_end|>\n
#> first sample: 156 tokens, 14 targets
#>   masked  <|im_start|>system\nYou are small and helpful.<|im_end|>\n<|im_start|>user\none<|im_end|>\n<|im_start|>assistant\n
#>   target  two<|im_end|>\n
#>   masked  <|im_start|>user\nthree<|im_end|>\n
#> first sample: 17 tokens, 9 targets
#>   masked  one two 
#>   target  é three<|end|>
#> first sample: 256 tokens, 255 targets
#>   masked  o
#>   target  ne?[2Jtwo three four five six seven eight é é é é é one?[2Jtwo three four five six seven eight é é é é é one?[2Jtwo three four five six seven ei ... ?[2Jtwo three four five six seven eight é é é é é one?[2Jtwo three four fi
#> first sample: 4 tokens, 2 of them may be hidden
#>   masked  1
#>   hidden  2
#>   masked  3
#>   hidden  4
#> first sample: 13 tokens, 7 targets
#>   masked  ?
#>   target  ??
#>   masked  ?
#>   target  ?
#>   masked  ?
#>   target  ?
#>   masked  ?
#>   target  ?
#>   and 4 more stretches
#> first sample: 9 tokens, 8 targets
#>   masked  <|end|>
#>   target  one two<|end|>
