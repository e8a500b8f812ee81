for c in ls cp cat; do reprise $c -h; done
#> usage: reprise ls [--models]
#>
#> List the shipped recipes with a summary of each.
#>
#>       --models                 list the shipped model configs, for 'model.config', instead
#>   -h, --help                   print this
#>
#> example: reprise ls --models
#> usage: reprise cp NAME DEST
#>
#> Copy a shipped recipe to the file or folder DEST.
#>
#>   -n, --no-clobber             do not overwrite an existing file
#>       --make-parents           create the folders of DEST
#>   -h, --help                   print this
#>
#> example: reprise cp smollm2_135m_full my_recipe.yaml
#> usage: reprise cat NAME
#>
#> Print a shipped recipe.
#>
#>   -h, --help                   print this
#>
#> example: reprise cat smollm2_135m_full
