echo '{"model": {"path": "m.gguf"}, "optimizer": {"lr": 1e-8}, "shuffle": false}' >r.json
reprise validate r.json --resolved | grep -E 'lr:|shuffle|path: m'
#>   path: m.gguf
#> shuffle: false
#>   lr: 1e-8
