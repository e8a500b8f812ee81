# exit: 2
reprise train
#2> reprise train: an argument is missing: reprise train CONFIG [KEY=VALUE ...] [--nproc N] [--bytes] [--allow-plugins]
#2> try 'reprise train --help'
