# A tokenizer whose pattern explodes is refused by its name, with the place in the text.
mkdir t
echo '{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(?:a|a){22}b|a"}, "behavior": "Isolated"}}' >t/tokenizer.json
printf 'bbaaab' | reprise tokenize t
printf 'bb%04000d' 0 | tr 0 a | reprise tokenize t
echo "exit $?"
# So is one that runs over the rest of the text in few of PCRE2's steps.
sed 's/"(?:a|a){22}b|a"/"a*a*a*a*[bc]"/' t/tokenizer.json >t/other.json && mv t/other.json t/tokenizer.json
printf '%0400000d' 0 | tr 0 a | reprise tokenize t
echo "exit $?"
#> 1
#> 1
#> 0
#> 0
#> 0
#> 1
#> 1
#> exit 2
#> exit 2
#2> reprise tokenize: the tokenizer 't': its pattern takes more than 10000000 steps and 64 a byte on this text, at byte 2
#2> reprise tokenize: the tokenizer 't': its pattern takes more than 10000000 steps and 64 a byte on this text, at byte 0
