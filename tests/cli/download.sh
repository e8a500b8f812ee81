# What a model needs comes, from wherever the hub sends us, and nothing else; what is there already is left, and the token stays at home.
# ctest: threads
. "$SOURCE/tests/cli/hub/begin.sh"
HF_TOKEN=secret get plain
(cd here && find . -type f | LC_ALL=C sort)
sha256sum here/model.safetensors
cut -d '?' -f 1,2 log | sed 's/?[^ ]*//' | LC_ALL=C sort
get plain
get plain@v2 -o other/place
get plain@refs/pr/1 -o third
grep -o 'api[^ ]*\|resolve/[23]*/model.safetensors' log | LC_ALL=C sort -u
rm -rf here
get sharded
ls here
rm -rf here
get no-digests
get gguf
get gguf --file tiny-q4.gguf
get gguf --file 'deep/tiny q8 #1.gguf'
find here -name '*.gguf' -size -9 | LC_ALL=C sort
(reprise download test/plain 2>/dev/null; ls models)
#> plain 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     model.safetensors: 300 kB
#>     > here
#>     exit 0
#> ./chat_template.jinja
#> ./config.json
#> ./generation_config.json
#> ./model.safetensors
#> ./special_tokens_map.json
#> ./tokenizer.json
#> ./tokenizer_config.json
#> f5e9677bbd305f63bd1bf5a27ffbab58260982c072823e341ffffb99016f4752  here/model.safetensors
#> hub /api/models/test/plain/revision/main all, token secret
#> hub /test/plain/resolve/1111111111111111111111111111111111111111/chat_template.jinja all, token secret
#> hub /test/plain/resolve/1111111111111111111111111111111111111111/config.json all, token secret
#> hub /test/plain/resolve/1111111111111111111111111111111111111111/generation_config.json all, token secret
#> hub /test/plain/resolve/1111111111111111111111111111111111111111/model.safetensors all, token secret
#> hub /test/plain/resolve/1111111111111111111111111111111111111111/special_tokens_map.json all, token secret
#> hub /test/plain/resolve/1111111111111111111111111111111111111111/tokenizer.json all, token secret
#> hub /test/plain/resolve/1111111111111111111111111111111111111111/tokenizer_config.json all, token secret
#> store /plain/model.safetensors all, no token
#> plain 
#>     config.json: exists already
#>     generation_config.json: exists already
#>     tokenizer.json: exists already
#>     tokenizer_config.json: exists already
#>     special_tokens_map.json: exists already
#>     chat_template.jinja: exists already
#>     model.safetensors: exists already
#>     > here
#>     exit 0
#> plain@v2 -o other/place
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     model.safetensors: 300 kB
#>     > other/place
#>     exit 0
#> plain@refs/pr/1 -o third
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     model.safetensors: 300 kB
#>     > third
#>     exit 0
#> api/models/test/plain/revision/main?blobs=true
#> api/models/test/plain/revision/refs%2Fpr%2F1?blobs=true
#> api/models/test/plain/revision/v2?blobs=true
#> resolve/2222222222222222222222222222222222222222/model.safetensors
#> resolve/3333333333333333333333333333333333333333/model.safetensors
#> sharded 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     model.safetensors.index.json: 112 bytes
#>     model-00001-of-00002.safetensors: 70 kB
#>     model-00002-of-00002.safetensors: 230 kB
#>     > here
#>     exit 0
#> chat_template.jinja
#> config.json
#> generation_config.json
#> model-00001-of-00002.safetensors
#> model-00002-of-00002.safetensors
#> model.safetensors.index.json
#> special_tokens_map.json
#> tokenizer.json
#> tokenizer_config.json
#> no-digests 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     model.safetensors: 300 kB
#>     > here
#>     exit 0
#> gguf 
#>     reprise download: the repository has no *.safetensors; choose a file of it with --file: 'tiny-q4.gguf', 'deep/tiny q8 #1.gguf'
#>     exit 2
#> gguf --file tiny-q4.gguf
#>     tiny-q4.gguf: 5 kB
#>     > here/tiny-q4.gguf
#>     exit 0
#> gguf --file deep/tiny q8 #1.gguf
#>     deep/tiny q8 #1.gguf: 9 kB
#>     > here/deep/tiny q8 #1.gguf
#>     exit 0
#> models/plain
#> plain
