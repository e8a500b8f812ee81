# exit: 2
# eval scores JSON lines, conversations and token files with the mask of the recipe: the loss is the one that training printed for its validation.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
printf '%s\n' '{"prompt": "one two ", "completion": "three four"}' '{"prompt": "five ", "completion": "six"}' '{"prompt": "seven", "completion": ""}' >pairs.jsonl
printf '%s\n' '{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"two"}]}' \
    '{"messages":[{"role":"user","content":"three"},{"role":"assistant","content":"four"},{"role":"user","content":"five"},{"role":"assistant","content":"six"}]}' >chat.jsonl
printf '[{"instruction": "one", "output": "two"}, {"instruction": "three", "input": "four", "output": "five"}]' >alpaca.json
python3 -c 'import struct; open("ids.bin", "wb").write(struct.pack("<600H", *((i * 7 + 1) % 90 for i in range(600))))'
template=$SOURCE/tests/golden/chat/chatml.jinja
same() {        # data, then keys of it
    data=$1; shift
    val= keys=
    for key; do val="$val dataset_val.$key" keys="$keys dataset.$key"; done
    rm -rf out
    reprise train tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text tokenizer.chat_template=$template dtype=fp32 max_seq_len=256 batch_size=1 \
        threads=1 max_steps=1 run_val_every_n_steps=1 dataset_val.path=$data $val output_dir=out >log 2>&1 || cat log
    reprise eval out/final --data $data max_seq_len=256 threads=1 tokenizer.chat_template=$template $keys --json >score 2>log || cat log
    python3 - "$*" <<'END'
import json, sys
trained, score = json.loads(open("out/metrics.jsonl").readline())["val_loss"], json.load(open("score"))
print(f"{sys.argv[1]}: {score['documents']} documents, {score['windows']} samples, {score['targets']} targets",
      "same loss" if abs(score["loss"] - trained) <= 1e-6 * trained else f"{score['loss']}, trained with {trained}")
END
}
same pairs.jsonl format=jsonl column=completion prompt_column=prompt train_on_input=false packed=false
same pairs.jsonl format=jsonl column=completion prompt_column=prompt train_on_input=true packed=false
same chat.jsonl format=chat train_on_input=false packed=false
same chat.jsonl format=chat train_on_input=false packed=true
same alpaca.json format=alpaca train_on_input=false packed=false use_chat_template=false
same ids.bin format=tokens
# What is wrong is said as in a recipe.
reprise eval out/final --data pairs.jsonl dataset.format=jsonl dataset.column=nothing
reprise eval out/final --data pairs.jsonl dataset.path=pairs.jsonl dataset.format=jsonl
reprise eval out/final --data pairs.jsonl dataset.format=parquet
reprise eval out/final --data chat.jsonl dataset.format=chat
reprise eval out/final --data pairs.jsonl optimizer.lr=1 2>&1 | sed 's/.*unknown/unknown/'
reprise eval $SOURCE/tests/golden/models/bert --data ids.bin dataset.format=tokens tokenizer.path=$SOURCE/recipes/tiny_llama
#> format=jsonl column=completion prompt_column=prompt train_on_input=false packed=false: 2 documents, 2 samples, 35 targets same loss
#> format=jsonl column=completion prompt_column=prompt train_on_input=true packed=false: 3 documents, 3 samples, 379 targets same loss
#> format=chat train_on_input=false packed=false: 2 documents, 2 samples, 43 targets same loss
#> format=chat train_on_input=false packed=true: 2 documents, 1 samples, 29 targets same loss
#> format=alpaca train_on_input=false packed=false use_chat_template=false: 2 documents, 2 samples, 9 targets same loss
#> format=tokens: 1 documents, 2 samples, 510 targets same loss
#> unknown key 'optimizer.lr'; the keys here are max_seq_len, dataset, tokenizer.chat_template, loss.ignore_index, dtype, threads, tokenizer.path, model.overrides, model.adapter, model.quantize and model.mapped
#2> reprise eval: 'pairs.jsonl', line 1: no column 'nothing', there is 'prompt', 'completion': set 'dataset.column'
#2> reprise eval: --data names the data here, not 'dataset.path'
#2> argument 'dataset.format=parquet': 'dataset.format' wants text, jsonl, tokens, chat or alpaca, not 'parquet'
#2> reprise eval: dataset.format: chat needs a chat template, and the model's tokenizer has none; set tokenizer.chat_template
#2> reprise eval: a model of type 'bert' is an encoder, which sees the tokens to predict: score it on masked tokens, with 'dataset_val' of a recipe
