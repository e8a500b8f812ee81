cd "$SOURCE/recipes"
printf 'Hi \303\251\n' | reprise tokenize tiny_llama --json
printf 'a<|end|>b' | reprise tokenize tiny_llama
reprise tokenize --json tiny_llama </dev/null
