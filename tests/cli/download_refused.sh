# What is not there, not given or makes no sense: a sentence, an exit code, and nothing is written.
# ctest: threads
. "$SOURCE/tests/cli/hub/begin.sh"
get nowhere
get gated
HF_TOKEN=wrong get gated
get private
HF_TOKEN=wrong get private
get plain@v9
get plain --file nothing.gguf
get plain --file confg.json
get torch
get leads-out
get leads-out-absolute
get terminal
get no-json
get no-list
get nameless
get crowded
get no-map
get cut-map
rm -rf here
get deep
get down --retries 1
ls
HF_TOKEN=secret get gated
rm -rf here
for word in a/b/c ../x x/../y 'x y' x@ '' .x; do
    reprise download "$word"
    echo "exit $?"
done 2>&1
HF_ENDPOINT=ftp://example.org reprise download x 2>&1
HF_TOKEN='a
b' reprise download x 2>&1
HF_ENDPOINT=http://127.0.0.1:1 reprise download x --retries 0 2>&1
echo "exit $?"
reprise download 2>&1
echo "exit $?"
ls
