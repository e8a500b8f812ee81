# Wrong bytes, servers that lie, disks that are full and folders that cannot be written: nothing wrong gets a name, what is right stays.
# ctest: threads
. "$SOURCE/tests/cli/hub/begin.sh"
parts() { find here -name '*.part' | LC_ALL=C sort; [ ! -e here/model.safetensors ] || echo "it got its name"; rm -rf here; }
get wrong
parts
get no-digests-wrong
parts
get longer --retries 1
parts
get shorter --retries 1
parts
get in-circles
parts
get piece-missing
parts
mkdir here
head -c 1000 /dev/zero >here/model.safetensors.part
get other-range
parts
get huge 2>&1 | sed 's/room for [^,]*,/room for N,/'
parts
(ulimit -f 200; get plain)
ls here
get plain
rm -rf here
echo >file
get plain -o file
get plain -o file/below
mkdir closed
chmod 555 closed
case $(id -u) in
0) chmod 777 . && (unset HF_TOKEN; setpriv --reuid 65534 --clear-groups -- reprise download test/plain -o closed) ;;
*) reprise download test/plain -o closed ;;
esac 2>&1
echo "exit $?"
printf 'openssl_conf = all\n[all]\nproviders = them\n[them]\nnull = one\n[one]\nactivate = 1\n' >null.cnf
(OPENSSL_CONF=$PWD/null.cnf; export OPENSSL_CONF; get plain)
rm -rf here
mkdir here
ln -s ../elsewhere here/model.safetensors.part
get plain
[ ! -e elsewhere ] && echo "nothing is written through a link"
rm -rf here && mkdir here
(flock 9; get plain) 9>here/model.safetensors.part
#> wrong 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     reprise download: 'model.safetensors' has the digest e0ec576ce8b008368461139a1dc2f14e6bf617e814f1c70f200172f56a4b9db6, but f5e9677bbd305f63bd1bf5a27ffbab58260982c072823e341ffffb99016f4752 on the hub; the downloaded file was removed
#>     exit 1
#> no-digests-wrong 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     reprise download: 'model.safetensors' has the digest e0ec576ce8b008368461139a1dc2f14e6bf617e814f1c70f200172f56a4b9db6, but f5e9677bbd305f63bd1bf5a27ffbab58260982c072823e341ffffb99016f4752 on the hub; the downloaded file was removed
#>     exit 1
#> longer --retries 1
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     reprise download: 'model.safetensors' is longer than the 299990 bytes on the hub
#>     exit 1
#> shorter --retries 1
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     cannot download 'model.safetensors': the server ended after 300000 bytes; trying again in 0.01 seconds
#>     reprise download: cannot continue the download of 'model.safetensors': the server does not have these bytes
#>     exit 1
#> in-circles 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     reprise download: cannot download 'model.safetensors': too many redirects
#>     exit 1
#> piece-missing 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     model.safetensors.index.json: 112 bytes
#>     reprise download: the index of the weights names 'model-00002-of-00002.safetensors', which the repository does not have
#>     exit 2
#> other-range 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     model.safetensors: continuing after 1 kB
#>     reprise download: the server sends 'model.safetensors' from byte 1001 instead of byte 1000
#>     exit 1
#> here/model.safetensors.part
#> huge 
#>     reprise download: 'here' has room for N, but 1000000000000000062 bytes (909494.70 TiB) are still to be downloaded
#>     exit 1
#> plain 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     reprise download: cannot write 'here/model.safetensors.part': File too large
#>     exit 1
#> chat_template.jinja
#> config.json
#> generation_config.json
#> model.safetensors.part
#> special_tokens_map.json
#> tokenizer.json
#> tokenizer_config.json
#> plain 
#>     config.json: exists already
#>     generation_config.json: exists already
#>     tokenizer.json: exists already
#>     tokenizer_config.json: exists already
#>     special_tokens_map.json: exists already
#>     chat_template.jinja: exists already
#>     model.safetensors: continuing after 102 kB
#>     model.safetensors: 300 kB
#>     > here
#>     exit 0
#> plain -o file
#>     reprise download: cannot make the folder 'file': a file of that name is there
#>     exit 2
#> plain -o file/below
#>     reprise download: cannot make the folder 'file': a file of that name is there
#>     exit 2
#> reprise download: cannot write into 'closed': Permission denied
#> exit 2
#> plain 
#>     reprise download: libcrypto does not know the digest of 'here/config.json.part'
#>     exit 1
#> plain 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     reprise download: cannot create 'here/model.safetensors.part': Too many levels of symbolic links
#>     exit 1
#> nothing is written through a link
#> plain 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     reprise download: cannot write 'here/model.safetensors.part': another program is downloading it
#>     exit 1
