# ctest: threads
mkdir m && cp "$SOURCE"/tests/golden/models/smollm2/config.json "$SOURCE"/tests/golden/models/smollm2/model.safetensors "$SOURCE"/recipes/tiny_llama/tokenizer.json m
reprise generate m; echo $? >&2
reprise generate --prompt A; echo $? >&2
reprise generate no_such_model --prompt A; echo $? >&2
reprise generate m --prompt '' -n 3 >text; echo $? >&2
reprise generate m --prompt A --max-new-tokens -1; echo $? >&2
reprise generate m --prompt A --temperature hot; echo $? >&2
reprise generate m --prompt A max_seq_len=5 thread=1; echo $? >&2
reprise generate m --prompt a; echo $? >&2
reprise generate m --prompt 0123456789012345678901234567890123456789012345678901234567890123456789; echo $? >&2
reprise generate m --prompt 012345678901234567890123456789012345678901234567890123456789012 -k 1 >text; echo $? >&2
sed -i /bos_token_id/d m/config.json
reprise generate m --prompt ''; echo $? >&2
reprise generate m --prompt 'A' dtype=fp32 >/dev/full; echo $? >&2
