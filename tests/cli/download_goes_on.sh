# Connections that break, servers that are busy, downloads that are stopped: all go on where they were, and the bytes are those of the hub.
# ctest: threads long
. "$SOURCE/tests/cli/hub/begin.sh"
same() { sha256sum here/model.safetensors | cut -c 1-16; grep -o 'store .*' log | sed 's/?[^ ]*//'; rm -rf here log; }
get drops
same
get busy
same
get no-ranges
same
mkdir here
head -c 1234 /dev/zero >here/model.safetensors.part
get plain
same
mkdir here
head -c 400000 /dev/zero >here/model.safetensors.part
get plain
same
mkdir here
echo old >here/model.safetensors
get plain
same
reprise download test/slow -o here --retry-wait 0.01 2>err &
tries=0
until [ -s here/model.safetensors.part ] || [ $((tries += 1)) -gt 200 ]; do sleep 0.05; done
kill -INT $!
wait $!
echo "exit $?"
tail -n 1 err
[ -s here/model.safetensors.part ] && [ ! -e here/model.safetensors ] && echo "a part of it is there"
rm log
reprise download test/slow -o here 2>err
echo "exit $?"
grep -c 'continuing after' err
grep -c 'bytes=' log
sha256sum here/model.safetensors | cut -c 1-16
#> drops 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     cannot download 'model.safetensors': transfer closed with 200000 bytes remaining to read; trying again in 0.01 seconds
#>     cannot download 'model.safetensors': transfer closed with 100000 bytes remaining to read; trying again in 0.01 seconds
#>     model.safetensors: 300 kB
#>     > here
#>     exit 0
#> f5e9677bbd305f63
#> store /drops/model.safetensors all, no token
#> store /drops/model.safetensors bytes=100000-, no token
#> store /drops/model.safetensors bytes=200000-, no token
#> busy 
#>     cannot download the list of files of 'test/busy': the server answers 429; trying again in 0.01 seconds
#>     cannot download the list of files of 'test/busy': the server answers 429; trying again in 0.02 seconds
#>     cannot download 'config.json': the server answers 503; trying again in 0.01 seconds
#>     config.json: 24 bytes
#>     cannot download 'generation_config.json': the server answers 503; trying again in 0.01 seconds
#>     generation_config.json: 3 bytes
#>     cannot download 'tokenizer.json': the server answers 503; trying again in 0.01 seconds
#>     tokenizer.json: 14 bytes
#>     cannot download 'tokenizer_config.json': the server answers 503; trying again in 0.01 seconds
#>     tokenizer_config.json: 3 bytes
#>     cannot download 'special_tokens_map.json': the server answers 503; trying again in 0.01 seconds
#>     special_tokens_map.json: 3 bytes
#>     cannot download 'chat_template.jinja': the server answers 503; trying again in 0.01 seconds
#>     chat_template.jinja: 15 bytes
#>     cannot download 'model.safetensors': the server answers 503; trying again in 0.01 seconds
#>     model.safetensors: 300 kB
#>     > here
#>     exit 0
#> f5e9677bbd305f63
#> store /busy/model.safetensors all, no token
#> no-ranges 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     cannot download 'model.safetensors': transfer closed with 200000 bytes remaining to read; trying again in 0.01 seconds
#>     model.safetensors: 300 kB
#>     > here
#>     exit 0
#> f5e9677bbd305f63
#> store /no-ranges/model.safetensors all, no token
#> store /no-ranges/model.safetensors bytes=100000-, no token
#> plain 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     model.safetensors: continuing after 1.23 kB
#>     model.safetensors: the existing part belongs to another file; downloading the whole file
#>     model.safetensors: 300 kB
#>     > here
#>     exit 0
#> f5e9677bbd305f63
#> store /plain/model.safetensors bytes=1234-, no token
#> store /plain/model.safetensors all, no token
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
#> f5e9677bbd305f63
#> store /plain/model.safetensors all, no token
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
#> f5e9677bbd305f63
#> store /plain/model.safetensors all, no token
#> exit 130
#> reprise download: interrupted; the received bytes are kept, and the same command continues the download
#> a part of it is there
#> here
#> exit 0
#> 1
#> 2
#> f5e9677bbd305f63
