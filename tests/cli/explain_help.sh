reprise explain --help
#> usage: reprise explain CONFIG [KEY=VALUE ...] [--json] [--bytes] [--allow-plugins]
#>
#> Print the fate of every slot (saved tensor) of a recipe's step, the rule or region that decided it, and the cost of its
#> replay; the totals of modules and memory classes; and the owners of the memory at the peak. Neither weights nor data
#> are read. CONFIG is a path or the name of a shipped recipe; KEY=VALUE sets a key, ~KEY removes one.
#>
#>       --json                   print one JSON object, with every slot separately
#>       --bytes                  print exact sizes, in bytes
#>       --allow-plugins          load the plug-in libraries that the recipe names; they run code
#>   -h, --help                   print this
#>
#> example: reprise explain smollm2_135m_full memory_budget=1700MB
