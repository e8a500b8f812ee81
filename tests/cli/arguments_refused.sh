# Commands, options, arguments and names that are not there: one message each, and exit code 2.
refused() { reprise "$@"; echo "exit $?"; }
refused valdate x.yaml
refused validate r.yaml --resolvd
refused sweep --p 3 r.yaml
refused plan r.yaml --device
refused plan r.yaml --json=yes
refused cat a b
refused cp tiny_from_scratch
refused train
refused cat smollm_135m_full
refused bench add matmull --rounds 1
echo text | refused tokenize no_such_model
refused inspect nothing.gguf
echo 'not a model' >x.gguf
refused inspect x.gguf
echo '--- no folder of shipped recipes'
export REPRISE_RECIPES=nowhere
refused ls
refused cat tiny_llama
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> --- no folder of shipped recipes
#> exit 1
#> exit 2
#2> reprise: unknown command 'valdate' (did you mean 'validate'?)
#2> try 'reprise --help'
#2> reprise validate: unknown option '--resolvd' (did you mean '--resolved'?)
#2> try 'reprise validate --help'
#2> reprise sweep: option '--p' is not unique
#2> try 'reprise sweep --help'
#2> reprise plan: option '--device' needs a value: SPEC
#2> try 'reprise plan --help'
#2> reprise plan: option '--json' takes no value
#2> try 'reprise plan --help'
#2> reprise cat: unexpected argument 'b'
#2> try 'reprise cat --help'
#2> reprise cp: an argument is missing: reprise cp NAME DEST
#2> try 'reprise cp --help'
#2> reprise train: an argument is missing: reprise train CONFIG [KEY=VALUE ...] [--nproc N] [--bytes] [--allow-plugins]
#2> try 'reprise train --help'
#2> reprise cat: no recipe is called 'smollm_135m_full' (did you mean 'smollm2_135m_full'?)
#2> reprise bench: no bench is named 'matmull' (did you mean 'matmul'?): 'reprise bench --list' prints their names
#2> reprise tokenize: cannot open 'no_such_model': No such file or directory
#2> reprise inspect: cannot open 'nothing.gguf': No such file or directory
#2> reprise inspect: 'x.gguf' is not a GGUF file
#2> reprise ls: cannot find the shipped recipes; set REPRISE_RECIPES to their folder
#2> reprise cat: cannot find the shipped recipes; set REPRISE_RECIPES to their folder
