# Text in another encoding is refused with its first bad byte, wherever text is read; a byte-order mark is no part of a text.
mkdir m && cp "$SOURCE"/tests/golden/models/smollm2/config.json "$SOURCE"/tests/golden/models/smollm2/model.safetensors "$SOURCE"/recipes/tiny_llama/tokenizer.json m
exits() { "$@"; echo "exit $?"; }
train() { reprise train tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json output_dir=out "$@"; }
printf 'caf\351\n' >latin1.txt
printf '{"text": "caf\351"}\n' >latin1.jsonl
printf '[{"text": "caf\351"}]\n' >latin1.json
gzip -kn latin1.txt
exits train dataset.path=latin1.txt
exits train dataset.path=latin1.txt.gz
exits train dataset.path=latin1.jsonl dataset.format=jsonl
exits train dataset.path=latin1.json dataset.format=jsonl
exits reprise tokenize m <latin1.txt
exits reprise eval m --data latin1.txt
exits reprise generate m -p "$(printf 'A\377')"
: >empty
printf '\357\273\277' >mark
exits reprise eval m --data empty
exits reprise eval m --data mark
# With the mark and without it: the same ids, the same recipe, the same model and template.
printf '\357\273\277THE DOG' | reprise tokenize m --json
printf 'THE DOG' | reprise tokenize m --json
{ printf '\357\273\277'; cat "$SOURCE/recipes/tiny_from_scratch.yaml"; } >marked.yaml
reprise validate --resolved marked.yaml '~dataset' >a
reprise validate --resolved tiny_from_scratch '~dataset' | diff - a && echo 'the same recipe'
mkdir n && cp m/model.safetensors n
for f in config.json tokenizer.json; do { printf '\357\273\277'; cat m/$f; } >n/$f; done
for d in m n; do echo "{% for m in messages %}<{{ m['content'] }}>{% endfor %}" >$d/chat_template.jinja; done
{ printf '\357\273\277'; cat m/chat_template.jinja; } >n/chat_template.jinja
for d in m n; do reprise generate $d -p AB --chat -n 5 -t 0 dtype=fp32 >$d.out; done
cmp m.out n.out && echo 'the same model and template'
mkdir others && cd others || exit
# A file that is no text or has other columns is reported with the change to make. Nothing is written.
printf '\377\376h\0i\0' >utf16.txt
printf '%%PDF-1.4\n' >a.pdf
printf 'PK\3\4\24\0' >a.docx
echo '{"instruction": "a", "output": "b"}' >pairs.jsonl
echo '{"messages": [{"role": "user", "content": "a"}]}' >talk.jsonl
refused() { reprise train tiny_from_scratch output_dir=out dataset.path="$@"; echo "exit $?"; }
refused utf16.txt
refused a.pdf
refused a.docx
refused pairs.jsonl dataset.format=jsonl
refused pairs.jsonl dataset.format=jsonl dataset.column=output dataset.prompt_column=input
refused talk.jsonl dataset.format=jsonl
ls
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> [84, 72, 69, 32, 68, 79, 71]
#> [84, 72, 69, 32, 68, 79, 71]
#> the same recipe
#> the same model and template
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> a.docx
#> a.pdf
#> pairs.jsonl
#> talk.jsonl
#> utf16.txt
#2> reprise train: 'latin1.txt' is not UTF-8: byte 3 is 0xe9, which belongs to no character; convert the file, for example with iconv -f LATIN1 -t UTF-8
#2> reprise train: 'latin1.txt.gz' is not UTF-8: byte 3 of its unpacked text is 0xe9, which belongs to no character; convert the file, for example with iconv -f LATIN1 -t UTF-8
#2> reprise train: 'latin1.jsonl' is not UTF-8: byte 13 is 0xe9, which belongs to no character; convert the file, for example with iconv -f LATIN1 -t UTF-8
#2> reprise train: 'latin1.json' is not UTF-8: byte 14 is 0xe9, which belongs to no character; convert the file, for example with iconv -f LATIN1 -t UTF-8
#2> reprise tokenize: '/dev/stdin' is not UTF-8: byte 3 is 0xe9, which belongs to no character; convert the file, for example with iconv -f LATIN1 -t UTF-8
#2> reprise eval: 'latin1.txt' is not UTF-8: byte 3 is 0xe9, which belongs to no character; convert the file, for example with iconv -f LATIN1 -t UTF-8
#2> reprise generate: the prompt is not UTF-8: byte 1 is 0xff, which belongs to no character
#2> reprise eval: 'empty' is empty
#2> reprise eval: 'mark' is empty
#2> reprise train: 'utf16.txt' is not text but UTF-16: convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8
#2> reprise train: 'a.pdf' is not text but a PDF: extract its text first, for example with pdftotext
#2> reprise train: 'a.docx' is not text: byte 5 is zero
#2> reprise train: 'pairs.jsonl', line 1: no column 'text', there is 'instruction', 'output': set 'dataset.format: alpaca'
#2> reprise train: 'pairs.jsonl', line 1: no column 'input', there is 'instruction', 'output': set 'dataset.format: alpaca'
#2> reprise train: 'talk.jsonl', line 1: no column 'text', there is 'messages': set 'dataset.format: chat'
