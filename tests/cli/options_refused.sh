# exit: 2
reprise sweep --p 3 r.yaml
reprise plan r.yaml --device
reprise plan r.yaml --json=yes
#2> reprise sweep: option '--p' is not unique
#2> try 'reprise sweep --help'
#2> reprise plan: option '--device' needs a value: SPEC
#2> try 'reprise plan --help'
#2> reprise plan: option '--json' takes no value
#2> try 'reprise plan --help'
