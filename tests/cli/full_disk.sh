# exit: 1
reprise ls >/dev/full
#2> reprise ls: cannot write to the standard output: No space left on device
