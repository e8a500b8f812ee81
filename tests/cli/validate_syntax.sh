# exit: 2
printf 'model:\n  path: m\ndataset: {path: *.txt}\n' >a.yaml
reprise validate a.yaml
printf 'model:\n\tpath: m\n' >b.yaml
reprise validate b.yaml
reprise validate .
#2> a.yaml:3: cannot read this as YAML: did not find expected alphabetic or numeric character; put quotes around a word that begins with '*'
#2> b.yaml:2: cannot read this as YAML: found character that cannot start any token; indent with spaces, not tabs
#2> reprise validate: cannot read '.': it is a folder
