# A tokenizer whose pattern explodes is refused by its name, with the place in the text.
mkdir t
echo '{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(?:a|a){22}b|a"}, "behavior": "Isolated"}}' >t/tokenizer.json
printf 'bbaaab' | reprise tokenize t
printf 'bb%04000d' 0 | tr 0 a | reprise tokenize t
echo "exit $?"
