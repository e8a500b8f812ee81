# A run ends with the commands that apply to its model. Each is run as it is printed.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 | tee text >"my text"
run() {
    out=$1
    shift
    reprise train tiny_from_scratch max_seq_len=16 batch_size=2 threads=1 dataset.path=text "output_dir=$out" "$@" 2>err || cat err
    sed -n '/^the model is/,$p' err
}
printed() {
    sed -n "s/^$1  *//p" err | sed "s/PATH/text/" >command
    [ -s command ] && sh -e ./command >answer 2>said || cat err command said
}
llama=model.config=$SOURCE/recipes/tiny_llama/config.json

run "it's here" $llama epochs=1 max_steps=3 dataset_val.path="my text" run_val_every_n_steps=3
cp err first
printed generate && echo "it runs"
printed evaluate && sed 's/  .*//' answer
printed 'train longer' && sed -n '/^the model is/,$p' said

mkdir val && cp text val/a.txt
run folder $llama max_steps=1 dataset_val.path=val
printed evaluate && sed 's/  .*//' answer

# Without max_steps the epochs are the length. --chat needs a template, which final/ has only from the tokenizer.
echo '{"messages": [{"role": "user", "content": "one two"}, {"role": "assistant", "content": "three four"}]}' >line
cat line line line line >chat.jsonl
cp -r "it's here/final" speaks
echo "{% for m in messages %}{{ m['content'] }}{% endfor %}" | tee speaks/chat_template.jinja >own.jinja
run chat $llama ~max_steps epochs=2 dataset.path=chat.jsonl dataset.format=chat tokenizer.path=speaks
printed generate && echo "it runs"
run own $llama epochs=2 dataset.path=chat.jsonl dataset.format=chat tokenizer.chat_template=own.jinja
printed generate && echo "it runs"

# An adapter without the file of its base cannot be loaded; merged it can.
run adapter $llama max_steps=1 lora.rank=2
run merged $llama max_steps=1 lora.rank=2 lora.merge=true
cp -r "it's here/final" base
run based model.path=base ~model.config max_steps=1 lora.rank=2
printed generate && echo "it runs"

# An encoder neither generates nor scores.
cat >bert.json <<'EOF'
{"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
 "num_attention_heads": 2, "vocab_size": 300, "max_position_embeddings": 64, "type_vocab_size": 2, "hidden_act": "gelu"}
EOF
run encoder model.config=bert.json max_steps=1 loss.objective=masked loss.mask_token_id=4 tokenizer.path=$SOURCE/recipes/tiny_llama
#> the model is in 'it's here/final'
#> report         'it'\''s here/report.html'
#> generate       reprise generate 'it'\''s here/final' --prompt 'Once upon a time'
#> evaluate       reprise eval 'it'\''s here/final' --data 'my text'
#> train longer   reprise train 'it'\''s here/config.yaml' resume=auto max_steps=6
#> it runs
#> loss
#> perplexity
#> targets
#> the model is in 'it's here/final'
#> report         'it'\''s here/report.html'
#> generate       reprise generate 'it'\''s here/final' --prompt 'Once upon a time'
#> evaluate       reprise eval 'it'\''s here/final' --data 'my text'
#> train longer   reprise train 'it'\''s here/config.yaml' resume=auto max_steps=12 epochs=2
#> the model is in 'folder/final'
#> report         folder/report.html
#> generate       reprise generate folder/final --prompt 'Once upon a time'
#> evaluate       reprise eval folder/final --data val
#> train longer   reprise train folder/config.yaml resume=auto max_steps=2
#> loss
#> perplexity
#> targets
#> the model is in 'chat/final'
#> report         chat/report.html
#> generate       reprise generate chat/final --chat --prompt 'Who are you?'
#> evaluate       reprise eval chat/final --data PATH
#> train longer   reprise train chat/config.yaml resume=auto epochs=4
#> it runs
#> the model is in 'own/final'
#> report         own/report.html
#> generate       reprise generate own/final --prompt 'Once upon a time'
#> evaluate       reprise eval own/final --data PATH
#> train longer   reprise train own/config.yaml resume=auto max_steps=8 epochs=4
#> it runs
#> the model is in 'adapter/final'
#> report         adapter/report.html
#> train longer   reprise train adapter/config.yaml resume=auto max_steps=2
#> the model is in 'merged/final'
#> report         merged/report.html
#> generate       reprise generate merged/final --prompt 'Once upon a time'
#> evaluate       reprise eval merged/final --data PATH
#> train longer   reprise train merged/config.yaml resume=auto max_steps=2
#> the model is in 'based/final'
#> report         based/report.html
#> generate       reprise generate based/final --prompt 'Once upon a time'
#> evaluate       reprise eval based/final --data PATH
#> train longer   reprise train based/config.yaml resume=auto max_steps=2
#> it runs
#> the model is in 'encoder/final'
#> report         encoder/report.html
#> train longer   reprise train encoder/config.yaml resume=auto max_steps=2
