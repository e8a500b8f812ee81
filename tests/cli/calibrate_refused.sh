# Before anything is measured: nothing is written.
reprise calibrate now; echo $?
reprise calibrate --threads 0; echo $?
echo >file
REPRISE_COSTS=$PWD/file/costs.json reprise calibrate 2>&1 | sed "s|$PWD|.|"
unset HOME XDG_CACHE_HOME REPRISE_COSTS
reprise calibrate; echo $?
ls
