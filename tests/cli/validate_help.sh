reprise validate --help
#> usage: reprise validate CONFIG [KEY=VALUE ...]
#>
#> Check a recipe and print every error with its line. CONFIG is a path or the name of a shipped recipe; KEY=VALUE sets a
#> key, ~KEY removes one. If the files of the model exist, names in the recipe are checked against the model, and the
#> modules that become regions are printed. The data files must exist. Up to 16 MiB of data is read as a run reads it, and
#> counted, and its first sample is printed: targets, and masked tokens, which the loss does not count. Larger JSON data is read
#> up to its first objects. The limits of chat templates apply.
#>
#>       --resolved               print the whole recipe with all defaults
#>       --data                   read all data, of any size (default: up to 16 MiB)
#>       --keys                   print every key of a recipe, its type and default; takes no CONFIG
#>   -h, --help                   print this
#>
#> example: reprise validate my_recipe.yaml memory_budget=8GiB
