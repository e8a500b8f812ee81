cd "$SOURCE/recipes"
printf 'Hi \303\251\n' | reprise tokenize tiny_llama --json
printf 'a<|end|>b' | reprise tokenize tiny_llama
reprise tokenize --json tiny_llama </dev/null
printf 'Hi \303\251\n' | gzip | reprise tokenize tiny_llama --json
printf 'Hi \303\251\n' | gzip | head -c 20 | reprise tokenize tiny_llama
echo $?
#> [72, 105, 32, 195, 169, 10]
#> 97
#> 256
#> 98
#> []
#> [72, 105, 32, 195, 169, 10]
#> 72
#> 105
#> 32
#> 195
#> 169
#> 2
#2> reprise tokenize: '/dev/stdin' is cut short: its gzip data does not end at byte 20
