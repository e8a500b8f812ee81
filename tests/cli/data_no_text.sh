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
#> a.docx
#> a.pdf
#> pairs.jsonl
#> talk.jsonl
#> utf16.txt
#2> reprise train: 'utf16.txt' is not text but UTF-16: convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8
#2> reprise train: 'a.pdf' is not text but a PDF: extract its text first, for example with pdftotext
#2> reprise train: 'a.docx' is not text: byte 5 is zero
#2> reprise train: 'pairs.jsonl', line 1: no column 'text', there is 'instruction', 'output': set 'dataset.format: alpaca'
#2> reprise train: 'pairs.jsonl', line 1: no column 'input', there is 'instruction', 'output': set 'dataset.format: alpaca'
#2> reprise train: 'talk.jsonl', line 1: no column 'text', there is 'messages': set 'dataset.format: chat'
