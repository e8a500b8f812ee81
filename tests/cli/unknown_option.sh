# exit: 2
reprise validate r.yaml --resolvd
#2> reprise validate: unknown option '--resolvd' (did you mean '--resolved'?)
#2> try 'reprise validate --help'
