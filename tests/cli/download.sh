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
