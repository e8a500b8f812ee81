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
