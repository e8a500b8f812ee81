# exit: 2
reprise valdate x.yaml
#2> reprise: unknown command 'valdate' (did you mean 'validate'?)
#2> try 'reprise --help'
