mkdir m && cp "$SOURCE"/tests/golden/models/smollm2/config.json "$SOURCE"/tests/golden/models/smollm2/model.safetensors "$SOURCE"/recipes/tiny_llama/tokenizer.json m
printf 'THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG. 0123456789 PACK MY BOX WITH FIVE DOZEN LIQUOR JUGS.' >text
printf X >one
: >empty
reprise eval m; echo $? >&2
reprise eval --data text; echo $? >&2
reprise eval no_such_model --data text; echo $? >&2
reprise eval m --data no_such_file; echo $? >&2
mkdir c ones && cp text c/a.c && printf X >ones/a.txt && printf X >ones/b.txt
reprise eval m --data c; echo $? >&2
reprise eval m --data 'c/*.txt'; echo $? >&2
reprise eval m --data ones; echo $? >&2
reprise eval m --data empty; echo $? >&2
reprise eval m --data one; echo $? >&2
reprise eval m --data text max_seq_len=65; echo $? >&2
reprise eval m --data text max_seq_len=1; echo $? >&2
reprise eval m --data text max_seq_lem=16 optimizer.lr=3 ~dtype dtype=fp16; echo $? >&2
reprise eval m --data text threads=9999; echo $? >&2
reprise eval m --data text model.overrides.hidden_act=tan; echo $? >&2
rm m/tokenizer.json
reprise eval m --data text; echo $? >&2
reprise eval m --data text tokenizer.path=nowhere; echo $? >&2
reprise eval text --data text; echo $? >&2
mkdir none && reprise eval none --data text; echo $? >&2
