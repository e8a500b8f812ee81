reprise plan --help
reprise sweep --help
reprise view --help
#> usage: reprise plan CONFIG [KEY=VALUE ...] [--json] [--device SPEC] [--find | --fit | -o FILE] [--bytes] [--allow-plugins]
#>
#> Predict whether a recipe's step fits its memory budget (exact to the byte), where its peak is, the time that fitting
#> costs, and lower bounds of that time. Neither weights nor data are read. Exit code 3: no plan fits.
#>
#>       --json                   print one JSON object
#>       --device SPEC            predict for another machine: h100, or 'name=…, memory=80GB, flops=…, bandwidth=…, link=100GB/s, node=8, node_link=25GB/s, latency=2us'
#>       --find                   find the fastest settings that fit: ranks, wrapping, resharding, batch size, gradient accumulation
#>       --fit                    list the ways to train the model that fit: all weights or adapters, the optimizer's states, length and batch
#>   -o, --output FILE            write the plan to FILE, for the key 'plan' of a recipe and for 'reprise view'
#>       --bytes                  print exact sizes, in bytes
#>       --allow-plugins          load the plug-in libraries that the recipe names; they run code
#>   -h, --help                   print this
#>
#> example: reprise plan smollm2_135m_full memory_budget=1700MB
#> usage: reprise sweep CONFIG [KEY=VALUE ...] [--json] [--points N] [--measure [--pairs N] | --device SPEC] [--bytes] [--allow-plugins]
#>
#> Predict the memory and time of a recipe's step at budgets from the smallest that a plan fits to the memory of keeping
#> everything, and compare them with the usual modes. Neither weights nor data are read. With --measure, run the steps in
#> pairs with mode none, on the recipe's weights and data, with a learning rate of 0 and without writing files.
#>
#>       --json                   print one JSON object
#>   -n, --points N               budgets on the curve (default: 20; with --measure 8)
#>       --measure                run each point, paired with steps that keep everything
#>       --pairs N                pairs of steps at each point, with --measure (default: 15)
#>       --device SPEC            predict for another machine, as in 'reprise plan'
#>       --bytes                  print exact sizes, in bytes
#>       --allow-plugins          load the plug-in libraries that the recipe names; they run code
#>   -h, --help                   print this
#>
#> example: reprise sweep smollm2_135m_full --points 10
#> usage: reprise view RUN_DIR|PLAN [-o FILE.html] [--device SPEC] [--allow-plugins]
#>
#> Write the report of a run or a plan: memory over the step, the arena, the fate of every slot, the curve of budgets, the
#> losses. It is one HTML page that needs no other file. A run writes the same page without the curve. PLAN is a file from
#> 'reprise plan -o'.
#>
#>   -o, --output FILE            file of the page (default: report.html in RUN_DIR, or PLAN.html)
#>       --device SPEC            predict for another machine, as in 'reprise plan' (default: that of the plan, if it has a name)
#>       --allow-plugins          load the plug-in libraries that the recipe names; they run code
#>   -h, --help                   print this
#>
#> example: reprise view runs/default
