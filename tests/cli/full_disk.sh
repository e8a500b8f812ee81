# exit: 1
reprise ls >/dev/full
