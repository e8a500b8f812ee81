# ctest: threads
mkdir m && cp "$SOURCE"/tests/golden/models/smollm2/config.json "$SOURCE"/tests/golden/models/smollm2/model.safetensors "$SOURCE"/recipes/tiny_llama/tokenizer.json m
reprise generate m --prompt 'ABC ' --max-new-tokens 12 --temperature 0 dtype=fp32 >once
reprise generate m -p 'ABC ' -n 12 -k 1 --seed 7 dtype=fp32 >again
cmp once again && test -s once && echo 'greedy and top-1 agree'
reprise generate m -p 'ABC ' -s 1 dtype=fp32 >once
reprise generate m -p 'ABC ' -s 1 dtype=fp32 >again
reprise generate m -p 'ABC ' -s 2 dtype=fp32 >other
cmp once again
cmp -s once other && echo 'two seeds, one text'
reprise generate m -p 'ABC ' -n 0 | od -c
#> greedy and top-1 agree
#> 0000000  \n
#> 0000001
#2> reprise generate: stopped: the model's context of 64 tokens is full
#2> reprise generate: stopped: the model's context of 64 tokens is full
