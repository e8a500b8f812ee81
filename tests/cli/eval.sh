# ctest: threads
mkdir m && cp "$SOURCE"/tests/golden/models/smollm2/config.json "$SOURCE"/tests/golden/models/smollm2/model.safetensors "$SOURCE"/recipes/tiny_llama/tokenizer.json m
printf 'THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG. 0123456789 PACK MY BOX WITH FIVE DOZEN LIQUOR JUGS.' >text
reprise eval m --data text | cut -c 1-16
reprise eval max_seq_len=16 m --json dtype=bf16 --data text threads=1 | sed 's/\(loss": 5\.[0-9]\)[0-9]*, "perp.*"targets/\1, "targets/'
reprise eval m --data text max_seq_len=16 model.overrides.rope_theta=10 --json | sed 's/\(\.[0-9][0-9]\)[0-9]*/\1/g'
gzip -k text
a=$(reprise eval m --data text max_seq_len=16 --json) b=$(reprise eval m --data text.gz max_seq_len=16 --json)
[ "$a" = "$b" ] && echo 'packed: the same'
# A folder is its texts, each a document: no window crosses from one to the next. An empty file is none, and one token predicts nothing.
mkdir -p d/deep/.git
cp text d/a.txt; gzip -c text >d/deep/b.md.gz; cp text d/deep/.git/c.txt; cp text d/program.c; printf X >d/one.txt; : >d/empty.txt
reprise eval m --data d max_seq_len=16 --json | sed 's/\(\.[0-9][0-9]\)[0-9]*/\1/g'
reprise eval m --data 'd/**/*.gz' max_seq_len=16 --json | sed 's/\(\.[0-9][0-9]\)[0-9]*/\1/g'
reprise eval m --data d max_seq_len=16 | tail -n 2
#> loss        5.55
#> perplexity  258.
#> targets     94
#> {"loss": 5.5, "targets": 90, "tokens": 96, "documents": 1, "windows": 6, "max_seq_len": 16, "dtype": "bf16"}
#> {"loss": 5.56, "perplexity": 260.26, "targets": 90, "tokens": 96, "documents": 1, "windows": 6, "max_seq_len": 16, "dtype": "fp32"}
#> packed: the same
#> {"loss": 5.58, "perplexity": 267.26, "targets": 180, "tokens": 193, "documents": 3, "windows": 12, "max_seq_len": 16, "dtype": "fp32"}
#> {"loss": 5.58, "perplexity": 267.26, "targets": 90, "tokens": 96, "documents": 1, "windows": 6, "max_seq_len": 16, "dtype": "fp32"}
#> targets     180
#> documents   3
