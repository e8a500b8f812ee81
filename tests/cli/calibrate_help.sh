reprise calibrate --help
#> usage: reprise calibrate
#>
#> Measure how fast this machine runs each op, forward and backward, in each dtype, and the bandwidth of its memory and of
#> the disk of the current folder. It takes a minute; run nothing else meanwhile. Before that, plans use a built-in table for
#> the CPU. Communication between ranks is not measured, because that needs several ranks: plans assume 2.2 GB/s a rank, or
#> take 'link', 'node', 'node_link' and 'latency' of --device. The table is stored for this CPU and number of threads in
#> $REPRISE_COSTS, else in $XDG_CACHE_HOME/reprise or ~/.cache/reprise. No other command changes it.
#>
#>       --quick                  take seconds, not a minute: fewer sizes, each measured once
#>       --threads N              threads of the runs to predict (default: all cores)
#>   -h, --help                   print this
#>
#> example: reprise calibrate --quick
