reprise bench --help
#> usage: reprise bench [NAME ...] [--json] [--levels] [--rounds N] [--threads N]
#>
#> Time kernels (through their ops) and training steps on this machine. Each line has the median of the rounds with quartiles,
#> GFLOP/s and GB/s as the op declares them, and the share of the limiting ceiling, measured in the same rounds:
#> multiply-adds from registers in fp32 or bf16, or memory. A step also has the share of time that its matrix products need
#> alone. NAME is one of --list, a prefix that ends before a colon (matmul, attention:2x512x9/3x64, step), or a glob
#> ('*:bf16:dw'). Without NAME a usual set runs for about a minute. Run nothing else meanwhile.
#>
#>       --json                   print one JSON object
#>       --list                   print the names of all benches
#>       --levels                 run all kernels of this CPU: base, AVX2, AVX-512, …
#>       --rounds N               rounds of each bench (default: as many as fit into 0.3 s)
#>       --threads N              threads (default: all cores)
#>   -h, --help                   print this
#>
#> example: reprise bench matmul attention --rounds 5
