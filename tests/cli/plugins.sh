# No command runs the library that a recipe names unless it is allowed to; a library that is loaded writes into `loaded`.
cp "$(dirname "$(readlink -f "$(command -v reprise)")")/tests/libplugin_marks.so" marks.so
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
cat >mine.yaml <<YAML
model: {config: $SOURCE/recipes/tiny_llama/config.json}
tokenizer: {path: $SOURCE/recipes/tiny_llama/tokenizer.json}
dataset: {path: text}
activation_checkpointing:
  conditions:
  - any: [{plugin: {library: ./marks.so, symbol: all}}]
  rules:
  - {plugin: {library: ./marks.so, symbol: all}, fate: prefer_recompute}
max_seq_len: 16
max_steps: 1
output_dir: out
YAML
export REPRISE_TEST_LOADED=$PWD/loaded
try() {
    rm -f loaded
    reprise "$@" >said 2>err
    echo "exit $?: $1, $([ -e loaded ] && echo "the library was loaded" || echo "no library was loaded")"
    sed -n "/plug-in/{s|'/.*/marks.so'|'MARKS'|;s|plan.json:[0-9]*|plan.json:LINE|;p;}" err
}
every() {
    try plan mine.yaml "$@"
    try plan mine.yaml --json -o plan.json "$@"
    try plan mine.yaml --find memory_budget=8MB "$@"
    try explain mine.yaml "$@"
    try sweep mine.yaml -n 2 "$@"
    try sweep mine.yaml -n 2 --measure --pairs 1 "$@"
    try train mine.yaml "$@"
}
every
ls
every --allow-plugins
try view plan.json -o page.html
try view plan.json -o page.html --allow-plugins
try view out -o page.html
try view out -o page.html --allow-plugins
# `validate` looks whether the file is there, and loads nothing.
try validate mine.yaml
try validate mine.yaml --resolved
try validate mine.yaml activation_checkpointing.rules='[]' activation_checkpointing.conditions='[{plugin: {library: /, symbol: all}}]'
sed 's|^argument .*: ||' err
# The library lies where the recipe lies, whatever the working folder is.
mkdir below && cp mine.yaml marks.so below
mv marks.so away.so
try plan below/mine.yaml --allow-plugins
try plan mine.yaml --allow-plugins
mv away.so marks.so
# Ranks are started with what their launcher was given.
cat >mpirun <<'SH'
#!/bin/sh
case $1 in --version) echo "mpirun (Open MPI) 4" ;; *) echo "$@" >ranks ;; esac
SH
chmod +x mpirun
for allow in '' --allow-plugins; do
    rm -f ranks
    REPRISE_MPIRUN=./mpirun reprise train mine.yaml --nproc 2 $allow >said 2>&1
    grep -q 'no module' said && echo "train mine.yaml $allow" >ranks       # a program without that MPI
    grep -o -e ' train ' -e '--allow-plugins' ranks
done
#> exit 2: plan, no library was loaded
#> mine.yaml:6: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> mine.yaml:8: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> exit 2: plan, no library was loaded
#> mine.yaml:6: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> mine.yaml:8: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> exit 2: plan, no library was loaded
#> mine.yaml:6: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> mine.yaml:8: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> exit 2: explain, no library was loaded
#> mine.yaml:6: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> mine.yaml:8: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> exit 2: sweep, no library was loaded
#> mine.yaml:6: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> mine.yaml:8: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> exit 2: sweep, no library was loaded
#> mine.yaml:6: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> mine.yaml:8: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> exit 2: train, no library was loaded
#> mine.yaml:6: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> mine.yaml:8: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> err
#> marks.so
#> mine.yaml
#> said
#> text
#> exit 0: plan, the library was loaded
#> exit 0: plan, the library was loaded
#> exit 0: plan, the library was loaded
#> exit 0: explain, the library was loaded
#> exit 0: sweep, the library was loaded
#> exit 0: sweep, the library was loaded
#> exit 0: train, the library was loaded
#> exit 2: view, no library was loaded
#> plan.json:LINE: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> plan.json:LINE: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> exit 0: view, the library was loaded
#> exit 2: view, no library was loaded
#> out/plan.json:LINE: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> out/plan.json:LINE: the plug-in 'MARKS' runs code, and plug-ins are not allowed: '--allow-plugins' allows them (in C rp_recipe_allow_plugins)
#> exit 0: view, the library was loaded
#> exit 0: validate, no library was loaded
#> mine.yaml:6: note: the plug-in 'MARKS' is not run here, so the choices of 'all' are unknown
#> mine.yaml:8: note: the plug-in 'MARKS' is not run here, so the choices of 'all' are unknown
#> exit 0: validate, no library was loaded
#> exit 2: validate, no library was loaded
#> it is no file
#> exit 0: plan, the library was loaded
#> exit 2: plan, no library was loaded
#>  train 
#>  train 
#> --allow-plugins
