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
#> nowhere 
#>     reprise download: there is no model 'test/nowhere' at http://127.0.0.1:HUB
#>     exit 2
#> gated 
#>     reprise download: 'test/gated' is gated: ask for access at http://127.0.0.1:HUB/test/gated and set HF_TOKEN
#>     exit 2
#> gated 
#>     reprise download: 'test/gated' is gated: ask for access at http://127.0.0.1:HUB/test/gated, with the account of HF_TOKEN
#>     exit 2
#> private 
#>     reprise download: cannot access 'test/private' on the hub: it does not exist, or it is private or gated and HF_TOKEN is not set
#>     exit 2
#> private 
#>     reprise download: cannot access 'test/private' on the hub: it does not exist, or HF_TOKEN has no access to it
#>     exit 2
#> plain@v9 
#>     reprise download: 'test/plain' has no revision 'v9'
#>     exit 2
#> plain --file nothing.gguf
#>     reprise download: the repository has no file 'nothing.gguf'
#>     exit 2
#> plain --file confg.json
#>     reprise download: the repository has no file 'confg.json' (did you mean 'config.json'?)
#>     exit 2
#> torch 
#>     reprise download: the repository has no *.safetensors and no *.gguf
#>     exit 2
#> leads-out 
#>     reprise download: the hub lists a file name that leads out of the folder or is not valid
#>     exit 1
#> leads-out-absolute 
#>     reprise download: the hub lists a file name that leads out of the folder or is not valid
#>     exit 1
#> terminal 
#>     reprise download: the hub lists a file name that leads out of the folder or is not valid
#>     exit 1
#> no-json 
#>     reprise download: the hub's answer is not JSON: line 1: '[' or '{' expected near '<'
#>     exit 1
#> no-list 
#>     reprise download: the hub's answer is not a list of files: 'siblings' is missing
#>     exit 1
#> nameless 
#>     reprise download: the hub's answer is not a list of files: one has no name
#>     exit 1
#> crowded 
#>     reprise download: the hub lists 20001 files, more than 20000
#>     exit 1
#> no-map 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     model.safetensors.index.json: 2 bytes
#>     reprise download: the index of the weights has no 'weight_map'
#>     exit 1
#> cut-map 
#>     config.json: exists already
#>     generation_config.json: exists already
#>     tokenizer.json: exists already
#>     tokenizer_config.json: exists already
#>     special_tokens_map.json: exists already
#>     chat_template.jinja: exists already
#>     model.safetensors.index.json: 14 bytes
#>     reprise download: the index of the weights is not JSON: line 1: unexpected token near end of file
#>     exit 1
#> deep 
#>     reprise download: the hub's answer is not JSON: line 1: maximum parsing depth reached near '['
#>     exit 1
#> down --retries 1
#>     cannot download the list of files of 'test/down': the server answers 503; trying again in 0.01 seconds
#>     reprise download: cannot download the list of files of 'test/down': the server answers 503
#>     exit 1
#> err
#> log
#> out
#> ports
#> server.err
#> gated 
#>     config.json: 24 bytes
#>     generation_config.json: 3 bytes
#>     tokenizer.json: 14 bytes
#>     tokenizer_config.json: 3 bytes
#>     special_tokens_map.json: 3 bytes
#>     chat_template.jinja: 15 bytes
#>     model.safetensors: 300 kB
#>     > here
#>     exit 0
#> reprise download: 'a/b/c' is not the name of a repository: write OWNER/NAME or OWNER/NAME@REVISION
#> exit 2
#> reprise download: '../x' is not the name of a repository: write OWNER/NAME or OWNER/NAME@REVISION
#> exit 2
#> reprise download: 'x/../y' is not the name of a repository: write OWNER/NAME or OWNER/NAME@REVISION
#> exit 2
#> reprise download: 'x y' is not the name of a repository: write OWNER/NAME or OWNER/NAME@REVISION
#> exit 2
#> reprise download: 'x@' is not the name of a repository: write OWNER/NAME or OWNER/NAME@REVISION
#> exit 2
#> reprise download: '' is not the name of a repository: write OWNER/NAME or OWNER/NAME@REVISION
#> exit 2
#> reprise download: '.x' is not the name of a repository: write OWNER/NAME or OWNER/NAME@REVISION
#> exit 2
#> reprise download: HF_ENDPOINT is 'ftp://example.org', not an address that begins with https:// or http://
#> reprise download: HF_TOKEN contains a space or another character that no token has
#> reprise download: cannot download the list of files of 'x': Failed to connect to 127.0.0.1 port 1 after N ms: Couldn't connect to server
#> exit 1
#> reprise download: an argument is missing: reprise download REPO[@REVISION] [-o DIR] [--file NAME]
#> try 'reprise download --help'
#> exit 2
#> err
#> log
#> out
#> ports
#> server.err
