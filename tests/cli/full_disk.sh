reprise ls >/dev/full
