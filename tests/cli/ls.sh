reprise ls
