# exit: 2
# The text model of a multimodal one, wherever a model is taken; what is left of it is a model of its text's family.
mkdir m && cp "$SOURCE"/tests/golden/models/gemma3_published/*.safetensors "$SOURCE"/tests/golden/models/gemma3_published/config.json "$SOURCE"/recipes/tiny_llama/tokenizer.json m
rm m/golden.safetensors
printf 'THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG. 0123456789 PACK MY BOX WITH FIVE DOZEN LIQUOR JUGS.' >text
reprise inspect m | head -2
reprise inspect --json m | sed 's/.*\("text":{[^}]*}}\).*/\1/'
reprise eval m --data text max_seq_len=16 --json | cut -c 1-12
reprise generate m --prompt 'ABC ' --max-new-tokens 3 --temperature 0 >made && test -s made && echo 'it writes'
cat >recipe.yaml <<'Y'
model: {path: m}
dataset: {path: text, format: text}
max_seq_len: 16
max_steps: 1
batch_size: 1
output_dir: out
Y
reprise validate recipe.yaml
reprise plan recipe.yaml >planned && grep -c '^peak' planned
reprise train recipe.yaml 2>&1 | grep 'other parts'
reprise inspect out/final | grep -E 'model_type|architectures'
reprise eval out/final --data text max_seq_len=16 --json | cut -c 1-12

mkdir other && echo '{"model_type": "llava", "text_config": {"model_type": "cohere2"}}' >other/config.json
reprise eval other --data text 2>&1 | cut -c 1-80
echo '{"model_type": "gemma3", "text_config": "gemma3_text"}' >other/config.json
reprise eval other --data text
#> m: safetensors, 114 tensors, 19608 parameters, 76.6 KiB
#> text model gemma3_text: 18112 parameters, 70.8 KiB; 34 tensors of other parts, 5.84 KiB, are not read
#> "text":{"model_type":"gemma3_text","parameters":18112,"bytes":72448,"left_out":{"tensors":34,"bytes":5984}}
#> {"loss": 5.0
#> it writes
#> 1
#> recipe.yaml:1: note: of this 'gemma3' only the text model, 'gemma3_text', is read: 34 tensors of its other parts, 5984 bytes (5.84 KiB), are left out
#>   model_type                                       "gemma3_text"
#>   architectures                                    ["Gemma3ForCausalLM"]
#> {"loss": 5.0
#> other/config.json: text_config: 'model_type' is "cohere2"; these are honoured: l
#2> reprise eval: of this 'gemma3' only the text model, 'gemma3_text', is read: 34 tensors of its other parts, 5984 bytes (5.84 KiB), are left out
#2> reprise generate: of this 'gemma3' only the text model, 'gemma3_text', is read: 34 tensors of its other parts, 5984 bytes (5.84 KiB), are left out
#2> checkpointing: none
#2> dataset: text: 1 file, 1 document, 97 tokens, 90 targets; 6 samples, 0 truncated, 0 skipped
#2> first sample: 16 tokens, 15 targets
#2>   masked  T
#2>   target  HE QUICK BROWN 
#2> 'recipe.yaml' is a valid recipe
#2> other/config.json: 'text_config' of the model_type 'gemma3' is "gemma3_text", expected an object
