# exit: 2
printf 'model:\n  path: m\ndataset: {path: *.txt}\n' >a.yaml
reprise validate a.yaml
printf 'model:\n\tpath: m\n' >b.yaml
reprise validate b.yaml
reprise validate .
