# Before anything is measured: nothing is written.
reprise calibrate now; echo $?
reprise calibrate --threads 0; echo $?
echo >file
REPRISE_COSTS=$PWD/file/costs.json reprise calibrate 2>&1 | sed "s|$PWD|.|"
unset HOME XDG_CACHE_HOME REPRISE_COSTS
reprise calibrate; echo $?
ls
#> 2
#> 2
#> reprise calibrate: cannot make the folder './file': a file of that name is there
#> 2
#> file
#2> reprise calibrate: unexpected argument 'now'
#2> try 'reprise calibrate --help'
#2> reprise calibrate: option '--threads' wants a whole number from 1 to 4096, not '0'
#2> try 'reprise calibrate --help'
#2> reprise calibrate: there is no place for the cost table: none of REPRISE_COSTS, XDG_CACHE_HOME and HOME is set
