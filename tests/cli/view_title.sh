# The title of a report names the run and the model, not their absolute paths.
# ctest: threads
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
set -- tiny_from_scratch dataset.path=text max_seq_len=16 batch_size=2 max_steps=1 threads=1
title() { sed -n 's/.*<title>\(.*\)<.title>.*/\1/p' "$1"; }
cp "$SOURCE"/recipes/tiny_llama/tokenizer.json .
reprise train "$@" model.config=tiny_llama tokenizer.path=. output_dir="$PWD/runs/first/" 2>err || cat err
title runs/first/report.html
reprise view runs/first >/dev/null && title runs/first/report.html
(cd runs/first && reprise view . >/dev/null) && title runs/first/report.html
mv runs/first runs/best
reprise view ./runs/best/ -o page.html >/dev/null && title page.html
mkdir m && cp "$SOURCE"/recipes/tiny_llama/config.json m
reprise plan "$@" model.config=m/config.json -o runs/a.json >/dev/null && reprise view runs/a.json && title runs/a.json.html
#> first: tiny_llama, 2 x 16 tokens, fp32
#> first: tiny_llama, 2 x 16 tokens, fp32
#> first: tiny_llama, 2 x 16 tokens, fp32
#> best: tiny_llama, 2 x 16 tokens, fp32
#> runs/a.json.html
#> a.json: m/config.json, 2 x 16 tokens, fp32
